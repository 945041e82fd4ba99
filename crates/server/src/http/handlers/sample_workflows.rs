//! Registers workflows for conformance suites. They may be in a short form: nodes without edges, names and positions.

use serde_json::{Map, Value, json};

use super::super::exchange::CheckedRequest;
use super::super::route::HandlerResult;
use super::workflows;

/// `POST /v1/host/sample/workflows`
pub(in super::super) async fn register(mut call: CheckedRequest) -> HandlerResult {
    if let Some(document) = in_full(&call.body) {
        call.body = document;
    }
    workflows::register(call).await
}

/// Expands the short form `{workflowId, nodes: [{nodeId, typeId, config}]}`; `None` for any other document.
///
/// The nodes are sequential, and a supervisor decides again after each dispatch. Suites use ids with dots, which are invalid in workflows.
fn in_full(short: &Value) -> Option<Value> {
    let workflow_id = short.get("workflowId")?.as_str()?.replace('.', "-");
    let nodes = short.get("nodes")?.as_array()?;
    let ids: Vec<&str> = nodes.iter().map(|node| node.get("nodeId")?.as_str()).collect::<Option<_>>()?;
    let types: Vec<&str> = nodes.iter().map(|node| node.get("typeId")?.as_str()).collect::<Option<_>>()?;
    let member = |node: &Value, name: &str| node.get(name).cloned().unwrap_or_else(|| json!({}));
    let full = |(place, node): (usize, &Value)| {
        json!({
            "id": ids[place], "typeId": types[place], "name": ids[place], "position": {"x": 0, "y": 0},
            "config": member(node, "config"), "inputs": member(node, "inputs"),
        })
    };
    let edge = |from: usize, to: usize| json!({"id": format!("{}-{}", ids[from], ids[to]), "sourceNodeId": ids[from], "targetNodeId": ids[to]});
    let mut edges = Vec::new();
    for to in 1..nodes.len() {
        let from = to - 1;
        edges.push(edge(from, to));
        if (types[from], types[to]) == ("core.orchestrator.supervisor", "core.dispatch") {
            edges.push(edge(to, from));
        }
    }
    let edges = short.get("edges").filter(|edges| edges.is_array()).cloned().unwrap_or(Value::Array(edges));
    let variables = short.get("variables").cloned().unwrap_or_else(|| json!([]));
    Some(json!({
        "id": workflow_id, "name": workflow_id, "version": "1", "edges": edges, "variables": variables,
        "nodes": nodes.iter().enumerate().map(full).collect::<Vec<_>>(),
        "triggers": [{"id": "manual", "type": "manual"}], "metadata": Map::new(), "settings": Map::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_form_is_expanded_and_other_documents_are_unchanged() {
        let short = json!({"workflowId": "mcp.tool.1", "nodes": [
            {"nodeId": "decide", "typeId": "core.orchestrator.supervisor", "config": {"a": 1}},
            {"nodeId": "dispatch", "typeId": "core.dispatch"},
            {"nodeId": "last", "typeId": "core.noop"},
        ]});
        let full = in_full(&short).unwrap();
        assert_eq!((&full["id"], &full["nodes"][0]["config"]), (&json!("mcp-tool-1"), &json!({"a": 1})));
        let edges: Vec<&str> =
            full["edges"].as_array().unwrap().iter().map(|edge| edge["id"].as_str().unwrap()).collect();
        assert_eq!(edges, ["decide-dispatch", "dispatch-decide", "dispatch-last"]);
        for other in [
            json!({"id": "w", "nodes": []}),
            json!({"workflowId": "w"}),
            json!({"workflowId": 1, "nodes": []}),
            json!({"workflowId": "w", "nodes": [{"id": "n", "typeId": "core.noop"}]}),
            json!([]),
        ] {
            assert_eq!(in_full(&other), None, "{other}");
        }
    }
}
