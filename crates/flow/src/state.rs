//! The state of a run: the fold of its events.
//!
//! [`RunState::apply`] is the only place where an event changes the state, for a decision that has just been
//! made and for a log that is read after a restart alike.

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

/// What is known of a run after its events so far.
#[derive(Clone, Debug, PartialEq)]
pub struct RunState {
    /// What it was created with.
    pub genesis: SharedGenesis,
    /// The sequence of the next event.
    pub next_sequence: u64,
    /// The status as a reader sees it, paused and cancelling included.
    pub status: RunStatus,
    /// Each node, in the order of the definition.
    pub nodes: Vec<NodeState>,
    /// The variables, as nodes see them.
    pub variables: Map<String, Value>,
    /// The channels after reduction.
    pub channels: BTreeMap<String, ChannelState>,
    /// What the run waits for from outside, by node id.
    pub interrupts: BTreeMap<NodeId, Interrupt>,
    /// The children, in the order in which they were started.
    pub children: Vec<Child>,
    /// How many nodes were started, for the limit.
    pub node_executions: u64,
    /// How many decisions the supervisor took.
    pub decisions: u64,
    /// The last of them, with the sequence of its event.
    pub last_decision: Option<(Value, u64)>,
    /// The agent that took it.
    pub decided_by: Option<String>,
    /// How many workers dispatches started, for the limit.
    pub workers: u64,
    /// How many questions the dispatch of workers asked, for the limit.
    pub questions: u32,
    /// What it was told that decided nothing, for the limit.
    pub rounds: Rounds,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// Since when it is paused, and how, where it is.
    pub paused: Option<(Timestamp, DrainPolicy)>,
    /// For how long it was paused before, in milliseconds.
    pub paused_ms: u64,
    /// The pause that begins once the nodes that work have ended, where somebody wants one.
    pub draining: Option<Draining>,
    /// Since when it only waits for people, where it does.
    pub waiting_since: Option<Timestamp>,
    /// For how long it only waited for people before, in milliseconds.
    pub waited_ms: u64,
    /// Why it failed.
    pub error: Option<RunError>,
    /// The agent of the node that works.
    pub agent: Option<Value>,
    /// The supervisor, once there is one.
    pub orchestrator: Option<Value>,
    /// The artifacts that it made, by id.
    pub artifacts: BTreeMap<ArtifactId, ArtifactCreated>,
    /// What it cost so far.
    pub cost: Option<Value>,
    /// When the last event was recorded.
    pub last_event_at: Option<Timestamp>,
    /// How many bytes its events take, about, for the limit.
    pub bytes: u64,
    /// What can begin, and what is under way.
    pub(crate) schedule: schedule::Schedule,
    /// The places of the nodes by id, and of the children by run.
    places: Arc<BTreeMap<NodeId, NodeIndex>>,
    child_places: BTreeMap<RunId, usize>,
    children_ended: u32,
}

/// A pause that was asked for and has not begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draining {
    /// When it was asked for.
    pub since: Timestamp,
    pub reason: Option<String>,
}

/// What is known of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeState {
    /// Where it stands.
    pub status: NodeStatus,
    /// The number of the current or last attempt, from 0.
    pub attempt: u32,
    /// How often it was entered again by a loop.
    pub iteration: u32,
    /// When the current or last attempt began.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Until when it waits, where it only waits.
    pub due: Option<Timestamp>,
    /// When the next attempt may begin.
    pub retry_at: Option<Timestamp>,
    /// What it gave.
    pub outputs: Map<String, Value>,
    /// Why it failed.
    pub error: Option<RunError>,
    /// How many interrupts it raised.
    pub interrupts: u32,
    /// What came of the last of them.
    pub answer: Answer,
    /// The events from outside that it was given, oldest first: whoever delivers one again is told that it arrived.
    pub deliveries: Vec<Delivery>,
    /// The sequence of the fan-out that is under way.
    pub fan_out: Option<u64>,
    /// The children of the current attempt, as places in [`RunState::children`].
    pub children: Vec<usize>,
    /// The sequence of its last event.
    pub last_sequence: Option<u64>,
}

impl NodeState {
    /// Which effect the node asks for next: another one in each round of a loop, and another one after each interrupt, and the same in
    /// every attempt. Rounds and interrupts only ever grow, so no two effects of a node have the same number.
    pub const fn ordinal(&self) -> u32 {
        self.iteration.saturating_add(self.interrupts)
    }
}

