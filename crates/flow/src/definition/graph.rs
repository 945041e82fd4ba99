//! The edges of a workflow by node, and the execution order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Edge, Node, NodeIndex};

/// The shape of a workflow, computed once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// For each node, its incoming edges, sorted by id, without those that loop back.
    pub incoming: Vec<Vec<usize>>,
    /// For each node, its outgoing edges, sorted by id, including those that loop back.
    pub outgoing: Vec<Vec<usize>>,
    /// For each edge, whether it loops back.
    pub loops_back: Vec<bool>,
    /// The nodes in the order in which the engine processes them: topological, then by id.
    pub order: Vec<NodeIndex>,
    /// For each node, its index in [`Graph::order`].
    pub rank: Vec<usize>,
}

impl Graph {
    /// The graph of nodes and edges. An edge loops back if a depth-first search reaches a node again that is on the current path. The search
    /// starts at the nodes without incoming edges, in the order of the document, so the same document always gives the same result.
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
        for (index, node) in order.iter().enumerate() {
            rank[*node] = index;
        }
        Self { incoming, outgoing, loops_back, order, rank }
    }
}

/// Searches the graph depth first, with an explicit stack, and marks each edge to a node that is on the current path.
fn loops_back(nodes: usize, edges: &[Edge], outgoing: &[Vec<usize>]) -> Vec<bool> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnPath,
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
        seen[root] = Seen::OnPath;
        let mut path = vec![(root, 0)];
        while let Some((node, next)) = path.last_mut() {
            let Some(edge) = outgoing[*node].get(*next).copied() else {
                seen[*node] = Seen::Done;
                path.pop();
                continue;
            };
            *next += 1;
            let target = edges[edge].target;
            match seen[target] {
                Seen::No => {
                    seen[target] = Seen::OnPath;
                    path.push((target, 0));
                }
                Seen::OnPath => back[edge] = true,
                Seen::Done => {}
            }
        }
    }
    back
}

/// The nodes level by level, each after all its predecessors, sorted by id within a level.
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
