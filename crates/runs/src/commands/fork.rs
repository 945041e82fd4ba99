//! Forks: new runs that start from a position in the log of another run.
//!
//! A *replay* repeats the source from its recorded events and performs no effects. A *branch* copies the first events of the source
//! and continues independently. In both cases the source is only read.

use std::sync::Arc;

use flow::definition::Definition;
use flow::engine::replay::{Source, replay};
use flow::engine::{Decision, Input, decide};
use flow::event::Event;
use flow::id::{RunId, Shard};
use flow::options::{check_configurable, check_labels, drop_unset};
use flow::run::{Fork, ForkMode, Genesis, RunStatus};
use flow::state::RunState;
use ports::Cause;
use ports::runs::{CommitError, StoredAppend, StoredRun};
use serde_json::{Map, Value, json};

use super::Commands;
use super::create::{new_run_id, problem_values};
use crate::engine::{BeginError, EngineContext, Recorder, created};
use crate::records::random_failed;
use crate::states::{decode, genesis_in, is_long};
use crate::{ApiCode, Caller, Keyed, Refusal, Respond};

/// A fork that a caller requests.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFork {
    /// The sequence of the first event that is not copied.
    pub from: u64,
    pub way: ForkWay,
}

/// What a fork does after the copied events.
#[derive(Clone, Debug, PartialEq)]
pub enum ForkWay {
    /// Repeats the recorded events, with the options of the source.
    Replay,
    /// Continues independently, with these options instead of those of the source.
    Branch(Overlay),
}

/// The options of a branch that differ from its source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    pub configurable: Option<Map<String, Value>>,
    pub tags: Option<Vec<String>>,
    pub metadata: Option<Map<String, Value>>,
}

/// A created fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkedRun {
    pub run_id: RunId,
    pub source_run_id: RunId,
    pub from: u64,
    pub mode: ForkMode,
    pub status: RunStatus,
}

impl Commands {
    /// Forks a run.
    ///
    /// # Errors
    /// If there is no such run, the position is not in its log, or the workflow does not accept the options.
    pub async fn fork<R: Respond<ForkedRun>>(
        self: &Arc<Self>,
        caller: &Caller,
        run_id: &RunId,
        mut new: NewFork,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.uses.records.admit()?;
        if let Some(response) = respond.replayed(&self.uses.records).await? {
            return Ok(response);
        }
        if let ForkWay::Branch(Overlay { configurable: Some(configurable), .. }) = &mut new.way {
            drop_unset(configurable);
        }
        let row = self.uses.states.visible(caller, run_id).await?;
        // The log may grow meanwhile. The fork uses the log as it was at this first read.
        new.fits(&row)?;
        let (definition, genesis) = self.forked(&row, &new, respond.keyed().map(Keyed::shard)).await?;
        match self.begin_fork(caller, &definition, genesis, &row, &new, &respond).await {
            Err(BeginError::Commit(error)) => self.uses.records.settle(error, &respond).await,
            Err(error) => Err(error.into()),
            Ok(response) => Ok(response),
        }
    }

    /// The genesis of the fork: that of the source, with the overlay applied.
    async fn forked(
        &self,
        row: &StoredRun,
        new: &NewFork,
        shard: Option<Shard>,
    ) -> Result<(Arc<Definition>, Genesis), Refusal> {
        let source = genesis_in(row)?;
        let definition = self.uses.states.pinned_by(&source).await?;
        let now = self.uses.records.now();
        let run_id = new_run_id(now.0, shard, self.uses.records.entropy()).map_err(random_failed)?;
        let mut genesis = Genesis {
            run_id,
            // A fork does not occupy the scope of its source, and a replay sends no callbacks.
            scope_id: None,
            callback_url: source.callback_url.clone().filter(|_| new.way.mode() == ForkMode::Branch),
            fork: Some(Fork {
                source_run_id: source.run_id.clone(),
                from_sequence: new.from,
                mode: new.way.mode(),
            }),
            created_at: now,
            // A fork has its own trace, with a link to that of the source.
            trace: None,
            ..source
        };
        let overlay = match &new.way {
            ForkWay::Replay => &Overlay::default(),
            ForkWay::Branch(overlay) => overlay,
        };
        if let Some(given) = &overlay.configurable {
            self.refuse_credential(given)?;
        }
        overlay.lay_over(&definition, &self.uses.features.providers(), &mut genesis)?;
        Ok((definition, genesis))
    }

    async fn begin_fork<R: Respond<ForkedRun>>(
        self: &Arc<Self>,
        caller: &Caller,
        definition: &Arc<Definition>,
        genesis: Genesis,
        row: &StoredRun,
        new: &NewFork,
        respond: &R,
    ) -> Result<R::Response, BeginError> {
        let run_id = genesis.run_id.clone();
        let source_run_id = row.run_id.clone();
        let mut changes = vec![created(&genesis, false)];
        let (mode, from) = (new.way.mode(), new.from);
        let (copied, state, decision) =
            self.decide_fork(caller, definition, genesis, row, mode, from).await?;
        if mode == ForkMode::Branch {
            changes.extend(self.inherit(definition, &state, &source_run_id).await?);
        }
        changes.push(self.uses.records.audited(
            caller,
            "run.fork",
            &json!({"runId": run_id, "sourceRunId": source_run_id, "fromSeq": from, "mode": mode}),
        ));
        let forked = ForkedRun { run_id, source_run_id, from, mode, status: state.status };
        let (response, recorded) = respond.respond(&self.uses.records, forked);
        changes.extend(recorded);
        let recorder = Recorder::new(&self.uses);
        recorder.copy(definition, &state, &copied, &mut changes);
        let prepared = recorder.prepare(&state, &decision).await;
        let outcome = recorder.outcome(definition, &state, decision, &prepared, &mut changes);
        self.engine.make_new(definition, state, changes, outcome).await?;
        Ok(response)
    }

