//! `core.agents.run`: an agent of an installed pack does one task with a model.
//!
//! ```text
//! agent of the node ─► tools on its list? ─► task as its schema says? ─► model ─► return as its schema says? ─► agent.decided, outputs
//! ```
//!
//! Tools are names, and never code: what a node declares is held to the list of the agent's pack before any model is asked. There is no
//! runtime here that would call them, so a run that needs one is refused; a run without tools needs none.

use flow::definition::{Node, PortValue};
use flow::engine::{Call, Told};
use flow::event::EventKind;
use flow::failure::FailureCode;
use flow::state::RunError;
use packs::agents::may_use;
use serde_json::{Map, Value, json};

use super::super::models::Models;
use super::super::{Asked, Performed};
use super::{Agent, Agents};

/// The type of node that asks a model for a text.
const CALL_PROMPT: &str = "core.ai.callPrompt";

/// What is wrong with a declaration of tools.
struct BadTools {
    code: &'static str,
    message: String,
    details: Value,
}

/// What is wrong with a node, as far as that can be known when its workflow is registered. Each has the place in the configuration.
pub(in super::super) fn problems(agents: &Agents, node: &Node) -> Vec<(&'static str, String)> {
    let named = agent_id(&node.config, node.agent.as_ref());
    let Some(agent) = named.as_deref().and_then(|id| agents.get(id)) else {
        return vec![("/agentId", unknown(named.as_deref()))];
    };
    let mut found = Vec::new();
    if let Err(bad) = check_tools(agent, &node.config) {
        found.push(("/tools", format!("{}: {}", bad.code, bad.message)));
    }
    // A task that is written in the workflow is known now.
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

/// Does the task.
pub(in super::super) async fn perform(agents: &Agents, models: &Models, asked: Asked<'_>) -> Performed {
    let (agent, call) = match plan(agents, asked.call) {
        Ok(plan) => plan,
        Err(error) => return Performed::plain(Err(error)),
    };
    let performed = models.perform(Asked { call: &call, ..asked }).await;
    match performed.outcome {
        Ok(gave) => returned(agent, performed.told, &gave),
        Err(error) => Performed { told: performed.told, outcome: Err(error) },
    }
}

fn plan<'a>(agents: &'a Agents, call: &Call) -> Result<(&'a Agent, Call), RunError> {
    let named = agent_id(&call.config, call.agent.as_ref());
    let agent = named.as_deref().and_then(|id| agents.get(id)).ok_or_else(|| {
        RunError::of(FailureCode::CapabilityNotProvided, unknown(named.as_deref()))
            .with(json!({"agentId": named}))
    })?;
    check_tools(agent, &call.config).map_err(|bad| RunError::new(bad.code, bad.message).with(bad.details))?;
    let agent_id = agent.manifest.agent_id.as_str();
    let task = Value::Object(call.inputs.clone());
    agent.schemas.check_task(&task).map_err(|problem| {
        violation(FailureCode::HandoffTaskSchemaViolation, agent_id, problem.to_string())
    })?;
    let mut config = Map::from_iter([
        ("agentId".to_owned(), agent_id.into()),
        ("userPrompt".to_owned(), words(&call.inputs).into()),
    ]);
    if let Some(prompt) = &agent.system_prompt {
        config.insert("systemPrompt".to_owned(), prompt.as_str().into());
    }
    for member in ["provider", "model"] {
        if let Some(value) = call.config.get(member) {
            config.insert(member.to_owned(), value.clone());
        }
    }
    let inputs = Map::new();
    Ok((agent, Call { type_id: CALL_PROMPT.to_owned(), config, inputs, ..call.clone() }))
}

/// The agent that a node names, or is pinned to.
fn agent_id(config: &Map<String, Value>, pinned: Option<&Value>) -> Option<String> {
    let pinned = || pinned.and_then(|agent| agent.get("agentId"));
    config.get("agentId").or_else(pinned).and_then(Value::as_str).map(str::to_owned)
}

fn unknown(agent_id: Option<&str>) -> String {
    match agent_id {
        None => "the node names no agent; set `agentId`, or pin it to one with `agent`".to_owned(),
        Some(id) => format!("no installed pack brings the agent `{id}`; see GET /v1/agents"),
    }
}

/// Tools are declared by name and kind, are on the list of the agent, and need somebody who calls them.
fn check_tools(agent: &Agent, config: &Map<String, Value>) -> Result<(), BadTools> {
    let Some(tools) = config.get("tools").and_then(Value::as_array).filter(|tools| !tools.is_empty()) else {
        return Ok(());
    };
    for (place, tool) in tools.iter().enumerate() {
        let text = |name: &str| tool.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let problem = if tool.get("handler").is_some() {
            "a tool has no `handler`: nothing that a workflow brings is run as a tool"
        } else if text("name").is_none() || text("kind").is_none() {
            "a tool is an object with `name` and `kind`, two texts"
        } else {
            let name = text("name").unwrap_or_default();
            if !may_use(&agent.manifest, name) {
                return Err(BadTools {
                    code: "tool_not_allowed",
                    message: "the agent may not use a tool that the node declares; see its `toolAllowlist`"
                        .to_owned(),
                    details: json!({"agentId": agent.manifest.agent_id, "place": place}),
                });
            }
            continue;
        };
        return Err(BadTools {
            code: "INVALID_TOOL_DECLARATION",
            message: problem.to_owned(),
            details: json!({"place": place}),
        });
    }
    Err(BadTools {
        code: "host_capability_missing",
        message: "agents use tools through `host.agentRuntime`, which is not served here; leave `tools` out"
            .to_owned(),
        details: json!({"capability": "host.agentRuntime"}),
    })
}

/// What the agent is told: a prompt as it is, anything else as JSON.
fn words(task: &Map<String, Value>) -> String {
    match (task.len(), task.get("prompt")) {
        (1, Some(Value::String(prompt))) => prompt.clone(),
        _ => Value::Object(task.clone()).to_string(),
    }
}

fn violation(code: FailureCode, agent_id: &str, problem: String) -> RunError {
    RunError::of(code, problem).with(json!({"agentId": agent_id}))
}

/// Holds what the agent gave to its schema. What does not fit is not recorded, neither as an output nor in an event.
fn returned(agent: &Agent, mut told: Vec<Told>, gave: &Value) -> Performed {
    let agent_id = agent.manifest.agent_id.as_str();
    let content = gave.get("content").cloned().unwrap_or_default();
    let value = if agent.manifest.handoff.return_schema_ref.is_some() {
        let read = content.as_str().map_or_else(|| Ok(content.clone()), serde_json::from_str);
        let judged = match &read {
            Ok(value) => agent.schemas.check_return(value).map_err(|problem| problem.to_string()),
            Err(_) => Err("the result is no JSON, and the agent has a schema for it".to_owned()),
        };
        match (read, judged) {
            (Ok(value), Ok(())) => value,
            (_, judged) => {
                told.retain(|told| matches!(told.kind, EventKind::ProviderUsage | EventKind::CapBreached));
                let problem = judged.err().unwrap_or_default();
                let error = violation(FailureCode::HandoffReturnSchemaViolation, agent_id, problem);
                return Performed { told, outcome: Err(error) };
            }
        }
    } else {
        content
    };
    told.push(Told::new(EventKind::AgentDecided, json!({"agentId": agent_id, "decision": value})));
    let mut outputs = json!({"agentId": agent_id, "output": value});
    for member in ["usage", "finishReason", "model"] {
        if let Some(value) = gave.get(member) {
            outputs[member] = value.clone();
        }
    }
    Performed { told, outcome: Ok(outputs) }
}
