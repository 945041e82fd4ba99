//! Who follows whom.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Edge, Node, NodeIndex};

/// The shape of a workflow, worked out once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// For each node, the edges that come in, in the order of their ids, without those that loop back.
    pub incoming: Vec<Vec<usize>>,
    /// For each node, the edges that go out, in the order of their ids, those that loop back included.
    pub outgoing: Vec<Vec<usize>>,
    /// For each edge, whether it loops back.
    pub loops_back: Vec<bool>,
    /// The nodes in the order in which they are drained: topological, then by id.
    pub order: Vec<NodeIndex>,
    /// For each node, its place in [`Graph::order`].
    pub rank: Vec<usize>,
}

impl Graph {
    /// The graph of nodes and edges. An edge loops back when it leads to a node that is already being walked
    /// through, from the first node of the document that nothing leads to; the same document always gives the same answer.
    pub fn new(nodes: &[Node], edges: &[Edge]) -> Self {
        let mut outgoing = vec![Vec::new(); nodes.len()];
        let mut by_id: Vec<usize> = (0..edges.len()).collect();
        by_id.sort_by(|a, b| edges[*a].id.cmp(&edges[*b].id));
        for edge in &by_id {
            outgoing[edges[*edge].source].push(*edge);
        }
        let loops_back = loops_back(nodes.len(), edges, &outgoing);
        let mut incoming = vec![Vec::new(); nodes.len()];
        for edge in by_id {
            if !loops_back[edge] {
                incoming[edges[edge].target].push(edge);
            }
        }
        let order = order(nodes, edges, &incoming, &outgoing, &loops_back);
        let mut rank = vec![0; nodes.len()];
        for (place, node) in order.iter().enumerate() {
            rank[*node] = place;
        }
        Self { incoming, outgoing, loops_back, order, rank }
    }
}

/// Walks the graph depth first, with a stack of its own, and marks each edge that leads back into the walk.
fn loops_back(nodes: usize, edges: &[Edge], outgoing: &[Vec<usize>]) -> Vec<bool> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        Inside,
        Done,
    }
    let mut back = vec![false; edges.len()];
    let mut seen = vec![Seen::No; nodes];
    let mut has_incoming = vec![false; nodes];
    for edge in edges {
        has_incoming[edge.target] = true;
    }
    let roots = (0..nodes).filter(|node| !has_incoming[*node]).chain(0..nodes);
    for root in roots {
        if seen[root] != Seen::No {
            continue;
        }
        seen[root] = Seen::Inside;
        let mut walk = vec![(root, 0)];
        while let Some((node, next)) = walk.last_mut() {
            let Some(edge) = outgoing[*node].get(*next).copied() else {
                seen[*node] = Seen::Done;
                walk.pop();
                continue;
            };
            *next += 1;
            let target = edges[edge].target;
            match seen[target] {
                Seen::No => {
                    seen[target] = Seen::Inside;
                    walk.push((target, 0));
                }
                Seen::Inside => back[edge] = true,
                Seen::Done => {}
            }
        }
    }
    back
}

/// The nodes level by level, each after everything that leads to it, by id within a level.
fn order(
    nodes: &[Node],
    edges: &[Edge],
    incoming: &[Vec<usize>],
    outgoing: &[Vec<usize>],
    loops_back: &[bool],
) -> Vec<NodeIndex> {
    let mut waiting: Vec<usize> = incoming.iter().map(Vec::len).collect();
    let mut level = vec![0_usize; nodes.len()];
    let mut ready = BinaryHeap::new();
    for node in 0..nodes.len() {
        if waiting[node] == 0 {
            ready.push(Reverse((0, nodes[node].id.as_str(), node)));
        }
    }
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse((depth, _, node))) = ready.pop() {
        order.push(node);
        for edge in outgoing[node].iter().filter(|edge| !loops_back[**edge]) {
            let target = edges[*edge].target;
            level[target] = level[target].max(depth + 1);
            waiting[target] -= 1;
            if waiting[target] == 0 {
                ready.push(Reverse((level[target], nodes[target].id.as_str(), target)));
            }
        }
    }
    order
}
