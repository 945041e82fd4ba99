//! Events of interrupts and their answers.

use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{present, rfc3339};
use crate::id::{InterruptId, NodeId, RunId};
use crate::interrupt::InterruptKind;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// How an interrupt ended. A timeout counts as a rejection: no answer never means approval.
    pub enum InterruptOutcome {
        /// The node continues with the answer.
        Accepted => "accepted",
        /// The node does not continue.
        Rejected => "rejected",
    }
}

wire_enum! {
    /// Why an interrupt ended without an answer.
    pub enum ResolveReason {
        /// No answer arrived in time.
        Timeout => "timeout",
    }
}

/// The number of approvals, and the number that a gate requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumProgress {
    pub granted: u32,
    pub required: u32,
}

/// The run waits for a person or an external event.
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

/// The interrupt was answered or timed out.
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

/// A person must approve. Titles, actions and artifacts come from the author of the workflow, as in the interrupt.
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

/// A person approved, rejected or refined, or the approval timed out. `comment`, `feedback` and edited data come from that person.
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

/// A governance gate was granted. The protocol allows no other members here: the gate is named by `gateId`, not by `nodeId`.
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

/// A person must answer questions.
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

/// The questions were answered. The keys of `answers` are the ids of the questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClarificationResolved {
    pub answered_by: String,
    pub answers: Value,
    pub node_id: NodeId,
}
