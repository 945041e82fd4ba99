//! The state of runs: folded from their logs, kept in memory while they advance, and announced to their watchers.

mod feed;
mod live;
mod load;

use std::sync::Arc;

use flow::engine::limits::MAX_CHILD_DEPTH;
use flow::id::RunId;
use flow::run::Genesis;
use ports::runs::{Bytes, StoredAppend, StoredRun};
use tokio::sync::watch;

pub use self::feed::{Batch, Following};
pub(crate) use self::feed::{lines, shown};
pub(crate) use self::live::{LiveRuns, Loaded};
pub(crate) use self::load::{decode, genesis_in, is_long, unreadable_event, unreadable_snapshot};
use super::compute_pool::ComputePool;
use super::definitions::Definitions;
use super::records::Records;
use super::{Caller, Refusal};

/// The state of runs.
pub(crate) struct States {
    records: Arc<Records>,
    definitions: Arc<Definitions>,
    compute: Arc<ComputePool>,
    live: LiveRuns,
    /// Changes whenever a run changes.
    changes: watch::Sender<u64>,
}

impl States {
    pub(crate) fn new(
        records: Arc<Records>,
        definitions: Arc<Definitions>,
        compute: Arc<ComputePool>,
    ) -> Self {
        Self { records, definitions, compute, live: LiveRuns::default(), changes: watch::Sender::new(0) }
    }

    /// The runs in memory.
    pub(crate) fn live(&self) -> &LiveRuns {
        &self.live
    }

    /// A number that changes whenever a run changes in this process.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Notifies watchers of events that are durable now.
    pub(crate) fn appended(&self, run_id: &RunId, append: StoredAppend, snapshot: Bytes, is_last: bool) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
        if let Some(live) = self.live.get(run_id) {
            live.feed.send(append, snapshot, is_last);
        }
    }

    /// Sends a note beside the log to the current watchers of a run.
    pub(crate) fn send_note(&self, run_id: &RunId, text: String) {
        if let Some(live) = self.live.get(run_id) {
            live.feed.send_annotation(text);
        }
    }

    /// The genesis of a run of any tenant.
    pub(crate) async fn genesis_of(&self, run_id: &RunId) -> Result<Genesis, Refusal> {
        let row = self.records.store().run(None, run_id).await?.ok_or_else(Refusal::no_run)?;
        serde_json::from_slice(&row.genesis).map_err(|_| Refusal::no_run())
    }

    /// A run of the caller's tenant. Runs of other tenants are not found.
    pub(crate) async fn visible(&self, caller: &Caller, run_id: &RunId) -> Result<StoredRun, Refusal> {
        self.records.store().run(Some(&caller.tenant), run_id).await?.ok_or_else(Refusal::no_run)
    }

    /// Whether the parent decided that a child must end.
    pub(crate) async fn gave_up(&self, parent_id: &RunId, child_id: &RunId) -> bool {
        if let Some(live) = self.live.get(parent_id) {
            let cell = live.cell.lock().await;
            if let Some(loaded) = &*cell {
                return loaded.state.gave_up(child_id);
            }
        }
        self.load(parent_id).await.is_ok_and(|loaded| loaded.state.gave_up(child_id))
    }

    /// Notifies the watchers of a run and of its ancestors to look at the descendants again.
    pub(crate) async fn wake(&self, run_id: RunId) {
        let mut next = Some(run_id);
        for _ in 0..MAX_CHILD_DEPTH {
            let Some(run_id) = next else { return };
            if let Some(live) = self.live.get(&run_id) {
                live.feed.send_wake();
            }
            let row = self.records.store().run(None, &run_id).await.ok().flatten();
            let genesis = row.and_then(|row| serde_json::from_slice::<Genesis>(&row.genesis).ok());
            next = genesis.and_then(|genesis| genesis.parent).map(|parent| parent.run_id);
        }
    }
}