/// An event from outside that a node was given. The event itself is in the log; to know it again, its digest is enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The interrupt that waited for it.
    pub interrupt_id: InterruptId,
    /// The digest of the event.
    pub digest: Digest,
}

impl Delivery {
    /// The digest by which an event is known again. One without a canonical form is known by its spelling.
    pub(crate) fn digest_of(event: &Value) -> Digest {
        Digest::of_canonical(event).unwrap_or_else(|_| Digest::of_bytes(event.to_string().as_bytes()))
    }
}

/// What came of an interrupt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// There was none, or it is pending.
    #[default]
    None,
    /// It was answered, and the node has not gone on yet.
    Given(Box<Resolution>),
    /// It was answered, and the node went on.
    Taken,
    /// It ended with its node.
    Gone,
}

/// The answer to an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    pub interrupt: Interrupt,
    /// The answer.
    pub value: Value,
    /// Who gave it.
    pub by: Principal,
    /// How it ended.
    pub outcome: Outcome,
    /// The sequence of the event that recorded it.
    pub sequence: u64,
}

/// How an interrupt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// With an answer that lets the node go on.
    Accepted,
    /// With an answer that does not.
    Rejected,
    /// Nobody answered in time.
    TimedOut,
}

impl Outcome {
    /// The outcome as an event tells it.
    pub const fn told(self) -> InterruptOutcome {
        match self {
            Self::Accepted => InterruptOutcome::Accepted,
            Self::Rejected | Self::TimedOut => InterruptOutcome::Rejected,
        }
    }
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeStatus {
    /// Not begun, or to be begun again.
    #[default]
    Pending,
    /// Begun: a timer, a child or an effect is under way.
    Running,
    /// Waits for an interrupt to be resolved.
    Suspended,
    /// Done.
    Completed,
    /// Given up.
    Failed,
    /// Not needed.
    Skipped,
    /// Ended by somebody.
    Cancelled,
}

impl NodeStatus {
    /// Whether it will not change any more in this iteration.
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

/// The code of a failure that names what the host does not have.
const HOST_CAPABILITY_MISSING: &str = "host_capability_missing";

/// Why a run or a node failed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RunError {
    /// A code for programs.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// More.
    #[serde(default, deserialize_with = "present")]
    pub details: Option<Value>,
}

/// Null is a value like any other.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Serialize for RunError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // In the order of their names, as everywhere.
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
        // The protocol reads what is missing beside the code. Snapshots are closed, and have it in the details alone.
        let is_missing = self.code == HOST_CAPABILITY_MISSING;
        let capability = details.filter(|_| is_missing).and_then(|details| details.get("capability"));
        Written { capability, code: &self.code, details, message: &self.message }.serialize(serializer)
    }
}

impl RunError {
    /// A failure with a code of a closed list.
    pub fn of(code: impl ErrorCode, message: impl Into<String>) -> Self {
        Self::new(code.as_str(), message)
    }

    /// Whether this is its code.
    pub fn has_code(&self, code: impl ErrorCode) -> bool {
        self.code == code.as_str()
    }

    /// A failure with a code that an author, a module or a recorded event chose.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), details: None }
    }

    /// The error as an event holds it.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("names are texts, so nothing can be refused")
    }

    /// The error that an event holds.
    pub fn from_json(value: &Value) -> Self {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or("unknown").to_owned();
        Self { code: text("code"), message: text("message"), details: value.get("details").cloned() }
    }

    /// Adds details.
    #[must_use]
    pub fn with(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}

/// Something from outside that a node waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Its id, derived from run, node and count.
    pub id: InterruptId,
    /// The node that waits.
    pub node_id: NodeId,
    /// What kind of thing.
    pub kind: InterruptKind,
    /// The key: at most one prompt for each in the life of a run.
    pub key: String,
    /// What is asked.
    pub data: Value,
    /// What an answer has to be, as JSON Schema.
    #[serde(with = "checkpoint::nullable")]
    pub resume_schema: Option<Value>,
    /// When it gives up.
    pub deadline: Option<Timestamp>,
    /// When it was asked.
    pub requested_at: Timestamp,
    /// The votes so far, where several are needed, each with its voter.
    pub votes: Vec<Vote>,
    /// The sequence of the event that asked.
    pub sequence: u64,
}

