//! Triggers by which messages start runs.
//!
//! A trigger of the type `event` listens to a queue or to a stream of its tenant: every message, or every record, starts one run. What the
//! message says reaches the run as the outputs of the node that the trigger names, and as inputs.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Definition;
use crate::id::NodeId;

/// The most triggers of one workflow that listen: each is a reader of its own for as long as the host lives.
pub const MAX_LISTENING: usize = 16;
/// How many bytes the name of a queue, a stream or a consumer may have. A name of dead letters, which is longer, still fits.
pub const MAX_NAME_BYTES: usize = 252;
/// How often a message is tried where nothing is said.
pub const ATTEMPTS: u64 = 5;
/// How often a message may be tried.
pub const MAX_ATTEMPTS: u64 = 100;
/// How long a message that was refused waits before it is tried again, where nothing is said: a second, and twice as long every time.
pub const RETRY_DELAY_MS: u64 = 1000;
/// How long a message that was refused waits at most.
pub const MAX_RETRY_DELAY_MS: u64 = 10 * 60 * 1000;

/// A trigger that is enabled and would never fire. Only a workflow that an earlier version registered has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnservedTrigger {
    pub id: String,
    /// What it would fire on.
    pub kind: UnservedKind,
}

/// What a trigger may wait for that nothing here listens to yet. Each is refused while it is enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnservedKind {
    /// A moment.
    Schedule,
    /// A request from outside.
    Webhook,
}

impl UnservedKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Schedule, Self::Webhook];

    /// The `type` of such a trigger.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Webhook => "webhook",
        }
    }

    /// The capability that a host would need.
    pub const fn capability(self) -> &'static str {
        match self {
            Self::Schedule => "scheduling.supported",
            Self::Webhook => "triggerBridge.supported",
        }
    }

    /// The kind of that `type`.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What a trigger listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A queue: a message is gone once it has started its run.
    Queue,
    /// A stream: a record stays, and the trigger remembers how far it has read.
    Stream,
}

impl SourceKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Queue, Self::Stream];

    /// The `eventType` of a trigger that listens to it.
    pub const fn event_type(self) -> &'static str {
        match self {
            Self::Queue => "queue.message",
            Self::Stream => "stream.record",
        }
    }

    /// What names it, in the configuration of a trigger or of its node.
    pub const fn named_by(self) -> &'static str {
        match self {
            Self::Queue => "topic",
            Self::Stream => "stream",
        }
    }

    /// What a message is called in the data of a trigger.
    pub const fn payload(self) -> &'static str {
        match self {
            Self::Queue => "payload",
            Self::Stream => "record",
        }
    }

    /// What the id of a message is called in the data of a trigger.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Queue => "messageId",
            Self::Stream => "offset",
        }
    }
}

/// A trigger that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    pub id: String,
    /// What it listens to.
    pub kind: SourceKind,
    /// The name of the queue or the stream.
    pub source: String,
    /// Whom it reads as: the name under which its place is remembered, in its workflow alone.
    pub consumer: String,
    /// Whether it reads a stream from its oldest record, and not only what comes after its registration.
    pub from_beginning: bool,
    /// How often a message is tried that the host refuses to start a run for, before it is a dead letter.
    pub max_attempts: u64,
    /// How long such a message waits before it is tried again the first time.
    pub retry_delay_ms: u64,
    /// The node that gives the message to the run.
    pub node_id: Option<NodeId>,
    /// Where in the data of the trigger each input is, as JSON pointers. Without any, the members of the message that are variables are it.
    pub inputs: Option<BTreeMap<String, String>>,
    /// Whether it starts runs, as its author says, and as the state of the workflow says.
    pub enabled: bool,
}

impl Listening {
    /// The data of the trigger: what the node of it gives.
    pub fn data(&self, message_id: &str, payload: Value) -> Map<String, Value> {
        let id = (self.kind.id().to_owned(), Value::from(message_id));
        Map::from_iter([id, (self.kind.payload().to_owned(), payload)])
    }

    /// The inputs of a run that the message starts.
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

    /// How long a message waits that was refused so often.
    pub fn retry_after_ms(&self, attempts: u64) -> u64 {
        let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX).min(32);
        self.retry_delay_ms.saturating_mul(1 << doublings).min(MAX_RETRY_DELAY_MS)
    }
}
