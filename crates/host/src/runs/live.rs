//! Runs in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flow::definition::Definition;
use flow::engine::Input;
use flow::event::{Event, wire};
use flow::id::RunId;
use flow::run::{Genesis, SharedGenesis};
use flow::state::RunState;
use flow::store::{Cause, Change, RunRow};
use tokio::sync::OwnedMutexGuard;

use super::compute_pool::{ComputePermit, INLINE_BYTES, on_a_thread};
use super::feed::Feed;
use super::{Refusal, Runs};
use crate::causes;

/// Into how many parts the map is divided, so that requests for different runs seldom meet.
const SHARDS: usize = 64;

/// After how many events the state of a run is saved, so that no more than about as many have to be folded.
const CHECKPOINT_EVENTS: u64 = 256;

/// The longest log that is read where the request is.
const INLINE_EVENTS: u64 = 500;

/// The runs that something is happening to.
pub(super) struct LiveRuns {
    shards: Vec<Mutex<HashMap<RunId, Arc<Live>>>>,
}

impl Default for LiveRuns {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

/// A run in memory. Who holds the lock of the cell is the run's one writer.
#[derive(Default)]
pub(super) struct Live {
    pub(super) cell: Arc<tokio::sync::Mutex<Option<Loaded>>>,
    pub(super) feed: Feed,
}

/// What is known of a run while it is in memory.
pub(super) struct Loaded {
    pub(super) definition: Arc<Definition>,
    pub(super) state: RunState,
}

impl LiveRuns {
    fn shard(&self, run_id: &RunId) -> MutexGuard<'_, HashMap<RunId, Arc<Live>>> {
        let place = run_id
            .as_str()
            .bytes()
            .fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        self.shards[place % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get_or_insert(&self, run_id: &RunId) -> Arc<Live> {
        let mut shard = self.shard(run_id);
        if let Some(live) = shard.get(run_id) {
            return Arc::clone(live);
        }
        let live = Arc::new(Live::default());
        shard.insert(run_id.to_owned(), Arc::clone(&live));
        live
    }

    /// The lock of a run that is about to be created, so that nobody works with it before it is durable.
    pub(super) async fn claim(&self, run_id: &RunId) -> OwnedMutexGuard<Option<Loaded>> {
        let cell = Arc::clone(&self.get_or_insert(run_id).cell);
        cell.lock_owned().await
    }

    /// Forgets a run that nothing more happens to.
    pub(super) fn forget(&self, run_id: &RunId) {
        self.shard(run_id).remove(run_id);
    }

    /// Forgets a run that waits for somebody, unless somebody watches it or waits for it here: a hundred thousand of them would fill
    /// the memory. Whoever comes at the same moment finds another cell for it, and the store puts the two in order.
    pub(super) fn forget_idle(&self, run_id: &RunId) {
        let mut shard = self.shard(run_id);
        // The map has one, and so may the caller.
        let is_idle = |live: &Arc<Live>| Arc::strong_count(live) <= 2 && !live.feed.is_watched();
        if shard.get(run_id).is_some_and(is_idle) {
            shard.remove(run_id);
        }
    }

    pub(super) fn get(&self, run_id: &RunId) -> Option<Arc<Live>> {
        self.shard(run_id).get(run_id).cloned()
    }
}

impl Runs {
    /// The workflow that a run is pinned to.
    pub(super) fn pinned(&self, row: &RunRow) -> Result<Arc<Definition>, Refusal> {
        self.pinned_by(&genesis_in(row)?)
    }

    /// The workflow that a run was created for.
    pub(super) fn pinned_by(&self, genesis: &Genesis) -> Result<Arc<Definition>, Refusal> {
        self.definition_by_digest(genesis.definition)?.ok_or_else(|| {
            broken("its definition")
                .because(Cause::new(format!("there is no definition {}", genesis.definition)))
        })
    }

    /// [`Runs::load`], beside the requests where there is much to read. Gives nothing where that needs a place and there is none yet; what
    /// ends a run waits for no other.
    pub(super) async fn load_beside(
        &self,
        run_id: &RunId,
        input: &Input,
        place: Option<&ComputePermit>,
    ) -> Result<Option<Loaded>, Refusal> {
        let row = self.store().run(None, run_id)?.ok_or_else(Refusal::no_run)?;
        if !is_long(&row) {
            return self.load(run_id).map(Some);
        }
        let (runs, id) = (self.clone(), run_id.to_owned());
        let load = move || runs.load(&id).map(Some);
        match (input, place) {
            (Input::Cancel { .. }, _) => self.beside_at_once(load).await?,
            (_, Some(_)) => on_a_thread(load).await?,
            (_, None) => Ok(None),
        }
    }

    /// Folds a run from its log.
    pub(super) fn load(&self, run_id: &RunId) -> Result<Loaded, Refusal> {
        self.noting_damage(self.folded(run_id))
    }

