//! The effects of a policy.
//!
//! Step 9 sorts the operations by the ordering contract, and every later step keeps the order, so effects are recorded
//! in result order.

use serde::Serialize;

use crate::vocabulary::{ContributionKind, Key};

/// The effect of one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Effect<'i> {
    /// A contribution is hidden.
    Hide {
        policy_id: &'i str,
        target: Key<'i>,
        /// The removed contribution, which is the target.
        removed: Key<'i>,
    },
    /// A contribution replaces another.
    Replace {
        policy_id: &'i str,
        /// The replaced contribution.
        target: Key<'i>,
        replacement: Key<'i>,
    },
    /// A route has another path than declared.
    PathAlias {
        policy_id: &'i str,
        target: Key<'i>,
        /// The declared path.
        original_path: &'i str,
        /// The new path.
        effective_path: &'i str,
    },
    /// A claim is assigned to one renderer.
    RendererOverride {
        policy_id: &'i str,
        claim: &'i str,
        selected: Key<'i>,
        /// The renderers that lost it, sorted.
        overridden: Vec<Key<'i>>,
    },
    /// A contribution was moved.
    Reorder { policy_id: &'i str, target: Key<'i>, collection: ContributionKind },
}

impl<'i> Effect<'i> {
    pub const fn policy_id(&self) -> &'i str {
        match self {
            Self::Hide { policy_id, .. }
            | Self::Replace { policy_id, .. }
            | Self::PathAlias { policy_id, .. }
            | Self::RendererOverride { policy_id, .. }
            | Self::Reorder { policy_id, .. } => policy_id,
        }
    }
}
