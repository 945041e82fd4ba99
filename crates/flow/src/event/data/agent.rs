//! Events of agents and their prompts.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::present;
use crate::id::NodeId;

/// A reference to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentName {
    pub agent_id: String,
}

/// An agent reported its reasoning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentReasoned {
    pub agent_id: String,
    pub reasoning: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub token_count: Option<Value>,
    pub verbosity: String,
}

/// A chunk of an agent's reasoning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentReasoningDelta {
    pub agent_id: String,
    pub delta: String,
    pub sequence: u64,
    pub verbosity: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentToolCalled {
    pub agent_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    pub call_id: String,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    pub tool_id: String,
    pub tool_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Cow<'static, str>>,
}

/// A tool returned a result to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentToolReturned {
    pub agent_id: String,
    pub call_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_trust: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    pub status: Cow<'static, str>,
    pub tool_id: String,
    pub tool_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Cow<'static, str>>,
}

/// An agent handed off to another. The `…_agent_id` members repeat `from` and `to` for older readers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentHandoff {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    pub from: AgentName,
    pub from_agent_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    pub to: AgentName,
    pub to_agent_id: String,
}

/// An agent made a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDecided {
    pub agent_id: String,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_trust: Option<Cow<'static, str>>,
    pub decision: Value,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Value>,
}

/// The supervisor decided the next step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrchestratorDecided {
    pub agent_id: String,
    pub decision: Value,
    pub iteration: u64,
}

/// The prompt of a node was resolved. `resolved` is null if no prompt was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentPromptResolved {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    pub chain: Value,
    pub kind: String,
    pub node_id: NodeId,
    pub resolved: Option<String>,
}

/// A prompt was composed. Its texts are included only if the host is configured to record them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptComposed {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub composed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_trust: Option<String>,
    pub hash: String,
    pub kind: String,
    pub node_id: NodeId,
    pub refs: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_prompt: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub variable_bindings: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub variable_hashes: Option<Value>,
}
