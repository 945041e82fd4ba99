//! The facts that a run is created with, and its states.

mod status;

use std::sync::Arc;

use canon::digest::Digest;
use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::status::RunStatus;
use crate::id::{NodeId, Principal, RunId, Tenant, WorkflowId};
use crate::trace::TraceParent;

/// The facts that a run is created with. They are stored once, next to the log, and never change. The log contains what happened, and
/// only those of these facts that readers may see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Genesis {
    pub run_id: RunId,
    pub tenant: Tenant,
    /// The caller that created the run.
    pub principal: Principal,
    pub workflow_id: WorkflowId,
    /// The digest of the definition that the run is pinned to.
    pub definition: Digest,
    /// The scope in which only one run at a time may exist (`X-Dedup`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_id: Option<String>,
    /// The inputs of the caller.
    pub inputs: Map<String, Value>,
    /// The caller's overrides of options.
    pub configurable: Map<String, Value>,
    /// For filtering runs.
    pub tags: Vec<String>,
    /// Data of the caller, which the engine does not interpret.
    pub metadata: Map<String, Value>,
    /// The URL that the host calls when the run needs a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// The run that started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The run that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
    pub created_at: Timestamp,
    /// The engine version of the run, if the caller forced one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced_engine_version: Option<u64>,
    /// Whether the run was created with a test key.
    #[serde(default)]
    pub test: bool,
    /// The parent span of the run, if the caller sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceParent>,
    /// The message that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Triggered>,
}

/// The message that started a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Triggered {
    /// The trigger of the workflow.
    pub trigger_id: String,
    /// The kind of source, as spelled in the definition.
    pub event_type: String,
    /// The queue or the stream.
    pub source: String,
    /// The id of the message. It is the same for every delivery.
    pub message_id: String,
    /// The trigger node that outputs the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// The outputs of that node; empty if there is no such node.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
}

/// The run that started another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parent {
    pub run_id: RunId,
    pub node_id: NodeId,
    /// The id of the event that started the child.
    pub causation_id: String,
    /// The type of the node.
    pub type_id: String,
    /// The variables that the mapping names but the parent has not set. They have no value in the child, not even
    /// their default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// Whether the child ends when the parent is cancelled.
    pub cancelled_with_parent: bool,
    /// The number of ancestors of the child, including its parent.
    #[serde(default)]
    pub depth: u32,
    /// The loop iteration of the node that started the child.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub iteration: u32,
    /// The attempt of that node.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fork {
    /// The run that it was forked from.
    pub source_run_id: RunId,
    /// The first event that is not copied.
    pub from_sequence: u64,
    /// What the fork does after the copied events.
    pub mode: ForkMode,
}

/// What a fork does after the copied events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForkMode {
    /// Repeats the source run with its recorded results.
    Replay,
    /// Executes nodes again, with new results.
    Branch,
}

/// A genesis, shared by all readers of a run.
pub type SharedGenesis = Arc<Genesis>;
