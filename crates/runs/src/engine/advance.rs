//! Advances a run: decides on an input, commits the decision, and does what follows.

use std::sync::Arc;
use std::time::Duration;

use canon::time::Timestamp;
use flow::definition::Definition;
use flow::engine::{Decision, Effect, Input, decide};
use flow::event::{Event, EventData, wire};
use flow::id::{RunId, Tenant};
use flow::run::RunStatus;
use flow::snapshot::Snapshot;
use flow::state::RunState;
use ports::runs::{Bytes, Change, CommitError, ReadError, StoredAppend};
use system::backoff::{Backoff, millis};
use system::causes;
use tokio::sync::OwnedMutexGuard;
use tracing::{Instrument as _, debug_span};

use super::begin::BeginError;
use super::context::EngineContext;
use super::counts::Tally;
use super::family::for_parent;
use super::new_children::NamedChildren;
use super::timers::timer_key;
use super::{Engine, guide};
use crate::compute_pool::{ComputePermit, is_heavy, is_large_input, on_a_thread};
use crate::states::Loaded;
use crate::webhooks::Subscriptions;
use crate::{ApiCode, Refusal, Respond};

/// The maximum number of decisions on one input. A decision is repeated after a conflict with another writer.
const ATTEMPTS: u32 = 8;

/// The longest pause after the first conflict. It doubles with each further conflict.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// How often the log is looked up after a commit whose outcome is unknown.
const LOOKUPS: usize = 5;

/// How many copied events are stored in one row. This bounds what the read of a page has to load.
const COPIED_AT_ONCE: usize = 500;

/// The result of a decision, and what is left to do once it is durable.
pub(crate) struct Outcome {
    pub(crate) run_id: RunId,
    pub(crate) tenant: Tenant,
    append: Option<(StoredAppend, Bytes)>,
    /// Whether the run ended with this append.
    is_last: bool,
    pub(crate) effects: Vec<Effect>,
    /// Whether a timer was set, so that the timer loop must check again.
    timer_set: bool,
    /// Whether a webhook delivery was queued.
    queued: bool,
    /// What the counters add for this decision.
    tally: Tally,
    /// The final state of the run, for its parent.
    pub(crate) ended: Option<Box<RunState>>,
    /// The parent whose watchers must look again at its descendants.
    stirs: Option<RunId>,
    /// The parent to notify that this run waits for a person, or continues.
    waits: Option<RunId>,
    /// The children that were created in the same commit and have not begun.
    newborn: Vec<RunId>,
}

/// What is read before the changes of a decision are written.
pub(crate) struct Prepared {
    pub(crate) subscribers: Subscriptions,
    pub(crate) children: NamedChildren,
}

