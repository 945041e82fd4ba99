//! Events of the run itself.

use std::borrow::Cow;

use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{present, rfc3339};
use crate::engine::DrainPolicy;
use crate::id::{NodeId, Principal, RunId, Tenant, WorkflowId};
use crate::state::RunError;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// How a replay differs from its source.
    pub enum Divergence {
        /// An event of another kind or of another node.
        TypeMismatch => "type-mismatch",
        /// An additional event after the end of the source.
        Extra => "extra",
        /// A recorded event was not produced.
        Missing => "missing",
        /// This program does not produce the copied events.
        Output => "output",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub principal: Principal,
    pub tenant: Tenant,
}

/// The message that started a run: ids and names only. The contents of the message are in the inputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggeredBy {
    pub event_type: String,
    pub id: String,
    pub message_id: String,
    pub source: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStarted {
    pub inputs: Map<String, Value>,
    pub owner: Owner,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<TriggeredBy>,
    pub workflow_id: WorkflowId,
}

/// The run ended successfully.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCompleted {
    pub duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Map<String, Value>>,
}

/// The run ended with an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunFailed {
    pub duration_ms: u64,
    pub error: RunError,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_node_id: Option<NodeId>,
}

/// The run was cancelled. `parent_run_id` is set if it was cancelled with its parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCancelled {
    pub cancelled_by: Principal,
    pub duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The run is paused. Under [`DrainPolicy::DrainCurrentNode`], no node is active any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPaused {
    pub drain_policy: DrainPolicy,
    #[serde(with = "rfc3339")]
    pub paused_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The run continues: after a restart of the host if `cause` is set, otherwise after a pause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResumed {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    #[serde(default, with = "rfc3339::optional", skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Timestamp>,
}

/// The run pauses as soon as its active nodes have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PauseRequested {
    pub drain_policy: DrainPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(with = "rfc3339")]
    pub requested_at: Timestamp,
}

/// A version of a change was pinned for this run. Reserved by the protocol; this program never records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionPinned {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub change_id: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub version: Option<Value>,
}

/// A loop reached its iteration limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoopbackLimit {
    pub iterations: u32,
    pub limit: u32,
    pub node_id: NodeId,
}

/// A limit was exceeded. `kind` names a limit of the engine, of a sandbox, or of a model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapBreached {
    pub kind: Cow<'static, str>,
    pub limit: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    pub observed: u64,
}

/// A replay produced other events than its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayDiverged {
    pub at_sequence: u64,
    pub divergence_kind: Divergence,
    pub divergence_point: String,
    pub original_event_id: String,
    pub source_run_id: RunId,
}
