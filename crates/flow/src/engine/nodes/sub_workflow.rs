//! A node that runs another workflow.

use serde_json::{Value, json};

use super::super::children::child_failed;
use super::super::drain::Step;
use super::super::turn::Turn;
use crate::definition::NodeIndex;
use crate::id::WorkflowId;
use crate::run::RunStatus;
use crate::state::RunError;

pub(in crate::engine) fn execute(turn: &mut Turn<'_>, node: NodeIndex) -> Step {
    let workflow_id = turn.node(node).config.get("workflowId").and_then(Value::as_str).unwrap_or_default();
    let workflow_id = WorkflowId::new(workflow_id);
    if let Some(error) = turn.refuse_child(&workflow_id) {
        return Step::failed(error);
    }
    let cause = turn.state.nodes[node].last_sequence;
    turn.start_child(node, &workflow_id, cause);
    Step::Waits
}

/// What follows from the end of the child, as it is recorded.
pub(in crate::engine) fn ended(turn: &Turn<'_>, node: NodeIndex, place: usize) -> Step {
    ended_with(turn, node, place, turn.state.children[place].error.clone())
}

/// What follows from the end of the child.
pub(in crate::engine) fn ended_with(
    turn: &Turn<'_>,
    node: NodeIndex,
    place: usize,
    error: Option<RunError>,
) -> Step {
    let child = &turn.state.children[place];
    let absorbs = turn.node(node).config.get("onChildFailure").and_then(Value::as_str) == Some("absorb");
    if child.status != RunStatus::Completed && !absorbs {
        return Step::failed_once(child_failed(child, error.as_ref()));
    }
    let mut outputs = json!({"childRunId": child.run_id, "childStatus": child.status.as_str()});
    if let Some(error) = error {
        outputs["error"] = error.to_json();
    }
    Step::done(outputs)
}
