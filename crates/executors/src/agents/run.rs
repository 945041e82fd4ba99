//! `core.agents.run`: an agent of an installed pack performs one task with a model, and with tools if the node declares
//! some.
//!
//! ```text
//! agent of the node ─► tools on its list? ─► task matches its schema? ─► model ─► result matches its schema? ─► agent.decided, outputs
//!                                                                         ▲ │
//!                                                                         │ ▼ up to the maximum number of rounds
//!                                                                        tools
//! ```
//!
//! Tools are names, never code. The tools that a node [declares](super::tools) are checked against the list of the agent's pack when its
//! workflow is registered, when the node starts, and before each call. Every model reply and every tool call has its own id, derived from its
//! number, so that it is paid for or executed only once. The output of a tool is untrusted, and so is what the model derives from it: the
//! outputs are marked.

use ai::tools::Bounds;
use ai::trust::{self, Trust};
use flow::definition::{Node, PortValue};
use flow::engine::{Cause, NodeCall, Reported};
use flow::event::EventData;
use flow::event::data::agent::AgentDecided;
use flow::failure::FailureCode;
use flow::state::RunError;
use serde_json::{Map, Value, json};

use super::super::models::{Models, Tools, trust_of};
use super::super::{NodeRequest, Performed, mcp};
use super::tools::{self, Declared, ToolContext};
use super::toolset::Toolset;
use super::{Agent, Agents};

/// The node type that asks a model for text.
const CALL_PROMPT: &str = "core.ai.callPrompt";

/// Problems of a node that are detectable at registration, each with its location in the configuration.
pub(in super::super) fn problems(
    agents: &Agents,
    tool_context: ToolContext<'_>,
    node: &Node,
) -> Vec<(&'static str, String)> {
    let named = agent_id(&node.raw_config, node.agent.as_ref());
    let Some(agent) = named.as_deref().and_then(|id| agents.get(id)) else {
        return vec![("/agentId", unknown(named.as_deref()))];
    };
    let mut found = Vec::new();
    if let Err(bad) = tools::declared(agent, &node.raw_config, tool_context) {
        found.push(("/tools", format!("{}: {}", bad.code, bad.message)));
    }
    found.extend(tools::rounds_problem(&node.raw_config).map(|problem| ("/maxRounds", problem)));
    // A task with only static inputs is known now.
    let values: Option<Map<String, Value>> = node
        .inputs
        .iter()
        .map(|(port, value)| match value {
            PortValue::Static(value) => Some((port.clone(), value.clone())),
            _ => None,
        })
        .collect();
    if let Some(task) = values.filter(|task| !task.is_empty())
        && let Err(problem) = agent.schemas.check_task(&Value::Object(task))
    {
        found.push(("/agentId", problem.to_string()));
    }
    found
}

/// Performs the task.
pub(in super::super) async fn perform(
    agents: &Agents,
    models: &Models,
    tool_context: ToolContext<'_>,
    asked: NodeRequest<'_>,
) -> Performed {
    let Plan { agent, call, tools } = match plan(agents, tool_context, asked) {
        Ok(plan) => plan,
        Err(error) => return Performed::plain(Err(error)),
    };
    let task = NodeRequest { call: &call, ..asked };
    let performed = if tools.is_empty() {
        models.perform(task).await
    } else {
        match Toolset::prepare(agent, tool_context, tools, asked).await {
            Ok(toolset) => {
                let agent_id = agent.manifest.agent_id.as_str();
                models
                    .converse(task, Tools { toolset: &toolset, agent_id, bounds: bounds(&asked.call.config) })
                    .await
            }
            Err(error) => return Performed::plain(Err(error)),
        }
    };
    match performed.outcome {
        // A person must answer first.
        Ok(_) if performed.waits() => performed,
        Ok(gave) => returned(agent, performed.reports, &gave, trust_of(asked)),
        Err(error) => Performed { reports: performed.reports, outcome: Err(error) },
    }
}

