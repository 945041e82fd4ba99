//! Where nodes go: a row per depth, a column per branch.

use super::DRAWN_NODES;
use crate::project::preferred_tip;
use crate::state::{Node, Run, SessionState};

/// The places of all drawn nodes, in the order in which the nodes were made.
#[derive(Debug)]
pub(super) struct Layout<'s> {
    pub(super) places: Vec<Place<'s>>,
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) omitted: usize,
}

/// The place of one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'s> {
    pub(super) node: &'s Node,
    pub(super) column: usize,
    pub(super) row: usize,
    /// Where the node before it is in the list of places.
    pub(super) parent: Option<usize>,
    /// Whether it is on the way to the preferred tip.
    pub(super) preferred: bool,
    /// Whether it is the preferred tip.
    pub(super) is_tip: bool,
}

impl<'s> Layout<'s> {
    pub(super) fn new(state: &'s SessionState, run: &'s Run) -> Self {
        let drawn = run.nodes.len().min(DRAWN_NODES);
        let position = |node: &Node| run.nodes.binary_search(&node.ordinal).ok().filter(|at| *at < drawn);
        let tip = preferred_tip(state, run);
        let mut preferred = vec![false; drawn];
        for at in tip.into_iter().flat_map(|tip| state.lineage(tip)).filter_map(position) {
            preferred[at] = true;
        }
        let mut places: Vec<Place<'s>> = state
            .nodes_of(run)
            .take(drawn)
            .enumerate()
            .map(|(at, node)| Place {
                node,
                column: 0,
                row: node.depth as usize,
                parent: state.parent_of(node).and_then(position),
                preferred: preferred[at],
                is_tip: tip.is_some_and(|tip| tip.ordinal == node.ordinal),
            })
            .collect();

        // A branch goes on straight down with its preferred child, or its first; the others get
        // columns of their own, next to each other. A list instead of recursion: runs are deep.
        let mut columns = usize::from(drawn > 0);
        let mut open = Vec::from_iter((drawn > 0).then_some((0, 0)));
        while let Some((at, column)) = open.pop() {
            places[at].column = column;
            let children: Vec<usize> = state.children_of(places[at].node).filter_map(position).collect();
            let straight = children
                .iter()
                .copied()
                .find(|child| places[*child].preferred)
                .or_else(|| children.first().copied());
            for child in children.iter().copied().filter(|child| Some(*child) != straight) {
                open.push((child, columns));
                columns += 1;
            }
            open.extend(straight.map(|child| (child, column)));
        }
        let rows = places.iter().map(|place| place.row + 1).max().unwrap_or_default();
        Self { places, columns, rows, omitted: run.nodes.len() - drawn }
    }
}
