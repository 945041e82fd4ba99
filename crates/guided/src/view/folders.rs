//! The list of sessions, by workspace and branch.
//!
//! The index determines which sessions a page shows. Only those are read from their logs, and only again after an append.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use guide::project::summary::SessionSummary;
use guide::record::SessionId;
use ports::sessions::{IndexPage, ListedSession, Revision, StoreError, StoreErrorCode};

use super::{Steps, salvage};
use crate::{Guided, Refusal};

/// The maximum number of cached summaries.
const KEPT: usize = 4096;
/// The maximum number of damaged sessions that are listed by id.
const NAMED: usize = 20;
/// The health of a directory without a session.
const NO_LOG: &str = "no_log";

/// A page of the sessions of a data directory.
#[derive(Clone, Debug, PartialEq)]
pub struct ShelfPage {
    /// The workspaces, most recently active first.
    pub folders: Vec<Folder>,
    /// The number of sessions before this page.
    pub first: usize,
    /// The total number of sessions.
    pub total: usize,
    /// The ids of sessions that are too damaged to be indexed. At most 20.
    pub unreadable: Vec<SessionId>,
    /// The total number of sessions that are too damaged to be indexed.
    pub unreadable_total: usize,
}

/// The sessions of one workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Folder {
    /// The root of the repository, if one was recorded.
    pub workspace: Option<String>,
    /// The branches, most recently active first.
    pub branches: Vec<Branch>,
}

/// The sessions of one branch.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// The name of the branch, if one was recorded.
    pub name: Option<String>,
    /// The sessions, newest first.
    pub sessions: Vec<ShelfEntry>,
}

/// A session in the list.
#[derive(Clone, Debug, PartialEq)]
pub struct ShelfEntry {
    pub session_id: SessionId,
    /// The name of its health status, from a fixed set.
    pub health: &'static str,
    /// A description of the damage.
    pub damage: Option<String>,
    /// Whether garbage collection spares it.
    pub kept: bool,
    pub runs: Vec<SessionSummary>,
}

/// A cached summary, and the revision that it was read at.
#[derive(Clone, Debug)]
struct Known {
    revision: Revision,
    health: &'static str,
    damage: Option<String>,
    runs: Arc<[SessionSummary]>,
}

/// A cache of summaries.
#[derive(Debug, Default)]
pub struct Shelf(Mutex<HashMap<SessionId, Known>>);

impl Guided {
    /// Lists at most `limit` sessions from the `first` on, by workspace and branch.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn shelf(&self, first: usize, limit: usize) -> Result<ShelfPage, Refusal> {
        let IndexPage { sessions, total, mut unusable } = self.store.page(first, limit).await?;
        let unreadable_total = unusable.len();
        unusable.truncate(NAMED);
        let ids: Vec<SessionId> = sessions.iter().map(|session| session.session_id.clone()).collect();
        let revisions = self.store.revisions(ids.clone()).await?;
        let kept = self.store.are_kept(ids).await?;
        let mut page =
            ShelfPage { folders: Vec::new(), first, total, unreadable: unusable, unreadable_total };
        let mut before: Option<(Option<String>, Option<String>)> = None;
        for ((listed, revision), kept) in sessions.into_iter().zip(revisions).zip(kept) {
            let ListedSession { repo_root_hash: folder, git_branch: branch, session_id } = listed;
            let entry = self.shelf_entry(&session_id, revision, kept).await?;
            let seen = entry.runs.first();
            let (new_folder, new_branch) = match &before {
                Some((last_folder, last_branch)) => {
                    (*last_folder != folder, *last_folder != folder || *last_branch != branch)
                }
                None => (true, true),
            };
            if new_folder {
                let workspace = seen.and_then(|run| run.repo_root.clone()).or_else(|| folder.clone());
                page.folders.push(Folder { workspace, branches: Vec::new() });
            }
            if let Some(folder) = page.folders.last_mut() {
                if new_branch {
                    folder.branches.push(Branch { name: branch.clone(), sessions: Vec::new() });
                }
                if let Some(branch) = folder.branches.last_mut() {
                    branch.sessions.push(entry);
                }
            }
            before = Some((folder, branch));
        }
        Ok(page)
    }

    /// One session of the list. It is read again only after an append.
    async fn shelf_entry(
        &self,
        id: &SessionId,
        revision: Option<Revision>,
        kept: bool,
    ) -> Result<ShelfEntry, Refusal> {
        let entry = |known: &Known| ShelfEntry {
            session_id: id.clone(),
            health: known.health,
            damage: known.damage.clone(),
            kept,
            runs: known.runs.to_vec(),
        };
        // If an append happens in the meantime, the revision changes and the session is read again next time.
        let Some(revision) = revision else { return Ok(gone(id)) };
        let known = {
            let known = self.shelf.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(id).filter(|known| known.revision == revision).map(entry)
        };
        if let Some(found) = known {
            return Ok(found);
        }
        let found = match salvage(&*self.store, id).await {
            Ok(salvaged) => Known {
                revision,
                health: salvaged.health_name(),
                damage: (!salvaged.is_healthy()).then(|| salvaged.health()),
                runs: Steps::new(&*self.store).summaries(&salvaged.state).await.into(),
            },
            Err(error) if error.code() == StoreErrorCode::SessionUnknown => return Ok(gone(id)),
            Err(error) => return Err(error.into()),
        };
        let shown = entry(&found);
        let mut known = self.shelf.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(id.clone(), found);
        Ok(shown)
    }
}

/// A session that was deleted since the index was read.
fn gone(id: &SessionId) -> ShelfEntry {
    let damage = Some(StoreError::Unknown { session: id.clone() }.to_string());
    ShelfEntry { session_id: id.clone(), health: NO_LOG, damage, kept: false, runs: Vec::new() }
}
