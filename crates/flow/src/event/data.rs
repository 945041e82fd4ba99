//! What an event says: a type for each kind of event that this program writes.
//!
//! The wire is what it was before there were types, so the types keep three rules:
//!
//! * **Order.** Members are written in the order of their names. Fields are declared in that order, and a test compares every kind with the
//!   sorted form.
//! * **Required members.** A member is required where every version wrote it. A known kind without one, or with one of another type, is a
//!   [`PayloadError`] that names the member, and is never skipped: what cannot be understood must not be folded. Optional members are left out
//!   where there is nothing to say.
//! * **Newer versions.** A kind that this program does not know is [`EventData::Other`], kept to the letter, and folds to nothing. A member that it does not know in a
//!   kind that it knows is kept beside the data, in [`Event::extra`](super::Event::extra), and written back in its place.
//!
//! What users brought in stays a [`Value`]: inputs, outputs, answers, decisions.
//!
//! A new kind is a line in the table below and a struct in one of the files of this folder. The compiler then names every place that has to say what the kind means:
//! the fold, masks, streams, traces and replays match on all of them.

pub mod agent;
pub mod conversation;
pub mod dispatch;
pub mod interrupt;
mod members;
pub mod model;
pub mod node;
mod rfc3339;
pub mod run;
pub mod value;

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

pub use self::members::PayloadError;

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($payload:ty) => $text:literal,)+) => {
        /// The kind of an event: one that this program writes, or any other that a log may hold.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $($(#[$doc])* $name,)+
            /// A kind that this program does not write. It is kept, and folds to nothing.
            Other(Arc<str>),
        }

        impl EventKind {
            /// Every kind that this program writes.
            pub const WRITTEN: &'static [Self] = &[$(Self::$name),+];

            /// The spelling on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)+
                    Self::Other(text) => text,
                }
            }

            /// The kind of that spelling.
            pub fn parse(text: &str) -> Self {
                match text {
                    $($text => Self::$name,)+
                    other => Self::Other(other.into()),
                }
            }
        }

        /// What an event says.
        #[derive(Clone, Debug, PartialEq)]
        pub enum EventData {
            $($(#[$doc])* $name($payload),)+
            /// An event that a newer version wrote.
            Other {
                /// Its kind, as it is spelt.
                kind: Arc<str>,
                /// Its payload, as it is.
                payload: Map<String, Value>,
            },
        }

        impl EventData {
            pub fn kind(&self) -> EventKind {
                match self {
                    $(Self::$name(_) => EventKind::$name,)+
                    Self::Other { kind, .. } => EventKind::Other(Arc::clone(kind)),
                }
            }

            /// The spelling of its kind on the wire.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$name(_) => $text,)+
                    Self::Other { kind, .. } => kind,
                }
            }

            /// Reads a payload. The members that the kind does not have are given back beside it.
            ///
            /// # Errors
            /// When a member that the kind needs is missing, or one is of another type.
            pub fn read(
                kind: EventKind,
                mut payload: Map<String, Value>,
            ) -> Result<(Self, Map<String, Value>), PayloadError> {
                let data = match kind {
                    $(EventKind::$name => Self::$name(members::read(&kind, &mut payload)?),)+
                    EventKind::Other(kind) => return Ok((Self::Other { kind, payload }, Map::new())),
                };
                Ok((data, payload))
            }
        }

        impl Serialize for EventData {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$name(payload) => payload.serialize(serializer),)+
                    Self::Other { payload, .. } => payload.serialize(serializer),
                }
            }
        }

        $(impl From<$payload> for EventData {
            fn from(payload: $payload) -> Self {
                Self::$name(payload)
            }
        })+
    };
}

