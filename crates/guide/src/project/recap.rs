//! Notes along a path, for a caller that resumes: newest first, within a budget.
//!
//! Over budget the oldest notes are omitted and counted, because the pending step builds on the newest.

use canon::budget::truncate;
use serde::Serialize;

use super::{current_output, preferred_leaf_below, preferred_tip};
use crate::record::{EdgeKind, NodeId, NodeKind, OutputChannel};
use crate::state::{Node, Run, SessionState};

/// The smallest remaining budget for which truncated notes are more useful than only counting them.
const SMALLEST_PART: usize = 128;

/// The notes along a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recap {
    /// The notes, newest first.
    pub entries: Vec<RecapEntry>,
    /// The number of older notes that did not fit.
    pub omitted: usize,
}

/// The notes of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecapEntry {
    pub node_id: NodeId,
    /// The one-based step number on its path.
    pub step_ordinal: u32,
    /// The current notes, complete or truncated with the marker.
    pub text: String,
}

/// The branches below a node that is not the tip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchSummary {
    /// The number of child nodes.
    pub children: usize,
    /// The number of children with an acknowledged step.
    pub steps: usize,
    /// The number of children with a blocked attempt.
    pub blocked_attempts: usize,
    /// The number of checkpoints among them.
    pub checkpoints: usize,
    /// The preferred tip of the run.
    pub preferred_tip: NodeId,
    /// Whether the preferred tip is below this node. If not, this node is on another branch.
    pub on_preferred_branch: bool,
    /// The notes below this node, along the preferred branch.
    pub downstream: Recap,
}

/// The notes of `node` and its ancestors, newest first, in at most `max_bytes` of text.
pub fn ancestor_recap(state: &SessionState, node: &Node, max_bytes: usize) -> Recap {
    collect(state, state.lineage(node), max_bytes)
}

/// The branch summary of a node; `None` for the preferred tip.
///
/// The recap contains the path from the preferred leaf below the node up to the node, excluding it.
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

/// Whether advancing `node` creates another branch: a step was already acknowledged from it. Checkpoints do
/// not count.
pub const fn has_moved_on(node: &Node) -> bool {
    node.child_count(EdgeKind::AckedStep) > 0
}

/// Whether a node is the newest position of its run: the preferred tip, or a node that has only checkpoints
/// since.
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
        // Once notes were omitted, all older ones are: a hole in the middle would mislead.
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
