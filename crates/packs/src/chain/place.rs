//! Where an expansion is put into a workflow, and the edges that lead to it and away from it.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Expansion, SpliceError};

/// Where an expansion is put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place<'a> {
    /// Beside what is there: its first nodes begin with the run.
    #[default]
    Beside,
    /// Into an edge, by its id: what the edge led from leads to the chain, and the chain leads to what it led to.
    Edge(&'a str),
    /// Behind a node, before a node, or between the two, by their ids. Edges that are there stay.
    Between {
        /// What leads to the chain.
        after: Option<&'a str>,
        /// What the chain leads to.
        before: Option<&'a str>,
    },
}

/// The edges that a place adds, and the edge that they stand for.
#[derive(Debug, Default)]
pub(super) struct Joints {
    pub(super) added: Vec<Value>,
    pub(super) replaced: Option<usize>,
}

/// Members of an edge that say when it is taken, and from which side of its source. They belong to its beginning.
const OF_THE_SOURCE: [&str; 3] = ["sourceOutput", "condition", "label"];
/// Members that say how its target takes it. They belong to its end.
const OF_THE_TARGET: [&str; 2] = ["targetInput", "triggerRule"];

impl Expansion {
    pub(super) fn joints(&self, workflow: &Value, place: Place<'_>) -> Result<Joints, SpliceError> {
        let (after, before, edge) = match place {
            Place::Beside => return Ok(Joints::default()),
            Place::Between { after, before } => {
                for id in [after, before].into_iter().flatten() {
                    position(workflow, "nodes", id).ok_or_else(|| SpliceError::NoNode {
                        id: id.to_owned(),
                        meant: meant(workflow, "nodes", id),
                    })?;
                }
                (after, before, None)
            }
            Place::Edge(id) => {
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
                added.push(joint(&id, source, first, replaced, &OF_THE_SOURCE));
            }
        }
        if let Some(target) = before {
            for (number, last) in self.ends(|edge| &edge.from)?.into_iter().enumerate() {
                // A node takes its rule from the first of its edges, by their ids: the one that it had stays.
                let kept = replaced.filter(|_| number == 0).and_then(|edge| edge.get("id")?.as_str());
                let id = kept.map_or_else(|| format!("{prefix}out_{number}"), str::to_owned);
                added.push(joint(&id, last, target, replaced, &OF_THE_TARGET));
            }
        }
        Ok(Joints { added, replaced: edge.map(|(at, _)| at) })
    }

    /// The nodes that no edge within the chain has at this end: the first ones for `to`, the last ones for `from`.
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
        if free.is_empty() { Err(SpliceError::Circle(self.chain_id.clone())) } else { Ok(free) }
    }
}

fn joint(id: &str, source: &str, target: &str, replaced: Option<&Value>, kept: &[&str]) -> Value {
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

/// What a misspelt id was probably meant to be, or the first few that there are.
fn meant(workflow: &Value, list: &str, id: &str) -> String {
    let quoted = |ids: Vec<&str>| {
        ids.iter().map(|id| format!("`{}`", crate::name::shown(id))).collect::<Vec<_>>().join(", ")
    };
    let near = canon::nearest::nearest(id, ids(workflow, list), 1);
    if !near.is_empty() {
        return format!("did you mean {}?", quoted(near));
    }
    match quoted(ids(workflow, list).take(5).collect()) {
        none if none.is_empty() => format!("it has no {list} at all"),
        some => format!("it has {some}"),
    }
}
