//! The processing of one input: the state, and the events and effects so far.

use canon::time::Timestamp;
use serde_json::{Map, Value};

use super::budget::Exceeded;
use super::replay::Recorded;
use super::{Decision, Effect, Input, Limits, Refusal, RunEnvironment, bounds};
use crate::definition::{Definition, Node, NodeIndex};
use crate::event::data::run::ReplayDiverged;
use crate::event::data::value::VariableChanged;
use crate::event::{Event, EventData, event_id, size};
use crate::id::{ArtifactId, NodeId};
use crate::interrupt::Reply;
use crate::meter::Meter;
use crate::run::{ForkMode, RunStatus};
use crate::state::RunState;

/// The processing of one input.
pub(super) struct Turn<'a> {
    pub(super) definition: &'a Definition,
    pub(super) state: &'a mut RunState,
    pub(super) now: Timestamp,
    pub(super) limits: &'a Limits,
    pub(super) environment: &'a dyn RunEnvironment,
    /// The log of the source run, during a replay.
    pub(super) recorded: Option<Recorded<'a>>,
    /// Whether the run waited only for people before this input, so that its duration did not count.
    waited: bool,
    /// Counts the steps of conditions and expressions.
    pub(super) meter: Meter,
    /// The size of the events of this decision, in bytes.
    pub(super) appended: u64,
    /// The first limit that was exceeded.
    pub(super) exceeded: Option<Exceeded>,
    /// Whether the run is being ended. The events for that are recorded regardless of limits.
    pub(super) closing: bool,
    pub(super) decision: Decision,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        definition: &'a Definition,
        state: &'a mut RunState,
        now: Timestamp,
        limits: &'a Limits,
        environment: &'a dyn RunEnvironment,
    ) -> Self {
        // A clock can be set back. Events must not be earlier than preceding events.
        let now = state.last_event_at.map_or(now, |last| now.max(last));
        let waited = state.waiting_since.is_some();
        let decision = Decision { before: state.status, ..Decision::default() };
        Self {
            definition,
            state,
            now,
            limits,
            environment,
            recorded: None,
            meter: Meter::new(limits.max_decision_steps),
            appended: 0,
            exceeded: None,
            closing: false,
            waited,
            decision,
        }
    }

    /// Processes an input until the run needs something external, or a limit is exceeded.
    pub(super) fn process(&mut self, input: Input) -> Result<(), Refusal> {
        self.check_patterns(&input);
        let result = match self.exceeded {
            None => self.dispatch_input(input),
            Some(_) => Ok(()),
        };
        if self.end_over_limit() { Ok(()) } else { result }
    }

    fn dispatch_input(&mut self, input: Input) -> Result<(), Refusal> {
        match input {
            Input::Begin => self.begin(),
            Input::Create => self.create(),
            Input::Recover => self.recover(),
            Input::Fork => self.fork(),
            Input::TimerDue { timer } => self.timer_due(&timer),
            Input::RunDeadline => self.run_deadline(),
            Input::ActivityReports { node_id, ordinal, reports } => {
                self.activity_reports(&node_id, ordinal, reports)?;
            }
            Input::ActivityDone { node_id, ordinal, reports, outcome } => {
                self.activity_done(&node_id, ordinal, reports, outcome);
            }
            Input::ChildEnded { run_id, status, variables, error } => {
                self.child_ended(&run_id, status, &variables, error);
            }
            Input::ChildWaits { run_id, status } => self.child_waits(&run_id, status),
            Input::ChildRefused { run_id, error } => {
                self.child_ended(&run_id, RunStatus::Failed, &Map::new(), Some(error));
            }
            Input::GuideStarted { node_id, session_id } => self.guide_started(&node_id, &session_id),
            Input::GuideEnded { node_id, session_id, outcome } => {
                self.guide_ended(&node_id, &session_id, outcome);
            }
            Input::Resolve { node_id, interrupt_id, resume_value: value, by, grants, via } => {
                bounds::check_answer("resumeValue", &value)?;
                let reply = Reply { value: &value, by: by.as_str(), grants: &grants, via };
                self.resolve(&node_id, interrupt_id.as_ref(), &reply)?;
            }
            Input::Assign { variables } => self.assign(&variables)?,
            Input::Cancel { reason, by, parent_run_id } => self.cancel(reason, &by, parent_run_id)?,
            Input::Pause { reason, policy } => self.pause(reason, policy)?,
            Input::Resume { reason } => self.resume(reason)?,
        }
        self.halt_if_drained();
        Ok(())
    }

    pub(super) fn finish(mut self) -> Decision {
        // The time in which the run waited does not count, so its deadline moves.
        if self.waited && self.state.waiting_since.is_none() && !self.is_halted() {
            self.set_deadline();
        }
        self.decision
    }

    /// The definition of a node.
    pub(super) fn node(&self, node: NodeIndex) -> &'a Node {
        &self.definition.nodes[node]
    }

    pub(super) fn node_id(&self, node: NodeIndex) -> NodeId {
        self.definition.nodes[node].id.clone()
    }

    /// Adds an event and applies it. Returns its sequence number.
    pub(super) fn emit(
        &mut self,
        data: impl Into<EventData>,
        node: Option<NodeIndex>,
        cause: Option<u64>,
    ) -> u64 {
        let cause = self.id_of(cause);
        self.emit_with_cause(data, node, cause)
    }

    /// Like [`Turn::emit`], with the id of the cause, which can be external.
    pub(super) fn emit_with_cause(
        &mut self,
        data: impl Into<EventData>,
        node: Option<NodeIndex>,
        cause: Option<String>,
    ) -> u64 {
        self.record(data.into(), Map::new(), node, cause)
    }

    /// Adds an event of the host, with members that this version does not know.
    pub(super) fn record(
        &mut self,
        data: EventData,
        extra: Map<String, Value>,
        node: Option<NodeIndex>,
        cause: Option<String>,
    ) -> u64 {
        self.compare(&data, node);
        self.push(data, extra, node, cause)
    }

    /// The id of an event of this run.
    pub(super) fn id_of(&self, sequence: Option<u64>) -> Option<String> {
        sequence.map(|sequence| event_id(&self.state.genesis.run_id, sequence))
    }

    /// Detects where a replay differs from its source.
    fn compare(&mut self, data: &EventData, node: Option<NodeIndex>) {
        if let Some(recorded) = &mut self.recorded {
            let node_id = node.map(|node| &self.definition.nodes[node].id);
            if let Some(diverged) = recorded.compare(self.state.next_sequence, &data.kind(), node_id) {
                self.diverge(diverged);
            }
        }
    }

    /// Records that a replay differs from its source.
    pub(super) fn diverge(&mut self, diverged: ReplayDiverged) {
        self.push(diverged.into(), Map::new(), None, None);
    }

    /// The recorded event at the next sequence number. A replay uses its ids instead of deriving new ones.
    pub(super) fn recorded_data(&self) -> Option<&'a EventData> {
        self.recorded.as_ref()?.data(self.state.next_sequence)
    }

    /// The id of the artifact that is recorded at the next sequence number.
    pub(super) fn recorded_artifact(&self) -> Option<ArtifactId> {
        match self.recorded_data()? {
            EventData::ArtifactCreated(created) => Some(created.artifact_id.clone()),
            _ => None,
        }
    }

    fn push(
        &mut self,
        data: EventData,
        extra: Map<String, Value>,
        node: Option<NodeIndex>,
        cause: Option<String>,
    ) -> u64 {
        let starts = matches!(data, EventData::RunStarted(_));
        let event = Event {
            sequence: self.state.next_sequence,
            node_id: node.map(|node| self.node_id(node)),
            data,
            extra,
            timestamp: self.now,
            causation_id: cause.or_else(|| self.started_by(starts)),
        };
        let bytes = size::of_event(&event);
        if self.admits(bytes, node) {
            let applied = self.state.apply_sized(self.definition, &event, bytes);
            applied.expect("the sequence was taken from the state");
            self.decision.events.push(event);
            self.count_fold(node);
        }
        self.state.next_sequence.saturating_sub(1)
    }

    /// The event of the parent, or the message, that started the run.
    fn started_by(&self, starts: bool) -> Option<String> {
        let genesis = Some(&self.state.genesis).filter(|_| starts)?;
        let parent = genesis.parent.as_ref().map(|parent| &parent.causation_id);
        parent.or_else(|| genesis.trigger.as_ref().map(|trigger| &trigger.message_id)).cloned()
    }

    /// Requests an effect from the host, except during a replay.
    pub(super) fn ask_host(&mut self, effect: Effect) {
        if self.recorded.is_none() && (self.exceeded.is_none() || self.closing) {
            self.decision.effects.push(effect);
        }
    }

    /// Sets a variable. Without a node, the change comes from outside the run.
    pub(super) fn set_variable(
        &mut self,
        node: Option<NodeIndex>,
        name: &str,
        next: &Value,
        cause: Option<u64>,
    ) -> u64 {
        let changed = VariableChanged {
            name: name.to_owned(),
            next: Some(next.clone()),
            node_id: node.map(|node| self.node_id(node)),
            previous: self.state.variables.get(name).cloned(),
        };
        self.emit(changed, node, cause)
    }

    /// Whether the run cannot continue now: it is paused, has ended, or exceeded a limit.
    pub(super) fn is_halted(&self) -> bool {
        self.state.paused.is_some() || self.state.status.is_terminal() || self.exceeded.is_some()
    }

    /// Whether the result of a node's step may be recorded. Not while the run is paused: the event after `run.paused` must be
    /// `run.resumed`. A result that arrives meanwhile is ignored, and requested again on resume: a timer is then due, the recorded result of
    /// an effect is returned, and the end of a child is reported again.
    pub(super) fn may_end(&self, node: NodeIndex) -> bool {
        use super::DrainPolicy;
        use crate::definition::NodeType;
        match self.state.paused {
            None => !self.state.status.is_terminal(),
            // Logs of earlier versions contain the end of the node here. A replay repeats them.
            Some((_, DrainPolicy::DrainCurrentNode)) => {
                self.recorded.is_some() && self.node(node).kind != NodeType::Dispatch
            }
            Some((_, DrainPolicy::Immediate)) => false,
        }
    }

    /// Whether the run is a replay that has passed the end of its source. It must not have effects then.
    pub(super) fn is_past_recording(&self) -> bool {
        let replays = self.state.genesis.fork.as_ref().is_some_and(|fork| fork.mode == ForkMode::Replay);
        replays && self.recorded.as_ref().is_none_or(|recorded| recorded.is_over(self.state.next_sequence))
    }

    /// The duration of the run so far, in milliseconds.
    pub(super) fn elapsed(&self) -> u64 {
        self.now.since(self.state.started_at.unwrap_or(self.now))
    }
}

/// The members of an object; empty for any other value.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