    /// The events that the fork copies, its state after them, and the decision. On a compute thread if the log is long.
    async fn decide_fork(
        self: &Arc<Self>,
        caller: &Caller,
        definition: &Arc<Definition>,
        genesis: Genesis,
        row: &StoredRun,
        mode: ForkMode,
        from: u64,
    ) -> Result<ForkDecision, BeginError> {
        let mut context = EngineContext::new(&self.uses, &genesis.tenant, definition).await?;
        let appends = self.uses.states.appends_from(&row.run_id, 0).await?;
        let log = Arc::new(SourceLog { run_id: row.run_id.clone(), end: row.next_sequence, appends });
        loop {
            let (commands, definition, genesis, log) =
                (Arc::clone(self), Arc::clone(definition), genesis.clone(), Arc::clone(&log));
            let work = move || {
                let decided = log.events().map_err(BeginError::Host).and_then(|events| {
                    commands.decided_fork(&definition, genesis, (&log.run_id, &events), mode, from, &context)
                });
                (decided, context)
            };
            let (decided, asked) = match is_long(row) {
                true => self.uses.compute.beside(&caller.tenant, work).await?,
                false => work(),
            };
            context = asked;
            if !context.learn().await? {
                return decided;
            }
        }
    }

    fn decided_fork(
        &self,
        definition: &Arc<Definition>,
        genesis: Genesis,
        (source_run_id, events): (&RunId, &[Event]),
        mode: ForkMode,
        from: u64,
        context: &EngineContext,
    ) -> Result<ForkDecision, BeginError> {
        let run_id = genesis.run_id.clone();
        let source = Source { run_id: source_run_id, events };
        let copied = source.copied(&run_id, from);
        let now = self.uses.records.now();
        match mode {
            ForkMode::Replay => {
                let genesis = Arc::new(genesis);
                let (state, decision) =
                    replay(definition, genesis, source, from, now, self.uses.features.limits(), context);
                Ok((copied, state, decision))
            }
            ForkMode::Branch => {
                let mut state = RunState::fold(definition, Arc::new(genesis), &copied)
                    .map_err(|error| CommitError::Store(Cause::new(error)))?;
                let decision =
                    decide(definition, &mut state, Input::Fork, now, self.uses.features.limits(), context)
                        .map_err(BeginError::Refused)?;
                Ok((copied, state, decision))
            }
        }
    }
}

/// The events that a fork copies, its state, and the decision.
type ForkDecision = (Vec<Event>, RunState, Decision);

/// The log of the source.
struct SourceLog {
    run_id: RunId,
    /// The end of the log when the fork was requested. Later events are not part of the fork.
    end: u64,
    appends: Vec<StoredAppend>,
}

impl SourceLog {
    fn events(&self) -> Result<Vec<Event>, Refusal> {
        let mut events = decode(&self.appends, 0)?;
        events.retain(|event| event.sequence < self.end);
        Ok(events)
    }
}

impl ForkWay {
    const fn mode(&self) -> ForkMode {
        match self {
            Self::Replay => ForkMode::Replay,
            Self::Branch(_) => ForkMode::Branch,
        }
    }
}

impl NewFork {
    /// Checks that the position is in the log of the source. An active run can also be forked at its end, where nothing is repeated.
    fn fits(&self, row: &StoredRun) -> Result<(), Refusal> {
        let end =
            if row.status.is_terminal() { row.next_sequence.saturating_sub(1) } else { row.next_sequence };
        if self.from <= end {
            return Ok(());
        }
        let message = format!("`fromSeq` is beyond the log of the run, which can be forked up to {end}");
        Err(Refusal::new(ApiCode::Unprocessable, message)
            .detail("sourceRunId", row.run_id.as_str())
            .detail("fromSeq", self.from))
    }
}

impl Overlay {
    /// Applies the overlay: its members replace those of the source, and its tags replace all tags.
    fn lay_over(
        &self,
        definition: &Definition,
        providers: &[&str],
        genesis: &mut Genesis,
    ) -> Result<(), Refusal> {
        genesis.configurable.extend(self.configurable.iter().flatten().map(owned));
        genesis.metadata.extend(self.metadata.iter().flatten().map(owned));
        if let Some(tags) = &self.tags {
            genesis.tags.clone_from(tags);
        }
        let mut problems = Vec::new();
        check_configurable(definition, &genesis.configurable, providers, &mut problems);
        check_labels(&genesis.tags, &genesis.metadata, &mut problems);
        if let Some(first) = problems.first() {
            let refusal = Refusal::new(ApiCode::ValidationError, first.to_string());
            return Err(refusal.detail("fields", problem_values(&problems)));
        }
        Ok(())
    }
}

fn owned((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}
