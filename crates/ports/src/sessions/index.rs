//! Finds sessions without reading them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Debug;

use guide::project::resume::{Candidate, RankingInput, ResumeQuery};
use guide::record::{EventIndex, RunId, SessionId};

use super::{PositionKey, StoreFuture};

/// The index of a store. It is derived from the logs: creating a session and appending update it, and what is missing in
/// it is read from the logs when it is asked for.
pub trait SessionIndex: Debug + Send + Sync {
    /// The session of a position, and the event that created the position's node.
    ///
    /// `None` means that no session has the position: before that is answered, the index catches up with the logs.
    fn position(&self, key: PositionKey) -> StoreFuture<'_, Option<(SessionId, EventIndex)>>;

    /// Ranks all runs with [`guide::project::resume::rank`], and gives the best `limit`.
    fn search(&self, query: ResumeQuery, limit: usize) -> StoreFuture<'_, SearchResult>;

    /// The sessions of a list, ordered by [`page`], without the `first` ones and at most `limit`.
    fn page(&self, first: usize, limit: usize) -> StoreFuture<'_, IndexPage>;

    /// The run of a repository that is not complete and was active last.
    fn newest_open_run(&self, repo_root_hash: String) -> StoreFuture<'_, Option<OpenRunRef>>;
}

/// The best candidates of a search.
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// The best first.
    pub candidates: Vec<Candidate>,
    /// The number of runs that match at all.
    pub total_eligible: usize,
}

/// A part of the list of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexPage {
    pub sessions: Vec<ListedSession>,
    /// The number of sessions in the whole list.
    pub total: usize,
    /// Sessions that are damaged, so that the index has nothing about them, sorted. As far as they are known.
    pub unusable: Vec<SessionId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSession {
    /// The hash of the root of its repository, if it has one.
    pub repo_root_hash: Option<String>,
    pub git_branch: Option<String>,
    pub session_id: SessionId,
}

/// A run that is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRunRef {
    pub session_id: SessionId,
    pub run_id: RunId,
}

/// A part of the list of sessions, and how many there are: grouped by repository, then by branch. Groups and sessions are
/// ordered by their last activity, the newest first.
pub fn page<'i>(
    runs: impl Iterator<Item = &'i RankingInput>,
    first: usize,
    limit: usize,
) -> (Vec<ListedSession>, usize) {
    list(runs.map(Row::of), first, limit)
}

struct Row<'i> {
    folder: Option<&'i str>,
    branch: Option<&'i str>,
    /// Only for the order of the list; no decision depends on it.
    modified_ms: u64,
    id: &'i SessionId,
}

impl<'i> Row<'i> {
    fn of(input: &'i RankingInput) -> Self {
        Self {
            folder: input.repo_root_hash.as_deref(),
            branch: input.git_branch.as_deref(),
            modified_ms: input.last_modified_ms.unwrap_or_default(),
            id: &input.session_id,
        }
    }
}

fn list<'i>(rows: impl Iterator<Item = Row<'i>>, first: usize, limit: usize) -> (Vec<ListedSession>, usize) {
    let mut rows: Vec<Row<'i>> = rows.collect();
    let mut folders: HashMap<Option<&str>, u64> = HashMap::new();
    let mut branches: HashMap<(Option<&str>, Option<&str>), u64> = HashMap::new();
    for row in &rows {
        let newest = folders.entry(row.folder).or_default();
        *newest = row.modified_ms.max(*newest);
        let newest = branches.entry((row.folder, row.branch)).or_default();
        *newest = row.modified_ms.max(*newest);
    }
    rows.sort_by_cached_key(|row| {
        (
            (Reverse(folders[&row.folder]), row.folder),
            (Reverse(branches[&(row.folder, row.branch)]), row.branch),
            Reverse(row.modified_ms),
            row.id,
        )
    });
    // There is a row for each run, and those of one session follow each other.
    rows.dedup_by(|left, right| left.id == right.id);
    let listed = rows.iter().skip(first).take(limit).map(|row| ListedSession {
        repo_root_hash: row.folder.map(str::to_owned),
        git_branch: row.branch.map(str::to_owned),
        session_id: row.id.clone(),
    });
    (listed.collect(), rows.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_branches_are_ordered_by_their_newest_session() {
        let ids: Vec<SessionId> = (0..6).map(|number| SessionId::derived(&[&number.to_string()])).collect();
        let row = |at: usize, folder, branch, modified_ms| Row { folder, branch, modified_ms, id: &ids[at] };
        let all = || {
            vec![
                row(0, Some("old"), Some("main"), 10),
                row(1, Some("new"), Some("main"), 5),
                row(2, Some("new"), Some("fix"), 30),
                row(3, None, None, 20),
                row(4, Some("new"), Some("main"), 25),
                row(4, Some("new"), Some("main"), 25),
            ]
        };
        let shown = |first, limit| {
            let (listed, total) = list(all().into_iter(), first, limit);
            let at = |id: &SessionId| ids.iter().position(|other| other == id).unwrap();
            (listed.iter().map(|row| at(&row.session_id)).collect::<Vec<_>>(), total)
        };
        assert_eq!(shown(0, 10), (vec![2, 4, 1, 3, 0], 5), "two runs of one session are one row");
        assert_eq!(shown(1, 2), (vec![4, 1], 5));
        assert_eq!(shown(9, 2), (vec![], 5));
    }
}
