//! Advances a run: decides on an input, commits the decision, and does what follows.

use std::sync::Arc;
use std::time::Duration;

use flow::definition::Definition;
use flow::engine::{Decision, Input, decide};
use flow::id::RunId;
use flow::run::RunStatus;
use flow::state::RunState;
use ports::runs::{Change, CommitError, ReadError};
use system::backoff::{Backoff, millis};
use system::causes;
use tokio::sync::OwnedMutexGuard;
use tracing::{Instrument as _, debug_span};

use super::Engine;
use super::begin::BeginError;
use super::context::EngineContext;
use super::recorder::{DecisionOutcome, Recorder};
use crate::compute_pool::{ComputePermit, is_heavy, is_large_input, on_a_thread};
use crate::states::Loaded;
use crate::{ApiCode, Refusal, Respond};

/// The maximum number of decisions on one input. A decision is repeated after a conflict with another writer.
const ATTEMPTS: u32 = 8;

/// The longest pause after the first conflict. It doubles with each further conflict.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// How often the log is looked up after a commit whose outcome is unknown.
const LOOKUPS: usize = 5;

impl Engine {
    /// Gives a run an input, in one commit with further changes and the response.
    ///
    /// `result` is called with the state after the decision. If the caller has an idempotency key, the same commit records the reply.
    pub(crate) async fn advance<T, R: Respond<T>>(
        &self,
        run_id: &RunId,
        input: Input,
        further: Vec<Change>,
        respond: &R,
        result: impl Fn(&RunState) -> T,
    ) -> Result<R::Response, Refusal> {
        self.recover_first(run_id, &input).await?;
        let (mut attempts, mut place) = (0, None);
        while attempts < ATTEMPTS {
            if let Some(response) = respond.replayed(&self.uses.records).await? {
                return Ok(response);
            }
            let live = self.uses.states.live().get_or_insert(run_id);
            let mut cell = Arc::clone(&live.cell).lock_owned().await;
            let loaded = match cell.take() {
                Some(loaded) => Some(loaded),
                None => self.uses.states.load_beside(run_id, &input, place.as_ref()).await.inspect_err(
                    |refusal| {
                        if refusal.code == ApiCode::RunNotFound {
                            self.uses.states.live().forget(run_id);
                        }
                    },
                )?,
            };
            let loaded = match loaded {
                Some(loaded) if place.is_some() || !takes_long(&loaded, &input) => loaded,
                waits => {
                    // Acquire the permit without the lock of the run, so that the run can be cancelled meanwhile.
                    if let Some(loaded) = waits {
                        self.put_back(run_id, &mut cell, loaded);
                    }
                    drop(cell);
                    let row =
                        self.uses.records.store().run(None, run_id).await?.ok_or_else(Refusal::no_run)?;
                    place = Some(self.uses.compute.place(&row.tenant).await?);
                    continue;
                }
            };
            attempts += 1;
            let span = debug_span!(
                "run.advance",
                run.id = run_id.as_str(),
                run.seq = loaded.state.next_sequence,
                attempt = attempts
            );
            let decided = self.decide(loaded, input.clone(), place.as_ref());
            let (loaded, decision) = decided.instrument(span.clone()).await?;
            let decision = match decision {
                Ok(decision) => decision,
                Err(refusal) => {
                    let refusal = refused(refusal);
                    self.put_back(run_id, &mut cell, loaded);
                    return Err(refusal);
                }
            };
            let (response, recorded) = respond.respond(&self.uses.records, result(&loaded.state));
            let mut changes = further.clone();
            changes.extend(recorded);
            let (loaded, changes, outcome) =
                self.conclude_decision(loaded, decision, changes, place.as_ref()).await?;
            if changes.is_empty() {
                self.put_back(run_id, &mut cell, loaded);
                drop(cell);
                self.after(outcome);
                return Ok(response);
            }
            let durable = self.make_durable(Some(cell), loaded, changes, outcome);
            match durable.instrument(span).await {
                Ok(()) => return Ok(response),
                // The state in memory is older than the stored one, so it is loaded again.
                Err(CommitError::KeyTaken) => self.work.counters.conflict(),
                Err(CommitError::Moved { .. }) => {
                    self.work.counters.conflict();
                    tokio::time::sleep(self.conflict_pause(attempts)).await;
                }
                Err(error) => return self.uses.records.settle(error, respond).await,
            }
        }
        Err(Refusal::unavailable("another request is changing the run; retry", 1))
    }

