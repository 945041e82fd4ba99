//! Triggers that start runs for messages.
//!
//! A trigger of type `event` listens to a queue or a stream of its tenant. Every message or record starts one run. The run gets the
//! message as the outputs of the node that the trigger names, and as inputs.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Definition;
use crate::id::NodeId;

/// The maximum number of triggers of a workflow that listen for messages. Each of them is a permanent reader.
pub const MAX_MESSAGE_TRIGGERS: usize = 16;
/// The maximum length of the name of a queue, a stream or a consumer, in bytes. The name with the suffix of dead letters still fits.
pub const MAX_NAME_BYTES: usize = 252;
/// The default number of attempts for a message.
pub const ATTEMPTS: u64 = 5;
/// The maximum number of attempts for a message.
pub const MAX_ATTEMPTS: u64 = 100;
/// The default delay before a refused message is retried, in milliseconds. It doubles with every attempt.
pub const RETRY_DELAY_MS: u64 = 1000;
/// The maximum delay before a refused message is retried, in milliseconds.
pub const MAX_RETRY_DELAY_MS: u64 = 10 * 60 * 1000;

/// An enabled trigger that never fires. Only a workflow that an earlier version registered has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnservedTrigger {
    pub id: String,
    /// What the trigger waits for.
    pub kind: UnservedKind,
}

/// The kinds of triggers that this program does not support. An enabled trigger of such a kind is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnservedKind {
    /// A time.
    Schedule,
    /// An HTTP request.
    Webhook,
}

impl UnservedKind {
    pub const ALL: [Self; 2] = [Self::Schedule, Self::Webhook];

    /// The `type` of the trigger.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Webhook => "webhook",
        }
    }

    /// The capability that a host requires for it.
    pub const fn capability(self) -> &'static str {
        match self {
            Self::Schedule => "scheduling.supported",
            Self::Webhook => "triggerBridge.supported",
        }
    }

    /// Parses the `type` of a trigger.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// The source of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A queue: a message is removed after it has started its run.
    Queue,
    /// A stream: a record stays, and the position of the trigger is stored.
    Stream,
}

impl SourceKind {
    pub const ALL: [Self; 2] = [Self::Queue, Self::Stream];

    /// The `eventType` of a trigger with this source.
    pub const fn event_type(self) -> &'static str {
        match self {
            Self::Queue => "queue.message",
            Self::Stream => "stream.record",
        }
    }

    /// The configuration member that names the source, of a trigger or of its node.
    pub const fn named_by(self) -> &'static str {
        match self {
            Self::Queue => "topic",
            Self::Stream => "stream",
        }
    }

    /// The member for the contents of a message, in the data of a trigger.
    pub const fn payload(self) -> &'static str {
        match self {
            Self::Queue => "payload",
            Self::Stream => "record",
        }
    }

    /// The member for the id of a message, in the data of a trigger.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Queue => "messageId",
            Self::Stream => "offset",
        }
    }
}

/// A trigger that listens for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageTrigger {
    pub id: String,
    /// What the trigger listens to.
    pub kind: SourceKind,
    /// The name of the queue or the stream.
    pub source: String,
    /// The name of the consumer, unique in its workflow. The position of the trigger is stored under it.
    pub consumer: String,
    /// Whether the trigger reads a stream from its oldest record, instead of only records that are added after its registration.
    pub from_beginning: bool,
    /// How often the host tries to start a run for a message before the message becomes a dead letter.
    pub max_attempts: u64,
    /// The delay before the first retry, in milliseconds.
    pub retry_delay_ms: u64,
    /// The node that outputs the message.
    pub node_id: Option<NodeId>,
    /// For each input, a JSON pointer into the data of the trigger. If `None`, the members of the message that are variables become inputs.
    pub inputs: Option<BTreeMap<String, String>>,
    /// Whether it starts runs: its author enabled it, and the workflow is active.
    pub enabled: bool,
}

impl MessageTrigger {
    /// The data of the trigger: the outputs of its node.
    pub fn data(&self, message_id: &str, payload: Value) -> Map<String, Value> {
        let id = (self.kind.id().to_owned(), Value::from(message_id));
        Map::from_iter([id, (self.kind.payload().to_owned(), payload)])
    }

    /// The inputs of a run that a message starts.
    pub fn inputs(&self, definition: &Definition, data: &Map<String, Value>) -> Map<String, Value> {
        match &self.inputs {
            Some(mapped) => {
                let found = |pointer: &str| {
                    let mut steps = pointer.splitn(3, '/').skip(1);
                    let member = data.get(steps.next()?)?;
                    steps.next().map_or(Some(member), |rest| member.pointer(&format!("/{rest}")))
                };
                let found = mapped.iter().map(|(name, pointer)| (name, found(pointer)));
                found.filter_map(|(name, value)| Some((name.clone(), value?.clone()))).collect()
            }
            None => {
                let message = data.get(self.kind.payload()).and_then(Value::as_object);
                let variables = definition.variables.iter().map(|variable| &variable.name);
                let found = variables.filter_map(|name| Some((name.clone(), message?.get(name)?.clone())));
                found.collect()
            }
        }
    }

    /// The delay before the next attempt, after a number of attempts.
    pub fn retry_after_ms(&self, attempts: u64) -> u64 {
        let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX).min(32);
        self.retry_delay_ms.saturating_mul(1 << doublings).min(MAX_RETRY_DELAY_MS)
    }
}
