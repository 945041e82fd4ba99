//! Step 7: activate contributions by the resolved status.

use crate::catalogue::{Catalogue, Rank};
use crate::contribution::{Activation, Body, Contribution};
use crate::vocabulary::{NonReadyStatus, RuntimeStatus, StatusSet};

/// Whether a contribution is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Active,
    /// Active as a fallback for this status.
    Fallback(NonReadyStatus),
    Inactive,
}

/// The candidate graph: fixed after step 8; policy references are resolved in it.
pub(crate) struct Candidates {
    gates: Vec<Gate>,
}

impl Candidates {
    pub(crate) fn gate(&self, rank: Rank) -> Gate {
        self.gates[rank]
    }

    pub(crate) fn is_active(&self, rank: Rank) -> bool {
        self.gates[rank] != Gate::Inactive
    }

    /// The active ranks, in key order.
    pub(crate) fn active(&self) -> impl Iterator<Item = Rank> {
        (0..self.gates.len()).filter(|rank| self.is_active(*rank))
    }
}

/// Activates contributions; fallbacks by step 8.
pub(crate) fn gate(catalogue: &Catalogue<'_>) -> Candidates {
    let gates = catalogue
        .iter()
        .map(|contribution| {
            let status =
                catalogue.sources[contribution.source].runtime.as_ref().map(|runtime| runtime.status);
            match contribution.body {
                Body::Fallback { status: declared, .. } => {
                    super::s08_fallbacks::matched_status(declared, status)
                        .map_or(Gate::Inactive, Gate::Fallback)
                }
                _ if is_active(contribution, status) => Gate::Active,
                _ => Gate::Inactive,
            }
        })
        .collect();
    Candidates { gates }
}

/// Built-ins have no status and are always active; a disabled module shows nothing.
fn is_active(contribution: &Contribution<'_>, status: Option<RuntimeStatus>) -> bool {
    match status {
        None => true,
        Some(RuntimeStatus::Disabled) => false,
        Some(status) => active_when(contribution).contains(status),
    }
}

/// The statuses in which a module's contribution is active.
pub(crate) fn active_when(contribution: &Contribution<'_>) -> StatusSet {
    match contribution.activation {
        Activation::Default => contribution.key.kind().default_active_when(),
        Activation::Explicit(statuses) => statuses,
    }
}
