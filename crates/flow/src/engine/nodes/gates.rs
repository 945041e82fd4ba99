//! Nodes that wait for a person or an external event.

use serde_json::{Map, Value, json};

use super::super::ask::{ExternalOrigin, Question, SuspendReason};
use super::super::drain::Step;
use super::super::turn::Turn;
use crate::definition::NodeIndex;
use crate::definition::config::{
    ApprovalGateConfig, ClarificationGateConfig, GovernanceGateConfig, InterruptConfig,
};
use crate::failure::FailureCode;
use crate::interrupt::InterruptKind;
use crate::mask;
use crate::state::{Resolution, ResolutionOutcome, RunError};

/// Asks the question of a `core.interrupt` configuration.
pub(super) fn ask(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &InterruptConfig,
    origin: ExternalOrigin,
) -> Step {
    let kind = config.kind;
    let mut data = config.data.clone().unwrap_or_else(|| json!({}));
    if kind == InterruptKind::Approval {
        complete_approval(turn, node, &mut data);
    }
    let mut question = Question::new(kind, data);
    question.resume_schema = config.resume_schema.clone();
    question.timeout_ms = timeout(config.timeout_ms, 1.0);
    question.origin = origin;
    if kind == InterruptKind::ConversationExchange {
        question.why = SuspendReason::reason("conversation-input");
    }
    turn.raise(node, question);
    Step::Waits
}

pub(super) fn approval(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &ApprovalGateConfig,
    inputs: &Map<String, Value>,
) -> Step {
    let mut data = serde_json::to_value(config).expect("all keys are strings");
    show_inputs(turn, node, inputs, &mut data);
    complete_approval(turn, node, &mut data);
    let timeout_ms = timeout(config.timeout_ms, 1.0);
    turn.raise(node, Question { timeout_ms, ..Question::new(InterruptKind::Approval, data) });
    Step::Waits
}

/// Shows the inputs of the gate to the approvers, unless its author configured `artifactData`.
fn show_inputs(turn: &Turn<'_>, node: NodeIndex, inputs: &Map<String, Value>, data: &mut Value) {
    let shown = mask::inputs(turn.definition, node, inputs);
    if data.get("artifactData").is_none() && !shown.is_empty() {
        data["artifactData"] = Value::Object(shown);
    }
}

/// Adds members that the protocol requires and the author may omit.
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

pub(super) fn clarification(turn: &mut Turn<'_>, node: NodeIndex, config: &ClarificationGateConfig) -> Step {
    let mut data = json!({"questions": config.questions});
    if let Some(context) = &config.context_type {
        data["contextType"] = context.as_str().into();
    }
    let timeout_ms = timeout(config.timeout_ms, 1.0);
    turn.raise(node, Question { timeout_ms, ..Question::new(InterruptKind::Clarification, data) });
    Step::Waits
}

pub(super) fn governance(
    turn: &mut Turn<'_>,
    node: NodeIndex,
    config: &GovernanceGateConfig,
    inputs: &Map<String, Value>,
) -> Step {
    let mut data = json!({"actions": ["accept", "reject"]});
    let (bypasses, quorum) =
        (config.override_bypasses_quorum.map(Value::from), config.quorum.map(Value::from));
    let shown = [
        ("title", &config.title),
        ("description", &config.description),
        ("artifactId", &config.artifact_id),
        ("artifactType", &config.artifact_type),
        ("artifactData", &config.artifact_data),
        ("overrideBypassesQuorum", &bypasses),
        ("requiredApprovals", &quorum),
    ];
    for (member, value) in shown {
        if let Some(value) = value {
            data[member] = value.clone();
        }
    }
    if let Some(role) = &config.required_role {
        data["approverRoleRefs"] = json!([role]);
    }
    show_inputs(turn, node, inputs, &mut data);
    complete_approval(turn, node, &mut data);
    let timeout_ms = timeout(config.timeout_sec, 1000.0);
    turn.raise(node, Question { timeout_ms, ..Question::new(InterruptKind::Approval, data) });
    Step::Waits
}

/// A timeout in milliseconds; `None` if there is none.
fn timeout(value: Option<f64>, unit: f64) -> Option<u64> {
    let milliseconds = value.filter(|number| *number > 0.0)? * unit;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the value is positive, and the cast saturates"
    )]
    let milliseconds = milliseconds as u64;
    Some(milliseconds.min(super::MAX_DELAY_MS))
}

/// Continues with the answer to a gate.
pub(super) fn answered(turn: &Turn<'_>, node: NodeIndex, resolution: &Resolution) -> Step {
    match resolution.interrupt.kind {
        InterruptKind::Approval => decided(turn, node, resolution),
        InterruptKind::Clarification
        | InterruptKind::ExternalEvent
        | InterruptKind::Custom
        | InterruptKind::ConversationStart
        | InterruptKind::ConversationExchange
        | InterruptKind::ConversationClose
        | InterruptKind::LowConfidence => resumed(resolution),
    }
}

/// What follows from the decision at a gate. After a rejection the node fails, unless the author provided an edge for this case: one with
/// a condition, or one that loops back.
fn decided(turn: &Turn<'_>, node: NodeIndex, resolution: &Resolution) -> Step {
    let action = resolution.value.get("action").and_then(Value::as_str).unwrap_or("accept");
    let graph = &turn.definition.graph;
    let edges = &graph.outgoing[node];
    let has_edge =
        edges.iter().any(|edge| graph.loops_back[*edge] || turn.definition.edges[*edge].condition.is_some());
    let passes = match (resolution.outcome, action) {
        (ResolutionOutcome::Accepted, "refine") => has_edge || edges.is_empty(),
        (ResolutionOutcome::Accepted, _) => true,
        (ResolutionOutcome::Rejected | ResolutionOutcome::TimedOut, _) => has_edge,
    };
    if passes {
        let mut outputs = json!({});
        if let Value::Object(members) = &resolution.value {
            for (name, value) in members {
                outputs[name.as_str()] = value.clone();
            }
        }
        // These members are set last, so that an answer cannot forge who decided.
        outputs["output"] = resolution.value.clone();
        outputs["decidedBy"] = resolution.by.as_str().into();
        outputs["approved"] =
            (resolution.outcome == ResolutionOutcome::Accepted && action != "refine").into();
        return Step::done(outputs);
    }
    let timed_out = resolution.outcome == ResolutionOutcome::TimedOut;
    let message = if timed_out { "the approval timed out" } else { "the approval was rejected" };
    let reason = if timed_out { "timeout" } else { action };
    Step::failed(RunError::of(FailureCode::InterruptRejected, message).with(json!({"reason": reason})))
}

/// The answer becomes the output of the node.
fn resumed(resolution: &Resolution) -> Step {
    let mut outputs = json!({"output": resolution.value});
    if let Some(answers) = resolution.value.get("answers") {
        outputs["answers"] = answers.clone();
    }
    Step::done(outputs)
}
