//! The events of a run.

pub mod data;
pub(crate) mod size;
pub mod wire;

use canon::time::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

pub use self::data::{EventData, EventKind, PayloadError};
use crate::id::{NodeId, RunId};

/// One event of a run: a fact that never changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The sequence number: unique in its run, starting at 0, without gaps.
    pub sequence: u64,
    /// The node that the event is about, if any.
    pub node_id: Option<NodeId>,
    /// The typed payload.
    pub data: EventData,
    /// Payload members that this version does not know, because a newer version wrote them.
    pub extra: Map<String, Value>,
    /// When it was recorded.
    pub timestamp: Timestamp,
    /// The id of the event that caused this one, if known.
    pub causation_id: Option<String>,
}

impl Event {
    pub fn kind(&self) -> EventKind {
        self.data.kind()
    }

    /// The payload as JSON, for code that shows or compares events of any kind.
    pub fn payload(&self) -> Map<String, Value> {
        let mut payload = self.data.to_members();
        payload.extend(self.extra.iter().map(|(name, value)| (name.clone(), value.clone())));
        payload
    }
}

/// Serializes the payload of an event.
struct Payload<'e>(&'e Event);

impl Serialize for Payload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The fields are declared in the order of their names. Only additional members require sorting.
        if self.0.extra.is_empty() {
            self.0.data.serialize(serializer)
        } else {
            self.0.payload().serialize(serializer)
        }
    }
}

/// The size of a payload in the log, in bytes.
pub fn payload_bytes(payload: &Map<String, Value>) -> u64 {
    size::of_members(payload)
}

/// The id of an event. It is derived from the run and the sequence number, so it needs no storage.
pub fn event_id(run_id: &RunId, sequence: u64) -> String {
    format!("evt_{run_id}_{sequence}")
}
