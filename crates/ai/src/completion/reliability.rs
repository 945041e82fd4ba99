//! Builds the events about invalid replies, and validates such events from other producers.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::Reason;
use super::recover::{RecoveredDocument, RecoveryPath};
use crate::event::{EventKind, RunEvent};
use crate::schema::Schema;
use crate::usage::names_a_credential;

/// A retry, with its one-based number.
pub fn retry_attempted(node_id: &str, attempt: u32, reason: Reason, error: &str) -> RunEvent {
    RunEvent::new(
        EventKind::RetryAttempted,
        [
            ("nodeId", node_id.into()),
            ("attempt", attempt.into()),
            ("reason", reason.into()),
            ("previousError", error.into()),
        ],
    )
}

pub fn retry_exhausted(node_id: &str, attempts: u32, reason: Reason, error: &str) -> RunEvent {
    RunEvent::new(
        EventKind::RetryExhausted,
        [
            ("nodeId", node_id.into()),
            ("totalAttempts", attempts.max(1).into()),
            ("finalReason", reason.into()),
            ("finalError", error.into()),
        ],
    )
}

/// A formatting call converts prose to a document.
pub fn nl_to_format(node_id: &str, envelope_type: &str) -> RunEvent {
    RunEvent::new(
        EventKind::NlToFormatEngaged,
        [
            ("nodeId", node_id.into()),
            ("originalEnvelopeType", envelope_type.into()),
            ("fallbackCalls", 1.into()),
        ],
    )
}

/// A document was recovered from a reply with other text. The event has none of the text.
pub fn recovery_applied(node_id: &str, found: &RecoveredDocument) -> RunEvent {
    RunEvent::new(
        EventKind::RecoveryApplied,
        [("nodeId", node_id.into()), ("path", found.path.into()), ("byteOffset", found.offset.into())],
    )
}

/// Why a payload is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The event type is unknown, or a member is missing or invalid.
    #[error("{0}")]
    InvalidArgument(String),
    /// The payload contains the name of a credential field.
    #[error("the payload contains a credential")]
    CredentialLeak,
    /// A recovery event has members other than path and offset.
    #[error("the payload has members other than the path and the offset")]
    ContentLeak,
}

impl PayloadError {
    /// The wire code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidArgument(_) => "invalid_argument",
            Self::CredentialLeak => "envelope_reliability_credential_leak",
            Self::ContentLeak => "envelope_recovery_content_leak",
        }
    }
}

/// The six reliability events.
pub const KINDS: [EventKind; 6] = [
    EventKind::RetryAttempted,
    EventKind::RetryExhausted,
    EventKind::Refusal,
    EventKind::Truncated,
    EventKind::NlToFormatEngaged,
    EventKind::RecoveryApplied,
];

/// Validates a payload from another producer.
///
/// # Errors
/// The event type is unknown, a member is missing, invalid or unknown, or the payload contains a credential.
pub fn check(kind: &str, payload: &Value) -> Result<RunEvent, PayloadError> {
    let invalid = |text: &str| PayloadError::InvalidArgument(text.to_owned());
    let kind = EventKind::parse(kind).filter(|kind| KINDS.contains(kind));
    let kind = kind.ok_or_else(|| invalid("`type` is not one of the six reliability events"))?;
    let members = payload.as_object().ok_or_else(|| invalid("`payload` must be an object"))?;
    if names_a_credential(payload) {
        return Err(PayloadError::CredentialLeak);
    }
    let allowed = ["nodeId", "path", "byteOffset"];
    if kind == EventKind::RecoveryApplied && members.keys().any(|name| !allowed.contains(&name.as_str())) {
        return Err(PayloadError::ContentLeak);
    }
    let issues = schemas()[&kind].issues(payload);
    match issues.is_empty() {
        true => Ok(RunEvent { kind, payload: members.clone(), causation_id: None }),
        false => Err(PayloadError::InvalidArgument(crate::schema::summary(&issues))),
    }
}

fn schemas() -> &'static BTreeMap<EventKind, Schema> {
    static SCHEMAS: OnceLock<BTreeMap<EventKind, Schema>> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let compiled =
            |kind: &EventKind| Schema::compile(&schema(*kind)).expect("the schemas below are valid");
        KINDS.iter().map(|kind| (*kind, compiled(kind))).collect()
    })
}

