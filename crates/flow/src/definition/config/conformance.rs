//! The configuration of mock nodes for conformance suites. The protocol defines the configuration of the mock agent as closed at every level.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::derive::{present, whole};

/// `core.conformance.mock-agent`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MockAgentConfig {
    #[schemars(length(min = 3))]
    pub agent_id: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    pub mock_confidence: Option<Value>,
    pub mock_decision: Option<MockDecision>,
    pub mock_handoff: Option<MockHandoff>,
    pub mock_reasoning: Option<MockReasoning>,
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub mock_tool_calls: Vec<MockToolCall>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MockDecision {
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<f64>", range(min = 0, max = 1))]
    pub confidence: Option<Value>,
    pub decision: Value,
    pub reasoning: Option<String>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MockHandoff {
    #[serde(default, deserialize_with = "present")]
    pub context: Option<Value>,
    pub reason: Option<String>,
    #[schemars(length(min = 3))]
    pub to_agent_id: String,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MockReasoning {
    /// `true` reports a fixed sentence.
    Enabled(bool),
    Thoughts(MockThoughts),
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MockThoughts {
    #[serde(default)]
    pub stream_chunks: Vec<String>,
    pub summary: String,
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<u64>")]
    pub token_count: Option<Value>,
    pub trace: Option<String>,
}

/// A tool call with either a result or an error.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MockToolCall {
    #[serde(default, deserialize_with = "present")]
    pub arguments: Option<Value>,
    #[serde(default, deserialize_with = "whole")]
    pub duration_ms: Option<u64>,
    pub error: Option<MockToolError>,
    #[serde(default, deserialize_with = "present")]
    pub result: Option<Value>,
    pub tool_id: String,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MockToolError {
    pub details: Option<Map<String, Value>>,
    #[schemars(length(min = 1))]
    pub error: String,
    #[schemars(length(min = 1))]
    pub message: String,
}

/// `conformance.secret.echo`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretEchoConfig {
    #[schemars(length(min = 1))]
    pub secret_id: String,
}

/// `conformance.cost.emit`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct CostEmitConfig {
    #[serde(default)]
    pub attrs: Map<String, Value>,
}

/// `conformance.artifact.emit`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactEmitConfig {
    pub artifact_type: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub data: Option<Value>,
}
