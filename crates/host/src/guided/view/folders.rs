//! The sessions there are, by workspace and branch.
//!
//! Which sessions a page shows is decided from the index alone, which is in memory; only those that are shown are read
//! from their logs, and not again until their manifests change.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use guide::project::resume::RankingInput;
use guide::project::summary::SessionSummary;
use guide::record::SessionId;
use storage::disk::Stat;
use storage::files::Loaded;
use storage::{StoreError, StoreErrorCode};

use super::{Steps, salvage};
use crate::guided::{Guided, Refusal};

/// How many summaries are kept. Which ones go decides only how soon they are read again.
const KEPT: usize = 4096;
/// How many sessions that cannot be indexed are named.
const NAMED: usize = 20;
/// The health of a folder in which there is no session.
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

/// What a session was found to be, and the manifest that it was read from.
#[derive(Clone, Debug)]
struct Known {
    stat: Stat,
    health: &'static str,
    damage: Option<String>,
    runs: Arc<[SessionSummary]>,
}

/// The summaries that were read before.
#[derive(Debug, Default)]
pub struct Shelf(Mutex<HashMap<SessionId, Known>>);

/// Where a session stands in the list, as the index has it.
struct Place<'i> {
    folder: Option<&'i str>,
    branch: Option<&'i str>,
    /// Only for the eye: a list of sessions has no order of its own.
    modified_ms: u64,
    id: &'i SessionId,
}

impl<'i> Place<'i> {
    fn of(input: &'i RankingInput) -> Self {
        Self {
            folder: input.repo_root_hash.as_deref(),
            branch: input.git_branch.as_deref(),
            modified_ms: input.last_modified_ms.unwrap_or_default(),
            id: &input.session_id,
        }
    }
}

/// A session that a page shows.
struct Chosen {
    folder: Option<String>,
    branch: Option<String>,
    id: SessionId,
}

impl Guided {
    /// The sessions from the `first` on, at most `limit` of them, by workspace and branch.
    ///
    /// # Errors
    /// Trouble with the store.
    pub fn shelf(&self, first: usize, limit: usize) -> Result<ShelfPage, Refusal> {
        let projector = |loaded: &Loaded| self.project(loaded);
        let (chosen, total) =
            self.index.with_inputs(&projector, |inputs| choose(inputs.map(Place::of), first, limit))?;
        let mut unreadable = self.index.unusable();
        let unreadable_total = unreadable.len();
        unreadable.truncate(NAMED);
        let mut page = ShelfPage { folders: Vec::new(), first, total, unreadable, unreadable_total };
        let mut before: Option<(Option<String>, Option<String>)> = None;
        for Chosen { folder, branch, id } in chosen {
            let entry = self.shelf_entry(&id)?;
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

    /// One session of the list, read again only if its manifest is another than before.
    fn shelf_entry(&self, id: &SessionId) -> Result<ShelfEntry, Refusal> {
        let stat = self.files.manifest_stat(id)?;
        let kept = self.files.is_kept(id)?;
        let entry = |known: &Known| ShelfEntry {
            session_id: id.clone(),
            health: known.health,
            damage: known.damage.clone(),
            kept,
            runs: known.runs.to_vec(),
        };
        let known = |stat| {
            let known = self.shelf.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(id).filter(|known| known.stat == stat).map(entry)
        };
        if let Some(found) = stat.and_then(known) {
            return Ok(found);
        }
        let found = match salvage(&self.files, id) {
            Ok(salvaged) => Known {
                // A manifest that is written in the meantime has another length, and is read again.
                stat: match stat {
                    Some(stat) => stat,
                    None => return Ok(gone(id)),
                },
                health: salvaged.health_name(),
                damage: (!salvaged.is_healthy()).then(|| salvaged.health()),
                runs: {
                    let mut steps = Steps::new(&self.files);
                    salvaged.state.runs().iter().map(|run| steps.summary(&salvaged.state, run)).collect()
                },
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

/// A session that was collected since the index was read.
fn gone(id: &SessionId) -> ShelfEntry {
    let damage = Some(StoreError::Unknown { session: id.clone() }.to_string());
    ShelfEntry { session_id: id.clone(), health: NO_LOG, damage, kept: false, runs: Vec::new() }
}

/// The sessions that a page shows, and how many there are. Folders, branches and sessions each go by the newest in them.
fn choose<'i>(places: impl Iterator<Item = Place<'i>>, first: usize, limit: usize) -> (Vec<Chosen>, usize) {
    let mut places: Vec<Place<'i>> = places.collect();
    let mut folders: HashMap<Option<&str>, u64> = HashMap::new();
    let mut branches: HashMap<(Option<&str>, Option<&str>), u64> = HashMap::new();
    for place in &places {
        let newest = folders.entry(place.folder).or_default();
        *newest = place.modified_ms.max(*newest);
        let newest = branches.entry((place.folder, place.branch)).or_default();
        *newest = place.modified_ms.max(*newest);
    }
    places.sort_by_cached_key(|place| {
        (
            (Reverse(folders[&place.folder]), place.folder),
            (Reverse(branches[&(place.folder, place.branch)]), place.branch),
            Reverse(place.modified_ms),
            place.id,
        )
    });
    // The index has a line for each run, and those of one session follow one another.
    places.dedup_by(|left, right| left.id == right.id);
    let chosen = places.iter().skip(first).take(limit).map(|place| Chosen {
        folder: place.folder.map(str::to_owned),
        branch: place.branch.map(str::to_owned),
        id: place.id.clone(),
    });
    (chosen.collect(), places.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_branches_go_by_their_newest_session() {
        let ids: Vec<SessionId> = (0..6).map(|number| SessionId::derived(&[&number.to_string()])).collect();
        let place =
            |at: usize, folder, branch, modified_ms| Place { folder, branch, modified_ms, id: &ids[at] };
        let all = || {
            vec![
                place(0, Some("old"), Some("main"), 10),
                place(1, Some("new"), Some("main"), 5),
                place(2, Some("new"), Some("fix"), 30),
                place(3, None, None, 20),
                place(4, Some("new"), Some("main"), 25),
                place(4, Some("new"), Some("main"), 25),
            ]
        };
        let shown = |first, limit| {
            let (chosen, total) = choose(all().into_iter(), first, limit);
            let at = |id: &SessionId| ids.iter().position(|other| other == id).unwrap();
            (chosen.iter().map(|chosen| at(&chosen.id)).collect::<Vec<_>>(), total)
        };
        assert_eq!(shown(0, 10), (vec![2, 4, 1, 3, 0], 5), "two runs of one session are one line");
        assert_eq!(shown(1, 2), (vec![4, 1], 5));
        assert_eq!(shown(9, 2), (vec![], 5));
    }
}