    fn folded(&self, run_id: &RunId) -> Result<Loaded, Refusal> {
        let row = self.store().run(None, run_id)?.ok_or_else(Refusal::no_run)?;
        let genesis = Arc::new(genesis_in(&row)?);
        let definition = self.pinned_by(&genesis)?;
        let mut state = match self.restored(&definition, &genesis, &row)? {
            Some(state) => state,
            None => RunState::new(&definition, genesis),
        };
        for event in self.events(run_id, state.next_sequence)? {
            state
                .apply(&definition, &event)
                .map_err(|error| broken("its events").because(Cause::new(error)))?;
        }
        Ok(Loaded { definition, state })
    }

    /// The state of a run at its last checkpoint, if there is one that fits.
    fn restored(
        &self,
        definition: &Definition,
        genesis: &SharedGenesis,
        row: &RunRow,
    ) -> Result<Option<RunState>, Refusal> {
        if row.next_sequence < CHECKPOINT_EVENTS {
            return Ok(None);
        }
        let Some(checkpoint) = self.store().run_checkpoint(&row.run_id)? else { return Ok(None) };
        match RunState::restore(definition, Arc::clone(genesis), &checkpoint) {
            Ok(state) => Ok((state.next_sequence <= row.next_sequence).then_some(state)),
            Err(error) => {
                let (run_id, cause) = (row.run_id.as_str(), causes(&error));
                tracing::debug!(run.id = run_id, cause, "a checkpoint does not fit; folding the whole log");
                Ok(None)
            }
        }
    }

    /// The checkpoint that is part of the commit of these events: one where they reach the next multiple of [`CHECKPOINT_EVENTS`], and none
    /// any more once the run has ended.
    ///
    /// A state in memory may hold secrets that are taken out of the log, and is then not what the log folds to. Nothing is saved of it.
    pub(super) fn state_checkpoint(&self, state: &RunState, events: &[Event]) -> Option<Change> {
        let first = events.first()?.sequence;
        let set = |checkpoint| Change::SetRunCheckpoint { run_id: state.genesis.run_id.clone(), checkpoint };
        if state.status.is_terminal() {
            return (first >= CHECKPOINT_EVENTS).then(|| set(None));
        }
        let is_due = first / CHECKPOINT_EVENTS != state.next_sequence / CHECKPOINT_EVENTS;
        let is_as_logged = || !self.inner.resolved.is_known(&state.genesis.tenant);
        (is_due && is_as_logged()).then(|| set(Some(state.checkpoint().into())))
    }

    /// The events of a run from a sequence on, all of them.
    pub(super) fn events(&self, run_id: &RunId, from: u64) -> Result<Vec<Event>, Refusal> {
        let mut events = Vec::new();
        let mut next = from;
        loop {
            let appends = self.store().appends(run_id, next, 10_000, 16 << 20)?;
            let Some(last) = appends.last().map(|append| append.last) else { return Ok(events) };
            for (_, text) in appends.iter().flat_map(|append| super::feed::lines(append, next)) {
                let event = wire::decode(text.as_bytes());
                events.push(event.map_err(unreadable_event)?);
            }
            next = last + 1;
        }
    }
}

/// Whether there may be much to read of a run.
pub(super) fn is_long(row: &RunRow) -> bool {
    row.next_sequence > INLINE_EVENTS || row.snapshot.len() + row.genesis.len() > INLINE_BYTES
}

/// What a run was created with.
pub(super) fn genesis_in(row: &RunRow) -> Result<Genesis, Refusal> {
    serde_json::from_slice(&row.genesis)
        .map_err(|error| broken("what it was created with").because(Cause::of_json(&error)))
}

/// A snapshot that this program cannot read.
pub(super) fn unreadable_snapshot(error: &serde_json::Error) -> Refusal {
    Refusal::damaged("the snapshot of the run cannot be read").because(Cause::of_json(error))
}

/// An event of the log that this program cannot read. Where the mistake is, and never the text around it.
pub(super) fn unreadable_event(error: wire::DecodeError) -> Refusal {
    let cause = match error {
        wire::DecodeError::Json(error) => {
            Cause::new(format!("{} at byte {}", error.code(), error.position.offset))
        }
        error @ (wire::DecodeError::Member(_) | wire::DecodeError::Payload(_)) => Cause::new(error),
    };
    Refusal::damaged("an event of the run cannot be read").because(cause)
}

fn broken(what: &str) -> Refusal {
    Refusal::damaged(format!("the record of the run cannot be read: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_waits_leaves_memory_unless_somebody_is_there() {
        let (runs, run) = (LiveRuns::default(), RunId::new("r"));
        drop(runs.get_or_insert(&run));
        let watcher = runs.get_or_insert(&run).feed.subscribe();
        runs.forget_idle(&run);
        assert!(runs.get(&run).is_some(), "it is watched");
        drop(watcher);
        let waiting = [runs.get_or_insert(&run), runs.get_or_insert(&run)];
        runs.forget_idle(&run);
        assert!(runs.get(&run).is_some(), "somebody waits for it");
        drop(waiting);
        runs.forget_idle(&run);
        assert!(runs.get(&run).is_none());
    }
}
