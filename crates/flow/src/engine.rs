//! What a run does next.
//!
//! [`decide`] is given the state of a run and one [`Input`]. It adds events until nothing more can
//! happen without time, an effect or a person, and says what the host has to do: that, and nothing else,
//! is what an append holds.
//!
//! ```text
//! turn     one input: emits events, each folded as it is made, and asks for effects
//! drain    from what is ready to what has ended, attempts included; what is ready is in state::schedule
//! nodes/   what each type of node does, a file per family
//! ask      interrupts: raised, answered, overdue; whether an answer fits is in crate::interrupt
//! children child runs, with mapping          halt     pause, resume, cancel, fail
//! guide    guided sessions of agents         handoff  what agents are handed and give back
//! recover  going on after a stop or a fork    replay   repeating a run from its log
//! told     what the host tells while it does the work of a node
//! inherit  what a fork takes over beside the log
//! budget   what one decision may compute and record
//! caps     limits    bounds sizes of values   ports  inputs of nodes   ids      derived, never drawn
//! ```

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

pub use self::guide::{Deliverable, Equipment, Guide, GuideFailure, GuideResult, ManifestSource, Upstream};
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

/// What is around a run: the workflows that it may start, and the agents that stand behind workflows.
///
/// It is asked while a run is decided on, and never while one is repeated: the log says what was answered then.
pub trait Children {
    /// Whether there is a workflow of that id for the tenant of the run.
    fn exists(&self, workflow_id: &WorkflowId) -> bool;

    /// The agent that stands behind a workflow, where one does: see [`Definition::agent_id`].
    fn agent(&self, _workflow_id: &WorkflowId) -> Option<String> {
        None
    }

    /// Whether the host talks with people, rather than asking them one question.
    fn converses(&self) -> bool {
        true
    }

    /// Whether the host serves mock nodes, for conformance suites. One whose seams are off does not.
    fn mocks(&self) -> bool {
        true
    }

    /// How sure a decision of an agent has to be, where its pack says so.
    fn threshold(&self, _agent_id: &str) -> Option<f64> {
        None
    }

    /// Holds what an agent is handed to the schema that its pack has for it. An agent that is not installed takes anything.
    ///
    /// # Errors
    /// Where and how it is not as the schema says, in a sentence that does not repeat the value.
    fn check_task(&self, _agent_id: &str, _task: &Value) -> Result<(), String> {
        Ok(())
    }

    /// Holds what an agent gives back to the schema that its pack has for it.
    ///
    /// # Errors
    /// As for [`Children::check_task`].
    fn check_return(&self, _agent_id: &str, _returned: &Value) -> Result<(), String> {
        Ok(())
    }
}

impl<F: Fn(&WorkflowId) -> bool> Children for F {
    fn exists(&self, workflow_id: &WorkflowId) -> bool {
        self(workflow_id)
    }
}

/// Works out what follows from an input: every event that can follow without time, an effect or a person.
///
/// The events are folded into `state` already. An input that is late, such as a timer of a node that ended, adds nothing.
///
/// # Errors
/// When the input cannot be taken. The state is then as it was.
pub fn decide(
    definition: &Definition,
    state: &mut RunState,
    input: Input,
    now: Timestamp,
    limits: &Limits,
    children: &dyn Children,
) -> Result<Decision, Refusal> {
    let mut turn = Turn::new(definition, state, now, limits, children);
    turn.take(input)?;
    Ok(turn.finish())
}

