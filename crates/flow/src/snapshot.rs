//! A run as a reader sees it.

use serde_json::{Map, Value, json};

use crate::definition::Definition;
use crate::event::Millis;
use crate::event::wire::{LOG_SCHEMA_VERSION, timestamp};
use crate::mask;
use crate::run::{ForkMode, RunStatus};
use crate::state::{NodeState, NodeStatus, RunError, RunState};

/// The version of the engine, where none was forced.
pub const ENGINE_VERSION: u64 = 1;

/// The snapshot of a run. The token of an interrupt is the host's to add.
pub fn snapshot(definition: &Definition, state: &RunState, now: Millis) -> Value {
    let genesis = &state.genesis;
    let mut snapshot = json!({
        "runId": genesis.run_id,
        "workflowId": genesis.workflow_id,
        "status": state.status.as_str(),
        "owner": {"tenant": genesis.tenant, "principal": genesis.principal},
        "engineVersion": genesis.forced_engine_version.unwrap_or(ENGINE_VERSION).to_string(),
        "eventLogSchemaVersion": LOG_SCHEMA_VERSION,
        "inputs": inputs(definition, state),
        "variables": mask::variables(definition, &state.variables),
        "nodeStates": node_states(definition, state),
        "tags": genesis.tags,
        "metadata": genesis.metadata,
        "configurable": configurable(&genesis.configurable),
    });
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            snapshot[name] = value;
        }
    };
    add("startedAt", state.started_at.map(|at| timestamp(at).into()));
    add("completedAt", state.completed_at.map(|at| timestamp(at).into()));
    add("agent", state.agent.clone());
    add("runOrchestrator", state.orchestrator.clone());
    add("error", state.error.as_ref().map(RunError::to_json));
    add("metrics", state.cost.as_ref().map(|cost| json!({"openwopCost": cost})));
    let channels = channels(definition, state, now);
    add("channels", (!channels.is_empty()).then_some(Value::Object(channels)));
    if let Some(parent) = &genesis.parent {
        add("parentRunId", Some(parent.run_id.as_str().into()));
        add("parentNodeId", Some(parent.node_id.as_str().into()));
    }
    if let Some(fork) = &genesis.fork {
        let mode = if fork.mode == ForkMode::Replay { "replay" } else { "branch" };
        add("sourceRunId", Some(fork.source_run_id.as_str().into()));
        add("forkMode", Some(mode.into()));
        add("parentSeq", Some(fork.from_sequence.into()));
    }
    let children: Vec<Value> = state
        .children
        .iter()
        .map(|child| {
            json!({
                "runId": child.run_id, "workflowId": child.workflow_id, "nodeId": child.node_id,
                "status": child.status.as_str(),
            })
        })
        .collect();
    add("childRuns", (!children.is_empty()).then(|| children.into()));
    if !state.status.is_terminal() {
        let current = current(definition, state);
        let interrupt = current.and_then(|id| state.interrupts.get(id));
        add("currentNodeId", current.map(Value::from));
        add("pausedAt", state.paused.map(|(since, _)| timestamp(since).into()));
        add(
            "interrupt",
            interrupt.map(|open| {
                let mut shown = json!({
                    "kind": open.kind, "nodeId": open.node_id, "interruptId": open.id, "key": open.key,
                    "data": open.data, "requestedAt": timestamp(open.requested_at),
                });
                if let Some(deadline) = open.deadline {
                    shown["deadline"] = timestamp(deadline).into();
                }
                if let Some(schema) = &open.resume_schema {
                    shown["resumeSchema"] = schema.clone();
                }
                shown
            }),
        );
    }
    snapshot
}

/// The node that holds the run up: the one that waits while it waits, and else the first that works.
fn current<'d>(definition: &'d Definition, state: &RunState) -> Option<&'d str> {
    let under_way = state.under_way(definition);
    let suspended = under_way.iter().find(|node| state.nodes[**node].status == NodeStatus::Suspended);
    let waits = state.status.is_waiting() || state.status == RunStatus::Paused;
    let node = suspended.filter(|_| waits).or(under_way.first())?;
    Some(definition.nodes[*node].id.as_str())
}

/// A child shows what its parent gave it; what a caller gave is shown as far as the workflow declares it.
fn inputs(definition: &Definition, state: &RunState) -> Map<String, Value> {
    let mut shown = mask::declared_inputs(definition, &state.genesis.inputs);
    if state.genesis.parent.is_some() {
        let declared = |name: &str| definition.variables.iter().any(|variable| variable.name == name);
        let others = state.genesis.inputs.iter().filter(|(name, _)| !declared(name));
        shown.extend(others.map(|(name, value)| (name.clone(), value.clone())));
    }
    shown
}

fn channels(definition: &Definition, state: &RunState, now: Millis) -> Map<String, Value> {
    let shown = state.channels.iter().filter_map(|(name, channel)| {
        let declared = definition.channels.get(name);
        let mut channel = channel.clone();
        channel.expire(declared.and_then(|declared| declared.ttl_ms), now);
        let sensitive = declared.is_some_and(|declared| declared.sensitive);
        let value = if sensitive { mask::value(definition.masking, &channel.value)? } else { channel.value };
        Some((name.clone(), value))
    });
    shown.collect()
}

fn node_states(definition: &Definition, state: &RunState) -> Map<String, Value> {
    let nodes = definition.nodes.iter().zip(&state.nodes);
    nodes
        .map(|(node, state)| (node.id.clone(), node_state(definition, &node.sensitive_outputs, state)))
        .collect()
}

fn node_state(definition: &Definition, sensitive: &[String], state: &NodeState) -> Value {
    let mut shown = json!({"status": state.status.as_str(), "attempt": state.attempt});
    if state.iteration > 0 {
        shown["iteration"] = state.iteration.into();
    }
    if let Some(at) = state.started_at {
        shown["startedAt"] = timestamp(at).into();
    }
    if let Some(at) = state.ended_at {
        shown["completedAt"] = timestamp(at).into();
    }
    if !state.outputs.is_empty() {
        shown["outputs"] = Value::Object(mask::outputs(definition.masking, sensitive, &state.outputs));
    }
    if let Some(error) = &state.error {
        shown["error"] = error.to_json();
    }
    shown
}

/// The options of the run, without the names of credentials.
fn configurable(options: &Map<String, Value>) -> Map<String, Value> {
    let is_secret = |name: &str| name == "credentialRef" || name.ends_with(".credentialRef");
    let shown = options.iter().filter(|(name, _)| !is_secret(name)).map(|(name, value)| match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(name, _)| !is_secret(name));
            (
                name.clone(),
                Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect()),
            )
        }
        _ => (name.clone(), value.clone()),
    });
    shown.collect()
}
