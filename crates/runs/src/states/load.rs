//! Folds the state of a run from its log.

use std::sync::Arc;

use flow::definition::Definition;
use flow::engine::Input;
use flow::event::{Event, wire};
use flow::id::RunId;
use flow::run::{Genesis, SharedGenesis};
use flow::state::RunState;
use ports::Cause;
use ports::runs::{Change, Commit, StoredAppend, StoredRun};
use system::causes;

use super::feed::lines;
use super::{Loaded, States};
use crate::Refusal;
use crate::compute_pool::{ComputePermit, INLINE_BYTES, on_a_thread};

/// After how many events the state of a run is saved. This bounds how many events have to be folded.
const CHECKPOINT_EVENTS: u64 = 256;

/// The longest log that is folded on the thread of the request.
const INLINE_EVENTS: u64 = 500;

impl States {
    /// The workflow that a run is pinned to.
    pub(crate) async fn pinned(&self, row: &StoredRun) -> Result<Arc<Definition>, Refusal> {
        self.pinned_by(&genesis_in(row)?).await
    }

    /// The workflow that a genesis is pinned to.
    pub(crate) async fn pinned_by(&self, genesis: &Genesis) -> Result<Arc<Definition>, Refusal> {
        self.definitions.by_digest(genesis.definition).await?.ok_or_else(|| {
            broken("its definition")
                .because(Cause::new(format!("definition {} not found", genesis.definition)))
        })
    }

    /// [`States::load`] for an input. A long log is folded on a compute thread. `None` if that needs a permit that the caller does not
    /// have yet. The cancellation of a run does not wait for other runs.
    pub(crate) async fn load_beside(
        &self,
        run_id: &RunId,
        input: &Input,
        place: Option<&ComputePermit>,
    ) -> Result<Option<Loaded>, Refusal> {
        let row = self.records.store().run(None, run_id).await?.ok_or_else(Refusal::no_run)?;
        let thread = match (is_long(&row), input, place) {
            (false, _, _) => FoldOn::ThisThread,
            (true, Input::Cancel { .. }, _) => FoldOn::UrgentThread,
            (true, _, Some(_)) => FoldOn::Thread,
            (true, _, None) => return Ok(None),
        };
        self.load_row(row, thread).await.map(Some)
    }

    /// Folds a run from its last checkpoint and the events after it.
    pub(crate) async fn load(&self, run_id: &RunId) -> Result<Loaded, Refusal> {
        let row = self.records.store().run(None, run_id).await?.ok_or_else(Refusal::no_run)?;
        self.load_row(row, FoldOn::ThisThread).await
    }

    async fn load_row(&self, row: StoredRun, thread: FoldOn) -> Result<Loaded, Refusal> {
        let folded = self.folded(row, thread).await;
        self.records.noting_damage(folded)
    }

    async fn folded(&self, row: StoredRun, thread: FoldOn) -> Result<Loaded, Refusal> {
        let genesis = Arc::new(genesis_in(&row)?);
        let definition = self.pinned_by(&genesis).await?;
        let checkpoint = match row.next_sequence < CHECKPOINT_EVENTS {
            true => None,
            false => self.records.store().run_checkpoint(&row.run_id).await?,
        };
        let run_id = row.run_id.clone();
        let restore = move || {
            let restored =
                checkpoint.and_then(|checkpoint| restored(&definition, &genesis, &row, &checkpoint));
            let state = restored.unwrap_or_else(|| RunState::new(&definition, genesis));
            Loaded { definition, state }
        };
        let mut loaded = self.fold_on(thread, restore).await?;
        let from = loaded.state.next_sequence;
        let appends = self.appends_from(&run_id, from).await?;
        let apply = move || {
            let Loaded { definition, state } = &mut loaded;
            for event in decode(&appends, from)? {
                state
                    .apply(definition, &event)
                    .map_err(|error| broken("its events").because(Cause::new(error)))?;
            }
            Ok::<_, Refusal>(loaded)
        };
        let loaded = self.fold_on(thread, apply).await??;
        self.save_checkpoint(&loaded.state, from);
        Ok(loaded)
    }

