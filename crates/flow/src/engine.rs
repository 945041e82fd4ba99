//! Decides what a run does next.
//!
//! [`decide`] takes the state of a run and one [`Input`]. It adds events until the run needs time, an effect or a person, and returns
//! these events and the effects that the host must execute. One append stores exactly these events.
//!
//! ```text
//! turn     one input: emits events, applies each to the state, and requests effects
//! drain    starts the ready nodes and records their results and retries; state::schedule knows which nodes are ready
//! nodes/   what each node type does, a file per family
//! ask      interrupts: opened, answered, timed out; crate::interrupt validates answers
//! children child runs, with mapping           halt     pause, resume, cancel, fail
//! guide    guided sessions of agents          handoff  inputs and outputs of the workflow's agent
//! recover  continues after a restart or fork  replay   repeats a run from its log
//! report   what the host reports while it executes the effect of a node
//! inherit  what a fork copies in addition to the log
//! budget   limits on the computation and the events of one decision
//! caps     limits of a run    bounds  sizes of values    ports  inputs of nodes    ids  derived, never random
//! ```

mod artifact;
mod ask;
pub mod bounds;
mod budget;
mod caps;
mod children;
mod drain;
pub mod guide;
mod halt;
mod handoff;
pub mod ids;
pub mod inherit;
pub mod limits;
pub(crate) mod mapping;
mod nodes;
mod ports;
mod recover;
pub mod replay;
pub mod report;
mod turn;

use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::guide::{
    Deliverable, Equipment, Guide, GuideFailure, GuideResult, ManifestSource, UpstreamArtifact,
};
pub use self::limits::Limits;
pub(crate) use self::nodes::conformance::COST_ATTRIBUTES;
pub use self::report::{Cause, Report, Reported};
use self::turn::Turn;
use crate::definition::Definition;
use crate::event::Event;
use crate::id::{ArtifactId, EffectId, InterruptId, NodeId, Principal, RunId, WorkflowId};
use crate::interrupt::Via;
use crate::run::RunStatus;
use crate::state::RunState;

/// The environment of a run: the workflows that it may start, and the agents of workflows.
///
/// The engine queries it only for new decisions. A replay uses the recorded results instead.
pub trait RunEnvironment {
    /// Whether the tenant of the run has a workflow with that id.
    fn exists(&self, workflow_id: &WorkflowId) -> bool;

    /// The agent of a workflow, if it has one: see [`Definition::agent_id`].
    fn agent(&self, _workflow_id: &WorkflowId) -> Option<String> {
        None
    }

    /// Whether the host supports conversations. Otherwise people are asked single questions.
    fn converses(&self) -> bool {
        true
    }

    /// Whether the host supports mock nodes, for conformance suites. A host without conformance seams does not.
    fn mocks(&self) -> bool {
        true
    }

    /// The minimum confidence of an agent's decisions, if its pack defines one.
    fn threshold(&self, _agent_id: &str) -> Option<f64> {
        None
    }

    /// Validates the input of an agent against the schema of its pack. An agent that is not installed accepts anything.
    ///
    /// # Errors
    /// The location and the kind of the problem, in a sentence that does not repeat the value.
    fn check_task(&self, _agent_id: &str, _task: &Value) -> Result<(), String> {
        Ok(())
    }

    /// Validates the output of an agent against the schema of its pack.
    ///
    /// # Errors
    /// As for [`RunEnvironment::check_task`].
    fn check_return(&self, _agent_id: &str, _returned: &Value) -> Result<(), String> {
        Ok(())
    }
}

impl<F: Fn(&WorkflowId) -> bool> RunEnvironment for F {
    fn exists(&self, workflow_id: &WorkflowId) -> bool {
        self(workflow_id)
    }
}

/// Decides what follows from an input: all events that follow without time, an effect or a person.
///
/// The events are already applied to `state`. An outdated input, such as the timer of a node that has ended, adds nothing.
///
/// # Errors
/// The input is refused. The state is unchanged then.
pub fn decide(
    definition: &Definition,
    state: &mut RunState,
    input: Input,
    now: Timestamp,
    limits: &Limits,
    environment: &dyn RunEnvironment,
) -> Result<Decision, Refusal> {
    let mut turn = Turn::new(definition, state, now, limits, environment);
    turn.process(input)?;
    Ok(turn.finish())
}

