//! Run events about model calls, as pairs of type and payload.
//!
//! The host adds the id, sequence number, time and cause.

use serde_json::{Map, Value};

use crate::wire_enum::wire_enum;

wire_enum! {
    /// The types of events that model calls emit.
    pub enum EventKind {
        /// A prompt was resolved through the layers.
        PromptResolved => "agent.promptResolved",
        /// A prompt was composed from its template.
        PromptComposed => "prompt.composed",
        /// A provider was called; this is the usage.
        ProviderUsage => "provider.usage",
        /// The reply is requested again.
        RetryAttempted => "envelope.retry.attempted",
        RetryExhausted => "envelope.retry.exhausted",
        /// The provider refused.
        Refusal => "envelope.refusal",
        /// The reply was truncated.
        Truncated => "envelope.truncated",
        /// A formatting call converts prose to a document.
        NlToFormatEngaged => "envelope.nlToFormat.engaged",
        /// A document was recovered from a reply with other text.
        RecoveryApplied => "envelope.recovery.applied",
        /// A limit was reached.
        CapBreached => "cap.breached",
        /// A chunk of the model's reasoning.
        ReasoningDelta => "agent.reasoning.delta",
        /// The complete reasoning.
        Reasoned => "agent.reasoned",
        /// The model requested a tool call.
        ToolCalled => "agent.toolCalled",
        /// The result of the tool call.
        ToolReturned => "agent.toolReturned",
        /// A chunk of the model's output.
        OutputChunk => "output.chunk",
        /// A fallback model is used.
        ModelSubstituted => "model.capability.substituted",
        /// Neither the model nor its fallback has the required capabilities.
        ModelInsufficient => "model.capability.insufficient",
        /// The model asks a person.
        ClarificationRequested => "clarification.requested",
        /// The run waits for a person.
        InterruptRequested => "interrupt.requested",
        LogAppended => "log.appended",
        NodeFailed => "node.failed",
        /// A replay was refused where the run was not, or the reverse.
        DivergedAtRefusal => "replay.divergedAtRefusal",
    }
}

/// An event without the attributes that the host adds.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEvent {
    pub kind: EventKind,
    pub payload: Map<String, Value>,
    /// The cause, if it is not an event: the correlation id of an envelope.
    pub causation_id: Option<String>,
}

impl RunEvent {
    /// Creates an event. Members that are null are left out.
    pub fn new<const N: usize>(kind: EventKind, members: [(&str, Value); N]) -> Self {
        let members = members.into_iter().filter(|(_, value)| !value.is_null());
        let payload = members.map(|(name, value)| (name.to_owned(), value)).collect();
        Self { kind, payload, causation_id: None }
    }
}

pub fn cap_breached(kind: &str, limit: u64, observed: u64, node_id: Option<&str>) -> RunEvent {
    RunEvent::new(
        EventKind::CapBreached,
        [
            ("kind", kind.into()),
            ("limit", limit.into()),
            ("observed", observed.into()),
            ("nodeId", node_id.into()),
        ],
    )
}

/// A `log.appended` event.
pub fn log(level: &str, message: String, node_id: Option<&str>, fields: Map<String, Value>) -> RunEvent {
    let fields = if fields.is_empty() { Value::Null } else { Value::Object(fields) };
    RunEvent::new(
        EventKind::LogAppended,
        [
            ("level", level.into()),
            ("message", message.into()),
            ("nodeId", node_id.into()),
            ("fields", fields),
        ],
    )
}
