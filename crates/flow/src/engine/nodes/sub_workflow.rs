//! A node that runs another workflow.

use serde_json::json;

use super::super::children::child_failed;
use super::super::drain::Step;
use super::super::turn::Turn;
use crate::definition::NodeIndex;
use crate::definition::config::{OnChildFailure, SubWorkflowConfig};
use crate::id::WorkflowId;
use crate::run::RunStatus;
use crate::state::RunError;

pub(in crate::engine) fn execute(turn: &mut Turn<'_>, node: NodeIndex, config: &SubWorkflowConfig) -> Step {
    let workflow_id = WorkflowId::new(config.workflow_id.as_str());
    if let Some(error) = turn.refuse_child(&workflow_id) {
        return Step::failed(error);
    }
    let cause = turn.state.nodes[node].last_sequence;
    turn.start_child(node, &workflow_id, cause);
    Step::Waits
}

/// What follows from the recorded end of the child.
pub(in crate::engine) fn ended(turn: &Turn<'_>, config: &SubWorkflowConfig, index: usize) -> Step {
    ended_with(turn, config, index, turn.state.children[index].error.clone())
}

/// What follows from the end of the child.
pub(in crate::engine) fn ended_with(
    turn: &Turn<'_>,
    config: &SubWorkflowConfig,
    index: usize,
    error: Option<RunError>,
) -> Step {
    let child = &turn.state.children[index];
    if child.status != RunStatus::Completed {
        match config.on_child_failure {
            OnChildFailure::FailParent => return Step::failed_retryable(child_failed(child, error.as_ref())),
            OnChildFailure::Absorb => {}
        }
    }
    let mut outputs = json!({"childRunId": child.run_id, "childStatus": child.status.as_str()});
    if let Some(error) = error {
        outputs["error"] = error.to_json();
    }
    Step::done(outputs)
}
