//! Step 13: resolve renderer claims with `rendererOverride`.

use super::s09_policy::{Action, Resolved};
use crate::assembly::Assembly;
use crate::catalogue::Rank;
use crate::effect::Effect;
use crate::groups::Lookup;

/// Keeps only the selected renderer of each overridden claim.
pub(crate) fn apply<'i>(assembly: &mut Assembly<'_, 'i>, policy: &[Resolved<'i>]) {
    let overrides: Vec<_> = policy
        .iter()
        .filter_map(|operation| match operation.action {
            Action::RendererOverride { claim, selected } => Some((operation.id, claim, selected)),
            _ => None,
        })
        .collect();
    if overrides.is_empty() {
        return;
    }
    let mut renderers: Lookup<&'i str, Vec<Rank>> =
        overrides.iter().map(|(_, claim, _)| (*claim, Vec::new())).collect();
    for rank in assembly.shown() {
        if let Some(claim) = assembly.catalogue.get(rank).body.claim()
            && let Some(claimants) = renderers.get_mut(claim)
        {
            claimants.push(rank);
        }
    }
    for (policy_id, claim, selected) in overrides {
        let mut overridden = renderers.remove(claim).unwrap_or_default();
        overridden.retain(|rank| *rank != selected);
        for rank in &overridden {
            assembly.remove(*rank);
        }
        assembly.touch(selected, policy_id);
        assembly.overrides.insert(claim, policy_id);
        assembly.effects.push(Effect::RendererOverride {
            policy_id,
            claim,
            selected: assembly.catalogue.key(selected),
            overridden: overridden.into_iter().map(|rank| assembly.catalogue.key(rank)).collect(),
        });
    }
}
