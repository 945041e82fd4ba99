//! The outcome of an envelope.

use serde_json::{Value, json};

use super::caps::CapKind;
use crate::redact::Redactor;
use crate::schema::Issue;
use crate::trust::Trust;

/// A problem and its position. The invalid value is not quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    pub instance_path: String,
    pub schema_path: String,
    /// The violated schema rule.
    pub keyword: String,
    pub message: Option<String>,
}

impl Detail {
    pub(super) fn new(instance_path: &str, schema_path: &str, keyword: &str, message: String) -> Self {
        Self {
            instance_path: instance_path.to_owned(),
            schema_path: schema_path.to_owned(),
            keyword: keyword.to_owned(),
            message: Some(message),
        }
    }

    pub(super) fn of(issue: &Issue) -> Self {
        let message = issue.missing.as_ref().map(|name| format!("`{name}` is required"));
        Self {
            instance_path: issue.instance_path.clone(),
            schema_path: issue.schema_path.clone(),
            keyword: issue.keyword.clone(),
            message,
        }
    }

    fn to_value(&self) -> Value {
        let mut value = json!({
            "instancePath": self.instance_path, "schemaPath": self.schema_path, "keyword": self.keyword,
        });
        if let Some(message) = &self.message {
            value["message"] = message.as_str().into();
        }
        value
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum EnvelopeOutcome {
    Accepted {
        /// The ids of the recorded events. The host fills them in.
        recorded_event_ids: Vec<String>,
        envelope_id: String,
        trust: Trust,
        /// The redacted payload and the number of redactions, if there were secrets to look for.
        redacted: Option<(Value, usize)>,
    },
    /// The kind is not accepted here.
    Gated { reason: String, allowed_kinds: Vec<String> },
    Invalid {
        /// A code, optionally followed by a sentence.
        reason: String,
        details: Vec<Detail>,
    },
    /// A limit is reached.
    Breached { reason: String, cap: CapKind, limit: u64, observed: u64 },
    /// The envelope was processed before; this is the stored outcome.
    Recorded(Value),
}

impl EnvelopeOutcome {
    /// The status name of the outcome.
    pub fn status(&self) -> &str {
        match self {
            Self::Accepted { .. } => "accepted",
            Self::Gated { .. } => "gated",
            Self::Invalid { .. } => "invalid",
            Self::Breached { .. } => "breached",
            Self::Recorded(value) => value.get("status").and_then(Value::as_str).unwrap_or("invalid"),
        }
    }

    /// The outcome as sent and stored.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Accepted { recorded_event_ids, envelope_id, trust, redacted } => {
                let mut value = json!({
                    "status": "accepted", "recordedEventIds": recorded_event_ids, "envelopeId": envelope_id,
                    "normalizedMeta": {"contentTrust": trust.as_str()},
                });
                if let Some((payload, count)) = redacted {
                    value["redactedPayload"] = payload.clone();
                    value["redactionCount"] = (*count).into();
                }
                value
            }
            Self::Gated { reason, allowed_kinds } => {
                json!({"status": "gated", "reason": reason, "allowedKinds": allowed_kinds})
            }
            Self::Invalid { reason, details } => {
                let details: Vec<Value> = details.iter().map(Detail::to_value).collect();
                json!({"status": "invalid", "reason": reason, "details": details})
            }
            Self::Breached { reason, cap, .. } => {
                json!({"status": "breached", "reason": reason, "capKind": cap.as_str()})
            }
            Self::Recorded(value) => value.clone(),
        }
    }

    /// Redacts all texts of the outcome.
    pub(super) fn redact(&mut self, redactor: &Redactor) {
        let clean = |text: &mut String| *text = redactor.clean(text);
        match self {
            Self::Accepted { envelope_id, .. } => clean(envelope_id),
            Self::Gated { reason, allowed_kinds } => {
                clean(reason);
                allowed_kinds.iter_mut().for_each(clean);
            }
            Self::Invalid { reason, details } => {
                clean(reason);
                for detail in details {
                    clean(&mut detail.instance_path);
                    clean(&mut detail.schema_path);
                    if let Some(message) = &mut detail.message {
                        clean(message);
                    }
                }
            }
            Self::Breached { reason, .. } => clean(reason),
            Self::Recorded(value) => {
                redactor.value(value);
            }
        }
    }
}
