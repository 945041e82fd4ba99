//! The state of a run: the fold of its events.
//!
//! [`RunState::apply`] is the only function in which an event changes the state. A decision uses it for new events, and a restart for
//! the events of the log.

mod apply;
pub mod checkpoint;
pub(crate) mod schedule;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use canon::digest::Digest;
use canon::error::ErrorCode;
use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::channel::ChannelState;
use crate::definition::{Definition, NodeIndex};
use crate::engine::DrainPolicy;
use crate::engine::bounds::Rounds;
use crate::event::Event;
use crate::event::data::interrupt::InterruptOutcome;
use crate::event::data::value::ArtifactCreated;
use crate::id::{ArtifactId, InterruptId, NodeId, Principal, RunId, WorkflowId};
use crate::interrupt::InterruptKind;
use crate::run::{RunStatus, SharedGenesis};

/// The state of a run after its events so far.
#[derive(Clone, Debug, PartialEq)]
pub struct RunState {
    /// The facts that the run was created with.
    pub genesis: SharedGenesis,
    /// The sequence of the next event.
    pub next_sequence: u64,
    /// The status as readers see it, including paused and cancelling.
    pub status: RunStatus,
    /// The state of each node, in the order of the definition.
    pub nodes: Vec<NodeState>,
    /// The variables as nodes see them.
    pub variables: Map<String, Value>,
    /// The reduced channels.
    pub channels: BTreeMap<String, ChannelState>,
    /// The open interrupts by node id.
    pub interrupts: BTreeMap<NodeId, Interrupt>,
    /// The child runs in the order in which they were started.
    pub children: Vec<Child>,
    /// The number of started nodes, for the limit.
    pub node_executions: u64,
    /// The number of decisions of the supervisor.
    pub decisions: u64,
    /// The last decision, with the sequence number of its event.
    pub last_decision: Option<(Value, u64)>,
    /// The agent that made the last decision.
    pub decided_by: Option<String>,
    /// The number of workers that dispatches started, for the limit.
    pub workers: u64,
    /// The number of questions that dispatches asked, for the limit.
    pub questions: u32,
    /// The inputs so far that did not advance the run, for the limit.
    pub rounds: Rounds,
    pub started_at: Option<Timestamp>,
    /// When the run ended.
    pub completed_at: Option<Timestamp>,
    /// Since when and how the run is paused, if it is.
    pub paused: Option<(Timestamp, DrainPolicy)>,
    /// The total duration of earlier pauses, in milliseconds.
    pub paused_ms: u64,
    /// A requested pause that starts as soon as the active nodes have ended.
    pub draining: Option<Draining>,
    /// Since when the run waits only for people, if it does.
    pub waiting_since: Option<Timestamp>,
    /// The total time that the run waited only for people before, in milliseconds.
    pub waited_ms: u64,
    /// Why the run failed.
    pub error: Option<RunError>,
    /// The agent of the most recently started node.
    pub agent: Option<Value>,
    /// The supervisor, after its first decision.
    pub orchestrator: Option<Value>,
    /// The artifacts of the run by id.
    pub artifacts: BTreeMap<ArtifactId, ArtifactCreated>,
    /// The cost so far.
    pub cost: Option<Value>,
    /// When the last event was recorded.
    pub last_event_at: Option<Timestamp>,
    /// The approximate size of the events in bytes, for the limit.
    pub bytes: u64,
    /// The nodes that can start, and the active ones.
    pub(crate) schedule: schedule::Schedule,
    /// The indexes of the nodes by id, and of the children by run id.
    node_indexes: Arc<BTreeMap<NodeId, NodeIndex>>,
    child_indexes: BTreeMap<RunId, usize>,
    children_ended: u32,
}

/// A requested pause that has not started yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draining {
    pub since: Timestamp,
    pub reason: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeState {
    pub status: NodeStatus,
    /// The number of the current or last attempt, starting at 0.
    pub attempt: u32,
    /// How often a loop restarted the node.
    pub iteration: u32,
    /// When the current or last attempt started.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// When the timer of the node fires, if it waits for one.
    pub due: Option<Timestamp>,
    /// When the next attempt may start.
    pub retry_at: Option<Timestamp>,
    pub outputs: Map<String, Value>,
    /// Why the node failed.
    pub error: Option<RunError>,
    /// The number of interrupts of the node.
    pub interrupts: u32,
    /// The answer to the last interrupt.
    pub answer: AnswerState,
    /// The external events that the node received, oldest first. The host uses them to recognize repeated deliveries.
    pub deliveries: Vec<Delivery>,
    /// The sequence number of the current fan-out.
    pub fan_out: Option<u64>,
    /// The children of the current attempt, as indexes into [`RunState::children`].
    pub children: Vec<usize>,
    /// The sequence number of the node's last event.
    pub last_sequence: Option<u64>,
}

