//! Ancestors, found quickly.
//!
//! Each node keeps one extra pointer to an ancestor further up, chosen as in a skew-binary
//! number: it costs O(1) when the node is made, and any ancestor is reached in O(log depth).

use super::{Node, Ordinal, SessionState};

impl SessionState {
    /// The node before `node`; nothing for a root.
    pub fn parent_of(&self, node: &Node) -> Option<&Node> {
        node.parent_ordinal.map(|ordinal| self.node_at(ordinal))
    }

    /// `node` and the nodes above it, up to the root.
    pub fn lineage<'s>(&'s self, node: &'s Node) -> impl Iterator<Item = &'s Node> {
        std::iter::successors(Some(node), |node| self.parent_of(node))
    }

    /// The node whose state is the state of `node`: itself, or for checkpoints the nearest node
    /// above that is none, because a checkpoint is a bookmark at its parent's state.
    pub fn bookmarked<'s>(&'s self, node: &'s Node) -> &'s Node {
        self.lineage(node).find(|node| node.kind != crate::record::NodeKind::Checkpoint).unwrap_or(node)
    }

    /// Whether `upper` is `lower`, or above it.
    pub fn is_ancestor_or_self(&self, upper: &Node, lower: &Node) -> bool {
        let mut at = lower;
        while at.depth > upper.depth {
            let jump = self.node_at(at.jump);
            // A root is its own jump, and is never below anything: the loop has ended before.
            at = match at.parent_ordinal {
                _ if jump.depth >= upper.depth => jump,
                Some(parent) => self.node_at(parent),
                None => return false,
            };
        }
        at.ordinal == upper.ordinal
    }

    /// The jump of a new child of `parent`.
    pub(super) fn jump_below(&self, parent: &Node) -> Ordinal {
        let jump = self.node_at(parent.jump);
        let further = self.node_at(jump.jump);
        if parent.depth - jump.depth == jump.depth - further.depth { further.ordinal } else { parent.ordinal }
    }
}