    /// The pause before a decision is repeated. It is random, so that conflicting writers do not conflict again.
    fn conflict_pause(&self, attempts: u32) -> Duration {
        let longest = FIRST_PAUSE * 2_u32.saturating_pow(attempts.saturating_sub(1).min(6));
        let mut random = [0_u8; 2];
        // Without entropy the pause is only less random.
        let _ = self.uses.records.entropy().fill(&mut random);
        longest / 2 + longest * u32::from(u16::from_le_bytes(random)) / (2 * u32::from(u16::MAX))
    }

    /// Decides on a run: on this thread if that is quick, on a compute thread if it may take long.
    async fn decide(
        &self,
        loaded: Loaded,
        input: Input,
        place: Option<&ComputePermit>,
    ) -> Result<(Loaded, Result<Decision, flow::engine::Refusal>), Refusal> {
        let tenant = &loaded.state.genesis.tenant;
        let mut context = EngineContext::new(&self.uses, tenant, &loaded.definition).await?;
        if !context.is_open() {
            let (loaded, decision, _) = self.decide_within(loaded, input, context, place).await?;
            return Ok((loaded, decision));
        }
        let (definition, before) = (Arc::clone(&loaded.definition), loaded.state);
        loop {
            let loaded = Loaded { definition: Arc::clone(&definition), state: before.clone() };
            let (loaded, decision, asked) = self.decide_within(loaded, input.clone(), context, place).await?;
            context = asked;
            if !context.learn().await? {
                return Ok((loaded, decision));
            }
        }
    }

    async fn decide_within(
        &self,
        mut loaded: Loaded,
        input: Input,
        context: EngineContext,
        place: Option<&ComputePermit>,
    ) -> Result<(Loaded, Result<Decision, flow::engine::Refusal>, EngineContext), Refusal> {
        let engine = self.clone();
        let work = move || {
            let Loaded { definition, state } = &mut loaded;
            let decision = decide(
                definition,
                state,
                input,
                engine.uses.records.now(),
                engine.uses.features.limits(),
                &context,
            );
            (loaded, decision, context)
        };
        match place {
            None => Ok(work()),
            Some(_) => on_a_thread(work).await,
        }
    }

    /// [`Recorder::outcome`], on a compute thread if there is much to write.
    async fn conclude_decision(
        &self,
        loaded: Loaded,
        decision: Decision,
        mut changes: Vec<Change>,
        place: Option<&ComputePermit>,
    ) -> Result<(Loaded, Vec<Change>, DecisionOutcome), Refusal> {
        let prepared = Recorder::new(&self.uses).prepare(&loaded.state, &decision).await;
        if place.is_none() {
            let outcome = Recorder::new(&self.uses).outcome(
                &loaded.definition,
                &loaded.state,
                decision,
                &prepared,
                &mut changes,
            );
            return Ok((loaded, changes, outcome));
        }
        let uses = Arc::clone(&self.uses);
        let work = move || {
            let outcome = Recorder::new(&uses).outcome(
                &loaded.definition,
                &loaded.state,
                decision,
                &prepared,
                &mut changes,
            );
            (loaded, changes, outcome)
        };
        on_a_thread(work).await
    }

    /// Like [`Engine::decide`], for a new run.
    pub(crate) async fn decide_new(
        &self,
        definition: &Arc<Definition>,
        state: RunState,
        input: Input,
    ) -> Result<(RunState, Decision, Option<ComputePermit>), BeginError> {
        let loaded = Loaded { definition: Arc::clone(definition), state };
        let place = match takes_long(&loaded, &input) {
            true => Some(self.uses.compute.place(&loaded.state.genesis.tenant).await?),
            false => None,
        };
        let (loaded, decision) = self.decide(loaded, input, place.as_ref()).await?;
        Ok((loaded.state, decision.map_err(BeginError::Refused)?, place))
    }

