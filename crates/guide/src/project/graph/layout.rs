//! Where nodes go: a row per depth, a column per branch.

use std::ops::Range;

use crate::project::preferred_tip;
use crate::state::{Node, Run, SessionState};

/// The places of all drawn nodes, in the order in which the nodes were made.
#[derive(Debug)]
pub(super) struct Layout<'s> {
    pub(super) places: Vec<Place<'s>>,
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// How many later nodes are not drawn.
    pub(super) omitted: usize,
}

/// The place of one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'s> {
    pub(super) node: &'s Node,
    pub(super) column: usize,
    pub(super) row: usize,
    /// Where the node before it is in the list of places; nothing for the root, and where that node is not drawn.
    pub(super) parent: Option<usize>,
    /// Whether it is on the way to the preferred tip.
    pub(super) preferred: bool,
    /// Whether it is the preferred tip.
    pub(super) is_tip: bool,
}

impl<'s> Layout<'s> {
    /// The nodes of a run whose places in the order of making are in `window`.
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
        let mut places: Vec<Place<'s>> = shown()
            .enumerate()
            .map(|(at, node)| Place {
                node,
                column: 0,
                row: (node.depth - top) as usize,
                parent: state.parent_of(node).and_then(position),
                preferred: preferred[at],
                is_tip: tip.is_some_and(|tip| tip.ordinal == node.ordinal),
            })
            .collect();

        // A branch goes on straight down with its preferred child, or its first; the others get
        // columns of their own, next to each other. Nodes whose parent is not drawn are told apart
        // as if one node above had made them all. A list instead of recursion: runs are deep.
        let mut columns = usize::from(drawn > 0);
        let mut open: Vec<(usize, usize)> = Vec::new();
        let mut siblings: Vec<usize> = (0..drawn).filter(|at| places[*at].parent.is_none()).collect();
        let mut column = 0;
        loop {
            let straight = siblings
                .iter()
                .copied()
                .find(|sibling| places[*sibling].preferred)
                .or_else(|| siblings.first().copied());
            for sibling in siblings.iter().copied().filter(|sibling| Some(*sibling) != straight) {
                open.push((sibling, columns));
                columns += 1;
            }
            open.extend(straight.map(|sibling| (sibling, column)));
            let Some((at, its_column)) = open.pop() else { break };
            places[at].column = its_column;
            column = its_column;
            siblings = state.children_of(places[at].node).filter_map(position).collect();
        }
        let rows = places.iter().map(|place| place.row + 1).max().unwrap_or_default();
        Self { places, columns, rows, omitted: run.nodes.len() - end }
    }
}
