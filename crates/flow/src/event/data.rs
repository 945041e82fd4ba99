//! The payload of an event: a type for each kind of event that this program writes.
//!
//! The encoded form is older than the types, so the types follow three rules:
//!
//! * **Order.** Members are written in the order of their names. Fields are declared in that order, and a test compares every kind with the
//!   sorted form.
//! * **Required members.** A member is required if every version wrote it. A known kind without a required member, or with a member of another
//!   type, is a [`PayloadError`] that names the member. Such an event is never skipped, because the state would be wrong. An optional
//!   member without a value is omitted.
//! * **Newer versions.** An event of an unknown kind is an [`EventData::Other`]: it is kept unchanged and does not change the state. An unknown member of a
//!   known kind is kept in [`Event::extra`](super::Event::extra), and written again in its place.
//!
//! Values of users stay a [`Value`]: inputs, outputs, answers, decisions.
//!
//! To add a kind, add a line to the table below and a struct to one of the files of this folder. The fold, masks, streams, traces and
//! replays match exhaustively, so the compiler then reports every place that must handle the kind.

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
        /// The kind of an event: one that this program writes, or any other that a log contains.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $($(#[$doc])* $name,)+
            /// A kind that this program does not write. Its events are kept and do not change the state.
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

            /// Parses the spelling on the wire.
            pub fn parse(text: &str) -> Self {
                match text {
                    $($text => Self::$name,)+
                    other => Self::Other(other.into()),
                }
            }
        }

        /// The payload of an event.
        #[derive(Clone, Debug, PartialEq)]
        pub enum EventData {
            $($(#[$doc])* $name($payload),)+
            /// An event of a newer version.
            Other {
                /// The kind, as spelled on the wire.
                kind: Arc<str>,
                /// The unchanged payload.
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

            /// Reads a payload. Also returns the members that the kind does not have.
            ///
            /// # Errors
            /// A required member is missing, or a member has another type.
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
    RunStarted(run::RunStarted) => "run.started",
    /// The run ended successfully.
    RunCompleted(run::RunCompleted) => "run.completed",
    /// The run ended with an error.
    RunFailed(run::RunFailed) => "run.failed",
    RunCancelled(run::RunCancelled) => "run.cancelled",
    RunPaused(run::RunPaused) => "run.paused",
    /// The run continues after a pause or a restart.
    RunResumed(run::RunResumed) => "run.resumed",
    /// The run pauses as soon as its active nodes have ended.
    PauseRequested(run::PauseRequested) => "interlock.pauseRequested",
    /// An attempt of a node started.
    NodeStarted(node::NodeStarted) => "node.started",
    /// A node ended successfully.
    NodeCompleted(node::NodeCompleted) => "node.completed",
    /// A node failed, after all retries.
    NodeFailed(node::NodeFailed) => "node.failed",
    /// A node waits for an interrupt.
    NodeSuspended(node::NodeSuspended) => "node.suspended",
    /// The interrupt that a node waited for was resolved.
    NodeResumed(node::NodeResumed) => "node.resumed",
    NodeRetried(node::NodeRetried) => "node.retried",
    NodeSkipped(node::NodeSkipped) => "node.skipped",
    NodeCancelled(node::NodeCancelled) => "node.cancelled",
    /// A node started a child run, or a child run started to wait, continued or ended.
    NodeDispatched(node::NodeDispatched) => "node.dispatched",
    /// A person must approve.
    ApprovalRequested(interrupt::ApprovalRequested) => "approval.requested",
    /// A person approved, rejected or refined.
    ApprovalReceived(interrupt::ApprovalReceived) => "approval.received",
    /// A governance gate was granted.
    ApprovalGranted(interrupt::ApprovalGranted) => "approval.granted",
    /// A governance gate was rejected.
    ApprovalRejected(interrupt::ApprovalRejected) => "approval.rejected",
    /// A governance gate was overridden.
    ApprovalOverridden(interrupt::ApprovalOverridden) => "approval.overridden",
    /// A person must answer questions.
    ClarificationRequested(interrupt::ClarificationRequested) => "clarification.requested",
    /// The questions were answered.
    ClarificationResolved(interrupt::ClarificationResolved) => "clarification.resolved",
    /// The run waits for a person or an external event.
    InterruptRequested(interrupt::InterruptRequested) => "interrupt.requested",
    /// The interrupt was answered or timed out.
    InterruptResolved(interrupt::InterruptResolved) => "interrupt.resolved",
    ChannelWritten(value::ChannelWritten) => "channel.written",
    ArtifactCreated(value::ArtifactCreated) => "artifact.created",
    /// A chunk of model output.
    OutputChunk(value::OutputChunk) => "output.chunk",
    /// The value of a variable changed.
    VariableChanged(value::VariableChanged) => "variable.changed",
    /// A log line.
    LogAppended(value::LogAppended) => "log.appended",
    /// A version of a change was pinned for this run.
    VersionPinned(run::VersionPinned) => "version.pinned",
    /// A loop exceeded its iteration limit.
    LoopbackLimit(run::LoopbackLimit) => "workflow.loopback-limit",
    /// A limit was exceeded.
    CapBreached(run::CapBreached) => "cap.breached",
    /// A replay produced other events than its source.
    ReplayDiverged(run::ReplayDiverged) => "replay.diverged",
    /// An agent reported its reasoning.
    AgentReasoned(agent::AgentReasoned) => "agent.reasoned",
    /// A chunk of an agent's reasoning.
    AgentReasoningDelta(agent::AgentReasoningDelta) => "agent.reasoning.delta",
    AgentToolCalled(agent::AgentToolCalled) => "agent.toolCalled",
    /// A tool returned a result to an agent.
    AgentToolReturned(agent::AgentToolReturned) => "agent.toolReturned",
    /// An agent handed off to another agent.
    AgentHandoff(agent::AgentHandoff) => "agent.handoff",
    AgentDecided(agent::AgentDecided) => "agent.decided",
    /// The supervisor decided the next step.
    OrchestratorDecided(agent::OrchestratorDecided) => "runOrchestrator.decided",
    ConversationOpened(conversation::ConversationOpened) => "conversation.opened",
    /// A turn of a conversation.
    ConversationExchanged(conversation::ConversationExchanged) => "conversation.exchanged",
    ConversationClosed(conversation::ConversationClosed) => "conversation.closed",
    /// A step of a handoff to a child run.
    WorkflowChainEvent(dispatch::WorkflowChainEvent) => "core.workflowChain.event",
    /// The confidence of a decision was too low to act on it.
    ConfidenceEscalated(dispatch::ConfidenceEscalated) => "core.workflowChain.confidence-escalated",
    /// Several child runs were started in parallel.
    DispatchFanOut(dispatch::DispatchFanOut) => "core.dispatch.fanOut",
    /// Several child runs were joined.
    DispatchJoin(dispatch::DispatchJoin) => "core.dispatch.join",
    /// No available model has the capabilities that a node requires.
    ModelCapabilityInsufficient(model::ModelCapabilityInsufficient) => "model.capability.insufficient",
    /// The usage of a call to a model provider.
    ProviderUsage(model::ProviderUsage) => "provider.usage",
    /// A model lacks a capability that the node requires, and another model replaces it.
    ModelCapabilitySubstituted(model::ModelCapabilitySubstituted) => "model.capability.substituted",
    /// A model call is retried.
    EnvelopeRetryAttempted(model::EnvelopeRetryAttempted) => "envelope.retry.attempted",
    /// All retries of a model call failed.
    EnvelopeRetryExhausted(model::EnvelopeRetryExhausted) => "envelope.retry.exhausted",
    EnvelopeRefusal(model::EnvelopeRefusal) => "envelope.refusal",
    /// The reply of a model was truncated.
    EnvelopeTruncated(model::EnvelopeTruncated) => "envelope.truncated",
    /// A model was asked to convert its free-form reply into the required format.
    EnvelopeNlToFormatEngaged(model::EnvelopeNlToFormatEngaged) => "envelope.nlToFormat.engaged",
    /// The reply of a model was not valid JSON and was parsed leniently.
    EnvelopeRecoveryApplied(model::EnvelopeRecoveryApplied) => "envelope.recovery.applied",
    /// The prompt of a node was resolved.
    AgentPromptResolved(agent::AgentPromptResolved) => "agent.promptResolved",
    PromptComposed(agent::PromptComposed) => "prompt.composed",
}

impl EventKind {
    /// Whether events of this kind end a run.
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
    /// The members as they are written, sorted by name.
    pub fn to_members(&self) -> Map<String, Value> {
        match serde_json::to_value(self).expect("all member names are strings, so serialization cannot fail")
        {
            Value::Object(members) => members,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                unreachable!("every payload is a struct or a map")
            }
        }
    }
}

/// Deserializes a present member: `null` becomes `Some(Value::Null)`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_parsed_from_its_own_spelling() {
        for kind in EventKind::WRITTEN {
            assert_eq!(EventKind::parse(kind.as_str()), *kind);
        }
        assert_eq!(EventKind::parse("acme.thing").as_str(), "acme.thing");
    }
}
