//! Runs, their events, and checkpoints of their state.

use flow::id::{RunId, Tenant, WorkflowId};
use flow::run::RunStatus;

use super::{Bytes, ReadFuture};

/// Reads runs and their events.
pub trait RunLog {
    /// A run. With a tenant, only if it belongs to that tenant.
    fn run(&self, tenant: Option<&Tenant>, run_id: &RunId) -> ReadFuture<'_, Option<StoredRun>>;

    /// The appends that contain events from sequence `from` on, in order. The list ends after the append that reaches
    /// `max_events` or `max_bytes`, so it has at least one append if there are such events.
    fn appends(
        &self,
        run_id: &RunId,
        from: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> ReadFuture<'_, Vec<StoredAppend>>;

    /// The last checkpoint of a run's state. It is a cache: without one, the whole log is folded.
    fn run_checkpoint(&self, run_id: &RunId) -> ReadFuture<'_, Option<Bytes>>;

    /// The ids of the runs that a run started, in the order of their creation.
    fn children(&self, run_id: &RunId) -> ReadFuture<'_, Vec<RunId>>;

    /// The ids of runs that have not ended, in the order of ids, after the given one. For recovery.
    fn open_runs(&self, after: Option<&RunId>, limit: usize) -> ReadFuture<'_, Vec<RunId>>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    pub run_id: RunId,
    pub tenant: Tenant,
    pub workflow_id: WorkflowId,
    /// The data that the run was created with, as JSON.
    pub genesis: Bytes,
    pub status: RunStatus,
    /// The sequence that the next event will have.
    pub next_sequence: u64,
    /// The snapshot after the last event, as JSON.
    pub snapshot: Bytes,
}

/// The events of one append.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredAppend {
    /// The sequence of the first event.
    pub first: u64,
    /// The sequence of the last event.
    pub last: u64,
    /// The events as JSON, one per line.
    pub events: Bytes,
}
