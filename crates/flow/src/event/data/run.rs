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
    /// How a replay differs from what was recorded.
    pub enum Divergence {
        /// Another event, or the same one of another node.
        TypeMismatch => "type-mismatch",
        /// An event after the recorded end.
        Extra => "extra",
        /// Nothing where something was recorded.
        Missing => "missing",
        /// The copied beginning cannot be repeated by this program.
        Output => "output",
    }
}

/// Whose run it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub principal: Principal,
    pub tenant: Tenant,
}

/// The message that started a run: ids and names. What the message says is in the inputs, as far as it is the run's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggeredBy {
    pub event_type: String,
    pub id: String,
    pub message_id: String,
    pub source: String,
}

/// The run began.
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

/// The run ended as it should.
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

/// The run was ended from outside. `parent_run_id` is set where it follows its parent.
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

/// The run is halted. Under [`DrainPolicy::DrainCurrentNode`] no node works any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPaused {
    pub drain_policy: DrainPolicy,
    #[serde(with = "rfc3339")]
    pub paused_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The run goes on: after a pause, or, where `cause` is set, after a restart of the host.
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

/// The run is to halt once the nodes that work have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PauseRequested {
    pub drain_policy: DrainPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(with = "rfc3339")]
    pub requested_at: Timestamp,
}

/// A change was pinned for this run. Reserved by the protocol: nothing records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionPinned {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub change_id: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub version: Option<Value>,
}

/// A loop went round as often as it may.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoopbackLimit {
    pub iterations: u32,
    pub limit: u32,
    pub node_id: NodeId,
}

/// A limit was reached. `kind` names one of the engine, of a sandbox, or of a call of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapBreached {
    pub kind: Cow<'static, str>,
    pub limit: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    pub observed: u64,
}

/// A replay did not do what was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayDiverged {
    pub at_sequence: u64,
    pub divergence_kind: Divergence,
    pub divergence_point: String,
    pub original_event_id: String,
    pub source_run_id: RunId,
}
