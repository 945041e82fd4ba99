//! The list of sessions, by workspace and branch.
//!
//! The index decides which sessions a page shows; only those are read from their logs, and not again until something is
//! appended to them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use guide::project::summary::SessionSummary;
use guide::record::SessionId;
use ports::sessions::{IndexPage, ListedSession, Revision, StoreError, StoreErrorCode};

use super::{Steps, salvage};
use crate::guided::{Guided, Refusal};

/// How many summaries are kept in memory.
const KEPT: usize = 4096;
/// How many damaged sessions are listed by id.
const NAMED: usize = 20;
/// The health of a directory without a session.
const NO_LOG: &str = "no_log";

/// Some of the sessions of a data directory.
#[derive(Clone, Debug, PartialEq)]
pub struct ShelfPage {
    /// The workspaces, the one with the newest session first.
    pub folders: Vec<Folder>,
    /// How many sessions come before.
    pub first: usize,
    /// How many there are in all.
    pub total: usize,
    /// Sessions that are too damaged to be found by what they are about, some of them.
    pub unreadable: Vec<SessionId>,
    /// How many of those there are.
    pub unreadable_total: usize,
}

/// The sessions of one workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Folder {
    /// The root of its repository, where one was seen.
    pub workspace: Option<String>,
    /// Its branches, the one with the newest session first.
    pub branches: Vec<Branch>,
}

/// The sessions of one branch.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// Its name, where one was seen.
    pub name: Option<String>,
    /// The sessions, the newest first.
    pub sessions: Vec<ShelfEntry>,
}

/// A session, as far as it can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct ShelfEntry {
    pub session_id: SessionId,
    /// The closed name of its health.
    pub health: &'static str,
    /// What is wrong with it.
    pub damage: Option<String>,
    /// Whether it is never collected.
    pub kept: bool,
    pub runs: Vec<SessionSummary>,
}

/// What was read of a session, and at which revision.
#[derive(Clone, Debug)]
struct Known {
    revision: Revision,
    health: &'static str,
    damage: Option<String>,
    runs: Arc<[SessionSummary]>,
}

/// The summaries that were read before.
#[derive(Debug, Default)]
pub struct Shelf(Mutex<HashMap<SessionId, Known>>);

impl Guided {
    /// The sessions from the `first` on, at most `limit`, by workspace and branch.
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

    /// One session of the list. It is read again only if something was appended to it.
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
        // A session that is appended to meanwhile has another revision, and is read again the next time.
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
