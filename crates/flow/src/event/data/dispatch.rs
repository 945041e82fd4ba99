//! Events of dispatched workers.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::definition::config::JoinMode;
use crate::id::{RunId, WorkflowId};
use crate::state::RunError;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// The phases of a handoff to a child run.
    pub enum ChainPhase {
        /// A worker is being started.
        DispatchBegan => "dispatch.began",
        /// The worker was started.
        DispatchSucceeded => "dispatch.succeeded",
        /// The worker could not be started.
        DispatchFailed => "dispatch.failed",
        /// The worker ended successfully.
        ChildCompleted => "child.completed",
        /// The worker ended with an error.
        ChildFailed => "child.failed",
        /// The worker was cancelled.
        ChildCancelled => "child.cancelled",
        /// The outputs of the worker were copied to the parent.
        OutputHarvested => "output.harvested",
    }
}

wire_enum! {
    /// The result of joining workers.
    pub enum JoinOutcome {
        /// All required workers completed.
        Satisfied => "satisfied",
        /// Enough workers completed, but not all.
        Partial => "partial",
        /// Too few workers completed.
        Failed => "failed",
    }
}

/// A phase of a handoff to a child run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowChainEvent {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harvested_keys: Option<Vec<String>>,
    pub parent_run_id: RunId,
    pub phase: ChainPhase,
    pub worker_id: WorkflowId,
}

/// The confidence of a decision was too low to act on it. `worker_id` is null if the decision names no worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfidenceEscalated {
    pub confidence: Number,
    pub escalation_kind: Cow<'static, str>,
    pub floor: Number,
    pub original_decision: Value,
    pub parent_run_id: RunId,
    pub worker_id: Option<WorkflowId>,
}

/// Several child runs were started in parallel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DispatchFanOut {
    pub child_count: u64,
    pub fan_out_policy: Cow<'static, str>,
    pub join_mode: JoinMode,
    pub max_concurrency: u64,
}

/// Several child runs were joined. `merge_order` lists them in the order in which the parent saw them end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DispatchJoin {
    pub cancelled_count: u64,
    pub completed_count: u64,
    pub failed_count: u64,
    pub join_outcome: JoinOutcome,
    pub merge_order: Vec<RunId>,
}
