//! Events about what a run waits for, and the answers.

use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{present, rfc3339};
use crate::id::{InterruptId, NodeId, RunId};
use crate::interrupt::InterruptKind;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// How an interrupt ended, as an event tells it. A timeout is a rejection: silence approves nothing.
    pub enum InterruptOutcome {
        /// The node goes on with the answer.
        Accepted => "accepted",
        /// It does not.
        Rejected => "rejected",
    }
}

wire_enum! {
    /// Why an interrupt ended without an answer.
    pub enum ResolveReason {
        /// Nobody answered in time.
        Timeout => "timeout",
    }
}

/// How many of the approvals that a gate needs are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumProgress {
    pub granted: u32,
    pub required: u32,
}

/// The run waits for something from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterruptRequested {
    pub data: Value,
    pub interrupt_id: InterruptId,
    pub key: String,
    pub kind: InterruptKind,
    pub node_id: NodeId,
    #[serde(with = "rfc3339")]
    pub requested_at: Timestamp,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub resume_schema: Option<Value>,
    pub run_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// What the run waited for is there, or its time is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterruptResolved {
    pub interrupt_id: InterruptId,
    pub kind: InterruptKind,
    pub node_id: NodeId,
    pub outcome: InterruptOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<ResolveReason>,
    #[serde(with = "rfc3339")]
    pub resolved_at: Timestamp,
    pub resolved_by: String,
    pub resume_value: Value,
}

/// Somebody has to approve. What is asked is the author's, as it is in the interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequested {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub actions: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub approvers_list: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub artifact_id: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub content_trust: Option<Value>,
    pub interrupt_id: InterruptId,
    pub node_id: NodeId,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub required_approvals: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub title: Option<Value>,
}

/// Somebody decided, or nobody did in time. What they said beside their action is theirs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalReceived {
    pub action: String,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub comment: Option<Value>,
    #[serde(with = "rfc3339")]
    pub decided_at: Timestamp,
    pub decided_by: String,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub edited_artifact_data: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub feedback: Option<Value>,
    pub node_id: NodeId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<InterruptOutcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum_progress: Option<QuorumProgress>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub refine_feedback: Option<Value>,
}

/// A governance gate was granted. The protocol closes this payload: it names the gate, and not the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalGranted {
    pub gate_id: NodeId,
    pub principal: String,
    pub quorum_progress: QuorumProgress,
}

/// A governance gate was rejected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRejected {
    pub gate_id: NodeId,
    pub principal: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A governance gate was overridden.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalOverridden {
    pub gate_id: NodeId,
    pub principal: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Somebody has to answer questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClarificationRequested {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub content_trust: Option<Value>,
    pub interrupt_id: InterruptId,
    pub node_id: NodeId,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub questions: Option<Value>,
}

/// The questions were answered. `answers` is by the id of the question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClarificationResolved {
    pub answered_by: String,
    pub answers: Value,
    pub node_id: NodeId,
}