/// Something that happened to a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// It was created, and begins with [`Input::Create`]. The first input of a run that is created together with the event of its parent
    /// that names it.
    Begin,
    /// It was created, or begins after [`Input::Begin`].
    Create,
    /// The host took it over after a stop: what was under way is begun again.
    Recover,
    /// The events before the place of a fork were copied: it goes on from there.
    Fork,
    /// The time of a node's timer has come: a delay, a retry, the deadline of an interrupt.
    TimerDue { timer: TimerKey },
    /// The run has taken as long as it may.
    RunDeadline,
    /// Something happened while an effect is being made, such as the first words of a model. It decides nothing.
    ActivityTells {
        /// The node that asked for it.
        node_id: NodeId,
        /// Which of its effects.
        ordinal: u32,
        /// What happened, in order.
        told: Vec<Reported>,
    },
    /// An effect was made, or failed.
    ActivityDone {
        /// The node that asked for it.
        node_id: NodeId,
        /// Which of its effects.
        ordinal: u32,
        /// What happened meanwhile, in order.
        told: Vec<Reported>,
        /// What came of it.
        outcome: Result<Value, crate::state::RunError>,
    },
    /// A child ended. A run that is paused lets this pass, and asks for the child again when it goes on:
    /// to start a child that is over is to tell its end. So for effects.
    ChildEnded {
        /// The child.
        run_id: RunId,
        status: RunStatus,
        /// Its variables at the end, for output mappings.
        variables: Map<String, Value>,
        /// Why, where it failed.
        error: Option<crate::state::RunError>,
    },
    /// A child waits for somebody, or goes on. A run that is paused lets this pass, as it does the end of a child.
    ChildWaits {
        /// The child.
        run_id: RunId,
        /// What it waits for; [`RunStatus::Running`] where it goes on.
        status: RunStatus,
    },
    /// A child could not be started.
    ChildRefused {
        /// The child.
        run_id: RunId,
        error: crate::state::RunError,
    },
    /// The session of a guided node is there: the node waits for it from now on. A run that is paused lets this pass, and asks
    /// for the session again when it goes on: to start one that is there is to find it. So for its end.
    GuideStarted {
        /// The node that asked for it.
        node_id: NodeId,
        session_id: String,
    },
    /// The session of a guided node came to its end, or to none.
    GuideEnded {
        /// The node that asked for it.
        node_id: NodeId,
        session_id: String,
        /// What came of it.
        outcome: Result<GuideResult, GuideFailure>,
    },
    /// Somebody answered an interrupt.
    Resolve {
        /// The node that waits.
        node_id: NodeId,
        /// The interrupt that is meant; nothing where whichever the node waits for is.
        interrupt_id: Option<InterruptId>,
        /// The answer.
        resume_value: Value,
        /// Who, an opaque name.
        by: Principal,
        /// The roles and scopes that the caller has, for gates that ask for one.
        grants: Vec<String>,
        /// How it came.
        via: Via,
    },
    /// Somebody sets variables from outside, as a test of a host does.
    Assign { variables: Map<String, Value> },
    /// Somebody wants it to end.
    Cancel {
        reason: Option<String>,
        by: Principal,
        /// The parent whose end this follows, for a cascade.
        parent_run_id: Option<RunId>,
    },
    /// Somebody wants it to halt.
    Pause {
        reason: Option<String>,
        /// What happens to the node that works.
        policy: DrainPolicy,
    },
    /// Somebody wants it to go on.
    Resume { reason: Option<String> },
}

/// What happens to the nodes that work when a run is paused. No other node begins either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainPolicy {
    /// The run is paused at once. The host brings an effect that was begun to its end, because nobody can undo it, and what came of it is
    /// recorded when the run goes on.
    Immediate,
    /// They work on to their end, which is recorded, and then the run is paused.
    #[default]
    DrainCurrentNode,
}

/// What a timer is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerKey {
    /// A node's own: a delay, or the pause before another attempt.
    Node { node_id: NodeId, iteration: u32, attempt: u32 },
    /// The deadline of an interrupt.
    Interrupt { interrupt_id: InterruptId },
    /// The deadline of the run.
    Run,
}

/// Something that the host has to do once the events are durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Wake the run at that moment.
    SetTimer { timer: TimerKey, at: Timestamp },
    /// The timer is not needed any more.
    ClearTimer { timer: TimerKey },
    /// Start a child run.
    StartChild(StartChild),
    /// End a child run.
    CancelChild { run_id: RunId },
    /// Make an effect, once, under its layer-2 identity.
    Activity(Activity),
    /// Equip an agent and start a guided session, once; or wait for the one that was started.
    Guide(Box<Guide>),
    /// A guided session is not waited for any more.
    EndGuide {
        /// The node that waited.
        node_id: NodeId,
        session_id: String,
    },
    /// Somebody is needed: call back, where the run was created with an address.
    InterruptRaised {
        /// The node that waits.
        node_id: NodeId,
    },
    /// An interrupt is over, one way or another.
    InterruptClosed { interrupt_id: InterruptId },
    /// An artifact to keep.
    StoreArtifact { artifact_id: ArtifactId, document: Value },
}