/// One vote of several.
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
    /// The variables that the mapping names and the parent had not set.
    pub unset: Vec<String>,
    /// How it stands, as far as the parent was told.
    pub status: RunStatus,
    /// Whether it ends when the parent is cancelled.
    pub cancelled_with_parent: bool,
    /// In which place it ended among all children; nothing while it runs.
    pub ended: Option<u32>,
    /// Why it failed.
    pub error: Option<RunError>,
    /// The sequence of the event that started it.
    pub dispatched: u64,
    /// The sequence of the last step of its handoff.
    pub chain: u64,
}

impl RunState {
    /// The state before the first event: defaults, then the inputs of the same name.
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
        // What is not declared never becomes a variable: it would be shown to every reader of the run.
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
            places: Arc::clone(&definition.places),
            child_places: BTreeMap::new(),
            children_ended: 0,
        }
    }

    /// Folds a whole log.
    ///
    /// # Errors
    /// When an event is out of order.
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

    /// The state of a node.
    pub fn node(&self, index: NodeIndex) -> &NodeState {
        &self.nodes[index]
    }

    /// The place of the node of that id.
    pub fn place(&self, node_id: &NodeId) -> Option<NodeIndex> {
        self.places.get(node_id).copied()
    }

    /// The child of that run.
    pub fn child(&self, run_id: &RunId) -> Option<&Child> {
        self.children.get(self.child_place(run_id)?)
    }

    /// The place of the child of that run.
    pub(crate) fn child_place(&self, run_id: &RunId) -> Option<usize> {
        self.child_places.get(run_id).copied()
    }

    /// Whether an interrupt is over because this event from outside was delivered to it: the one that is named, or else the last
    /// of the node.
    pub fn was_delivered(&self, node_id: &NodeId, interrupt_id: Option<&InterruptId>, event: &Value) -> bool {
        let Some(node) = self.place(node_id).map(|place| &self.nodes[place]) else { return false };
        let delivery = match interrupt_id {
            Some(id) => node.deliveries.iter().find(|delivery| delivery.interrupt_id == *id),
            None if matches!(node.answer, Answer::Given(_) | Answer::Taken) => node.deliveries.last(),
            None => None,
        };
        delivery.is_some_and(|delivery| delivery.digest == Delivery::digest_of(event))
    }

    /// Whether a child is to end because nobody waits for it any more: its workers were joined without it, or the run was cancelled or
    /// failed and takes it along.
    pub fn gave_up(&self, child_run_id: &RunId) -> bool {
        self.child_place(child_run_id).map(|place| &self.children[place]).is_some_and(|child| {
            let taken_along = matches!(self.status, RunStatus::Cancelled | RunStatus::Failed);
            child.ended.is_some() || (taken_along && child.cancelled_with_parent)
        })
    }

    /// The children that a run waits for, where children and people are all that it waits for; nothing where anything else is under way.
    pub fn awaits(&self, definition: &Definition) -> Option<Vec<&RunId>> {
        let goes_on = self.started_at.is_some() && self.paused.is_none() && !self.status.is_terminal();
        if !goes_on || !self.schedule.ready.is_empty() {
            return None;
        }
        let mut awaited = Vec::new();
        for node in self.under_way(definition).into_iter().map(|node| &self.nodes[node]) {
            if node.status != NodeStatus::Running {
                continue;
            }
            let before = awaited.len();
            let own = node.children.iter().map(|place| &self.children[*place]);
            awaited.extend(own.filter(|child| child.ended.is_none()).map(|child| &child.run_id));
            // A timer or an effect is under way.
            if awaited.len() == before {
                return None;
            }
        }
        Some(awaited)
    }

    /// Whether a node works: it began, and is not between two attempts nor waiting for children that wait for people.
    pub(crate) fn is_at_work(&self, definition: &Definition) -> bool {
        let held = &self.schedule.held;
        self.schedule.active.difference(held).any(|rank| {
            let node = &self.nodes[definition.graph.order[*rank]];
            node.status == NodeStatus::Running && node.retry_at.is_none()
        })
    }

    /// The nodes that are running or suspended, in the order in which they are drained.
    pub fn under_way(&self, definition: &Definition) -> Vec<NodeIndex> {
        self.schedule.active.iter().map(|rank| definition.graph.order[*rank]).collect()
    }
}

/// The ranks of nodes, in order.
pub(crate) type Ranks = BTreeSet<usize>;

/// An event that cannot be next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {found} cannot follow: event {expected} is next")]
pub struct OutOfOrder {
    /// The sequence that has to be next.
    pub expected: u64,
    /// The sequence that was found.
    pub found: u64,
}
