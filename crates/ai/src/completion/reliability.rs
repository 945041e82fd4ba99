//! The events of replies that were none: their payloads, and the check of payloads that somebody else made.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::Reason;
use super::recover::{Found, Path};
use crate::event::{EventKind, RunEvent};
use crate::schema::Schema;
use crate::usage::names_a_credential;

/// The reply is asked for again, for the how-many-eth time, counted from 1.
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

/// It is not asked for again.
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

/// Prose is turned into a document by a call of its own.
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

/// A document was found in a reply that is not one. Nothing of the reply is in the event.
pub fn recovery_applied(node_id: &str, found: &Found) -> RunEvent {
    RunEvent::new(
        EventKind::RecoveryApplied,
        [("nodeId", node_id.into()), ("path", found.path.into()), ("byteOffset", found.offset.into())],
    )
}

/// Why a payload is not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no such event, or a member is missing or wrong.
    #[error("{0}")]
    InvalidArgument(String),
    /// It names a credential.
    #[error("the payload names a credential")]
    CredentialLeak,
    /// It says more of what was found than where.
    #[error("the payload says more than the path and the offset")]
    ContentLeak,
}

impl Refused {
    /// The code on the wire.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidArgument(_) => "invalid_argument",
            Self::CredentialLeak => "envelope_reliability_credential_leak",
            Self::ContentLeak => "envelope_recovery_content_leak",
        }
    }
}

/// The six kinds of events.
pub const KINDS: [EventKind; 6] = [
    EventKind::RetryAttempted,
    EventKind::RetryExhausted,
    EventKind::Refusal,
    EventKind::Truncated,
    EventKind::NlToFormatEngaged,
    EventKind::RecoveryApplied,
];

/// Checks a payload that somebody else made.
///
/// # Errors
/// There is no such event, a member is missing, wrong, or too much, or it names a credential.
pub fn check(kind: &str, payload: &Value) -> Result<RunEvent, Refused> {
    let invalid = |text: &str| Refused::InvalidArgument(text.to_owned());
    let kind = EventKind::parse(kind).filter(|kind| KINDS.contains(kind));
    let kind = kind.ok_or_else(|| invalid("`type` is none of the six events of reliability"))?;
    let members = payload.as_object().ok_or_else(|| invalid("`payload` is an object"))?;
    if names_a_credential(payload) {
        return Err(Refused::CredentialLeak);
    }
    let allowed = ["nodeId", "path", "byteOffset"];
    if kind == EventKind::RecoveryApplied && members.keys().any(|name| !allowed.contains(&name.as_str())) {
        return Err(Refused::ContentLeak);
    }
    let issues = schemas()[&kind].issues(payload);
    match issues.is_empty() {
        true => Ok(RunEvent { kind, payload: members.clone(), causation_id: None }),
        false => Err(Refused::InvalidArgument(crate::schema::summary(&issues))),
    }
}

fn schemas() -> &'static BTreeMap<EventKind, Schema> {
    static SCHEMAS: OnceLock<BTreeMap<EventKind, Schema>> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let compiled =
            |kind: &EventKind| Schema::compile(&schema(*kind)).expect("the schemas below are schemas");
        KINDS.iter().map(|kind| (*kind, compiled(kind))).collect()
    })
}

/// The closed shape of a payload.
fn schema(kind: EventKind) -> Value {
    let text = || json!({"type": "string"});
    let maybe = || json!({"type": ["string", "null"]});
    let count = |least: u32| json!({"type": "integer", "minimum": least});
    let reason = || {
        let words: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        json!({"anyOf": [{"enum": words}, {"type": "string", "pattern": "^x-host-[a-z][a-z0-9-]*-[a-z][a-z0-9-]*$"}]})
    };
    let paths: Vec<&str> =
        Path::ALL.iter().map(|path| path.as_str()).chain(["jsonrepair", "custom"]).collect();
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
    fn payloads_that_are_checked() {
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