/// A child to start.
#[derive(Clone, Debug, PartialEq)]
pub struct StartChild {
    /// Its id, derived from the parent, the node and the place, so that starting it twice starts it once.
    pub run_id: RunId,
    pub workflow_id: WorkflowId,
    pub inputs: Map<String, Value>,
    /// What it is linked to.
    pub parent: crate::run::Parent,
}

/// An effect to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Activity {
    /// The node that asks for it.
    pub node_id: NodeId,
    /// Which of its effects: see [`NodeState::ordinal`](crate::state::NodeState::ordinal).
    pub ordinal: u32,
    /// The identity under which it is made at most once.
    pub logical_invocation_id: EffectId,
    /// What to do.
    pub request: ActivityRequest,
}

/// The effects that nodes can ask for.
#[derive(Clone, Debug, PartialEq)]
pub enum ActivityRequest {
    /// Look up a secret and give its digest and length, never the value.
    SecretFingerprint { secret_id: String },
    /// Do the work of a node.
    Call(Box<Call>),
    /// Something that a test can count: adds one to a counter of the run.
    Count {
        /// Which counter.
        name: String,
    },
}

/// The work of a node that the host does.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The type of the node.
    pub type_id: String,
    /// What the author configured.
    pub config: Map<String, Value>,
    /// What the node was given.
    pub inputs: Map<String, Value>,
    /// The variables of the run when it was asked for.
    pub variables: Map<String, Value>,
    /// The channels of the run when it was asked for, as the node finds them. Only those who bring nodes of packs get any.
    pub channels: crate::channel::ChannelView,
    /// What the caller of the run configured.
    pub configurable: Map<String, Value>,
    /// What the caller of the run said about it.
    pub metadata: Map<String, Value>,
    /// The agent that the node is pinned to.
    pub agent: Option<Value>,
    /// The prompts that the workflow falls back on, by what they are for.
    pub prompt_refs: Option<Value>,
    pub attempt: u32,
    /// Whether the run was created with a key for tests.
    pub is_test: bool,
    /// Which envelopes of a model the node takes, as its author says.
    pub envelope_contract: Option<Value>,
    /// How often the work may ask people.
    pub clarification_rounds: u32,
    /// What the node goes on with, where it waited for somebody.
    pub resumption: Option<Resumption>,
}

/// The answer that a node waited for in the middle of its work.
#[derive(Clone, Debug, PartialEq)]
pub struct Resumption {
    /// The identity of the work that ended by waiting.
    pub invocation: EffectId,
    /// The answer.
    pub value: Value,
}

/// What followed from an input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The events, in order, already folded into the state.
    pub events: Vec<Event>,
    /// What the host has to do once they are durable.
    pub effects: Vec<Effect>,
    pub before: RunStatus,
}

/// Why an input was not taken. The state is as it was.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// There is no interrupt at that node.
    #[error("nothing is pending at that node")]
    NoInterrupt,
    /// The interrupt was resolved already.
    #[error("the interrupt was resolved already")]
    AlreadyResolved,
    /// The interrupt ended with its run.
    #[error("the interrupt ended with its run")]
    InterruptGone,
    /// The answer is not one that was asked for.
    #[error("{message}")]
    BadAnswer {
        /// What is wrong with it.
        message: String,
        /// More.
        details: Value,
        /// Whether it is well formed and only does not match, as with a correlation.
        semantic: bool,
    },
    /// The interrupt takes no answer this way, or from this caller.
    #[error("{message}")]
    Forbidden { message: String },
    /// Nobody answers this interrupt: it ends with a guided session.
    #[error(
        "the node waits for guided session {session_id}, and nobody answers in its place; continue or cancel it"
    )]
    Guided { session_id: String },
    /// The run is paused already, or will be once the nodes that work have ended.
    #[error("{}", if *.draining { "the run is being paused: it halts once its running nodes have ended" } else { "the run is paused" })]
    Paused {
        /// Since when, or when it was asked for.
        since: Timestamp,
        /// Whether nodes still work.
        draining: bool,
    },
    /// The state of the run does not allow it.
    #[error("the run is {status}")]
    Conflict {
        /// The state.
        status: RunStatus,
    },
}