impl NodeState {
    /// The number of the node's next effect. Each loop iteration and each interrupt increments it, but a retry does not: every attempt
    /// requests the same effect. Iterations and interrupts never decrease, so two effects of a node never have the same number.
    pub const fn ordinal(&self) -> u32 {
        self.iteration.saturating_add(self.interrupts)
    }
}

/// An external event that a node received. The log contains the event; the digest suffices to recognize a repeated delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The interrupt that waited for it.
    pub interrupt_id: InterruptId,
    /// The digest of the event.
    pub digest: Digest,
}

impl Delivery {
    /// The digest that identifies an event: of its canonical form, or of its text if it has no canonical form.
    pub(crate) fn digest_of(event: &Value) -> Digest {
        Digest::of_canonical(event).unwrap_or_else(|_| Digest::of_bytes(event.to_string().as_bytes()))
    }
}

/// The state of the answer to an interrupt. Checkpoints contain the names of the variants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum AnswerState {
    /// There was no interrupt, or it is open.
    #[default]
    None,
    /// The interrupt was answered, but the node has not continued yet.
    Given(Box<Resolution>),
    /// The interrupt was answered, and the node continued.
    Taken,
    /// The node ended before the interrupt was answered.
    Gone,
}

/// The answer to an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    pub interrupt: Interrupt,
    /// The resume value.
    pub value: Value,
    /// The principal who answered.
    pub by: Principal,
    /// How it ended.
    pub outcome: ResolutionOutcome,
    /// The sequence number of the event that recorded the answer.
    pub sequence: u64,
}

/// How an interrupt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResolutionOutcome {
    /// With an answer that lets the node continue.
    Accepted,
    /// With an answer that does not let the node continue.
    Rejected,
    /// No answer arrived in time.
    TimedOut,
}

impl ResolutionOutcome {
    /// The outcome as events record it.
    pub const fn recorded(self) -> InterruptOutcome {
        match self {
            Self::Accepted => InterruptOutcome::Accepted,
            Self::Rejected | Self::TimedOut => InterruptOutcome::Rejected,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeStatus {
    /// Not started, or to be started again by a loop.
    #[default]
    Pending,
    /// Started: a timer, a child run or an effect is in progress.
    Running,
    /// Waits for an interrupt.
    Suspended,
    /// Ended successfully.
    Completed,
    /// Failed, after all retries.
    Failed,
    Skipped,
    Cancelled,
}

impl NodeStatus {
    /// Whether the node has ended, in this iteration.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Skipped | Self::Cancelled)
    }

    /// The spelling in a snapshot.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status with this spelling.
    pub fn parse(text: &str) -> Option<Self> {
        let all = [
            Self::Pending,
            Self::Running,
            Self::Suspended,
            Self::Completed,
            Self::Failed,
            Self::Skipped,
            Self::Cancelled,
        ];
        all.into_iter().find(|status| status.as_str() == text)
    }
}

/// The error code for a missing host capability, which `capability` names.
const HOST_CAPABILITY_MISSING: &str = "host_capability_missing";

/// Why a run or a node failed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RunError {
    /// A code for programs.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    #[serde(default, deserialize_with = "present")]
    pub details: Option<Value>,
}

/// Deserializes a present member: `null` becomes `Some(Value::Null)`.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Serialize for RunError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The fields are sorted by name, like in all stored JSON.
        #[derive(Serialize)]
        struct Written<'e> {
            #[serde(skip_serializing_if = "Option::is_none")]
            capability: Option<&'e Value>,
            code: &'e str,
            #[serde(skip_serializing_if = "Option::is_none")]
            details: Option<&'e Value>,
            message: &'e str,
        }
        let details = self.details.as_ref();
        // The protocol expects `capability` next to `code`. Snapshots do not allow it there, and have it in the details only.
        let is_missing = self.code == HOST_CAPABILITY_MISSING;
        let capability = details.filter(|_| is_missing).and_then(|details| details.get("capability"));
        Written { capability, code: &self.code, details, message: &self.message }.serialize(serializer)
    }
}

