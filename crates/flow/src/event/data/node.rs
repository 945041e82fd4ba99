//! Events of nodes.

use std::borrow::Cow;

use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::{present, rfc3339};
use crate::id::{InterruptId, NodeId, RunId, WorkflowId};
use crate::interrupt::InterruptKind;
use crate::run::RunStatus;
use crate::state::RunError;

/// An attempt started. `due_at` is the end of a delay, so that a restart waits only for the remaining time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStarted {
    pub attempt: u32,
    #[serde(default, with = "rfc3339::optional", skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    pub node_id: NodeId,
    pub type_id: Cow<'static, str>,
}

/// The node ended successfully.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCompleted {
    pub duration_ms: u64,
    pub node_id: NodeId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Map<String, Value>>,
}

/// The node failed, after all retries. `attempts` is missing if it never started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFailed {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    pub error: RunError,
    pub node_id: NodeId,
}

/// The node waits for an interrupt. `observed` and `threshold` are set if the confidence of an agent was too low.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSuspended {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub content_trust: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    pub interrupt_id: InterruptId,
    pub key: String,
    pub kind: InterruptKind,
    pub node_id: NodeId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Number>,
}

/// The interrupt that the node waited for was resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeResumed {
    pub interrupt_id: InterruptId,
    pub node_id: NodeId,
    pub resume_value: Value,
}

/// The node will be retried. `attempt` is the number of the next attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRetried {
    pub attempt: u32,
    pub delay_ms: u64,
    pub last_error: RunError,
    pub node_id: NodeId,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSkipped {
    pub node_id: NodeId,
    pub reason: Cow<'static, str>,
}

/// The node was cancelled with its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCancelled {
    pub node_id: NodeId,
    pub reason: Cow<'static, str>,
}

/// The node started a child run, or, if `child_status` is set, the status of the child changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDispatched {
    pub child_run_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_status: Option<RunStatus>,
    pub child_workflow_id: WorkflowId,
}
