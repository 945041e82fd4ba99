//! The mock agent, which does what its configuration says.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::super::ask::{LowConfidence, Question};
use super::super::bounds::MAX_REASONING_BYTES;
use super::super::drain::Step;
use super::super::turn::Turn;
use super::super::{handoff, ids};
use crate::definition::config::{MockAgentConfig, MockReasoning, MockThoughts, MockToolError};
use crate::definition::{Node, NodeIndex};
use crate::event::data::agent::{
    AgentDecided, AgentHandoff, AgentReasoned, AgentReasoningDelta, AgentToolCalled, AgentToolReturned,
};
use crate::failure::FailureCode;
use crate::state::{Resolution, ResolutionOutcome, RunError};

/// The default minimum confidence of a decision.
const DEFAULT_THRESHOLD: f64 = 0.7;

/// The minimum confidence of an agent's decision: from the options of the run, from the pack of the agent, or the default.
///
/// Call it where the node may be suspended. A replay then does what was recorded.
pub(super) fn threshold(turn: &Turn<'_>, agent_id: &str) -> f64 {
    if let Some(recorded) = &turn.recorded {
        return recorded.threshold(turn.state.next_sequence).unwrap_or(0.0);
    }
    let own = turn.state.genesis.configurable.get("escalationThreshold").and_then(Value::as_f64);
    own.or_else(|| turn.environment.threshold(agent_id)).unwrap_or(DEFAULT_THRESHOLD)
}

/// The id of the agent that a node is pinned to.
pub(super) fn pinned(node: &Node) -> Option<&str> {
    node.agent.as_ref()?.get("agentId")?.as_str()
}

/// The id of the agent of a node: the named one, or else one that is derived from the node.
pub(super) fn agent_id(node: &Node, named: Option<&str>, role: &str) -> String {
    named.map_or_else(|| format!("host:{role}:{}", node.id), str::to_owned)
}

pub(super) fn execute(turn: &mut Turn<'_>, node: NodeIndex, config: &MockAgentConfig) -> Step {
    let subject = turn.node(node);
    let agent_id = agent_id(subject, config.agent_id.as_deref().or_else(|| pinned(subject)), "mock-agent");
    reason(turn, node, config, &agent_id);
    call_tools(turn, node, config, &agent_id);
    if let Some(handoff) = &config.mock_handoff {
        let event = AgentHandoff {
            agent_id: Some(agent_id.clone()),
            context: handoff.context.clone(),
            reason: handoff.reason.clone().map(Cow::Owned),
            ..handoff::between(agent_id.clone(), handoff.to_agent_id.clone())
        };
        turn.emit(event, Some(node), None);
    }
    let (decision, confidence, reasoning) = match (&config.mock_decision, &config.mock_confidence) {
        (Some(mock), _) => (mock.decision.clone(), mock.confidence.clone(), mock.reasoning.clone()),
        (None, Some(confidence)) => ("proceed".into(), Some(confidence.clone()), None),
        (None, None) => return Step::done(json!({"agentId": agent_id})),
    };
    let decided = AgentDecided {
        agent_id: agent_id.clone(),
        confidence: confidence.clone(),
        content_trust: None,
        decision: decision.clone(),
        reasoning: reasoning.map(Value::String),
    };
    let cause = turn.emit(decided, Some(node), None);
    let threshold = threshold(turn, &agent_id);
    match confidence.as_ref().and_then(Value::as_f64) {
        Some(observed) if observed < threshold => {
            let low_confidence = LowConfidence { agent_id, observed, threshold };
            let question =
                Question { cause: Some(cause), ..Question::low_confidence(low_confidence, &decision) };
            turn.raise(node, question);
            Step::Waits
        }
        _ => Step::done(json!({"agentId": agent_id, "decision": decision})),
    }
}

/// An operator accepted the decision, or replaced it.
pub(super) fn reviewed(resolution: &Resolution) -> Step {
    if resolution.outcome == ResolutionOutcome::Rejected {
        return Step::failed(RunError::of(FailureCode::InterruptRejected, "the decision was rejected"));
    }
    let data = &resolution.interrupt.data;
    let other = resolution.value.get("decision").filter(|decision| !decision.is_string());
    let decision = other.or_else(|| data.get("decision")).cloned().unwrap_or_default();
    Step::done(json!({"agentId": data.get("agentId"), "decision": decision, "output": resolution.value}))
}

fn reason(turn: &mut Turn<'_>, node: NodeIndex, config: &MockAgentConfig, agent_id: &str) {
    let verbosity = turn.state.genesis.configurable.get("reasoningVerbosity").and_then(Value::as_str);
    let verbosity = verbosity.unwrap_or("summary").to_owned();
    let default;
    let thoughts = match &config.mock_reasoning {
        None | Some(MockReasoning::Enabled(false)) => return,
        Some(MockReasoning::Thoughts(thoughts)) => thoughts,
        Some(MockReasoning::Enabled(true)) => {
            let summary = "A mock agent has no reasons.".to_owned();
            default = MockThoughts { summary, ..MockThoughts::default() };
            &default
        }
    };
    if verbosity == "off" {
        return;
    }
    let MockThoughts { stream_chunks: chunks, summary, token_count, trace } = thoughts;
    for (sequence, delta) in (0..).zip(chunks) {
        let event = AgentReasoningDelta {
            agent_id: agent_id.to_owned(),
            delta: delta.clone(),
            sequence,
            verbosity: verbosity.clone(),
        };
        turn.emit(event, Some(node), None);
    }
    let trace = trace.as_ref().unwrap_or(summary);
    // The complete reasoning is exactly what was streamed.
    let reasoning = match (chunks.is_empty(), verbosity.as_str()) {
        (false, _) => chunks.concat(),
        (true, "summary") => truncated(trace).to_owned(),
        (true, _) => trace.clone(),
    };
    let event = AgentReasoned {
        agent_id: agent_id.to_owned(),
        reasoning,
        summary: Some(summary.clone()),
        token_count: token_count.clone(),
        verbosity,
    };
    turn.emit(event, Some(node), None);
}

/// The part of a text that fits into a summary, cut between two characters.
fn truncated(text: &str) -> &str {
    let mut end = text.len().min(MAX_REASONING_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn call_tools(turn: &mut Turn<'_>, node: NodeIndex, config: &MockAgentConfig, agent_id: &str) {
    let (iteration, attempt) = (turn.state.nodes[node].iteration, turn.state.nodes[node].attempt);
    for (index, call) in config.mock_tool_calls.iter().enumerate() {
        let call_id = ids::call_id(&turn.node(node).id, iteration, attempt, index);
        let tool = &call.tool_id;
        let arguments = call.arguments.clone().unwrap_or_else(|| json!({}));
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
        let error = call.error.as_ref().map(tool_error);
        let returned = AgentToolReturned {
            agent_id: agent_id.to_owned(),
            call_id,
            content_trust: None,
            duration_ms: call.duration_ms,
            status: if error.is_some() { "error" } else { "ok" }.into(),
            error,
            outcome: call.result.clone(),
            result: call.result.clone(),
            tool_id: tool.clone(),
            tool_name: tool.clone(),
            transport: None,
        };
        turn.emit(returned, Some(node), Some(cause));
    }
}

/// The error of a tool, with its code under both member names.
fn tool_error(error: &MockToolError) -> Value {
    let mut event = json!({"code": error.error, "error": error.error, "message": error.message});
    if let Some(details) = &error.details {
        event["details"] = Value::Object(details.clone());
    }
    event
}
