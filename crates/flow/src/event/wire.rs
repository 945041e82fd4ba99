//! The JSON text of events, as stored, streamed and polled.
//!
//! An event is serialized once, when it is appended. Readers get copies of these bytes.

use canon::json;
use canon::time::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Event, EventData, EventKind, Payload, PayloadError, event_id};
use crate::id::{NodeId, RunId};

/// The version of the log format that this program writes.
pub const LOG_SCHEMA_VERSION: u32 = 2;

/// The JSON object of an event. The fields are sorted by their JSON names, like in all stored JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'e, P> {
    #[serde(skip_serializing_if = "Option::is_none")]
    causation_id: Option<&'e str>,
    event_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<&'e NodeId>,
    payload: P,
    run_id: &'e RunId,
    sequence: u64,
    timestamp: String,
    r#type: &'e str,
}

/// The JSON text of an event.
pub fn encode(run_id: &RunId, event: &Event) -> String {
    encode_with(run_id, event, Payload(event))
}

/// The JSON text of an event, with another payload.
///
/// A caller that changes a payload, for example to hide a secret, must keep it readable as one of its kind.
pub fn encode_payload(run_id: &RunId, event: &Event, payload: &Map<String, Value>) -> String {
    encode_with(run_id, event, payload)
}

fn encode_with(run_id: &RunId, event: &Event, payload: impl Serialize) -> String {
    let written = Written {
        causation_id: event.causation_id.as_deref(),
        event_id: event_id(run_id, event.sequence),
        node_id: event.node_id.as_ref(),
        payload,
        run_id,
        sequence: event.sequence,
        timestamp: event.timestamp.to_rfc3339(),
        r#type: event.data.name(),
    };
    let mut text = Vec::with_capacity(512);
    serde_json::to_writer(&mut text, &written)
        .expect("all member names are strings, so serialization cannot fail");
    String::from_utf8(text).expect("serde_json writes UTF-8")
}

/// Why the bytes of an event cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not JSON.
    #[error("the event is not JSON")]
    Json(#[from] json::ReadError),
    /// A member is missing or has another type.
    #[error("the event has no valid `{0}`")]
    Member(&'static str),
    /// The payload does not match the kind.
    #[error(transparent)]
    Payload(#[from] PayloadError),
}

/// An event with an untyped payload. It is used for displayed events, from which required members may have been removed.
#[derive(Clone, Debug, PartialEq)]
pub struct RawEvent {
    pub sequence: u64,
    /// What kind of fact.
    pub kind: EventKind,
    /// The node that the event is about, if any.
    pub node_id: Option<NodeId>,
    /// The visible part of the payload.
    pub payload: Map<String, Value>,
    /// When it was recorded.
    pub timestamp: Timestamp,
    /// The id of the event that caused this one, if known.
    pub causation_id: Option<String>,
}

impl From<&Event> for RawEvent {
    fn from(event: &Event) -> Self {
        Self {
            sequence: event.sequence,
            kind: event.kind(),
            node_id: event.node_id.clone(),
            payload: event.payload(),
            timestamp: event.timestamp,
            causation_id: event.causation_id.clone(),
        }
    }
}

impl RawEvent {
    /// The message of the error that the event reports, if it reports one.
    pub fn error_message(&self) -> Option<&str> {
        self.payload.get("error")?.get("message")?.as_str()
    }

    /// The outputs of a run or node that completed. Outputs that are masked as a whole are a string.
    pub fn into_outputs(mut self) -> Option<Value> {
        self.payload.remove("outputs")
    }
}

/// Reads an event without reading its payload.
///
/// # Errors
/// The bytes are not JSON, or a member other than the payload is invalid.
pub fn decode_raw(bytes: &[u8]) -> Result<RawEvent, DecodeError> {
    let Value::Object(mut document) = json::read(bytes, &json::Limits::default())? else {
        return Err(DecodeError::Member("eventId"));
    };
    let mut text = |name: &'static str| match document.remove(name) {
        Some(Value::String(text)) => Some(text),
        Some(_) | None => None,
    };
    let kind = text("type").ok_or(DecodeError::Member("type"))?;
    let timestamp = text("timestamp").and_then(|text| Timestamp::parse(&text));
    let (node_id, causation_id) = (text("nodeId"), text("causationId"));
    let Some(Value::Object(payload)) = document.remove("payload") else {
        return Err(DecodeError::Member("payload"));
    };
    Ok(RawEvent {
        sequence: document.get("sequence").and_then(Value::as_u64).ok_or(DecodeError::Member("sequence"))?,
        kind: EventKind::parse(&kind),
        node_id: node_id.map(NodeId::new),
        payload,
        timestamp: timestamp.ok_or(DecodeError::Member("timestamp"))?,
        causation_id,
    })
}

/// Reads an event.
///
/// # Errors
/// The bytes were not written by [`encode`], of this or a newer version.
pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
    let RawEvent { sequence, kind, node_id, payload, timestamp, causation_id } = decode_raw(bytes)?;
    let (data, extra) = EventData::read(kind, payload)?;
    Ok(Event { sequence, node_id, data, extra, timestamp, causation_id })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWER: &str = r#"{"causationId":"evt_r_6","eventId":"evt_r_7","nodeId":"a","payload":{"attempt":0,"backlog":[1],"nodeId":"a","typeId":"core.noop","worker":{"id":7}},"runId":"r","sequence":7,"timestamp":"2026-10-26T05:33:20.123Z","type":"node.started"}"#;
    const UNKNOWN: &str = r#"{"eventId":"evt_r_7","payload":{"a":null,"b":[1.5,"x"]},"runId":"r","sequence":7,"timestamp":"2026-10-26T05:33:20.123Z","type":"acme.thing"}"#;

    /// The bytes of an event of a newer version stay the same, whether this version knows its kind or not.
    #[test]
    fn decoding_and_encoding_keeps_events_of_newer_versions() {
        for line in [NEWER, UNKNOWN] {
            assert_eq!(encode(&RunId::new("r"), &decode(line.as_bytes()).unwrap()), line);
        }
    }

    /// House finding 8: an event without a required member was silently ignored.
    #[test]
    fn a_known_kind_without_a_required_member_is_an_error_that_names_both() {
        let line = NEWER.replace(r#""attempt":0,"#, "");
        let error = decode(line.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "the payload of `node.started` has no `attempt`");
    }
}
