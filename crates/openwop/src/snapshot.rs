//! Snapshots of runs.

use serde_json::{Map, Value};

use crate::{configurable, error, id, owner};

/// The members of version 2 that are the same in both versions.
const SAME: [&str; 14] = [
    "agent",
    "channels",
    "completedAt",
    "currentNodeId",
    "eventLogSchemaVersion",
    "inputs",
    "metadata",
    "nodeStates",
    "runOrchestrator",
    "startedAt",
    "status",
    "tags",
    "variables",
    "workflowId",
];

/// The members of the cost of a run.
const COST: [&str; 5] = ["usd", "tokens", "model", "provider", "duration_ms"];

/// The snapshot of a run in version 2, where it is closed. The open interrupt and the child runs are shown at their nodes.
pub fn to_v2(tenant: &str, mut snapshot: Map<String, Value>) -> Map<String, Value> {
    let mut shown = Map::new();
    for name in SAME {
        if let Some(value) = snapshot.remove(name) {
            shown.insert(name.to_owned(), value);
        }
    }
    let mut put = |name: &str, value: Value| {
        shown.insert(name.to_owned(), value);
    };
    if let Some(run_id) = snapshot.get("runId").and_then(Value::as_str) {
        put("runId", id::bind(tenant, run_id).into());
    }
    // The source of a fork. The parent of a child run is its ancestry.
    if let Some(source) = snapshot.get("sourceRunId").and_then(Value::as_str) {
        put("parentRunId", id::bind(tenant, source).into());
    }
    if let Some(Value::Object(owner)) = snapshot.get("owner") {
        put("owner", owner::to_v2(owner));
    }
    let version = snapshot.get("engineVersion").and_then(|version| version.as_str()?.parse::<u64>().ok());
    if let Some(version) = version {
        put("engineVersion", version.into());
    }
    if let Some(Value::Object(members)) = snapshot.remove("error") {
        put("error", error::failure_to_v2_closed(members).into());
    }
    if let Some(Value::Object(flat)) = snapshot.get("configurable")
        && let Some(options) = configurable::to_v2(flat)
    {
        put("configurable", options.into());
    }
    if let Some(Value::Object(mut cost)) =
        snapshot.get("metrics").and_then(|metrics| metrics.get("openwopCost")).cloned()
    {
        cost.retain(|name, _| COST.contains(&name.as_str()));
        put("metrics", Value::Object(Map::from_iter([("openwopCost".to_owned(), cost.into())])));
    }
    let interrupt = snapshot.remove("interrupt");
    let children = snapshot.remove("childRuns");
    if let Some(Value::Object(nodes)) = shown.get_mut("nodeStates") {
        for node in nodes.values_mut() {
            if let Some(failed) = node.get_mut("error")
                && let Value::Object(members) = failed.take()
            {
                *failed = error::failure_to_v2_closed(members).into();
            }
        }
        show_interrupt(tenant, interrupt, nodes);
        show_children(tenant, children, nodes);
    }
    shown
}

fn show_interrupt(tenant: &str, interrupt: Option<Value>, nodes: &mut Map<String, Value>) {
    let Some(Value::Object(mut interrupt)) = interrupt else { return };
    let Some(Value::String(node)) = interrupt.remove("nodeId") else { return };
    if let Some(Value::String(own)) = interrupt.get("interruptId") {
        let bound = id::interrupt(tenant, own);
        interrupt.insert("interruptId".to_owned(), bound.into());
    }
    if let Some(Value::Object(node)) = nodes.get_mut(&node) {
        node.insert("interrupt".to_owned(), interrupt.into());
    }
}

fn show_children(tenant: &str, children: Option<Value>, nodes: &mut Map<String, Value>) {
    let Some(Value::Array(children)) = children else { return };
    for child in children {
        let Value::Object(mut child) = child else { continue };
        let Some(Value::String(node)) = child.remove("nodeId") else { continue };
        if let Some(Value::String(own)) = child.get("runId") {
            let bound = id::bind(tenant, own);
            child.insert("runId".to_owned(), bound.into());
        }
        if let Some(Value::Object(node)) = nodes.get_mut(&node) {
            let shown = node.entry("childRuns").or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(shown) = shown {
                shown.push(child.into());
            }
        }
    }
}