    /// Like [`Engine::conclude_decision`], for a new run.
    pub(crate) async fn conclude_new(
        &self,
        definition: &Arc<Definition>,
        state: RunState,
        decision: Decision,
        changes: Vec<Change>,
        place: Option<&ComputePermit>,
    ) -> Result<(RunState, Vec<Change>, DecisionOutcome), BeginError> {
        let loaded = Loaded { definition: Arc::clone(definition), state };
        let (loaded, changes, outcome) = self.conclude_decision(loaded, decision, changes, place).await?;
        Ok((loaded.state, changes, outcome))
    }

    /// Commits a decision and does what follows, in its own task: if the caller disconnects during the commit, the effects of the
    /// run and the notifications of its watchers still happen.
    pub(crate) async fn make_durable(
        &self,
        cell: Option<OwnedMutexGuard<Option<Loaded>>>,
        loaded: Loaded,
        changes: Vec<Change>,
        outcome: DecisionOutcome,
    ) -> Result<(), CommitError> {
        if cell.is_none() && outcome.is_all() {
            // Nothing that follows is required. If the caller disconnects, only a count and a trace are lost; the run is kept.
            self.commit_outcome(changes, &outcome).await?;
            self.after(outcome);
            return Ok(());
        }
        let engine = self.clone();
        let work = async move {
            engine.commit_outcome(changes, &outcome).await?;
            if let Some(mut cell) = cell {
                engine.put_back(&outcome.run_id, &mut cell, loaded);
            }
            engine.after(outcome);
            Ok(())
        };
        let task = tokio::spawn(work.in_current_span());
        task.await.unwrap_or(Err(CommitError::Closed))
    }

    /// Commits the changes of a decision. If the outcome of the commit is unknown, the log of the run is looked up, because what
    /// follows from a commit must happen if the commit took effect.
    async fn commit_outcome(
        &self,
        changes: Vec<Change>,
        outcome: &DecisionOutcome,
    ) -> Result<(), CommitError> {
        let cause = match self.uses.records.commit(changes).await {
            Err(CommitError::OutcomeUnknown(cause)) => cause,
            known => return known,
        };
        let mut backoff = Backoff::new();
        for _ in 0..LOOKUPS {
            match self.is_recorded(outcome).await {
                Ok(true) => return Ok(()),
                Ok(false) => break,
                Err(error) => {
                    let (attempt, pause) = backoff.failed();
                    tracing::warn!(
                        run.id = outcome.run_id.as_str(),
                        attempt,
                        retry_in_ms = millis(pause),
                        cause = causes(&error),
                        "the log of a run could not be read after a commit with an unknown outcome; retrying",
                    );
                    tokio::time::sleep(pause).await;
                }
            }
        }
        // It may still take effect. The log refuses to record the same events twice.
        Err(CommitError::OutcomeUnknown(cause))
    }

    /// Whether the events of a decision are in the log.
    async fn is_recorded(&self, outcome: &DecisionOutcome) -> Result<bool, ReadError> {
        let Some((append, _)) = &outcome.append else { return Ok(false) };
        let stored = self.uses.records.store().appends(&outcome.run_id, append.first, 1, 1).await?;
        Ok(stored.first() == Some(append))
    }

    /// [`Engine::make_durable`] for a new run. If the commit fails, the run is not kept in memory.
    pub(crate) async fn make_new(
        &self,
        definition: &Arc<Definition>,
        state: RunState,
        changes: Vec<Change>,
        outcome: DecisionOutcome,
    ) -> Result<(), CommitError> {
        let run_id = outcome.run_id.clone();
        let cell = match state.status.is_terminal() {
            true => None,
            false => Some(self.uses.states.live().claim(&run_id).await),
        };
        let loaded = Loaded { definition: Arc::clone(definition), state };
        let made = self.make_durable(cell, loaded, changes, outcome).await;
        made.inspect(|()| self.work.counters.created()).inspect_err(|error| {
            if !matches!(error, CommitError::RunExists { .. }) {
                self.uses.states.live().forget(&run_id);
            }
        })
    }

