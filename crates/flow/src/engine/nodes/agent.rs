//! An agent that says what it is configured to say.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::super::ask::{Question, Unsure};
use super::super::bounds::MAX_REASONING_BYTES;
use super::super::drain::Step;
use super::super::turn::Turn;
use super::super::{handoff, ids};
use crate::definition::NodeIndex;
use crate::event::data::agent::{
    AgentDecided, AgentHandoff, AgentReasoned, AgentReasoningDelta, AgentToolCalled, AgentToolReturned,
};
use crate::failure::FailureCode;
use crate::state::{Outcome, Resolution, RunError};

/// How sure a decision has to be when nobody says.
const DEFAULT_THRESHOLD: f64 = 0.7;

/// How sure a decision of an agent has to be: as the caller of the run says, or the pack of the agent, or the protocol.
///
/// It is asked for where the node is about to be suspended, or not. A run that is repeated does there what was recorded.
pub(super) fn threshold(turn: &Turn<'_>, agent_id: &str) -> f64 {
    if let Some(recorded) = &turn.recorded {
        return recorded.threshold(turn.state.next_sequence).unwrap_or(0.0);
    }
    let own = turn.state.genesis.configurable.get("escalationThreshold").and_then(Value::as_f64);
    own.or_else(|| turn.children.threshold(agent_id)).unwrap_or(DEFAULT_THRESHOLD)
}

/// The agent of a node: that of its configuration, that it is pinned to, or the host's own.
pub(super) fn agent_id(turn: &Turn<'_>, node: NodeIndex, role: &str) -> String {
    let node = turn.node(node);
    let pinned = node.agent.as_ref().and_then(|agent| agent.get("agentId"));
    let named = node.config.get("agentId").or(pinned).and_then(Value::as_str);
    named.map_or_else(|| format!("host:{role}:{}", node.id), str::to_owned)
}

pub(super) fn execute(turn: &mut Turn<'_>, node: NodeIndex) -> Step {
    let agent_id = agent_id(turn, node, "mock-agent");
    reason(turn, node, &agent_id);
    call_tools(turn, node, &agent_id);
    let config = &turn.node(node).config;
    if let Some(handoff) = config.get("mockHandoff") {
        let text = |name: &str| handoff.get(name).and_then(Value::as_str).map(str::to_owned);
        let told = AgentHandoff {
            agent_id: Some(agent_id.clone()),
            context: handoff.get("context").cloned(),
            reason: text("reason").map(Cow::Owned),
            ..handoff::between(agent_id.clone(), text("toAgentId").unwrap_or_default())
        };
        turn.emit(told, Some(node), None);
    }
    let synthetic = config
        .get("mockConfidence")
        .map(|confidence| json!({"decision": "proceed", "confidence": confidence}));
    let Some(mock) = config.get("mockDecision").cloned().or(synthetic) else {
        return Step::done(json!({"agentId": agent_id}));
    };
    let decision = mock.get("decision").cloned().unwrap_or_default();
    let confidence = mock.get("confidence").cloned();
    let decided = AgentDecided {
        agent_id: agent_id.clone(),
        confidence: confidence.clone(),
        content_trust: None,
        decision: decision.clone(),
        reasoning: mock.get("reasoning").cloned(),
    };
    let cause = turn.emit(decided, Some(node), None);
    let threshold = threshold(turn, &agent_id);
    match confidence.as_ref().and_then(Value::as_f64) {
        Some(observed) if observed < threshold => {
            let unsure = Unsure { agent_id, observed, threshold };
            turn.raise(node, Question { cause: Some(cause), ..Question::low_confidence(unsure, &decision) });
            Step::Waits
        }
        _ => Step::done(json!({"agentId": agent_id, "decision": decision})),
    }
}

/// An operator let the decision stand, or put another in its place.
pub(super) fn ratified(resolution: &Resolution) -> Step {
    if resolution.outcome == Outcome::Rejected {
        return Step::failed(RunError::of(FailureCode::InterruptRejected, "the decision was rejected"));
    }
    let data = &resolution.interrupt.data;
    let other = resolution.value.get("decision").filter(|decision| !decision.is_string());
    let decision = other.or_else(|| data.get("decision")).cloned().unwrap_or_default();
    Step::done(json!({"agentId": data.get("agentId"), "decision": decision, "output": resolution.value}))
}

