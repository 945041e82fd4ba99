//! A cache of runs that have ended.
//!
//! A run that has ended does not change, so its row can be cached without checking for changes. Most reads are of a run
//! that just ended, by the client that created it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use flow::id::{RunId, Tenant};
use ports::runs::{Change, Commit, StoredRun};

/// The maximum size of the cache, in bytes. The oldest rows are evicted first.
const MAX_BYTES: usize = 16 << 20;
/// The size of a row without its strings and documents, in bytes.
const OVERHEAD: usize = 400;

#[derive(Default)]
pub(super) struct EndedRuns(Mutex<Rows>);

#[derive(Default)]
struct Rows {
    known: HashMap<RunId, StoredRun>,
    oldest_first: VecDeque<RunId>,
    bytes: usize,
    /// The number of deletions so far. A row that was read before a deletion is not cached after it.
    deletions: u64,
}

fn size(row: &StoredRun) -> usize {
    OVERHEAD
        + row.genesis.len()
        + row.snapshot.len()
        + row.workflow_id.as_str().len()
        + row.tenant.as_str().len()
}

impl EndedRuns {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cached run. `Some(None)` means that it belongs to another tenant.
    pub(super) fn get(&self, tenant: Option<&Tenant>, run_id: &RunId) -> Option<Option<StoredRun>> {
        let rows = self.rows();
        let row = rows.known.get(run_id)?;
        Some(tenant.is_none_or(|tenant| *tenant == row.tenant).then(|| row.clone()))
    }

    /// The argument for [`EndedRuns::keep_read`]. Must be called before the query.
    pub(super) fn deletions(&self) -> u64 {
        self.rows().deletions
    }

    /// Caches a run that was read and has ended, unless runs were deleted in the meantime.
    pub(super) fn keep_read(&self, row: &StoredRun, deletions: u64) {
        let mut rows = self.rows();
        if rows.deletions == deletions && row.status.is_terminal() && size(row) <= MAX_BYTES {
            rows.keep(row.clone());
        }
    }

    /// Caches a run if it has ended.
    fn keep(&self, row: StoredRun) {
        if row.status.is_terminal() && size(&row) <= MAX_BYTES {
            self.rows().keep(row);
        }
    }

    /// Caches the runs that were created and ended by a commit, and evicts those that it deleted.
    pub(super) fn committed(&self, commit: &Commit) {
        let mut created = None;
        for change in &commit.changes {
            match change {
                Change::CreateRun { run_id, tenant, workflow_id, genesis, .. } => {
                    created = Some((run_id, tenant, workflow_id, genesis));
                }
                Change::Append { run_id, last, status, snapshot, .. } => {
                    if let Some((created, tenant, workflow_id, genesis)) = created
                        && created == run_id
                    {
                        self.keep(StoredRun {
                            run_id: run_id.clone(),
                            tenant: tenant.clone(),
                            workflow_id: workflow_id.clone(),
                            genesis: genesis.clone(),
                            status: *status,
                            next_sequence: last + 1,
                            snapshot: snapshot.clone(),
                        });
                    }
                }
                Change::DeleteRun { run_id } => self.rows().forget(run_id),
                // The match is exhaustive: a new change that modifies or removes ended runs must evict them here.
                Change::PutDefinition { .. }
                | Change::SetTimer { .. }
                | Change::ClearTimer { .. }
                | Change::RecordReply { .. }
                | Change::DeleteReplies { .. }
                | Change::ClaimEffect { .. }
                | Change::RetryEffect { .. }
                | Change::ReleaseEffect { .. }
                | Change::FinishEffect { .. }
                | Change::PutArtifact { .. }
                | Change::ReplaceArtifact { .. }
                | Change::PutAnnotation { .. }
                | Change::PutWebhook { .. }
                | Change::DeleteWebhook { .. }
                | Change::PutDelivery { .. }
                | Change::DeleteDelivery { .. }
                | Change::AbandonDelivery { .. }
                | Change::RequeueDelivery { .. }
                | Change::SetRunCheckpoint { .. }
                | Change::PutAuditCheckpoint { .. }
                | Change::Audit { .. }
                | Change::SetListening { .. }
                | Change::ClaimMessage { .. }
                | Change::ForgetMessage { .. }
                | Change::MoveListener { .. }
                | Change::PutApiKey { .. } => {}
            }
        }
    }
}

impl Rows {
    fn forget(&mut self, run_id: &RunId) {
        self.deletions += 1;
        if let Some(gone) = self.known.remove(run_id) {
            self.bytes -= size(&gone);
            self.oldest_first.retain(|known| known != run_id);
        }
    }

    fn keep(&mut self, row: StoredRun) {
        let new = size(&row);
        let run_id = row.run_id.clone();
        match self.known.insert(run_id.clone(), row) {
            Some(old) => self.bytes -= size(&old),
            None => self.oldest_first.push_back(run_id),
        }
        self.bytes += new;
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.oldest_first.pop_front() else { return };
            if let Some(gone) = self.known.remove(&oldest) {
                self.bytes -= size(&gone);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use flow::id::WorkflowId;
    use flow::run::RunStatus;

    use super::*;

    fn row(run_id: &str, status: RunStatus, bytes: usize) -> StoredRun {
        StoredRun {
            run_id: RunId::new(run_id),
            tenant: Tenant::new("acme"),
            workflow_id: WorkflowId::new("w"),
            genesis: vec![0; 8].into(),
            status,
            next_sequence: 1,
            snapshot: vec![0; bytes].into(),
        }
    }

    #[test]
    fn only_runs_that_have_ended_are_kept_and_only_for_their_tenant() {
        let ended = EndedRuns::default();
        ended.keep(row("a", RunStatus::Completed, 8));
        ended.keep(row("b", RunStatus::Running, 8));
        assert_eq!(
            ended.get(Some(&Tenant::new("acme")), &RunId::new("a")),
            Some(Some(row("a", RunStatus::Completed, 8)))
        );
        assert_eq!(ended.get(Some(&Tenant::new("other")), &RunId::new("a")), Some(None));
        assert_eq!(ended.get(None, &RunId::new("b")), None);
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let ended = EndedRuns::default();
        for number in 0..40 {
            ended.keep(row(&format!("run-{number}"), RunStatus::Failed, 1 << 20));
            ended.keep(row("same", RunStatus::Completed, 8));
        }
        let counted = ended.rows().known.values().map(size).sum::<usize>();
        assert_eq!(ended.rows().bytes, counted);
        assert!(counted <= MAX_BYTES);
        assert_eq!(ended.get(None, &RunId::new("run-0")), None);
        assert!(ended.get(None, &RunId::new("run-39")).is_some());
        ended.keep(row("huge", RunStatus::Completed, MAX_BYTES));
        assert_eq!(ended.get(None, &RunId::new("huge")), None);
    }

    #[test]
    fn a_deleted_run_is_forgotten_and_an_earlier_read_does_not_restore_it() {
        let ended = EndedRuns::default();
        let read = row("a", RunStatus::Completed, 8);
        let before = ended.deletions();
        ended.keep_read(&read, before);
        assert!(ended.get(None, &RunId::new("a")).is_some());
        ended.committed(&Commit { changes: vec![Change::DeleteRun { run_id: RunId::new("a") }] });
        ended.keep_read(&read, before);
        assert_eq!(ended.get(None, &RunId::new("a")), None);
        assert_eq!(ended.rows().bytes, 0);
    }
}
