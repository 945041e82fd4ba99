//! What happened, for whoever comes back: newest first, within a budget, the rest counted.
//!
//! Over budget the oldest notes go, because the newest are what the pending step builds on.

use canon::budget::truncate;
use serde::Serialize;

use super::{current_output, preferred_leaf_below, preferred_tip};
use crate::record::{EdgeKind, NodeId, NodeKind, OutputChannel};
use crate::state::{Node, Run, SessionState};

/// The smallest room in which the beginning of notes is worth more than a count.
const SMALLEST_PART: usize = 128;

/// Notes along a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recap {
    /// The notes, newest first.
    pub entries: Vec<RecapEntry>,
    /// How many older notes did not fit.
    pub omitted: usize,
}

/// The notes of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecapEntry {
    pub node_id: NodeId,
    /// Which step of its path, from 1.
    pub step_ordinal: u32,
    /// The current notes, whole or cut with the marker.
    pub text: String,
}

/// What became of a node that is not the tip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchSummary {
    /// How many nodes were made from it.
    pub children: usize,
    /// Those where a step was acknowledged.
    pub steps: usize,
    /// Those where an attempt was blocked.
    pub blocked_attempts: usize,
    /// Those that are checkpoints.
    pub checkpoints: usize,
    /// The preferred tip of the run.
    pub preferred_tip: NodeId,
    /// Whether the preferred tip is below this node. If not, this node is on another branch.
    pub on_preferred_branch: bool,
    /// What happened below this node, along the preferred branch.
    pub downstream: Recap,
}

/// The notes of `node` and the nodes above it, newest first, in at most `max_bytes` of text.
pub fn ancestor_recap(state: &SessionState, node: &Node, max_bytes: usize) -> Recap {
    collect(state, state.lineage(node), max_bytes)
}

/// The branch summary of a node; nothing for the preferred tip, which has moved nowhere.
///
/// The recap runs from the preferred leaf below the node up to the node, without it.
pub fn branch_summary(
    state: &SessionState,
    run: &Run,
    node: &Node,
    max_bytes: usize,
) -> Option<BranchSummary> {
    let tip = preferred_tip(state, run)?;
    if tip.id == node.id {
        return None;
    }
    let count = |kind| state.children_of(node).filter(|child| child.kind == kind).count();
    let leaf = preferred_leaf_below(state, run, node);
    let below = state.lineage(leaf).take_while(|at| at.depth > node.depth);
    Some(BranchSummary {
        children: state.children_of(node).count(),
        steps: count(NodeKind::Step),
        blocked_attempts: count(NodeKind::BlockedAttempt),
        checkpoints: count(NodeKind::Checkpoint),
        preferred_tip: tip.id.clone(),
        on_preferred_branch: state.is_ancestor_or_self(node, tip),
        downstream: collect(state, below, max_bytes),
    })
}

/// Whether advancing `node` makes another branch: a step was acknowledged from it already.
/// Checkpoints are bookmarks, and do not count.
pub const fn has_moved_on(node: &Node) -> bool {
    node.child_count(EdgeKind::AckedStep) > 0
}

/// Whether a node is the newest place of its run: the preferred tip, or a place that was only bookmarked since.
pub fn is_newest_place(state: &SessionState, run: &Run, node: &Node) -> bool {
    let mut at = preferred_tip(state, run);
    while let Some(tip) = at {
        if tip.id == node.id {
            return true;
        }
        at = state.parent_of(tip).filter(|_| tip.kind == NodeKind::Checkpoint);
    }
    false
}

fn collect<'s>(state: &'s SessionState, path: impl Iterator<Item = &'s Node>, max_bytes: usize) -> Recap {
    let mut recap = Recap::default();
    let mut room = max_bytes;
    let notes =
        path.filter_map(|node| Some((node, current_output(state, node, OutputChannel::Recap)?.notes()?)));
    for (node, text) in notes {
        // Once something was left out, everything older is: a gap in the middle would mislead.
        if recap.omitted > 0 || (text.len() > room && room < SMALLEST_PART) {
            recap.omitted += 1;
            continue;
        }
        let text = truncate(text, room).into_owned();
        room -= text.len();
        recap.entries.push(RecapEntry { node_id: node.id.clone(), step_ordinal: node.step_ordinal, text });
    }
    recap
}