fn reason(turn: &mut Turn<'_>, node: NodeIndex, agent_id: &str) {
    let verbosity = turn.state.genesis.configurable.get("reasoningVerbosity").and_then(Value::as_str);
    let verbosity = verbosity.unwrap_or("summary").to_owned();
    let Some(mock) = turn.node(node).config.get("mockReasoning") else { return };
    if *mock == Value::Bool(false) || verbosity == "off" {
        return;
    }
    let chunks = mock.get("streamChunks").and_then(Value::as_array);
    let chunks: Vec<&str> = chunks.into_iter().flatten().filter_map(Value::as_str).collect();
    for (sequence, delta) in (0..).zip(&chunks) {
        let told = AgentReasoningDelta {
            agent_id: agent_id.to_owned(),
            delta: (*delta).to_owned(),
            sequence,
            verbosity: verbosity.clone(),
        };
        turn.emit(told, Some(node), None);
    }
    let summary = mock.get("summary").and_then(Value::as_str).unwrap_or("A mock agent has no reasons.");
    let trace = mock.get("trace").and_then(Value::as_str).unwrap_or(summary);
    // What was streamed is what was reasoned, to the letter.
    let reasoning = match (chunks.is_empty(), verbosity.as_str()) {
        (false, _) => chunks.concat(),
        (true, "summary") => beginning(trace).to_owned(),
        (true, _) => trace.to_owned(),
    };
    let told = AgentReasoned {
        agent_id: agent_id.to_owned(),
        reasoning,
        summary: Some(summary.to_owned()),
        token_count: mock.get("tokenCount").cloned(),
        verbosity,
    };
    turn.emit(told, Some(node), None);
}

/// As much of a text as a summary holds, between two characters.
fn beginning(text: &str) -> &str {
    let mut end = text.len().min(MAX_REASONING_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn call_tools(turn: &mut Turn<'_>, node: NodeIndex, agent_id: &str) {
    let calls = turn.node(node).config.get("mockToolCalls").and_then(Value::as_array);
    let (iteration, attempt) = (turn.state.nodes[node].iteration, turn.state.nodes[node].attempt);
    for (place, call) in calls.into_iter().flatten().enumerate() {
        let call_id = ids::call_id(&turn.node(node).id, iteration, attempt, place);
        let tool = call.get("toolId").and_then(Value::as_str).unwrap_or_default().to_owned();
        let arguments = call.get("arguments").cloned().unwrap_or_else(|| json!({}));
        let called = AgentToolCalled {
            agent_id: agent_id.to_owned(),
            args_hash: None,
            arguments: Some(arguments.clone()),
            call_id: call_id.clone(),
            inputs: Some(arguments),
            tool_id: tool.clone(),
            tool_name: tool.clone(),
            transport: None,
        };
        let cause = turn.emit(called, Some(node), None);
        let error = call.get("error").map(tool_error);
        let result = call.get("result");
        let returned = AgentToolReturned {
            agent_id: agent_id.to_owned(),
            call_id,
            content_trust: None,
            duration_ms: call.get("durationMs").and_then(Value::as_u64),
            status: if error.is_some() { "error" } else { "ok" }.into(),
            error,
            outcome: result.cloned(),
            result: result.cloned(),
            tool_id: tool.clone(),
            tool_name: tool,
            transport: None,
        };
        turn.emit(returned, Some(node), Some(cause));
    }
}

/// The error of a tool, with its code under both of its names.
fn tool_error(error: &Value) -> Value {
    let text = |name: &str| error.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let code = text("error").or_else(|| text("code")).unwrap_or("tool_failed");
    let mut told = json!({"code": code, "error": code, "message": text("message").unwrap_or(code)});
    if let Some(details) = error.get("details") {
        told["details"] = details.clone();
    }
    told
}
