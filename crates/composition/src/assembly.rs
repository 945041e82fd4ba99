//! The composition while policy is applied: steps 10 to 15.

use crate::catalogue::{Catalogue, Rank};
use crate::effect::Effect;
use crate::groups::Lookup;
use crate::steps::s07_gate::Candidates;

/// The remaining contributions, and what policy changed.
pub(crate) struct Assembly<'s, 'i> {
    pub(crate) catalogue: &'s Catalogue<'i>,
    pub(crate) candidates: &'s Candidates,
    shown: Vec<bool>,
    policy_ids: Vec<Vec<&'i str>>,
    /// The alias of a route and its operation.
    pub(crate) aliases: Lookup<Rank, (&'i str, &'i str)>,
    /// The operation that decided a claim.
    pub(crate) overrides: Lookup<&'i str, &'i str>,
    pub(crate) effects: Vec<Effect<'i>>,
}

impl<'s, 'i> Assembly<'s, 'i> {
    /// All active contributions, unchanged.
    pub(crate) fn new(catalogue: &'s Catalogue<'i>, candidates: &'s Candidates) -> Self {
        Self {
            catalogue,
            candidates,
            shown: (0..catalogue.len()).map(|rank| candidates.is_active(rank)).collect(),
            policy_ids: vec![Vec::new(); catalogue.len()],
            aliases: Lookup::default(),
            overrides: Lookup::default(),
            effects: Vec::new(),
        }
    }

    pub(crate) fn remove(&mut self, rank: Rank) {
        self.shown[rank] = false;
    }

    pub(crate) fn is_shown(&self, rank: Rank) -> bool {
        self.shown[rank]
    }

    /// The remaining ranks, in key order.
    pub(crate) fn shown(&self) -> impl Iterator<Item = Rank> {
        (0..self.shown.len()).filter(|rank| self.shown[*rank])
    }

    /// Records that `operation` affected the contribution.
    pub(crate) fn touch(&mut self, rank: Rank, operation: &'i str) {
        self.policy_ids[rank].push(operation);
    }

    /// The operations that affected the contribution, sorted.
    pub(crate) fn take_policy_ids(&mut self, rank: Rank) -> Vec<&'i str> {
        let mut ids = std::mem::take(&mut self.policy_ids[rank]);
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The path of a route after aliases.
    pub(crate) fn effective_path(&self, rank: Rank, declared: &'i str) -> &'i str {
        self.aliases.get(&rank).map_or(declared, |(path, _)| path)
    }
}