    /// Keeps the state in memory if the run continues soon. A run that waits for a person is folded again when the reply arrives.
    fn put_back(&self, run_id: &RunId, cell: &mut Option<Loaded>, loaded: Loaded) {
        let status = loaded.state.status;
        if status.is_terminal() {
            self.uses.states.live().forget(run_id);
        } else if status.is_waiting() {
            self.uses.states.live().forget_idle(run_id);
        } else {
            *cell = Some(loaded);
        }
    }

    /// Does what follows a commit: notifies streams and the timer loop, and performs effects.
    pub(crate) fn after(&self, mut outcome: DecisionOutcome) {
        self.work.counters.add(outcome.tally);
        if outcome.is_last && outcome.append.is_some() {
            self.uses.traces.ended(&outcome.run_id);
        }
        if let Some((append, snapshot)) = outcome.append.take() {
            self.uses.states.appended(&outcome.run_id, append, snapshot, outcome.is_last);
        }
        let newborn = std::mem::take(&mut outcome.newborn);
        newborn.iter().for_each(|_| self.work.counters.created());
        self.work.newborn.add(&outcome.run_id, newborn);
        if let Some(parent) = outcome.waits.take() {
            let (engine, run_id) = (self.clone(), outcome.run_id.clone());
            tokio::spawn(async move { engine.notify_waiting(&parent, &run_id).await });
        }
        if let Some(parent) = outcome.stirs.take() {
            let engine = self.clone();
            tokio::spawn(async move { engine.uses.states.wake(parent).await });
        }
        if outcome.timer_set {
            self.work.timer_set.notify_one();
        }
        if outcome.queued {
            self.uses.webhooks.notify_queued();
        }
        if !outcome.effects.is_empty() || outcome.ended.is_some() {
            let engine = self.clone();
            tokio::spawn(async move { engine.make(outcome).await });
        }
    }
}

/// Whether to decide on an input on a compute thread. Ending a run evaluates no conditions, so it is always quick.
fn takes_long(loaded: &Loaded, input: &Input) -> bool {
    !matches!(input, Input::Cancel { .. })
        && (is_heavy(&loaded.definition, &loaded.state) || is_large_input(input))
}

/// Converts a refusal of the engine into one for the caller.
pub(crate) fn refused(refusal: flow::engine::Refusal) -> Refusal {
    use flow::engine::Refusal as Core;
    let message = refusal.to_string();
    match refusal {
        Core::NoInterrupt => Refusal::new(ApiCode::InterruptNotFound, "no interrupt is pending at this node"),
        Core::AlreadyResolved => Refusal::new(ApiCode::InterruptAlreadyResolved, message),
        Core::InterruptGone => Refusal::new(ApiCode::InterruptGone, message),
        Core::BadAnswer { message, details, semantic } => {
            let code = if semantic { ApiCode::Unprocessable } else { ApiCode::ValidationError };
            Refusal::new(code, message).detail("answer", details)
        }
        Core::Forbidden { message } => Refusal::new(ApiCode::Forbidden, message),
        Core::Guided { session_id } => {
            Refusal::new(ApiCode::Conflict, message).detail("sessionId", session_id)
        }
        Core::Paused { since, draining } => {
            let paused = Refusal::new(ApiCode::Conflict, message)
                .detail("runStatus", RunStatus::Paused.as_str())
                .detail("pausedAt", since.to_rfc3339());
            if draining { paused.detail("draining", true) } else { paused }
        }
        Core::Conflict { status } => {
            Refusal::new(ApiCode::Conflict, message).detail("runStatus", status.as_str())
        }
    }
}