    async fn fold_on<T: Send + 'static>(
        &self,
        thread: FoldOn,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        match thread {
            FoldOn::ThisThread => Ok(work()),
            FoldOn::Thread => on_a_thread(work).await,
            FoldOn::UrgentThread => self.compute.beside_at_once(work).await,
        }
    }

    /// Saves the state of a run that was folded from many events, so that the next read folds few. [`States::state_checkpoint`] cannot
    /// save a state in memory that has values which are removed from the log. This state is folded from the log alone.
    fn save_checkpoint(&self, state: &RunState, folded_from: u64) {
        let is_long = state.next_sequence - folded_from >= 2 * CHECKPOINT_EVENTS;
        if !is_long || state.status.is_terminal() {
            return;
        }
        let checkpoint = Some(state.checkpoint().into());
        let save = Change::SetRunCheckpoint { run_id: state.genesis.run_id.clone(), checkpoint };
        // Nothing waits for this commit: it is only a cache, and the store logs a failure.
        drop(self.records.store().commit(Commit { changes: vec![save] }));
    }

    /// The checkpoint that is part of the commit of these events. There is one if they reach the next multiple of
    /// [`CHECKPOINT_EVENTS`] and the run has not ended.
    ///
    /// A state in memory may hold secrets that are removed from the log, and then differs from the folded state. It is not saved.
    pub(crate) fn state_checkpoint(&self, state: &RunState, events: &[Event]) -> Option<Change> {
        let first = events.first()?.sequence;
        let set = |checkpoint| Change::SetRunCheckpoint { run_id: state.genesis.run_id.clone(), checkpoint };
        if state.status.is_terminal() {
            return (first >= CHECKPOINT_EVENTS).then(|| set(None));
        }
        let is_due = first / CHECKPOINT_EVENTS != state.next_sequence / CHECKPOINT_EVENTS;
        let is_as_logged = || !self.records.secrets().are_known_of(&state.genesis.tenant);
        (is_due && is_as_logged()).then(|| set(Some(state.checkpoint().into())))
    }

    /// All events of a run from a sequence on.
    pub(crate) async fn events(&self, run_id: &RunId, from: u64) -> Result<Vec<Event>, Refusal> {
        decode(&self.appends_from(run_id, from).await?, from)
    }

    /// The stored appends that have all events from a sequence on.
    pub(crate) async fn appends_from(&self, run_id: &RunId, from: u64) -> Result<Vec<StoredAppend>, Refusal> {
        let mut appends: Vec<StoredAppend> = Vec::new();
        loop {
            let next = appends.last().map_or(from, |append| append.last + 1);
            let page = self.records.store().appends(run_id, next, 10_000, 16 << 20).await?;
            if page.is_empty() {
                return Ok(appends);
            }
            appends.extend(page);
        }
    }
}

/// Where a log is folded.
#[derive(Clone, Copy)]
enum FoldOn {
    ThisThread,
    /// A compute thread; the caller has a permit for it.
    Thread,
    /// A compute thread that is reserved for urgent work.
    UrgentThread,
}

/// Restores the state of a run from a checkpoint, if the checkpoint is valid for it.
fn restored(
    definition: &Definition,
    genesis: &SharedGenesis,
    row: &StoredRun,
    checkpoint: &[u8],
) -> Option<RunState> {
    match RunState::restore(definition, Arc::clone(genesis), checkpoint) {
        Ok(state) => (state.next_sequence <= row.next_sequence).then_some(state),
        Err(error) => {
            let (run_id, cause) = (row.run_id.as_str(), causes(&error));
            tracing::debug!(
                run.id = run_id,
                cause,
                "a checkpoint does not match the log; reading the whole log instead"
            );
            None
        }
    }
}

/// The events of appends from a sequence on.
pub(crate) fn decode(appends: &[StoredAppend], from: u64) -> Result<Vec<Event>, Refusal> {
    let lines = appends.iter().flat_map(|append| lines(append, from));
    lines.map(|(_, text)| wire::decode(text.as_bytes()).map_err(unreadable_event)).collect()
}

/// Whether the log of a run may be long.
pub(crate) fn is_long(row: &StoredRun) -> bool {
    row.next_sequence > INLINE_EVENTS || row.snapshot.len() + row.genesis.len() > INLINE_BYTES
}

/// The genesis of a stored run.
pub(crate) fn genesis_in(row: &StoredRun) -> Result<Genesis, Refusal> {
    serde_json::from_slice(&row.genesis)
        .map_err(|error| broken("its options").because(Cause::of_json(&error)))
}

/// The refusal for a snapshot that this version cannot read.
pub(crate) fn unreadable_snapshot(error: &serde_json::Error) -> Refusal {
    Refusal::damaged("the snapshot of the run cannot be read").because(Cause::of_json(error))
}

/// The refusal for an event that this version cannot read. It has the location of the error, and never the text around it.
pub(crate) fn unreadable_event(error: wire::DecodeError) -> Refusal {
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
