//! What a run records of a call, as pairs of a type and a payload.
//!
//! The host adds the rest of an event: its id, its order, its time, and the cause.

use serde_json::{Map, Value};

use crate::words::words;

words! {
    /// The types of the events that calls of models give.
    pub enum EventKind {
        /// One layer after another was asked for a prompt.
        PromptResolved => "agent.promptResolved",
        /// A prompt was put together.
        PromptComposed => "prompt.composed",
        /// A provider was called, and this is what it counted.
        ProviderUsage => "provider.usage",
        /// The reply is asked for again.
        RetryAttempted => "envelope.retry.attempted",
        /// It is not asked for again.
        RetryExhausted => "envelope.retry.exhausted",
        /// The provider refused.
        Refusal => "envelope.refusal",
        /// The reply was cut off.
        Truncated => "envelope.truncated",
        /// Prose is turned into a document by a call of its own.
        NlToFormatEngaged => "envelope.nlToFormat.engaged",
        /// The reply was read although it was not quite a document.
        RecoveryApplied => "envelope.recovery.applied",
        /// A limit was reached.
        CapBreached => "cap.breached",
        /// A part of what a model thought.
        ReasoningDelta => "agent.reasoning.delta",
        /// What a model thought.
        Reasoned => "agent.reasoned",
        /// A model wants a tool to be called.
        ToolCalled => "agent.toolCalled",
        /// What came of that.
        ToolReturned => "agent.toolReturned",
        /// A part of what a model said.
        OutputChunk => "output.chunk",
        /// Another model is asked than the one that was meant.
        ModelSubstituted => "model.capability.substituted",
        /// No model that could be asked is able to do it.
        ModelInsufficient => "model.capability.insufficient",
        /// A model asks a person.
        ClarificationRequested => "clarification.requested",
        /// Somebody has to answer.
        InterruptRequested => "interrupt.requested",
        /// A line for whoever watches.
        LogAppended => "log.appended",
        /// The node failed.
        NodeFailed => "node.failed",
        /// A replay was refused where the run was not, or the other way round.
        DivergedAtRefusal => "replay.divergedAtRefusal",
    }
}

/// One event, without what the host adds.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEvent {
    /// Its type.
    pub kind: EventKind,
    /// Its payload.
    pub payload: Map<String, Value>,
    /// What it follows from, where that is no event: the correlation id of an envelope.
    pub causation_id: Option<String>,
}

impl RunEvent {
    /// An event of these members; those that are null are left out.
    pub fn new<const N: usize>(kind: EventKind, members: [(&str, Value); N]) -> Self {
        let members = members.into_iter().filter(|(_, value)| !value.is_null());
        let payload = members.map(|(name, value)| (name.to_owned(), value)).collect();
        Self { kind, payload, causation_id: None }
    }
}

/// A limit that was reached, as an event.
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

/// A line for whoever watches, as an event.
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
