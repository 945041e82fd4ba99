//! What a policy did.

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

/// What an effect is sorted by within its kind.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Aim<'i> {
    Target(Key<'i>),
    Claim(&'i str),
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

    /// Kind order, then target or claim, then operation.
    fn sort_key(&self) -> (u8, Aim<'i>, &'i str) {
        let (kind, aim) = match self {
            Self::Hide { target, .. } => (0, Aim::Target(*target)),
            Self::Replace { target, .. } => (1, Aim::Target(*target)),
            Self::PathAlias { target, .. } => (2, Aim::Target(*target)),
            Self::RendererOverride { claim, .. } => (3, Aim::Claim(claim)),
            Self::Reorder { target, .. } => (4, Aim::Target(*target)),
        };
        (kind, aim, self.policy_id())
    }
}

/// Puts effects into the order in which every result lists them.
pub(crate) fn sort(effects: &mut [Effect<'_>]) {
    effects.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
}
