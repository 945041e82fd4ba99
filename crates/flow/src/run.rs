//! What a run is created with, and the states that it goes through.

mod status;

use std::sync::Arc;

use canon::digest::Digest;
use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::status::RunStatus;
use crate::id::{NodeId, Principal, RunId, Tenant, WorkflowId};
use crate::trace::TraceParent;

/// The facts that a run is created with. They are recorded once, beside the log, and never change:
/// the log holds what happened, and shows no more of these than a reader may see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Genesis {
    pub run_id: RunId,
    pub tenant: Tenant,
    /// Who created it, an opaque name.
    pub principal: Principal,
    pub workflow_id: WorkflowId,
    /// The digest of the definition that the run is pinned to.
    pub definition: Digest,
    /// What may run only once at a time, for `X-Dedup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_id: Option<String>,
    /// What the caller gave.
    pub inputs: Map<String, Value>,
    /// The overlay of options.
    pub configurable: Map<String, Value>,
    /// For finding it again.
    pub tags: Vec<String>,
    /// The caller's own.
    pub metadata: Map<String, Value>,
    /// Where to call when a person is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// The run that started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The run that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
    pub created_at: Timestamp,
    /// The version of the engine that it runs under, where one was forced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced_engine_version: Option<u64>,
    /// Whether it was created with a key for tests.
    #[serde(default)]
    pub test: bool,
    /// The span that it belongs under, where somebody traces.
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
    /// Which trigger of the workflow.
    pub trigger_id: String,
    /// What kind of thing it listens to, as its definition spells it.
    pub event_type: String,
    /// The queue or the stream.
    pub source: String,
    /// The id of the message: the same however often it is handed over.
    pub message_id: String,
    /// The node that gives the message to the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// What that node gives; nothing where there is none.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
}

/// The run that started another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parent {
    pub run_id: RunId,
    pub node_id: NodeId,
    /// The id of the event that it was started by.
    pub causation_id: String,
    /// The type of the node.
    pub type_id: String,
    /// The variables that the mapping names and the parent has not set: the child has no value for them, not
    /// even its own default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// Whether the child ends when the parent is cancelled.
    pub cancelled_with_parent: bool,
    /// How many runs are above the child, its parent included.
    #[serde(default)]
    pub depth: u32,
    /// The round of the node that started it, in a loop.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub iteration: u32,
    /// The attempt of that node.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How a run was forked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fork {
    /// The run that it was forked from.
    pub source_run_id: RunId,
    /// The first event that is not copied.
    pub from_sequence: u64,
    /// What the fork does from there.
    pub mode: ForkMode,
}

/// What a fork does with what it did not copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForkMode {
    /// Repeats it from what was recorded.
    Replay,
    /// Goes its own way.
    Branch,
}

/// A genesis is shared by everything that works on a run.
pub type SharedGenesis = Arc<Genesis>;
