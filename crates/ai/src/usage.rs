//! Usage records of model calls.

use serde_json::{Map, Value};

use crate::event::{EventKind, RunEvent};
use crate::provider::Usage;

/// The attributes of a call in its usage record.
#[derive(Clone, Copy, Debug)]
pub struct CallRecord<'c> {
    pub provider: &'c str,
    pub model: &'c str,
    /// The node that made the call.
    pub node_id: Option<&'c str>,
    /// Whether the reply came from the record without a call.
    pub cache_hit: bool,
}

/// The `provider.usage` event: counters and names only.
pub fn event(call: CallRecord<'_>, usage: Usage) -> RunEvent {
    RunEvent::new(
        EventKind::ProviderUsage,
        [
            ("provider", call.provider.into()),
            ("model", call.model.into()),
            ("inputTokens", usage.input_tokens.into()),
            ("outputTokens", usage.output_tokens.into()),
            ("totalTokens", usage.input_tokens.saturating_add(usage.output_tokens).into()),
            ("cacheHit", if call.cache_hit { true.into() } else { Value::Null }),
            ("cacheReadTokens", usage.cache_read_tokens.into()),
            ("cacheWriteTokens", usage.cache_write_tokens.into()),
            ("nodeId", call.node_id.into()),
        ],
    )
}

/// Why a payload is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// A member is missing, invalid or unknown.
    #[error("`{0}` is missing, invalid or unknown")]
    InvalidArgument(String),
    /// The payload contains the name of a credential field.
    #[error("the payload contains a credential")]
    CredentialLeak,
}

impl PayloadError {
    /// The wire code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidArgument(_) => "invalid_argument",
            Self::CredentialLeak => "provider_usage_credential_leak",
        }
    }
}

/// Validates a payload from another producer.
///
/// # Errors
/// The payload contains a credential or does not match the event.
pub fn check(payload: &Value) -> Result<Map<String, Value>, PayloadError> {
    if names_a_credential(payload) {
        return Err(PayloadError::CredentialLeak);
    }
    let wrong = |name: &str| PayloadError::InvalidArgument(name.chars().take(64).collect());
    let members = payload.as_object().ok_or_else(|| wrong("payload"))?;
    for name in ["provider", "model", "inputTokens", "outputTokens"] {
        if !members.contains_key(name) {
            return Err(wrong(name));
        }
    }
    for (name, value) in members {
        let fits = match name.as_str() {
            "provider" | "model" => value.as_str().is_some_and(|text| !text.is_empty()),
            "inputTokens" | "outputTokens" | "totalTokens" | "cacheReadTokens" | "cacheWriteTokens" => {
                value.is_u64()
            }
            "costEstimateUsd" => value.as_f64().is_some_and(|cost| cost >= 0.0),
            "currency" => value.as_str().is_some_and(is_currency),
            "cacheHit" => value.is_boolean(),
            "nodeId" | "traceId" => value.is_string(),
            _ => false,
        };
        if !fits {
            return Err(wrong(name));
        }
    }
    Ok(members.clone())
}

/// Whether a document contains the name of a credential field.
pub(crate) fn names_a_credential(document: &Value) -> bool {
    // The serialized document has every name and value.
    let text = document.to_string();
    text.contains("credentialRef") || text.contains("secret:")
}

fn is_currency(text: &str) -> bool {
    text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rejects_invalid_payloads() {
        let with = |name: &str, value: Value| {
            let mut payload = json!({"provider": "mock", "model": "m", "inputTokens": 1, "outputTokens": 2});
            payload[name] = value;
            payload
        };
        let invalid = |name: &str| Some(PayloadError::InvalidArgument(name.to_owned()));
        let cases = [
            (json!({"model": "m", "inputTokens": 1, "outputTokens": 2}), invalid("provider")),
            (with("inputTokens", json!(-1)), invalid("inputTokens")),
            (with("currency", json!("usd")), invalid("currency")),
            (with("prompt", json!("text")), invalid("prompt")),
            (with("traceId", json!("secret:key")), Some(PayloadError::CredentialLeak)),
            (with("credentialRef", json!("x")), Some(PayloadError::CredentialLeak)),
            (json!([]), invalid("payload")),
            (with("costEstimateUsd", json!(0.5)), None),
        ];
        for (payload, expected) in cases {
            assert_eq!(check(&payload).err(), expected, "{payload}");
        }
    }
}
