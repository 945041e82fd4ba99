//! The runs in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flow::definition::Definition;
use flow::id::RunId;
use flow::state::RunState;
use tokio::sync::OwnedMutexGuard;

use super::feed::Feed;

/// The number of shards of the map, which reduces contention between requests for different runs.
const SHARDS: usize = 64;

/// The runs in memory, by id.
pub(crate) struct LiveRuns {
    shards: Vec<Mutex<HashMap<RunId, Arc<Live>>>>,
}

impl Default for LiveRuns {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

/// A run in memory. The holder of the cell's lock is the only writer of the run.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) cell: Arc<tokio::sync::Mutex<Option<Loaded>>>,
    pub(crate) feed: Feed,
}

/// The definition and the state of a run in memory.
pub(crate) struct Loaded {
    pub(crate) definition: Arc<Definition>,
    pub(crate) state: RunState,
}

impl LiveRuns {
    fn shard(&self, run_id: &RunId) -> MutexGuard<'_, HashMap<RunId, Arc<Live>>> {
        let place = run_id
            .as_str()
            .bytes()
            .fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        self.shards[place % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get_or_insert(&self, run_id: &RunId) -> Arc<Live> {
        let mut shard = self.shard(run_id);
        if let Some(live) = shard.get(run_id) {
            return Arc::clone(live);
        }
        let live = Arc::new(Live::default());
        shard.insert(run_id.to_owned(), Arc::clone(&live));
        live
    }

    /// Locks a run that is about to be created, so that no other task uses it before it is durable.
    pub(crate) async fn claim(&self, run_id: &RunId) -> OwnedMutexGuard<Option<Loaded>> {
        let cell = Arc::clone(&self.get_or_insert(run_id).cell);
        cell.lock_owned().await
    }

    /// Removes a run that has ended.
    pub(crate) fn forget(&self, run_id: &RunId) {
        self.shard(run_id).remove(run_id);
    }

    /// Removes a run that waits for a person, unless a task watches or uses it here. This bounds memory with very many waiting runs. A
    /// concurrent request may get another cell; the store then detects the conflict.
    pub(crate) fn forget_idle(&self, run_id: &RunId) {
        let mut shard = self.shard(run_id);
        // The map has one reference, and the caller may have another.
        let is_idle = |live: &Arc<Live>| Arc::strong_count(live) <= 2 && !live.feed.is_watched();
        if shard.get(run_id).is_some_and(is_idle) {
            shard.remove(run_id);
        }
    }

    pub(crate) fn get(&self, run_id: &RunId) -> Option<Arc<Live>> {
        self.shard(run_id).get(run_id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_run_leaves_memory_unless_it_is_watched() {
        let (runs, run) = (LiveRuns::default(), RunId::new("r"));
        drop(runs.get_or_insert(&run));
        let watcher = runs.get_or_insert(&run).feed.subscribe();
        runs.forget_idle(&run);
        assert!(runs.get(&run).is_some(), "it is watched");
        drop(watcher);
        let waiting = [runs.get_or_insert(&run), runs.get_or_insert(&run)];
        runs.forget_idle(&run);
        assert!(runs.get(&run).is_some(), "a watcher waits for it");
        drop(waiting);
        runs.forget_idle(&run);
        assert!(runs.get(&run).is_none());
    }
}