impl RunError {
    /// An error with a code of a closed list.
    pub fn of(code: impl ErrorCode, message: impl Into<String>) -> Self {
        Self::new(code.as_str(), message)
    }

    /// Whether the error has this code.
    pub fn has_code(&self, code: impl ErrorCode) -> bool {
        self.code == code.as_str()
    }

    /// An error with a code that an author, a module or a recorded event chose.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), details: None }
    }

    /// The error as events record it.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("all member names are strings, so serialization cannot fail")
    }

    /// Reads a recorded error.
    pub fn from_json(value: &Value) -> Self {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or("unknown").to_owned();
        Self { code: text("code"), message: text("message"), details: value.get("details").cloned() }
    }

    #[must_use]
    pub fn with(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}

/// An open interrupt: the question of a node to a person or an external system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// The id, derived from run, node and count.
    pub id: InterruptId,
    /// The node that waits.
    pub node_id: NodeId,
    /// What the interrupt waits for.
    pub kind: InterruptKind,
    /// The idempotency key: each key is asked at most once in a run.
    pub key: String,
    /// The question.
    pub data: Value,
    /// The JSON Schema of valid answers.
    #[serde(with = "checkpoint::nullable")]
    pub resume_schema: Option<Value>,
    /// When the interrupt times out.
    pub deadline: Option<Timestamp>,
    /// When the question was asked.
    pub requested_at: Timestamp,
    /// The votes so far.
    pub votes: Vec<Vote>,
    /// The sequence number of the event that opened the interrupt.
    pub sequence: u64,
}

/// One vote at a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    pub voter: String,
    pub action: String,
    pub at: Timestamp,
}

/// A run that a node started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Child {
    pub run_id: RunId,
    pub workflow_id: WorkflowId,
    /// The node that started it.
    pub node_id: NodeId,
    /// The iteration of that node.
    pub iteration: u32,
    /// The attempt of that node.
    pub attempt: u32,
    pub inputs: Map<String, Value>,
    /// The variables that the mapping names but the parent had not set.
    pub unset: Vec<String>,
    /// The last status that was reported to the parent.
    pub status: RunStatus,
    /// Whether the child is cancelled with its parent.
    pub cancelled_with_parent: bool,
    /// The position in the order in which the children ended; `None` while the child runs.
    pub ended: Option<u32>,
    /// Why the child failed.
    pub error: Option<RunError>,
    /// The sequence number of the event that started the child.
    pub dispatched: u64,
    /// The sequence number of the last event of its handoff.
    pub chain: u64,
}

impl RunState {
    /// The state before the first event. Variables have their defaults, or the inputs of the same name.
    pub fn new(definition: &Definition, genesis: SharedGenesis) -> Self {
        let unset = genesis.parent.as_ref().map(|parent| parent.unset.as_slice()).unwrap_or_default();
        let mut variables = Map::new();
        for variable in &definition.variables {
            if let Some(default) = &variable.default
                && !unset.contains(&variable.name)
            {
                variables.insert(variable.name.clone(), default.clone());
            }
        }
        // Undeclared inputs never become variables, because every reader of the run would see them.
        for variable in &definition.variables {
            if let Some(given) = genesis.inputs.get(&variable.name) {
                variables.insert(variable.name.clone(), given.clone());
            }
        }
        let channels = definition.channels.iter().filter_map(|(name, channel)| {
            Some((name.clone(), ChannelState::of_default(channel.default.clone()?)))
        });
        Self {
            genesis,
            next_sequence: 0,
            status: RunStatus::Pending,
            nodes: vec![NodeState::default(); definition.nodes.len()],
            variables,
            channels: channels.collect(),
            interrupts: BTreeMap::new(),
            children: Vec::new(),
            node_executions: 0,
            decisions: 0,
            last_decision: None,
            decided_by: None,
            workers: 0,
            questions: 0,
            rounds: Rounds::default(),
            started_at: None,
            completed_at: None,
            paused: None,
            paused_ms: 0,
            draining: None,
            waiting_since: None,
            waited_ms: 0,
            error: None,
            agent: None,
            orchestrator: None,
            artifacts: BTreeMap::new(),
            cost: None,
            last_event_at: None,
            bytes: 0,
            schedule: schedule::Schedule::new(definition),
            node_indexes: Arc::clone(&definition.node_indexes),
            child_indexes: BTreeMap::new(),
            children_ended: 0,
        }
    }

