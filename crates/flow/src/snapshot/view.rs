//! A stored snapshot, read back into types.
//!
//! The console, the MCP mount and the command line use this, so that only the HTTP API handles snapshots as JSON.
//! Members that a newer version added are ignored; members that an older version did not write have a default.

use std::collections::BTreeMap;

use canon::time::Timestamp;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{InterruptId, NodeId, Principal, RunId, Tenant, WorkflowId};
use crate::interrupt::InterruptKind;
use crate::run::{ForkMode, RunStatus};
use crate::state::{NodeStatus, RunError};

/// The snapshot of a run. Serializing it gives the members of the stored snapshot that it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    pub run_id: RunId,
    pub workflow_id: WorkflowId,
    pub status: RunStatus,
    #[serde(default, with = "moment", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, with = "moment", skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    #[serde(default, with = "moment", skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<Timestamp>,
    /// The node that the run waits for, or the first one that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_node_id: Option<NodeId>,
    #[serde(default, serialize_with = "closed_error", skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// What the run waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<InterruptView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerView>,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub inputs: Map<String, Value>,
    #[serde(default)]
    pub variables: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub channels: Map<String, Value>,
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// The options that the run was created with, without credentials.
    #[serde(default)]
    pub configurable: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metrics: Map<String, Value>,
    #[serde(default)]
    pub node_states: BTreeMap<NodeId, NodeView>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_runs: Vec<ChildView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_node_id: Option<NodeId>,
    /// The run that this one was forked from, and the first event that was not copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_seq: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_mode: Option<ForkMode>,
}

impl RunView {
    /// Reads the bytes of a stored snapshot.
    ///
    /// # Errors
    /// When they are not a snapshot.
    pub fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

/// Who created a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnerView {
    pub principal: Principal,
    pub tenant: Tenant,
}

/// The interrupt that a run waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterruptView {
    pub interrupt_id: InterruptId,
    /// Identifies the interrupt within its node.
    pub key: String,
    pub kind: InterruptKind,
    pub node_id: NodeId,
    #[serde(default)]
    pub data: Value,
    #[serde(default, with = "moment", skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<Timestamp>,
    #[serde(default, with = "moment", skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_schema: Option<Value>,
}

/// One node of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    #[serde(deserialize_with = "node_status", serialize_with = "node_status_text")]
    pub status: NodeStatus,
    /// The number of earlier attempts.
    #[serde(default)]
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    #[serde(default, with = "moment", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, with = "moment", skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    #[serde(default, serialize_with = "closed_error", skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Map<String, Value>>,
}

/// A run that this run started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildView {
    pub run_id: RunId,
    pub workflow_id: WorkflowId,
    pub node_id: NodeId,
    pub status: RunStatus,
}

fn node_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NodeStatus, D::Error> {
    let text = String::deserialize(deserializer)?;
    NodeStatus::parse(&text).ok_or_else(|| D::Error::custom(format!("unknown node status `{text}`")))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn node_status_text<S: serde::Serializer>(status: &NodeStatus, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(status.as_str())
}

/// Errors in snapshots have only these members; events may have more.
fn closed_error<S: serde::Serializer>(error: &Option<RunError>, serializer: S) -> Result<S::Ok, S::Error> {
    error.as_ref().map(super::closed_error).serialize(serializer)
}

/// Timestamps are RFC 3339 in snapshots.
mod moment {
    use super::{Deserialize as _, Deserializer, Timestamp};
    use serde::de::Error as _;

    pub(super) fn serialize<S: serde::Serializer>(
        at: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => serializer.serialize_str(&at.to_rfc3339()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| {
            Timestamp::parse(&text)
                .ok_or_else(|| D::Error::custom(format!("`{text}` is not an RFC 3339 timestamp")))
        })
        .transpose()
    }
}