/// Something that happened to a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The run was created together with the event of its parent that names it. It starts with the next [`Input::Create`].
    Begin,
    /// The run was created, or starts after [`Input::Begin`].
    Create,
    /// The host loaded the run after a restart: active nodes are started again.
    Recover,
    /// The events of a fork were copied: the run continues after them.
    Fork,
    /// A timer is due: a delay, a retry, or the deadline of an interrupt.
    TimerDue { timer: TimerKey },
    /// The run reached its maximum duration.
    RunDeadline,
    /// The host reports progress of an effect, such as the first chunk of model output. It does not advance the run.
    ActivityReports {
        /// The node that requested the effect.
        node_id: NodeId,
        /// The number of the effect.
        ordinal: u32,
        /// What happened, in order.
        reports: Vec<Reported>,
    },
    /// An effect was executed, or failed.
    ActivityDone {
        /// The node that requested the effect.
        node_id: NodeId,
        /// The number of the effect.
        ordinal: u32,
        /// What happened during the execution, in order.
        reports: Vec<Reported>,
        /// The result of the effect.
        outcome: Result<Value, crate::state::RunError>,
    },
    /// A child run ended. A paused run ignores this, and requests the child again when it is resumed: starting a child that has
    /// ended reports its end again. The same applies to effects.
    ChildEnded {
        run_id: RunId,
        status: RunStatus,
        /// Its final variables, for output mappings.
        variables: Map<String, Value>,
        /// Why it failed.
        error: Option<crate::state::RunError>,
    },
    /// A child run starts to wait for a person, or continues. A paused run ignores this, like the end of a child.
    ChildWaits {
        run_id: RunId,
        /// What it waits for; [`RunStatus::Running`] if it continues.
        status: RunStatus,
    },
    /// A child could not be started.
    ChildRefused { run_id: RunId, error: crate::state::RunError },
    /// The session of a guided node exists: the node now waits for it. A paused run ignores this, and requests the session again when it
    /// is resumed: starting an existing session returns it. The same applies to its end.
    GuideStarted {
        /// The node that requested the session.
        node_id: NodeId,
        session_id: String,
    },
    /// The session of a guided node ended, or failed.
    GuideEnded {
        /// The node that requested the session.
        node_id: NodeId,
        session_id: String,
        /// The result of the session.
        outcome: Result<GuideResult, GuideFailure>,
    },
    /// An interrupt was answered.
    Resolve {
        /// The node that waits.
        node_id: NodeId,
        /// The answered interrupt; `None` for the current one of the node.
        interrupt_id: Option<InterruptId>,
        /// The answer.
        resume_value: Value,
        /// The principal who answered.
        by: Principal,
        /// The roles and scopes of the caller, for gates that require one.
        grants: Vec<String>,
        /// How the answer reached the host.
        via: Via,
    },
    /// Sets variables from outside the run. Tests of a host use it.
    Assign { variables: Map<String, Value> },
    /// Cancels the run.
    Cancel {
        reason: Option<String>,
        by: Principal,
        /// The parent whose end cancels this run.
        parent_run_id: Option<RunId>,
    },
    /// Pauses the run.
    Pause {
        reason: Option<String>,
        /// What happens to active nodes.
        policy: DrainPolicy,
    },
    /// Resumes the run.
    Resume { reason: Option<String> },
}

/// What happens to active nodes when a run is paused. No other node starts in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainPolicy {
    /// The run is paused immediately. The host still completes an effect that it has started, because effects cannot be undone. The result is
    /// recorded when the run is resumed.
    Immediate,
    /// Active nodes continue until they end, and their results are recorded. Then the run is paused.
    #[default]
    DrainCurrentNode,
}

/// The purpose of a timer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerKey {
    /// A delay of a node, or the delay before a retry.
    Node { node_id: NodeId, iteration: u32, attempt: u32 },
    /// The deadline of an interrupt.
    Interrupt { interrupt_id: InterruptId },
    /// The deadline of the run.
    Run,
}

/// Something that the host must do after the events are durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Wake the run at that time.
    SetTimer { timer: TimerKey, at: Timestamp },
    /// Remove a timer.
    ClearTimer { timer: TimerKey },
    /// Start a child run.
    StartChild(StartChild),
    /// Cancel a child run.
    CancelChild { run_id: RunId },
    /// Execute an effect, at most once per id.
    Activity(Activity),
    /// Prepare the workspace of an agent and start a guided session, at most once; or wait for the existing session.
    Guide(Box<Guide>),
    /// Stop waiting for a guided session.
    EndGuide {
        /// The node that waited for it.
        node_id: NodeId,
        session_id: String,
    },
    /// An interrupt was opened: call the callback URL, if the run has one.
    InterruptRaised {
        /// The node that waits.
        node_id: NodeId,
    },
    /// An interrupt was closed, for any reason.
    InterruptClosed { interrupt_id: InterruptId },
    /// Store an artifact.
    StoreArtifact { artifact_id: ArtifactId, document: Value },
}