    /// Folds a complete log.
    ///
    /// # Errors
    /// The events are not in order.
    pub fn fold<'e>(
        definition: &Definition,
        genesis: SharedGenesis,
        events: impl IntoIterator<Item = &'e Event>,
    ) -> Result<Self, OutOfOrder> {
        let mut state = Self::new(definition, genesis);
        for event in events {
            state.apply(definition, event)?;
        }
        Ok(state)
    }

    pub fn node(&self, index: NodeIndex) -> &NodeState {
        &self.nodes[index]
    }

    /// The index of the node with that id.
    pub fn node_index(&self, node_id: &NodeId) -> Option<NodeIndex> {
        self.node_indexes.get(node_id).copied()
    }

    pub fn child(&self, run_id: &RunId) -> Option<&Child> {
        self.children.get(self.child_index(run_id)?)
    }

    /// The index of the child run with that id.
    pub(crate) fn child_index(&self, run_id: &RunId) -> Option<usize> {
        self.child_indexes.get(run_id).copied()
    }

    /// Whether this external event already resolved an interrupt of the node: the named one, or else the last one.
    pub fn was_delivered(&self, node_id: &NodeId, interrupt_id: Option<&InterruptId>, event: &Value) -> bool {
        let Some(node) = self.node_index(node_id).map(|index| &self.nodes[index]) else { return false };
        let delivery = match interrupt_id {
            Some(id) => node.deliveries.iter().find(|delivery| delivery.interrupt_id == *id),
            None if matches!(node.answer, AnswerState::Given(_) | AnswerState::Taken) => {
                node.deliveries.last()
            }
            None => None,
        };
        delivery.is_some_and(|delivery| delivery.digest == Delivery::digest_of(event))
    }

    /// Whether this run no longer needs a child: its workers were joined without it, or the run was cancelled or failed and cancels its
    /// children.
    pub fn gave_up(&self, child_run_id: &RunId) -> bool {
        self.child(child_run_id).is_some_and(|child| {
            let taken_along = matches!(self.status, RunStatus::Cancelled | RunStatus::Failed);
            child.ended.is_some() || (taken_along && child.cancelled_with_parent)
        })
    }

    /// The child runs that the run waits for, if it waits only for child runs and people; `None` if anything else is in progress.
    pub fn awaits(&self, definition: &Definition) -> Option<Vec<&RunId>> {
        let is_active = self.started_at.is_some() && self.paused.is_none() && !self.status.is_terminal();
        if !is_active || !self.schedule.ready.is_empty() {
            return None;
        }
        let mut awaited = Vec::new();
        for node in self.active_nodes(definition).into_iter().map(|node| &self.nodes[node]) {
            if node.status != NodeStatus::Running {
                continue;
            }
            let before = awaited.len();
            let own = node.children.iter().map(|index| &self.children[*index]);
            awaited.extend(own.filter(|child| child.ended.is_none()).map(|child| &child.run_id));
            // The node waits for a timer or an effect.
            if awaited.len() == before {
                return None;
            }
        }
        Some(awaited)
    }

    /// Whether a node is being executed: it has started, is not between two attempts, and does not only wait for children that wait for people.
    pub(crate) fn is_executing(&self, definition: &Definition) -> bool {
        let held = &self.schedule.held;
        self.schedule.active.difference(held).any(|rank| {
            let node = &self.nodes[definition.graph.order[*rank]];
            node.status == NodeStatus::Running && node.retry_at.is_none()
        })
    }

    /// The nodes that are running or suspended, in the order in which the engine processes them.
    pub fn active_nodes(&self, definition: &Definition) -> Vec<NodeIndex> {
        self.schedule.active.iter().map(|rank| definition.graph.order[*rank]).collect()
    }
}

/// The ranks of nodes: their positions in [`Graph::order`](crate::definition::Graph).
pub(crate) type Ranks = BTreeSet<usize>;

/// An event with an unexpected sequence number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {found} is out of order; expected event {expected}")]
pub struct OutOfOrder {
    /// The expected sequence number.
    pub expected: u64,
    /// The actual sequence number.
    pub found: u64,
}
