//! What happened in a run, one fact at a time.

pub mod data;
pub(crate) mod size;
pub mod wire;

use canon::time::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

pub use self::data::{EventData, EventKind, PayloadError};
use crate::id::{NodeId, RunId};

/// One fact of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its place: dense, from 0, unique in its run.
    pub sequence: u64,
    /// The node that it is about, where it is about one.
    pub node_id: Option<NodeId>,
    /// What it says.
    pub data: EventData,
    /// The members of its payload that this version does not know. A newer one wrote them.
    pub extra: Map<String, Value>,
    /// When it was recorded.
    pub timestamp: Timestamp,
    /// The event that caused it, where that is known, as its id.
    pub causation_id: Option<String>,
}

impl Event {
    /// What kind of fact it is.
    pub fn kind(&self) -> EventKind {
        self.data.kind()
    }

    /// Its payload as JSON, for those who show or compare events without regard to their kind.
    pub fn payload(&self) -> Map<String, Value> {
        let mut payload = self.data.to_members();
        payload.extend(self.extra.iter().map(|(name, value)| (name.clone(), value.clone())));
        payload
    }
}

/// The payload of an event, to be written.
struct Payload<'e>(&'e Event);

impl Serialize for Payload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The fields are in the order of their names. With others between them they have to be sorted.
        if self.0.extra.is_empty() {
            self.0.data.serialize(serializer)
        } else {
            self.0.payload().serialize(serializer)
        }
    }
}

/// How many bytes a payload takes in the log.
pub fn payload_bytes(payload: &Map<String, Value>) -> u64 {
    size::of_members(payload)
}

/// The id of an event: derived from its run and its place, so that it is the same whenever it is asked for.
pub fn event_id(run_id: &RunId, sequence: u64) -> String {
    format!("evt_{run_id}_{sequence}")
}