/// A child run to start.
#[derive(Clone, Debug, PartialEq)]
pub struct StartChild {
    /// The id, derived from the parent, the node and the index of the child. Starting the same child again has no effect.
    pub run_id: RunId,
    pub workflow_id: WorkflowId,
    pub inputs: Map<String, Value>,
    /// The link to the parent.
    pub parent: crate::run::Parent,
}

/// An effect to execute.
#[derive(Clone, Debug, PartialEq)]
pub struct Activity {
    /// The node that requests it.
    pub node_id: NodeId,
    /// The number of the effect: see [`NodeState::ordinal`](crate::state::NodeState::ordinal).
    pub ordinal: u32,
    /// The id of the effect. The host executes an effect at most once per id.
    pub logical_invocation_id: EffectId,
    /// What to execute.
    pub request: ActivityRequest,
}

/// The effects that nodes can request.
#[derive(Clone, Debug, PartialEq)]
pub enum ActivityRequest {
    /// Read a secret and return its digest and length, never the value.
    SecretFingerprint { secret_id: String },
    /// Execute a node.
    Call(Box<NodeCall>),
    /// Increment a counter of the run, which tests can read.
    Count { name: String },
}

/// A node that the host executes.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeCall {
    pub type_id: String,
    /// The configuration of the node.
    pub config: Map<String, Value>,
    pub inputs: Map<String, Value>,
    /// The variables of the run when the effect was requested.
    pub variables: Map<String, Value>,
    /// The channels of the run when the effect was requested, as the node sees them. Empty except for nodes of packs.
    pub channels: crate::channel::ChannelView,
    /// The options of the run.
    pub configurable: Map<String, Value>,
    /// The caller's metadata of the run.
    pub metadata: Map<String, Value>,
    /// The agent that the node is pinned to.
    pub agent: Option<Value>,
    /// The default prompts of the workflow, by purpose.
    pub prompt_refs: Option<Value>,
    pub attempt: u32,
    /// Whether the run was created with a test key.
    pub is_test: bool,
    /// The name of the credential that the node uses.
    pub credential: Option<String>,
    /// The envelope types of a model that the node accepts, as configured by its author.
    pub envelope_contract: Option<Value>,
    /// The maximum number of questions to people.
    pub clarification_rounds: u32,
    /// The answer with which the node continues, if it waited for an interrupt.
    pub resumption: Option<Resumption>,
}

/// The answer that a node waited for during its execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Resumption {
    /// The id of the effect that ended by waiting.
    pub invocation: EffectId,
    /// The answer.
    pub value: Value,
}

/// The result of an input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The events in order, already applied to the state.
    pub events: Vec<Event>,
    /// What the host must do after the events are durable.
    pub effects: Vec<Effect>,
    pub before: RunStatus,
}

/// Why an input was refused. The state is unchanged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The node has no interrupt.
    #[error("the node has no open interrupt")]
    NoInterrupt,
    /// The interrupt was already resolved.
    #[error("the interrupt was already resolved")]
    AlreadyResolved,
    /// The interrupt was closed with its run.
    #[error("the interrupt ended with its run")]
    InterruptGone,
    /// The answer is invalid.
    #[error("{message}")]
    BadAnswer {
        message: String,
        /// Machine-readable details.
        details: Value,
        /// Whether the answer is well-formed but does not match, for example a correlation.
        semantic: bool,
    },
    /// The interrupt cannot be answered this way, or by this caller.
    #[error("{message}")]
    Forbidden { message: String },
    /// The interrupt of a guided node cannot be answered: it is resolved by its guided session.
    #[error(
        "the node waits for guided session {session_id} and cannot be answered directly; continue the session or cancel the run"
    )]
    Guided { session_id: String },
    /// The run is already paused, or will be when its active nodes have ended.
    #[error("{}", if *.draining { "the run is being paused: it pauses when its active nodes have ended" } else { "the run is paused" })]
    Paused {
        /// When it was paused, or when the pause was requested.
        since: Timestamp,
        /// Whether nodes are still active.
        draining: bool,
    },
    /// The status of the run does not allow the input.
    #[error("the run is {status}")]
    Conflict { status: RunStatus },
}
