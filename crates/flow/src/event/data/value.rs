//! Events about the data of nodes: variables, channels, artifacts and log lines.

use std::borrow::Cow;

use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{present, rfc3339};
use crate::definition::channel::Reducer;
use crate::id::{ArtifactId, NodeId, RunId};

/// The value of a variable changed. It was removed if `next` is missing. It was set from outside the run if `node_id` is missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VariableChanged {
    pub name: String,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub next: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub previous: Option<Value>,
}

/// A channel was written to. `value` is the written value, before the reducer combines it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChannelWritten {
    pub channel: String,
    pub node_id: NodeId,
    pub reducer: Reducer,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<u64>,
    pub value: Value,
    #[serde(with = "rfc3339")]
    pub written_at: Timestamp,
}

/// An artifact was created. `summary` is the path of a deliverable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactCreated {
    pub artifact_id: ArtifactId,
    pub artifact_type: String,
    pub node_id: NodeId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// A log line of the run. Questions that people ask at a gate are recorded as log lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogAppended {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub content_trust: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub fields: Option<Value>,
    pub level: Cow<'static, str>,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
}

/// A chunk of model output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputChunk {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub channel: Option<Value>,
    pub chunk: String,
    pub is_last: bool,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
    pub node_id: NodeId,
    pub run_id: RunId,
}
