//! Nodes that wait for a person, or for something from outside.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::ask::{Outside, Question, Why};
use super::super::drain::Step;
use super::super::turn::Turn;
use crate::definition::NodeIndex;
use crate::failure::FailureCode;
use crate::interrupt::InterruptKind;
use crate::mask;
use crate::state::{Outcome, Resolution, RunError};

pub(super) fn interrupt(turn: &mut Turn<'_>, node: NodeIndex) -> Step {
    ask(turn, node, &turn.node(node).config, Outside::default())
}

/// Asks what a configuration of `core.interrupt` says.
pub(super) fn ask(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &Map<String, Value>,
    outside: Outside,
) -> Step {
    let kind = config.get("kind").and_then(|kind| InterruptKind::deserialize(kind).ok());
    let kind = kind.unwrap_or(InterruptKind::Custom);
    let mut data = config.get("data").cloned().unwrap_or_else(|| json!({}));
    if kind == InterruptKind::Approval {
        complete_approval(turn, node, &mut data);
    }
    let mut question = Question::new(kind, data);
    question.resume_schema = config.get("resumeSchema").cloned();
    question.timeout_ms = timeout(config.get("timeoutMs"), 1.0);
    question.outside = outside;
    if kind == InterruptKind::ConversationExchange {
        question.why = Why::reason("conversation-input");
    }
    turn.raise(node, question);
    Step::Waits
}

pub(super) fn approval(turn: &mut Turn<'_>, node: NodeIndex, inputs: &Map<String, Value>) -> Step {
    let config = &turn.node(node).config;
    let mut data = json!({});
    let members = [
        "artifactId",
        "artifactType",
        "title",
        "description",
        "artifactData",
        "actions",
        "requiredApprovals",
        "approversList",
        "rejectionPolicy",
        "overrideBypassesQuorum",
        "approverGroupRefs",
        "approverRoleRefs",
        "audience",
    ];
    for member in members {
        if let Some(value) = config.get(member) {
            data[member] = value.clone();
        }
    }
    show_inputs(turn, node, inputs, &mut data);
    complete_approval(turn, node, &mut data);
    let timeout_ms = timeout(config.get("timeoutMs"), 1.0);
    turn.raise(node, Question { timeout_ms, ..Question::new(InterruptKind::Approval, data) });
    Step::Waits
}

/// Whoever approves sees what: the inputs of the gate, unless its author put something in their place.
fn show_inputs(turn: &Turn<'_>, node: NodeIndex, inputs: &Map<String, Value>, data: &mut Value) {
    let shown = mask::inputs(turn.definition, node, inputs);
    if data.get("artifactData").is_none() && !shown.is_empty() {
        data["artifactData"] = Value::Object(shown);
    }
}

/// What the protocol asks of an approval and the author need not say.
fn complete_approval(turn: &Turn<'_>, node: NodeIndex, data: &mut Value) {
    let Value::Object(members) = data else { return };
    let node = turn.node(node);
    members.entry("artifactId").or_insert_with(|| format!("approval:{}", node.id).into());
    members.entry("artifactType").or_insert_with(|| "approval".into());
    members
        .entry("title")
        .or_insert_with(|| if node.name.is_empty() { "Approval" } else { &node.name }.into());
    members.entry("actions").or_insert_with(|| json!(["accept", "reject"]));
}

pub(super) fn clarification(turn: &mut Turn<'_>, node: NodeIndex) -> Step {
    let config = &turn.node(node).config;
    let mut data = json!({"questions": config.get("questions").cloned().unwrap_or_else(|| json!([]))});
    if let Some(context) = config.get("contextType") {
        data["contextType"] = context.clone();
    }
    let timeout_ms = timeout(config.get("timeoutMs"), 1.0);
    turn.raise(node, Question { timeout_ms, ..Question::new(InterruptKind::Clarification, data) });
    Step::Waits
}

pub(super) fn governance(turn: &mut Turn<'_>, node: NodeIndex, inputs: &Map<String, Value>) -> Step {
    let config = &turn.node(node).config;
    let mut data = json!({"actions": ["accept", "reject"]});
    for member in
        ["title", "description", "artifactId", "artifactType", "artifactData", "overrideBypassesQuorum"]
    {
        if let Some(value) = config.get(member) {
            data[member] = value.clone();
        }
    }
    if let Some(quorum) = config.get("quorum") {
        data["requiredApprovals"] = quorum.clone();
    }
    if let Some(role) = config.get("requiredRole") {
        data["approverRoleRefs"] = json!([role]);
    }
    show_inputs(turn, node, inputs, &mut data);
    complete_approval(turn, node, &mut data);
    let timeout_ms = timeout(config.get("timeoutSec"), 1000.0);
    turn.raise(node, Question { timeout_ms, ..Question::new(InterruptKind::Approval, data) });
    Step::Waits
}

/// A time that is waited for; nothing for none.
fn timeout(value: Option<&Value>, unit: f64) -> Option<u64> {
    let milliseconds = value.and_then(Value::as_f64).filter(|number| *number > 0.0)? * unit;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is positive, and the cast saturates"
    )]
    let milliseconds = milliseconds as u64;
    Some(milliseconds.min(super::MAX_DELAY_MS))
}

/// What follows from the decision at a gate. A gate that did not open lets nothing through, unless the author
/// drew a way for that.
pub(super) fn decided(turn: &Turn<'_>, node: NodeIndex, resolution: &Resolution) -> Step {
    let action = resolution.value.get("action").and_then(Value::as_str).unwrap_or("accept");
    let graph = &turn.definition.graph;
    let edges = &graph.outgoing[node];
    let has_way =
        edges.iter().any(|edge| graph.loops_back[*edge] || turn.definition.edges[*edge].condition.is_some());
    let passes = match (resolution.outcome, action) {
        (Outcome::Accepted, "refine") => has_way || edges.is_empty(),
        (Outcome::Accepted, _) => true,
        (Outcome::Rejected | Outcome::TimedOut, _) => has_way,
    };
    if passes {
        let mut outputs = json!({});
        if let Value::Object(members) = &resolution.value {
            for (name, value) in members {
                outputs[name.as_str()] = value.clone();
            }
        }
        // Whatever the answer says of itself: who decided is what was recorded.
        outputs["output"] = resolution.value.clone();
        outputs["decidedBy"] = resolution.by.as_str().into();
        outputs["approved"] = (resolution.outcome == Outcome::Accepted && action != "refine").into();
        return Step::done(outputs);
    }
    let timed_out = resolution.outcome == Outcome::TimedOut;
    let message = if timed_out { "nobody approved in time" } else { "the approval was refused" };
    let reason = if timed_out { "timeout" } else { action };
    Step::failed(RunError::of(FailureCode::InterruptRejected, message).with(json!({"reason": reason})))
}

/// A node that was resumed gives the answer.
pub(super) fn resumed(resolution: &Resolution) -> Step {
    let mut outputs = json!({"output": resolution.value});
    if let Some(answers) = resolution.value.get("answers") {
        outputs["answers"] = answers.clone();
    }
    Step::done(outputs)
}
