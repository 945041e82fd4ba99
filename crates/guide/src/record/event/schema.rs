//! The JSON Schema of an event: the envelope with the payload of each kind.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::{EVENT_VERSION, Event, EventData};
use crate::record::{DedupeKey, EventId, EventIndex, NodeId, RunId, SessionId};

impl JsonSchema for Event {
    fn schema_name() -> Cow<'static, str> {
        "Event".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let envelope = json_schema!({
            "properties": {
                "v": {"const": EVENT_VERSION},
                "eventId": generator.subschema_for::<EventId>(),
                "eventIndex": generator.subschema_for::<EventIndex>(),
                "sessionId": generator.subschema_for::<SessionId>(),
                "scope": {
                    "description": "The run and node that the event is about; absent for the session.",
                    "type": "object",
                    "properties": {
                        "runId": generator.subschema_for::<RunId>(),
                        "nodeId": generator.subschema_for::<NodeId>(),
                    },
                    "additionalProperties": false,
                    "required": ["runId"],
                },
                "dedupeKey": generator.subschema_for::<DedupeKey>(),
                "timestampMs": {
                    "description": "Milliseconds since 1970. Informational: it never defines an order.",
                    "type": "integer",
                    "minimum": 0,
                },
            },
            "required": ["v", "eventId", "eventIndex", "sessionId", "dedupeKey", "timestampMs"],
        });
        let mut schema = EventData::json_schema(generator);
        schema.insert("description".to_owned(), "One event of a session.".into());
        // The schemas of the kinds reject unknown members, so each of them must list the envelope's.
        for kind in schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
            if let (Some(Value::Object(all)), Some(Value::Object(more))) =
                (kind.get_mut("properties"), envelope.get("properties"))
            {
                all.extend(more.clone());
            }
            if let (Some(Value::Array(all)), Some(Value::Array(more))) =
                (kind.get_mut("required"), envelope.get("required"))
            {
                all.extend(more.iter().cloned());
            }
        }
        schema
    }
}
