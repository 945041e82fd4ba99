//! Events of model calls.

use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::id::NodeId;

/// No available model has the capabilities that the node requires.
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

/// A model lacks a capability that the node requires, and another model replaces it.
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

/// The usage of a call to a model provider.
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

/// A model call is retried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRetryAttempted {
    pub attempt: u32,
    pub node_id: NodeId,
    pub previous_error: String,
    pub reason: String,
}

/// All retries of a model call failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRetryExhausted {
    pub final_error: String,
    pub final_reason: String,
    pub node_id: NodeId,
    pub total_attempts: u32,
}

/// A model refused to reply.
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

/// The reply of a model was truncated.
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

/// A model was asked to convert its free-form reply into the required format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeNlToFormatEngaged {
    pub fallback_calls: u64,
    pub node_id: NodeId,
    pub original_envelope_type: String,
}

/// The reply of a model was not valid JSON and was parsed leniently.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRecoveryApplied {
    pub byte_offset: u64,
    pub node_id: NodeId,
    pub path: String,
}
