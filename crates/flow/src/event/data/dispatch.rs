//! Events of the workers that a supervisor decided on.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::definition::config::JoinMode;
use crate::id::{RunId, WorkflowId};
use crate::state::RunError;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// The steps of a handoff to a child run.
    pub enum ChainPhase {
        /// A worker is about to be started.
        DispatchBegan => "dispatch.began",
        /// It was started.
        DispatchSucceeded => "dispatch.succeeded",
        /// It could not be.
        DispatchFailed => "dispatch.failed",
        /// It ended as it should.
        ChildCompleted => "child.completed",
        /// It ended with an error.
        ChildFailed => "child.failed",
        /// It was ended from outside.
        ChildCancelled => "child.cancelled",
        /// What it gives was taken over.
        OutputHarvested => "output.harvested",
    }
}

wire_enum! {
    /// What came of workers that were joined.
    pub enum JoinOutcome {
        /// All that was needed.
        Satisfied => "satisfied",
        /// Enough, although some did not complete.
        Partial => "partial",
        /// Too little.
        Failed => "failed",
    }
}

/// A step of a handoff to a child run.
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

/// A decision was too unsure to act on. `worker_id` is null where it named nobody.
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

/// Several child runs were started at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DispatchFanOut {
    pub child_count: u64,
    pub fan_out_policy: Cow<'static, str>,
    pub join_mode: JoinMode,
    pub max_concurrency: u64,
}

/// Several child runs were joined. `merge_order` has them in the order in which they were seen to end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DispatchJoin {
    pub cancelled_count: u64,
    pub completed_count: u64,
    pub failed_count: u64,
    pub join_outcome: JoinOutcome,
    pub merge_order: Vec<RunId>,
}
