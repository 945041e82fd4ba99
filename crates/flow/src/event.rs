//! What happened in a run, one fact at a time.

mod kind;
pub(crate) mod size;
pub mod wire;

use canon::time::Timestamp;
use serde_json::{Map, Value};

pub use self::kind::EventKind;
use crate::id::{NodeId, RunId};

/// One fact of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its place: dense, from 0, unique in its run.
    pub sequence: u64,
    /// What kind of fact.
    pub kind: EventKind,
    /// The node that it is about, where it is about one.
    pub node_id: Option<NodeId>,
    /// The rest.
    pub payload: Map<String, Value>,
    /// When it was recorded.
    pub timestamp: Timestamp,
    /// The event that caused it, where that is known, as its id.
    pub causation_id: Option<String>,
}

/// How many bytes a payload takes in the log.
pub fn payload_bytes(payload: &Map<String, Value>) -> u64 {
    size::of_members(payload)
}

/// The id of an event: derived from its run and its place, so that it is the same whenever it is asked for.
pub fn event_id(run_id: &RunId, sequence: u64) -> String {
    format!("evt_{run_id}_{sequence}")
}
