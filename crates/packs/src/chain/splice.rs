//! Inserts an expansion into a workflow document.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{Expansion, InsertionPoint};
use crate::manifest::FragmentEdge;

/// Nodes and edges in workflow document form.
#[derive(Clone, Debug, PartialEq)]
pub struct Spliced {
    pub nodes: Vec<Value>,
    pub edges: Vec<Value>,
}

/// Why an expansion cannot be inserted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpliceError {
    /// The document has no list of nodes or edges.
    #[error("the workflow document has no list `{0}`")]
    NoList(&'static str),
    /// The id exists: another expansion has the same expansion id.
    #[error("the workflow already has `{0}`; use another expansion id")]
    DuplicateId(String),
    #[error("the workflow has no edge `{id}`; {meant}")]
    NoEdge {
        id: String,
        /// A suggestion.
        meant: String,
    },
    #[error("the workflow has no node `{id}`; {meant}")]
    NoNode {
        id: String,
        /// A suggestion.
        meant: String,
    },
    /// The edge has no source or target node.
    #[error("the edge `{0}` has no `sourceNodeId` or no `targetNodeId`")]
    LooseEdge(String),
    /// The chain has no first or last node.
    #[error("the nodes of chain `{0}` form a cycle, so it has no first or last node to connect")]
    Cycle(String),
}

impl Expansion {
    /// The nodes and edges in workflow document form: with all required members, endpoints as node and port, and
    /// conditions as expressions.
    ///
    /// Workflow documents have no capabilities; a host takes them from the node type, and [`Expansion::nodes`] keeps
    /// them.
    pub fn to_workflow_parts(&self) -> Spliced {
        let nodes = self.nodes.iter().map(|node| {
            let (x, y) = node.position.map_or((0.0, 0.0), |at| (at.x.unwrap_or(0.0), at.y.unwrap_or(0.0)));
            let inputs: Map<String, Value> =
                node.inputs.iter().flatten().map(|(name, value)| (name.clone(), port(value))).collect();
            json!({
                "id": node.id,
                "typeId": node.type_id,
                "name": node.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&node.id),
                "position": {"x": x, "y": y},
                "config": node.config.clone().unwrap_or_default(),
                "inputs": inputs,
            })
        });
        let prefix = self.prefix();
        let edges =
            self.edges.iter().enumerate().map(|(place, found)| edge(found, format!("{prefix}edge_{place}")));
        Spliced { nodes: nodes.collect(), edges: edges.collect() }
    }

    /// Inserts the expansion into a workflow document. On failure the document is unchanged.
    ///
    /// # Errors
    /// The document is invalid, already has one of the ids, or does not have the insertion point.
    pub fn splice(&self, workflow: &mut Value, place: InsertionPoint<'_>) -> Result<(), SpliceError> {
        for name in ["nodes", "edges"] {
            workflow.get(name).and_then(Value::as_array).ok_or(SpliceError::NoList(name))?;
        }
        let connecting_edges = self.connecting_edges(workflow, place)?;
        let mut parts = self.to_workflow_parts();
        parts.edges.extend(connecting_edges.added);
        for (name, parts) in [("nodes", &parts.nodes), ("edges", &parts.edges)] {
            let there = workflow.get(name).and_then(Value::as_array).ok_or(SpliceError::NoList(name))?;
            let stays = |at: usize| name != "edges" || connecting_edges.replaced != Some(at);
            let there = there.iter().enumerate().filter(|(at, _)| stays(*at));
            let taken: HashSet<&str> = there.filter_map(|(_, part)| part.get("id")?.as_str()).collect();
            let clash = parts.iter().filter_map(|part| part["id"].as_str()).find(|id| taken.contains(id));
            if let Some(id) = clash {
                return Err(SpliceError::DuplicateId(id.to_owned()));
            }
        }
        for (name, parts) in [("nodes", parts.nodes), ("edges", parts.edges)] {
            if let Some(there) = workflow.get_mut(name).and_then(Value::as_array_mut) {
                if let Some(at) = connecting_edges.replaced.filter(|_| name == "edges") {
                    there.remove(at);
                }
                there.extend(parts);
            }
        }
        Ok(())
    }
}

/// An input that names its source is unchanged; any other value becomes a literal.
fn port(value: &Value) -> Value {
    let members = |kind: &str| match kind {
        "static" => Some(["type", "value"].as_slice()),
        "expression" => Some(["type", "expression"].as_slice()),
        "connection" => Some(["type", "nodeId", "outputKey", "optional"].as_slice()),
        "variable" => Some(["type", "variableName", "optional"].as_slice()),
        _ => None,
    };
    let known = value.get("type").and_then(Value::as_str).and_then(members);
    let says_where = known.zip(value.as_object()).is_some_and(|(known, found)| {
        found.len() >= 2 && found.keys().all(|name| known.contains(&name.as_str()))
    });
    if says_where { value.clone() } else { json!({"type": "static", "value": value}) }
}

fn edge(found: &FragmentEdge, id: String) -> Value {
    let mut edge = Map::new();
    edge.insert("id".to_owned(), id.into());
    for (end, node_member, port_member) in
        [(&found.from, "sourceNodeId", "sourceOutput"), (&found.to, "targetNodeId", "targetInput")]
    {
        let (node, port) =
            end.split_once('.').map_or((end.as_str(), None), |(node, port)| (node, Some(port)));
        edge.insert(node_member.to_owned(), node.into());
        if let Some(port) = port.filter(|port| !port.is_empty()) {
            edge.insert(port_member.to_owned(), port.into());
        }
    }
    match &found.condition {
        Some(Value::String(expression)) => {
            edge.insert("condition".to_owned(), json!({"type": "expression", "expression": expression}));
        }
        Some(condition) => {
            edge.insert("condition".to_owned(), condition.clone());
        }
        None => {}
    }
    if let Some(rule) = &found.trigger_rule {
        edge.insert("triggerRule".to_owned(), rule.as_str().into());
    }
    Value::Object(edge)
}
