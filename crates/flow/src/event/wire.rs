//! Events as the bytes that are stored, streamed and polled.
//!
//! An event is serialised once, when it is appended. A reader copies the bytes.

use canon::json;
use canon::time::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Event, EventKind, event_id};
use crate::id::{NodeId, RunId};

/// The version of the log's format that this program writes.
pub const LOG_SCHEMA_VERSION: u32 = 2;

/// An event as it is written. The members are in the order of their names, as everywhere.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'e> {
    #[serde(skip_serializing_if = "Option::is_none")]
    causation_id: Option<&'e str>,
    event_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<&'e str>,
    payload: &'e Map<String, Value>,
    run_id: &'e str,
    sequence: u64,
    timestamp: String,
    r#type: &'e str,
}

/// The JSON text of an event.
pub fn encode(run_id: &RunId, event: &Event) -> String {
    let written = Written {
        causation_id: event.causation_id.as_deref(),
        event_id: event_id(run_id, event.sequence),
        node_id: event.node_id.as_ref().map(NodeId::as_str),
        payload: &event.payload,
        run_id: run_id.as_str(),
        sequence: event.sequence,
        timestamp: event.timestamp.to_rfc3339(),
        r#type: event.kind.as_str(),
    };
    let mut text = Vec::with_capacity(512);
    serde_json::to_writer(&mut text, &written).expect("names are texts, so nothing can be refused");
    String::from_utf8(text).expect("JSON is text")
}

/// What is wrong with the bytes of an event.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is no JSON.
    #[error("the event is no JSON")]
    Json(#[from] json::ReadError),
    /// A member is missing or of another type.
    #[error("the event has no usable `{0}`")]
    Member(&'static str),
}

/// Reads an event back.
///
/// # Errors
/// When it is not one that [`encode`] wrote, or that a later version wrote with more members.
pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
    let Value::Object(mut document) = json::read(bytes, &json::Limits::default())? else {
        return Err(DecodeError::Member("eventId"));
    };
    let text = |document: &Map<String, Value>, name: &'static str| {
        document.get(name).and_then(Value::as_str).map(str::to_owned).ok_or(DecodeError::Member(name))
    };
    Ok(Event {
        sequence: document.get("sequence").and_then(Value::as_u64).ok_or(DecodeError::Member("sequence"))?,
        kind: EventKind::parse(&text(&document, "type")?),
        node_id: document.get("nodeId").and_then(Value::as_str).map(NodeId::new),
        timestamp: Timestamp::parse(&text(&document, "timestamp")?)
            .ok_or(DecodeError::Member("timestamp"))?,
        causation_id: text(&document, "causationId").ok(),
        payload: match document.remove("payload") {
            Some(Value::Object(payload)) => payload,
            _ => return Err(DecodeError::Member("payload")),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_back_as_itself() {
        let mut payload = Map::new();
        payload.insert("nodeId".into(), "a".into());
        let event = Event {
            sequence: 7,
            kind: EventKind::NodeStarted,
            node_id: Some(NodeId::new("a")),
            payload,
            timestamp: Timestamp(1_793_000_000_123),
            causation_id: Some("evt_r_6".into()),
        };
        assert_eq!(decode(encode(&RunId::new("r"), &event).as_bytes()).unwrap(), event);
    }
}
