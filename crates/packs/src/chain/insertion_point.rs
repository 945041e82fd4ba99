//! The insertion point of an expansion and its connecting edges.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Expansion, SpliceError};

/// The insertion point of an expansion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InsertionPoint<'a> {
    /// Unconnected: its first nodes start with the run.
    #[default]
    Beside,
    /// Into an edge, by its id: from the edge's source to the chain and from the chain to the edge's target.
    Edge(&'a str),
    /// After a node, before a node, or between two, by id. Existing edges stay.
    Between {
        /// The node before the chain.
        after: Option<&'a str>,
        /// The node after the chain.
        before: Option<&'a str>,
    },
}

/// The added edges and the replaced edge.
#[derive(Debug, Default)]
pub(super) struct ConnectingEdges {
    pub(super) added: Vec<Value>,
    pub(super) replaced: Option<usize>,
}

/// Edge members that belong to its source: condition and source port.
const SOURCE_MEMBERS: [&str; 3] = ["sourceOutput", "condition", "label"];
/// Edge members that belong to its target: input and trigger rule.
const TARGET_MEMBERS: [&str; 2] = ["targetInput", "triggerRule"];

impl Expansion {
    pub(super) fn connecting_edges(
        &self,
        workflow: &Value,
        place: InsertionPoint<'_>,
    ) -> Result<ConnectingEdges, SpliceError> {
        let (after, before, edge) = match place {
            InsertionPoint::Beside => return Ok(ConnectingEdges::default()),
            InsertionPoint::Between { after, before } => {
                for id in [after, before].into_iter().flatten() {
                    position(workflow, "nodes", id).ok_or_else(|| SpliceError::NoNode {
                        id: id.to_owned(),
                        meant: meant(workflow, "nodes", id),
                    })?;
                }
                (after, before, None)
            }
            InsertionPoint::Edge(id) => {
                let at = position(workflow, "edges", id).ok_or_else(|| SpliceError::NoEdge {
                    id: id.to_owned(),
                    meant: meant(workflow, "edges", id),
                })?;
                let edge = &workflow["edges"][at];
                let end = |name: &str| edge.get(name).and_then(Value::as_str);
                let (Some(source), Some(target)) = (end("sourceNodeId"), end("targetNodeId")) else {
                    return Err(SpliceError::LooseEdge(id.to_owned()));
                };
                (Some(source), Some(target), Some((at, edge)))
            }
        };
        let prefix = self.prefix();
        let replaced = edge.map(|(_, edge)| edge);
        let mut added = Vec::new();
        if let Some(source) = after {
            for (number, first) in self.ends(|edge| &edge.to)?.into_iter().enumerate() {
                let id = format!("{prefix}in_{number}");
                added.push(connecting_edge(&id, source, first, replaced, &SOURCE_MEMBERS));
            }
        }
        if let Some(target) = before {
            for (number, last) in self.ends(|edge| &edge.from)?.into_iter().enumerate() {
                // A node takes its trigger rule from its first edge by id: keep the existing one.
                let kept = replaced.filter(|_| number == 0).and_then(|edge| edge.get("id")?.as_str());
                let id = kept.map_or_else(|| format!("{prefix}out_{number}"), str::to_owned);
                added.push(connecting_edge(&id, last, target, replaced, &TARGET_MEMBERS));
            }
        }
        Ok(ConnectingEdges { added, replaced: edge.map(|(at, _)| at) })
    }

    /// The nodes without an inner edge at this end: the first nodes for `to`, the last nodes for `from`.
    fn ends(
        &self,
        end: impl Fn(&crate::manifest::FragmentEdge) -> &String,
    ) -> Result<Vec<&str>, SpliceError> {
        let node = |text: &str| text.split('.').next().unwrap_or_default().to_owned();
        let ours: HashSet<&str> = self.nodes.iter().map(|node| node.id.as_str()).collect();
        let inside = self
            .edges
            .iter()
            .filter(|edge| [&edge.from, &edge.to].iter().all(|end| ours.contains(node(end).as_str())));
        let taken: HashSet<String> = inside.map(|edge| node(end(edge))).collect();
        let free: Vec<&str> =
            self.nodes.iter().map(|node| node.id.as_str()).filter(|id| !taken.contains(*id)).collect();
        if free.is_empty() { Err(SpliceError::Cycle(self.chain_id.clone())) } else { Ok(free) }
    }
}

fn connecting_edge(id: &str, source: &str, target: &str, replaced: Option<&Value>, kept: &[&str]) -> Value {
    let mut edge = Map::new();
    edge.insert("id".to_owned(), id.into());
    edge.insert("sourceNodeId".to_owned(), source.into());
    edge.insert("targetNodeId".to_owned(), target.into());
    for name in kept {
        if let Some(value) = replaced.and_then(|edge| edge.get(name)) {
            edge.insert((*name).to_owned(), value.clone());
        }
    }
    Value::Object(edge)
}

fn ids<'w>(workflow: &'w Value, list: &str) -> impl Iterator<Item = &'w str> {
    let parts = workflow.get(list).and_then(Value::as_array).into_iter().flatten();
    parts.map(|part| part.get("id").and_then(Value::as_str).unwrap_or_default())
}

fn position(workflow: &Value, list: &str, id: &str) -> Option<usize> {
    ids(workflow, list).position(|known| known == id)
}

/// A suggestion for an unknown id, or the first few existing ones.
fn meant(workflow: &Value, list: &str, id: &str) -> String {
    let quoted = |ids: Vec<&str>| {
        ids.iter().map(|id| format!("`{}`", crate::name::shown(id))).collect::<Vec<_>>().join(", ")
    };
    let near = canon::nearest::nearest(id, ids(workflow, list), 1);
    if !near.is_empty() {
        return format!("did you mean {}?", quoted(near));
    }
    match quoted(ids(workflow, list).take(5).collect()) {
        none if none.is_empty() => format!("it has no {list}"),
        some => format!("it has {some}"),
    }
}
