//! The snapshot: the state of a run as readers see it.

mod view;

use std::collections::BTreeMap;

use canon::time::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::definition::Definition;
use crate::event::wire::LOG_SCHEMA_VERSION;
use crate::mask;
use crate::redact;
use crate::run::{ForkMode, RunStatus};
use crate::state::{Child, Interrupt, NodeState, NodeStatus, RunError, RunState};

pub use self::view::{ChildView, InterruptView, NodeView, OwnerView, RunView};

/// The engine version of runs that were created without a forced one.
pub const ENGINE_VERSION: u64 = 1;

/// The snapshot of a run. The host adds the token of an interrupt.
pub fn snapshot(definition: &Definition, state: &RunState, now: Timestamp) -> Value {
    serde_json::to_value(Snapshot::of(definition, state, now))
        .expect("all member names are strings, so serialization cannot fail")
}

/// The serializable snapshot of a run. It borrows from the state, because one is written with every append.
///
/// The fields of this struct and those below are sorted by their JSON names, like in all stored JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot<'s> {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'s Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    channels: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    child_runs: Vec<ChildRun<'s>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
    configurable: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_node_id: Option<&'s str>,
    engine_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    event_log_schema_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    fork_mode: Option<ForkMode>,
    inputs: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<OpenInterrupt<'s>>,
    metadata: &'s Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Metrics<'s>>,
    node_states: BTreeMap<&'s str, NodeSnapshot<'s>>,
    owner: Owner<'s>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_node_id: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_run_id: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_at: Option<String>,
    run_id: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_orchestrator: Option<&'s Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_run_id: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    status: &'static str,
    tags: &'s [String],
    variables: Map<String, Value>,
    workflow_id: &'s str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ChildRun<'s> {
    node_id: &'s str,
    run_id: &'s str,
    status: &'static str,
    workflow_id: &'s str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metrics<'s> {
    openwop_cost: &'s Value,
}

#[derive(Debug, Serialize)]
struct Owner<'s> {
    principal: &'s str,
    tenant: &'s str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OpenInterrupt<'s> {
    data: &'s Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    interrupt_id: &'s str,
    key: &'s str,
    kind: &'s str,
    node_id: &'s str,
    requested_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_schema: Option<&'s Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeSnapshot<'s> {
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iteration: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    status: &'s str,
}

impl<'s> Snapshot<'s> {
    /// The snapshot at `now`, without channel values that have expired by then.
    pub fn of(definition: &'s Definition, state: &'s RunState, now: Timestamp) -> Self {
        let genesis = &*state.genesis;
        let (parent, fork) = (genesis.parent.as_ref(), genesis.fork.as_ref());
        let is_open = !state.status.is_terminal();
        let current = is_open.then(|| current(definition, state)).flatten();
        Self {
            agent: state.agent.as_ref(),
            channels: channels(definition, state, now),
            child_runs: state.children.iter().map(ChildRun::of).collect(),
            completed_at: state.completed_at.map(Timestamp::to_rfc3339),
            configurable: configurable(&genesis.configurable),
            current_node_id: current,
            engine_version: genesis.forced_engine_version.unwrap_or(ENGINE_VERSION).to_string(),
            error: state.error.as_ref().map(shown_error),
            event_log_schema_version: LOG_SCHEMA_VERSION,
            fork_mode: fork.map(|fork| fork.mode),
            inputs: inputs(definition, state),
            interrupt: current.and_then(|id| state.interrupts.get(id)).map(OpenInterrupt::of),
            metadata: &genesis.metadata,
            metrics: state.cost.as_ref().map(|openwop_cost| Metrics { openwop_cost }),
            node_states: node_states(definition, state),
            owner: Owner { principal: genesis.principal.as_str(), tenant: genesis.tenant.as_str() },
            parent_node_id: parent.map(|parent| parent.node_id.as_str()),
            parent_run_id: parent.map(|parent| parent.run_id.as_str()),
            parent_seq: fork.map(|fork| fork.from_sequence),
            paused_at: state.paused.filter(|_| is_open).map(|(since, _)| since.to_rfc3339()),
            run_id: genesis.run_id.as_str(),
            run_orchestrator: state.orchestrator.as_ref(),
            source_run_id: fork.map(|fork| fork.source_run_id.as_str()),
            started_at: state.started_at.map(Timestamp::to_rfc3339),
            status: state.status.as_str(),
            tags: &genesis.tags,
            variables: mask::variables(definition, &state.variables),
            workflow_id: genesis.workflow_id.as_str(),
        }
    }
}

impl<'s> ChildRun<'s> {
    fn of(child: &'s Child) -> Self {
        Self {
            node_id: child.node_id.as_str(),
            run_id: child.run_id.as_str(),
            status: child.status.as_str(),
            workflow_id: child.workflow_id.as_str(),
        }
    }
}

impl<'s> OpenInterrupt<'s> {
    fn of(open: &'s Interrupt) -> Self {
        Self {
            data: &open.data,
            deadline: open.deadline.map(Timestamp::to_rfc3339),
            interrupt_id: open.id.as_str(),
            key: &open.key,
            kind: open.kind.as_str(),
            node_id: open.node_id.as_str(),
            requested_at: open.requested_at.to_rfc3339(),
            resume_schema: open.resume_schema.as_ref(),
        }
    }
}

/// The node that the run waits for: a suspended one if the run waits or is paused, otherwise the first active one.
fn current<'d>(definition: &'d Definition, state: &RunState) -> Option<&'d str> {
    let active = state.active_nodes(definition);
    let suspended = active.iter().find(|node| state.nodes[**node].status == NodeStatus::Suspended);
    let waits = state.status.is_waiting() || state.status == RunStatus::Paused;
    let node = suspended.filter(|_| waits).or(active.first())?;
    Some(definition.nodes[*node].id.as_str())
}