impl Outcome {
    /// Whether nothing is left to do: the run is new and ended immediately, no parent waits for it, and nothing can watch it yet.
    fn is_all(&self) -> bool {
        self.is_last
            && !self.timer_set
            && !self.queued
            && self.effects.is_empty()
            && self.ended.is_none()
            && self.waits.is_none()
    }
}

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
        let mut context = self.context(tenant, &loaded.definition).await?;
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

    /// [`Engine::outcome`], on a compute thread if there is much to write.
    async fn conclude_decision(
        &self,
        loaded: Loaded,
        decision: Decision,
        mut changes: Vec<Change>,
        place: Option<&ComputePermit>,
    ) -> Result<(Loaded, Vec<Change>, Outcome), Refusal> {
        let prepared = self.prepare(&loaded.state, &decision).await;
        if place.is_none() {
            let outcome = self.outcome(&loaded.definition, &loaded.state, decision, &prepared, &mut changes);
            return Ok((loaded, changes, outcome));
        }
        let engine = self.clone();
        let work = move || {
            let outcome =
                engine.outcome(&loaded.definition, &loaded.state, decision, &prepared, &mut changes);
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
    ) -> Result<(RunState, Vec<Change>, Outcome), BeginError> {
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
        outcome: Outcome,
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
    async fn commit_outcome(&self, changes: Vec<Change>, outcome: &Outcome) -> Result<(), CommitError> {
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
                        "the log of a run could not be read after a commit in doubt; retrying",
                    );
                    tokio::time::sleep(pause).await;
                }
            }
        }
        // It may still take effect. The log refuses to record the same events twice.
        Err(CommitError::OutcomeUnknown(cause))
    }

    /// Whether the events of a decision are in the log.
    async fn is_recorded(&self, outcome: &Outcome) -> Result<bool, ReadError> {
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
        outcome: Outcome,
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

    /// Reads what [`Engine::outcome`] needs from the store.
    pub(crate) async fn prepare(&self, state: &RunState, decision: &Decision) -> Prepared {
        Prepared {
            subscribers: self.uses.webhooks.subscribers(&state.genesis).await,
            children: self.find_new_children(state, decision).await,
        }
    }

    /// The consequences of a decision: the changes for the commit, and what to do after it.
    pub(crate) fn outcome(
        &self,
        definition: &Definition,
        state: &RunState,
        decision: Decision,
        prepared: &Prepared,
        changes: &mut Vec<Change>,
    ) -> Outcome {
        let run_id = &state.genesis.run_id;
        let is_new = decision.events.first().is_some_and(|event| event.sequence == 0);
        let before = for_parent(decision.before);
        let tally = Tally::of(&decision.events, state);
        let append = self.append(definition, state, &decision.events, &prepared.subscribers, changes);
        changes.extend(self.uses.states.state_checkpoint(state, &decision.events));
        let newborn = self.create_children(state, &decision, prepared, changes);
        let (mut effects, mut closed) = (Vec::new(), false);
        for effect in decision.effects {
            match effect {
                Effect::SetTimer { timer, at } => {
                    changes.push(Change::SetTimer { run_id: run_id.clone(), key: timer_key(&timer), at });
                }
                Effect::ClearTimer { timer } => {
                    let key = timer_key(&timer);
                    // A timer that one decision sets and clears is not set at all. A new run has no other timers to clear.
                    changes.retain(|change| !is_timer(change, |set| *set == key));
                    if !is_new {
                        changes.push(Change::ClearTimer { run_id: run_id.clone(), key });
                    }
                }
                Effect::StoreArtifact { artifact_id, mut document } => {
                    self.uses.records.secrets().redact(&state.genesis.tenant, &mut document);
                    changes.push(Change::PutArtifact {
                        run_id: run_id.clone(),
                        artifact_id,
                        document: document.to_string().into_bytes().into(),
                    });
                }
                Effect::InterruptRaised { node_id } => {
                    self.uses.webhooks.queue_callback(state, &node_id, changes)
                }
                Effect::InterruptClosed { .. } => closed = true,
                Effect::EndGuide { ref node_id, ref session_id } => {
                    changes.push(guide::end_later(run_id, node_id, session_id, self.uses.records.now()));
                    effects.push(effect);
                }
                Effect::StartChild(_)
                | Effect::CancelChild { .. }
                | Effect::Activity(_)
                | Effect::Guide(_) => effects.push(effect),
            }
        }
        let is_child = state.genesis.parent.is_some() && state.genesis.fork.is_none();
        let changed_child = is_child && append.is_some();
        let ended = state.status.is_terminal() && changed_child;
        let stirs = changed_child && (closed || state.awaits(definition).is_some());
        let waits = changed_child && !ended && for_parent(state.status) != before;
        let waits = state.genesis.parent.as_ref().filter(|_| waits).map(|parent| parent.run_id.clone());
        let stirs = state.genesis.parent.as_ref().filter(|_| stirs).map(|parent| parent.run_id.clone());
        Outcome {
            run_id: run_id.clone(),
            tenant: state.genesis.tenant.clone(),
            append,
            is_last: state.status.is_terminal(),
            effects,
            timer_set: changes.iter().any(|change| is_timer(change, |_| true)),
            tally,
            queued: changes.iter().any(|change| matches!(change, Change::PutDelivery { .. })),
            ended: ended.then(|| Box::new(state.clone())),
            stirs,
            waits,
            newborn,
        }
    }

    /// The change that makes events durable, with the append for streams.
    pub(crate) fn append(
        &self,
        definition: &Definition,
        state: &RunState,
        events: &[Event],
        subscribers: &Subscriptions,
        changes: &mut Vec<Change>,
    ) -> Option<(StoredAppend, Bytes)> {
        let (first, last) = (events.first()?, events.last()?);
        let (run_id, tenant) = (&state.genesis.run_id, &state.genesis.tenant);
        let texts: Vec<_> = events.iter().map(|event| self.encode(tenant, run_id, event)).collect();
        self.uses.webhooks.queue(definition, &state.genesis, subscribers, (events, &texts), changes);
        let events: Bytes = texts.join("\n").into_bytes().into();
        let snapshot = self.snapshot(definition, state, last.timestamp);
        changes.push(Change::Append {
            run_id: run_id.clone(),
            first: first.sequence,
            last: last.sequence,
            events: Arc::clone(&events),
            status: state.status,
            snapshot: Arc::clone(&snapshot),
            at: last.timestamp,
        });
        Some((StoredAppend { first: first.sequence, last: last.sequence, events }, snapshot))
    }

    /// The snapshot of a run, with known secrets removed.
    fn snapshot(&self, definition: &Definition, state: &RunState, at: Timestamp) -> Bytes {
        const PLAIN: &str = "names are strings, so this cannot fail";
        let snapshot = Snapshot::of(definition, state, at);
        let tenant = &state.genesis.tenant;
        if self.uses.records.secrets().are_known_of(tenant) {
            let mut snapshot = serde_json::to_value(snapshot).expect(PLAIN);
            self.uses.records.secrets().redact_known(tenant, &mut snapshot);
            return snapshot.to_string().into_bytes().into();
        }
        let mut bytes = Vec::with_capacity(1024);
        serde_json::to_writer(&mut bytes, &snapshot).expect(PLAIN);
        bytes.into()
    }

    /// The JSON text of an event, with known secrets removed.
    fn encode(&self, tenant: &Tenant, run_id: &RunId, event: &Event) -> String {
        if !self.uses.records.secrets().are_known_of(tenant) {
            return wire::encode(run_id, event);
        }
        let mut payload = event.payload();
        for name in payload.keys().cloned().collect::<Vec<_>>() {
            let Some(member) = payload.get_mut(&name) else { continue };
            let known = member.clone();
            self.uses.records.secrets().redact_known(tenant, member);
            // A secret can equal a word of the protocol, such as the status of a child. It stays where the protocol needs the word,
            // because the run would become unreadable otherwise. Everywhere else it is removed.
            if *member != known && EventData::read(event.kind(), payload.clone()).is_err() {
                payload.insert(name, known);
            }
        }
        wire::encode_payload(run_id, event, &payload)
    }

    /// Makes the copied events of a fork durable. No deliveries are queued, because subscribers already received these events.
    pub(crate) fn copy(
        &self,
        definition: &Definition,
        state: &RunState,
        events: &[Event],
        changes: &mut Vec<Change>,
    ) {
        let run_id = &state.genesis.run_id;
        // The snapshot of the last change counts, because readers see the commit as a whole.
        let at = state.last_event_at.unwrap_or(self.uses.records.now());
        let snapshot = self.snapshot(definition, state, at);
        for part in events.chunks(COPIED_AT_ONCE) {
            let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
            let texts: Vec<_> = part.iter().map(|event| wire::encode(run_id, event)).collect();
            changes.push(Change::Append {
                run_id: run_id.clone(),
                first: first.sequence,
                last: last.sequence,
                events: texts.join("\n").into_bytes().into(),
                status: state.status,
                snapshot: Arc::clone(&snapshot),
                at,
            });
        }
    }

    /// Does what follows a commit: notifies streams and the timer loop, and performs effects.
    pub(crate) fn after(&self, mut outcome: Outcome) {
        self.work.counters.add(outcome.tally);
        if outcome.is_last && outcome.append.is_some() {
            self.uses.traces.ended(&outcome.run_id);
        }
        if let Some((append, snapshot)) = outcome.append.take() {
            self.uses.states.appended(&outcome.run_id, append, snapshot, outcome.is_last);
        }
        self.expect_newborn(&outcome.run_id, std::mem::take(&mut outcome.newborn));
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

/// Whether a change sets a timer whose key matches.
fn is_timer(change: &Change, such: impl FnOnce(&String) -> bool) -> bool {
    matches!(change, Change::SetTimer { key, .. } if such(key))
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