/// The closed schema of a payload.
fn schema(kind: EventKind) -> Value {
    let text = || json!({"type": "string"});
    let maybe = || json!({"type": ["string", "null"]});
    let count = |least: u32| json!({"type": "integer", "minimum": least});
    let reason = || {
        let words: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        json!({"anyOf": [{"enum": words}, {"type": "string", "pattern": "^x-host-[a-z][a-z0-9-]*-[a-z][a-z0-9-]*$"}]})
    };
    let paths: Vec<&str> =
        RecoveryPath::ALL.iter().map(|path| path.as_str()).chain(["jsonrepair", "custom"]).collect();
    let offset = json!({"type": ["integer", "null"], "minimum": 0});
    let (required, mut properties): (&[&str], Value) = match kind {
        EventKind::RetryAttempted => (
            &["attempt", "reason"],
            json!({"attempt": {"type": "integer", "minimum": 1, "maximum": 16}, "reason": reason(), "previousError": maybe()}),
        ),
        EventKind::RetryExhausted => (
            &["totalAttempts", "finalReason"],
            json!({"totalAttempts": count(1), "finalReason": reason(), "finalError": maybe()}),
        ),
        EventKind::Refusal => (
            &["provider", "model"],
            json!({"provider": text(), "model": text(), "refusalText": maybe(), "safetyCategory": maybe()}),
        ),
        EventKind::Truncated => (
            &["provider", "model", "stopReason"],
            json!({
                "provider": text(), "model": text(), "partialPayloadAvailable": {"type": "boolean"}, "outputTokenCount": offset,
                "stopReason": {"enum": ["max_tokens", "length", "stop_sequence", "unknown"]},
            }),
        ),
        EventKind::NlToFormatEngaged => {
            (&["originalEnvelopeType"], json!({"originalEnvelopeType": text(), "fallbackCalls": count(1)}))
        }
        _ => (&["path"], json!({"path": {"enum": paths}, "byteOffset": offset})),
    };
    properties["nodeId"] = json!({"type": "string", "minLength": 1});
    let required: Vec<&str> = ["nodeId"].iter().chain(required).copied().collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("required".to_owned(), required.into());
    schema.insert("properties".to_owned(), properties);
    schema.insert("additionalProperties".to_owned(), false.into());
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_payloads() {
        let recovery = "envelope.recovery.applied";
        let cases = [
            (recovery, json!({"nodeId": "n", "path": "jsonrepair", "byteOffset": 42}), None),
            (
                recovery,
                json!({"nodeId": "n", "path": "direct", "recoveredContent": "x"}),
                Some("envelope_recovery_content_leak"),
            ),
            (recovery, json!({"nodeId": "n", "path": "guess"}), Some("invalid_argument")),
            (recovery, json!({"path": "direct"}), Some("invalid_argument")),
            (
                "envelope.refusal",
                json!({"nodeId": "n", "provider": "p", "model": "m", "refusalText": null}),
                None,
            ),
            (
                "envelope.refusal",
                json!({"nodeId": "n", "provider": "p", "model": "secret:x"}),
                Some("envelope_reliability_credential_leak"),
            ),
            (
                "envelope.retry.attempted",
                json!({"nodeId": "n", "attempt": 2, "reason": "x-host-me-tired"}),
                None,
            ),
            (
                "envelope.retry.attempted",
                json!({"nodeId": "n", "attempt": 17, "reason": "unknown"}),
                Some("invalid_argument"),
            ),
            (
                "envelope.retry.exhausted",
                json!({"nodeId": "n", "totalAttempts": 1, "finalReason": "tired"}),
                Some("invalid_argument"),
            ),
            (
                "envelope.truncated",
                json!({"nodeId": "n", "provider": "p", "model": "m", "stopReason": "max_tokens"}),
                None,
            ),
            ("envelope.nlToFormat.engaged", json!({"nodeId": "n", "originalEnvelopeType": "t"}), None),
            ("node.failed", json!({"nodeId": "n"}), Some("invalid_argument")),
            (recovery, json!([]), Some("invalid_argument")),
        ];
        for (kind, payload, expected) in cases {
            assert_eq!(
                check(kind, &payload).err().map(|refused| refused.code()),
                expected,
                "{kind} {payload}"
            );
        }
    }
}
