//! Events of calls to models.

use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::id::NodeId;

/// No model that could be asked can do what the node needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelCapabilityInsufficient {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_attempted: Option<bool>,
    pub missing_capabilities: Vec<String>,
    pub model: String,
    pub node_id: NodeId,
    pub provider: String,
}

/// A model of the host cannot do what the node needs, and another one can.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelCapabilitySubstituted {
    pub fallback_model: String,
    pub fallback_provider: String,
    pub missing_capabilities: Vec<String>,
    pub node_id: NodeId,
    pub original_model: String,
    pub original_provider: String,
}

/// What a call to a provider used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderUsage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_hit: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_estimate_usd: Option<Number>,
    pub input_tokens: u64,
    pub model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    pub output_tokens: u64,
    pub provider: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
}

/// A model is asked again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRetryAttempted {
    pub attempt: u32,
    pub node_id: NodeId,
    pub previous_error: String,
    pub reason: String,
}

/// A model was asked as often as it may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRetryExhausted {
    pub final_error: String,
    pub final_reason: String,
    pub node_id: NodeId,
    pub total_attempts: u32,
}

/// A model refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRefusal {
    pub model: String,
    pub node_id: NodeId,
    pub provider: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_category: Option<String>,
}

/// The answer of a model was cut off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeTruncated {
    pub model: String,
    pub node_id: NodeId,
    pub output_token_count: u64,
    pub partial_payload_available: bool,
    pub provider: String,
    pub stop_reason: String,
}

/// A model was asked to put its own words into a form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeNlToFormatEngaged {
    pub fallback_calls: u64,
    pub node_id: NodeId,
    pub original_envelope_type: String,
}

/// The answer of a model was read although it was not quite a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRecoveryApplied {
    pub byte_offset: u64,
    pub node_id: NodeId,
    pub path: String,
}
