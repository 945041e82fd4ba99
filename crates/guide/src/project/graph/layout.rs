//! The positions of nodes: a row per depth, a column per branch.

use std::ops::Range;

use crate::project::preferred_tip;
use crate::state::{Node, Run, SessionState};

/// The positions of all drawn nodes, in creation order.
#[derive(Debug)]
pub(super) struct Layout<'s> {
    pub(super) positions: Vec<NodePosition<'s>>,
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// How many later nodes are not drawn.
    pub(super) omitted: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct NodePosition<'s> {
    pub(super) node: &'s Node,
    pub(super) column: usize,
    pub(super) row: usize,
    /// The index of the parent in the list of positions; `None` for the root and if the parent is not drawn.
    pub(super) parent: Option<usize>,
    /// Whether it is on the path to the preferred tip.
    pub(super) preferred: bool,
    /// Whether it is the preferred tip.
    pub(super) is_tip: bool,
}

impl<'s> Layout<'s> {
    /// The layout of the nodes of a run whose indexes in creation order are in `window`.
    pub(super) fn new(state: &'s SessionState, run: &'s Run, window: Range<usize>) -> Self {
        let end = window.end.min(run.nodes.len());
        let start = window.start.min(end);
        let drawn = end - start;
        let position = |node: &Node| run.nodes[start..end].binary_search(&node.ordinal).ok();
        let tip = preferred_tip(state, run);
        let mut preferred = vec![false; drawn];
        for at in tip.into_iter().flat_map(|tip| state.lineage(tip)).filter_map(position) {
            preferred[at] = true;
        }
        let shown = || state.nodes_of(run).skip(start).take(drawn);
        let top = shown().map(|node| node.depth).min().unwrap_or_default();
        let mut positions: Vec<NodePosition<'s>> = shown()
            .enumerate()
            .map(|(at, node)| NodePosition {
                node,
                column: 0,
                row: (node.depth - top) as usize,
                parent: state.parent_of(node).and_then(position),
                preferred: preferred[at],
                is_tip: tip.is_some_and(|tip| tip.ordinal == node.ordinal),
            })
            .collect();

        // A branch continues in its column with its preferred child, or else its first; the other children
        // get adjacent columns. Nodes whose parent is not drawn are treated as siblings. A list instead of
        // recursion, because runs are deep.
        let mut columns = usize::from(drawn > 0);
        let mut open: Vec<(usize, usize)> = Vec::new();
        let mut siblings: Vec<usize> = (0..drawn).filter(|at| positions[*at].parent.is_none()).collect();
        let mut column = 0;
        loop {
            let straight = siblings
                .iter()
                .copied()
                .find(|sibling| positions[*sibling].preferred)
                .or_else(|| siblings.first().copied());
            for sibling in siblings.iter().copied().filter(|sibling| Some(*sibling) != straight) {
                open.push((sibling, columns));
                columns += 1;
            }
            open.extend(straight.map(|sibling| (sibling, column)));
            let Some((at, its_column)) = open.pop() else { break };
            positions[at].column = its_column;
            column = its_column;
            siblings = state.children_of(positions[at].node).filter_map(position).collect();
        }
        let rows = positions.iter().map(|position| position.row + 1).max().unwrap_or_default();
        Self { positions, columns, rows, omitted: run.nodes.len() - end }
    }
}
