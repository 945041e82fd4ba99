//! What a policy did.
//!
//! Step 9 hands the operations on in the order of the ordering contract, and every later step
//! keeps it, so that effects are recorded in the order in which a result lists them.

use serde::Serialize;

use crate::vocabulary::{ContributionKind, Key};

/// The effect of one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Effect<'i> {
    /// A contribution is not shown.
    Hide {
        /// The operation.
        policy_id: &'i str,
        /// What it named.
        target: Key<'i>,
        /// What went, which is the same.
        removed: Key<'i>,
    },
    /// A contribution stands in for another.
    Replace {
        /// The operation.
        policy_id: &'i str,
        /// What went.
        target: Key<'i>,
        /// What stays in its stead.
        replacement: Key<'i>,
    },
    /// A route answers another path than it declares.
    PathAlias {
        /// The operation.
        policy_id: &'i str,
        /// The route.
        target: Key<'i>,
        /// The path it declares.
        original_path: &'i str,
        /// The path it answers.
        effective_path: &'i str,
    },
    /// A claim goes to one renderer.
    RendererOverride {
        /// The operation.
        policy_id: &'i str,
        /// The claim.
        claim: &'i str,
        /// Who has it.
        selected: Key<'i>,
        /// Who has it no more, sorted.
        overridden: Vec<Key<'i>>,
    },
    /// A contribution was given a place.
    Reorder {
        /// The operation.
        policy_id: &'i str,
        /// What was moved.
        target: Key<'i>,
        /// Within what.
        collection: ContributionKind,
    },
}

impl<'i> Effect<'i> {
    /// The operation that did it.
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
