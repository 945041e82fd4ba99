//! The preferred tip: the branch of a run that is used when the caller does not choose one.
//!
//! The rule: of the nodes without children, the one with the latest activity on its path; then the one
//! created last; then the smaller id.
//!
//! Applied literally, the rule costs O(n). But the last activity of a run happened at one node, every leaf
//! below that node shares it, and no other leaf has it. So the preferred tip is the newest node below the
//! last activity. (The newest node of a subtree is always a leaf, because a child would be newer.) That is
//! nearly always the newest node of the run, which takes O(log n) to confirm.

use crate::record::EventIndex;
use crate::state::{Node, Run, SessionState};

/// A node without children.
#[derive(Clone, Copy, Debug)]
pub struct Tip<'s> {
    pub node: &'s Node,
    /// The index of the last activity on the path from the root to it.
    pub last_activity_index: EventIndex,
}

/// The preferred tip of a run; `None` before its root node exists. O(log n), or O(n) if the last activity was
/// on an older branch.
pub fn preferred_tip<'s>(state: &'s SessionState, run: &'s Run) -> Option<&'s Node> {
    let touched = state.node_at(run.last_touched?);
    preferred_newest_below(state, run, touched)
}

/// The preferred tip among the nodes below `node`, including itself.
///
/// That is the run's preferred tip if `node` is one of its ancestors; otherwise the leaf below `node` with
/// the latest activity.
pub fn preferred_leaf_below<'s>(state: &'s SessionState, run: &'s Run, node: &'s Node) -> &'s Node {
    match preferred_tip(state, run) {
        Some(tip) if state.is_ancestor_or_self(node, tip) => tip,
        _ => {
            let mut leaves = leaves(state, run, Some(node));
            leaves.sort_by(prefer);
            leaves.first().map_or(node, |tip| tip.node)
        }
    }
}

/// All nodes without children, the preferred one first. O(n), and O(t log t) in the tips.
pub fn tips<'s>(state: &'s SessionState, run: &'s Run) -> Vec<Tip<'s>> {
    let mut leaves = leaves(state, run, None);
    leaves.sort_by(prefer);
    leaves
}

/// The newest node at or below `node`, which is a leaf.
fn preferred_newest_below<'s>(state: &'s SessionState, run: &'s Run, node: &'s Node) -> Option<&'s Node> {
    let newest = state.node_at(*run.nodes.last()?);
    if state.is_ancestor_or_self(node, newest) {
        return Some(newest);
    }
    let mut inside = vec![false; state.node_count()];
    inside[node.ordinal.get()] = true;
    let mut last = node;
    for candidate in state.nodes_of(run).skip_while(|candidate| candidate.ordinal <= node.ordinal) {
        if candidate.parent_ordinal.is_some_and(|parent| inside[parent.get()]) {
            inside[candidate.ordinal.get()] = true;
            last = candidate;
        }
    }
    Some(last)
}

/// The leaves of a run, or of a subtree, with the last activity on the path to each.
fn leaves<'s>(state: &'s SessionState, run: &'s Run, below: Option<&'s Node>) -> Vec<Tip<'s>> {
    // Parents are created before their children, so one pass in creation order is enough.
    let mut activity: Vec<Option<EventIndex>> = vec![None; state.node_count()];
    let mut leaves = Vec::new();
    for node in state.nodes_of(run) {
        let above = node.parent_ordinal.and_then(|parent| activity[parent.get()]);
        let starts = match below {
            Some(below) => node.ordinal == below.ordinal,
            None => node.parent_ordinal.is_none(),
        };
        if !starts && above.is_none() {
            continue;
        }
        let last_activity_index =
            above.map_or(node.last_activity_index, |above| above.max(node.last_activity_index));
        activity[node.ordinal.get()] = Some(last_activity_index);
        if node.is_leaf() {
            leaves.push(Tip { node, last_activity_index });
        }
    }
    leaves
}

fn prefer(left: &Tip<'_>, right: &Tip<'_>) -> std::cmp::Ordering {
    (right.last_activity_index, right.node.created_index)
        .cmp(&(left.last_activity_index, left.node.created_index))
        .then_with(|| left.node.id.cmp(&right.node.id))
}
