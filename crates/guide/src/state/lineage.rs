//! Fast lookup of ancestors.
//!
//! Each node has one extra pointer to an ancestor further up, chosen as in a skew-binary number. It costs
//! O(1) when the node is created, and any ancestor is found in O(log depth).

use super::{Node, Ordinal, SessionState};

impl SessionState {
    /// The parent of `node`; `None` for a root.
    pub fn parent_of(&self, node: &Node) -> Option<&Node> {
        node.parent_ordinal.map(|ordinal| self.node_at(ordinal))
    }

    /// `node` and its ancestors, up to the root.
    pub fn lineage<'s>(&'s self, node: &'s Node) -> impl Iterator<Item = &'s Node> {
        std::iter::successors(Some(node), |node| self.parent_of(node))
    }

    /// The node that has the state of `node`: itself, or for a checkpoint the nearest ancestor that is not a
    /// checkpoint.
    pub fn bookmarked<'s>(&'s self, node: &'s Node) -> &'s Node {
        self.lineage(node).find(|node| node.kind != crate::record::NodeKind::Checkpoint).unwrap_or(node)
    }

    /// Whether `upper` is `lower` or an ancestor of it.
    pub fn is_ancestor_or_self(&self, upper: &Node, lower: &Node) -> bool {
        let mut at = lower;
        while at.depth > upper.depth {
            let jump = self.node_at(at.jump);
            // The jump of a root is the root itself. The loop ends before a root is reached, because its
            // depth is 0.
            at = match at.parent_ordinal {
                _ if jump.depth >= upper.depth => jump,
                Some(parent) => self.node_at(parent),
                None => return false,
            };
        }
        at.ordinal == upper.ordinal
    }

    /// The jump pointer of a new child of `parent`.
    pub(super) fn jump_below(&self, parent: &Node) -> Ordinal {
        let jump = self.node_at(parent.jump);
        let further = self.node_at(jump.jump);
        if parent.depth - jump.depth == jump.depth - further.depth { further.ordinal } else { parent.ordinal }
    }
}