/// What to execute.
struct Plan<'a> {
    agent: &'a Agent,
    /// The call, as for a node that asks a model for text.
    call: NodeCall,
    tools: Vec<Declared>,
}

fn plan<'a>(
    agents: &'a Agents,
    tool_context: ToolContext<'_>,
    asked: NodeRequest<'_>,
) -> Result<Plan<'a>, RunError> {
    let call = asked.call;
    let named = agent_id(&call.config, call.agent.as_ref());
    let agent = named.as_deref().and_then(|id| agents.get(id)).ok_or_else(|| {
        RunError::of(FailureCode::CapabilityNotProvided, unknown(named.as_deref()))
            .with(json!({"agentId": named}))
    })?;
    let tools = tools::declared(agent, &call.config, tool_context)
        .map_err(|bad| RunError::new(bad.code, bad.message).with(bad.details))?;
    let agent_id = agent.manifest.agent_id.as_str();
    let task = Value::Object(call.inputs.clone());
    agent.schemas.check_task(&task).map_err(|problem| {
        violation(FailureCode::HandoffTaskSchemaViolation, agent_id, problem.to_string())
    })?;
    let text = match trust_of(asked) {
        Trust::Trusted => task_text(&call.inputs),
        Trust::Untrusted => trust::wrap(&task_text(&call.inputs)),
    };
    let mut config =
        Map::from_iter([("agentId".to_owned(), agent_id.into()), ("userPrompt".to_owned(), text.into())]);
    if let Some(prompt) = &agent.system_prompt {
        config.insert("systemPrompt".to_owned(), prompt.as_str().into());
    }
    for member in ["provider", "model"] {
        if let Some(value) = call.config.get(member) {
            config.insert(member.to_owned(), value.clone());
        }
    }
    let inputs = Map::new();
    let pin = call.agent.clone().or_else(|| Some(json!({"agentId": agent_id})));
    let call = NodeCall { type_id: CALL_PROMPT.to_owned(), config, inputs, agent: pin, ..call.clone() };
    Ok(Plan { agent, call, tools })
}

/// The limits of the conversation of this node.
fn bounds(config: &Map<String, Value>) -> Bounds {
    let rounds =
        config.get("maxRounds").and_then(Value::as_u64).and_then(|rounds| u32::try_from(rounds).ok());
    let default = Bounds::default();
    Bounds { rounds: rounds.unwrap_or(default.rounds), ..default }
}

/// The agent that a node names, or is pinned to.
fn agent_id(config: &Map<String, Value>, pinned: Option<&Value>) -> Option<String> {
    let pinned = || pinned.and_then(|agent| agent.get("agentId"));
    config.get("agentId").or_else(pinned).and_then(Value::as_str).map(str::to_owned)
}

fn unknown(agent_id: Option<&str>) -> String {
    match agent_id {
        None => "the node names no agent; set `agentId`, or pin it to an agent with `agent`".to_owned(),
        Some(id) => format!("no installed pack provides the agent `{id}`; see GET /v1/agents"),
    }
}

/// The text of the task: a prompt unchanged, anything else as JSON.
fn task_text(task: &Map<String, Value>) -> String {
    match (task.len(), task.get("prompt")) {
        (1, Some(Value::String(prompt))) => prompt.clone(),
        _ => Value::Object(task.clone()).to_string(),
    }
}

fn violation(code: FailureCode, agent_id: &str, problem: String) -> RunError {
    RunError::of(code, problem).with(json!({"agentId": agent_id}))
}