/// The visible inputs. A child run shows everything that its parent passed; other runs show only inputs that the workflow declares.
fn inputs(definition: &Definition, state: &RunState) -> Map<String, Value> {
    let mut shown = mask::declared_inputs(definition, &state.genesis.inputs);
    if state.genesis.parent.is_some() {
        let declared = |name: &str| definition.variables.iter().any(|variable| variable.name == name);
        let others = state.genesis.inputs.iter().filter(|(name, _)| !declared(name));
        shown.extend(others.map(|(name, value)| (name.clone(), value.clone())));
    }
    shown
}

fn channels(definition: &Definition, state: &RunState, now: Timestamp) -> Map<String, Value> {
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

fn node_states<'s>(definition: &'s Definition, state: &'s RunState) -> BTreeMap<&'s str, NodeSnapshot<'s>> {
    let nodes = definition.nodes.iter().zip(&state.nodes);
    nodes
        .map(|(node, state)| (node.id.as_str(), NodeSnapshot::of(definition, &node.sensitive_outputs, state)))
        .collect()
}

impl<'s> NodeSnapshot<'s> {
    fn of(definition: &Definition, sensitive: &[String], state: &'s NodeState) -> Self {
        let has_outputs = !state.outputs.is_empty();
        Self {
            attempt: state.attempt,
            completed_at: state.ended_at.map(Timestamp::to_rfc3339),
            error: state.error.as_ref().map(shown_error),
            iteration: Some(state.iteration).filter(|iteration| *iteration > 0),
            outputs: has_outputs.then(|| mask::outputs(definition.masking, sensitive, &state.outputs)),
            started_at: state.started_at.map(Timestamp::to_rfc3339),
            status: state.status.as_str(),
        }
    }
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

/// An error as readers see it. Its text can come from any node or provider, so credentials are redacted.
fn shown_error(error: &RunError) -> Value {
    let mut shown = closed_error(error);
    redact::value(&mut shown);
    shown
}

/// The members of an error that the protocol allows in a snapshot. The others are in its details too.
fn closed_error(error: &RunError) -> Value {
    let mut shown = error.to_json();
    if let Some(members) = shown.as_object_mut() {
        members.retain(|name, _| ["code", "message", "details"].contains(&name.as_str()));
    }
    shown
}