events! {
    /// The run began.
    RunStarted(run::RunStarted) => "run.started",
    /// The run ended as it should.
    RunCompleted(run::RunCompleted) => "run.completed",
    /// The run ended with an error.
    RunFailed(run::RunFailed) => "run.failed",
    /// The run was ended from outside.
    RunCancelled(run::RunCancelled) => "run.cancelled",
    /// The run was halted for a while.
    RunPaused(run::RunPaused) => "run.paused",
    /// The run goes on after a pause or a restart.
    RunResumed(run::RunResumed) => "run.resumed",
    /// The run is to halt once the nodes that work have ended.
    PauseRequested(run::PauseRequested) => "interlock.pauseRequested",
    /// An attempt of a node began.
    NodeStarted(node::NodeStarted) => "node.started",
    /// A node is done.
    NodeCompleted(node::NodeCompleted) => "node.completed",
    /// A node gave up.
    NodeFailed(node::NodeFailed) => "node.failed",
    /// A node waits for somebody.
    NodeSuspended(node::NodeSuspended) => "node.suspended",
    /// What a node waited for is there.
    NodeResumed(node::NodeResumed) => "node.resumed",
    /// A node will be tried again.
    NodeRetried(node::NodeRetried) => "node.retried",
    /// A node is not needed.
    NodeSkipped(node::NodeSkipped) => "node.skipped",
    /// A node was ended from outside.
    NodeCancelled(node::NodeCancelled) => "node.cancelled",
    /// A node started a child run, or learnt that it waits for somebody, goes on, or ended.
    NodeDispatched(node::NodeDispatched) => "node.dispatched",
    /// Somebody has to approve.
    ApprovalRequested(interrupt::ApprovalRequested) => "approval.requested",
    /// Somebody decided.
    ApprovalReceived(interrupt::ApprovalReceived) => "approval.received",
    /// A governance gate was granted.
    ApprovalGranted(interrupt::ApprovalGranted) => "approval.granted",
    /// A governance gate was rejected.
    ApprovalRejected(interrupt::ApprovalRejected) => "approval.rejected",
    /// A governance gate was overridden.
    ApprovalOverridden(interrupt::ApprovalOverridden) => "approval.overridden",
    /// Somebody has to answer questions.
    ClarificationRequested(interrupt::ClarificationRequested) => "clarification.requested",
    /// The questions were answered.
    ClarificationResolved(interrupt::ClarificationResolved) => "clarification.resolved",
    /// The run waits for something from outside.
    InterruptRequested(interrupt::InterruptRequested) => "interrupt.requested",
    /// What the run waited for is there.
    InterruptResolved(interrupt::InterruptResolved) => "interrupt.resolved",
    /// A channel was written to.
    ChannelWritten(value::ChannelWritten) => "channel.written",
    /// An artifact was made.
    ArtifactCreated(value::ArtifactCreated) => "artifact.created",
    /// A piece of output of a model.
    OutputChunk(value::OutputChunk) => "output.chunk",
    /// A variable has another value.
    VariableChanged(value::VariableChanged) => "variable.changed",
    /// A line for the log.
    LogAppended(value::LogAppended) => "log.appended",
    /// A change was pinned for this run.
    VersionPinned(run::VersionPinned) => "version.pinned",
    /// A loop went round too often.
    LoopbackLimit(run::LoopbackLimit) => "workflow.loopback-limit",
    /// A limit was reached.
    CapBreached(run::CapBreached) => "cap.breached",
    /// A replay did not do what was recorded.
    ReplayDiverged(run::ReplayDiverged) => "replay.diverged",
    /// An agent told its reasoning.
    AgentReasoned(agent::AgentReasoned) => "agent.reasoned",
    /// A piece of an agent's reasoning.
    AgentReasoningDelta(agent::AgentReasoningDelta) => "agent.reasoning.delta",
    /// An agent called a tool.
    AgentToolCalled(agent::AgentToolCalled) => "agent.toolCalled",
    /// A tool answered an agent.
    AgentToolReturned(agent::AgentToolReturned) => "agent.toolReturned",
    /// An agent handed over to another.
    AgentHandoff(agent::AgentHandoff) => "agent.handoff",
    AgentDecided(agent::AgentDecided) => "agent.decided",
    /// The supervisor decided what is next.
    OrchestratorDecided(agent::OrchestratorDecided) => "runOrchestrator.decided",
    /// A conversation began.
    ConversationOpened(conversation::ConversationOpened) => "conversation.opened",
    /// A turn of a conversation.
    ConversationExchanged(conversation::ConversationExchanged) => "conversation.exchanged",
    /// A conversation ended.
    ConversationClosed(conversation::ConversationClosed) => "conversation.closed",
    /// A step of a handoff to a child run.
    WorkflowChainEvent(dispatch::WorkflowChainEvent) => "core.workflowChain.event",
    /// A decision was too unsure to act on.
    ConfidenceEscalated(dispatch::ConfidenceEscalated) => "core.workflowChain.confidence-escalated",
    /// Several child runs were started at once.
    DispatchFanOut(dispatch::DispatchFanOut) => "core.dispatch.fanOut",
    /// Several child runs were joined.
    DispatchJoin(dispatch::DispatchJoin) => "core.dispatch.join",
    /// A model cannot do what a node needs.
    ModelCapabilityInsufficient(model::ModelCapabilityInsufficient) => "model.capability.insufficient",
    /// What a call to a provider used.
    ProviderUsage(model::ProviderUsage) => "provider.usage",
    /// A model of the host cannot do what the node needs, and another one can.
    ModelCapabilitySubstituted(model::ModelCapabilitySubstituted) => "model.capability.substituted",
    /// A model is asked again.
    EnvelopeRetryAttempted(model::EnvelopeRetryAttempted) => "envelope.retry.attempted",
    /// A model was asked as often as it may be.
    EnvelopeRetryExhausted(model::EnvelopeRetryExhausted) => "envelope.retry.exhausted",
    /// A model refused.
    EnvelopeRefusal(model::EnvelopeRefusal) => "envelope.refusal",
    /// The answer of a model was cut off.
    EnvelopeTruncated(model::EnvelopeTruncated) => "envelope.truncated",
    /// A model was asked to put its own words into a form.
    EnvelopeNlToFormatEngaged(model::EnvelopeNlToFormatEngaged) => "envelope.nlToFormat.engaged",
    /// The answer of a model was read with some leniency.
    EnvelopeRecoveryApplied(model::EnvelopeRecoveryApplied) => "envelope.recovery.applied",
    /// It was decided which prompt a node uses.
    AgentPromptResolved(agent::AgentPromptResolved) => "agent.promptResolved",
    /// A prompt was put together.
    PromptComposed(agent::PromptComposed) => "prompt.composed",
}

impl EventKind {
    /// Whether nothing can follow.
    pub const fn is_terminal(&self) -> bool {
        matches!(self, Self::RunCompleted | Self::RunFailed | Self::RunCancelled)
    }
}

impl std::fmt::Display for EventKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl EventData {
    /// The members that are written, in the order of their names.
    pub fn to_members(&self) -> Map<String, Value> {
        match serde_json::to_value(self).expect("names are texts, so nothing can be refused") {
            Value::Object(members) => members,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                unreachable!("every payload is a struct or a map")
            }
        }
    }
}

/// Reads a member that is there: null is a value like any other.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_back_as_itself() {
        for kind in EventKind::WRITTEN {
            assert_eq!(EventKind::parse(kind.as_str()), *kind);
        }
        assert_eq!(EventKind::parse("acme.thing").as_str(), "acme.thing");
    }
}