/// Validates the result of the agent. An invalid result is not recorded, neither as an output nor in an event.
fn returned(agent: &Agent, mut reports: Vec<Reported>, gave: &Value, run: Trust) -> Performed {
    let agent_id = agent.manifest.agent_id.as_str();
    let content = gave.get("content").cloned().unwrap_or_default();
    let value = if agent.manifest.handoff.return_schema_ref.is_some() && gave.get("envelope").is_some() {
        // An envelope is addressed to the engine and is not the result of the agent.
        Value::Null
    } else if agent.manifest.handoff.return_schema_ref.is_some() {
        let read = content.as_str().map_or_else(|| Ok(content.clone()), serde_json::from_str);
        let checked = match &read {
            Ok(value) => agent.schemas.check_return(value).map_err(|problem| problem.to_string()),
            Err(_) => Err("the result is not JSON, but the agent has a schema for it".to_owned()),
        };
        match (read, checked) {
            (Ok(value), Ok(())) => value,
            (_, checked) => {
                let problem = checked.err().unwrap_or_default();
                let error = violation(FailureCode::HandoffReturnSchemaViolation, agent_id, problem);
                return Performed { reports: without_model_output(reports), outcome: Err(error) };
            }
        }
    } else {
        content
    };
    let declared = gave.get("contentTrust").and_then(Value::as_str).and_then(Trust::parse);
    let trust = run.meet(declared.unwrap_or(Trust::Trusted));
    let decided = AgentDecided {
        agent_id: agent_id.to_owned(),
        confidence: None,
        content_trust: (trust == Trust::Untrusted).then(|| trust.as_str().into()),
        decision: value.clone(),
        reasoning: None,
    };
    let mut outputs = json!({"agentId": agent_id, "output": value});
    if trust == Trust::Untrusted {
        outputs["contentTrust"] = trust.into();
        outputs["untrustedContent"] = true.into();
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        outputs["markedContent"] = mcp::marked("agent", agent_id, &text).into();
    }
    reports.push(Reported::event(decided));
    for member in ["usage", "finishReason", "model", "envelope"] {
        if let Some(value) = gave.get(member) {
            outputs[member] = value.clone();
        }
    }
    Performed { reports, outcome: Ok(outputs) }
}

/// The reports without the output of the model: only usage, limits and tool calls.
fn without_model_output(reports: Vec<Reported>) -> Vec<Reported> {
    let mut indexes = Vec::with_capacity(reports.len());
    let mut kept: Vec<Reported> = Vec::new();
    for report in reports {
        let keeps = matches!(
            report.data(),
            Some(
                EventData::ProviderUsage(_)
                    | EventData::CapBreached(_)
                    | EventData::AgentToolCalled(_)
                    | EventData::AgentToolReturned(_)
            )
        );
        indexes.push(keeps.then_some(kept.len()));
        if keeps {
            // A cause refers to another report by its index, which changes here.
            let cause = match report.cause {
                Some(Cause::Reported(index)) => indexes.get(index).copied().flatten().map(Cause::Reported),
                other => other,
            };
            kept.push(Reported { cause, ..report });
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use flow::event::EventKind;

    use super::*;

    #[test]
    fn usage_and_tool_calls_are_kept_with_their_causes() {
        let report = |kind| {
            // Every member that one of these kinds requires.
            let members = json!({
                "agentId": "a", "callId": "c", "chunk": "", "inputTokens": 1, "isLast": true, "model": "m", "nodeId": "n",
                "outputTokens": 1, "provider": "p", "reasoning": "r", "runId": "r", "status": "ok", "toolId": "t",
                "toolName": "t", "verbosity": "summary",
            });
            Reported::read(kind, members.as_object().unwrap().clone()).unwrap()
        };
        let all = vec![
            report(EventKind::ProviderUsage),
            report(EventKind::AgentReasoned),
            report(EventKind::AgentToolCalled),
            report(EventKind::AgentToolReturned).because(Cause::Reported(2)),
            report(EventKind::OutputChunk),
        ];
        let kept = without_model_output(all);
        let kinds: Vec<_> = kept.iter().map(Reported::kind).collect();
        assert_eq!(
            kinds,
            [EventKind::ProviderUsage, EventKind::AgentToolCalled, EventKind::AgentToolReturned]
        );
        assert_eq!(kept[2].cause, Some(Cause::Reported(1)));
    }
}
