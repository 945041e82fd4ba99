//! Step 10: apply `hide` and `replace`.

use super::s09_policy::{Action, Resolved};
use crate::assembly::Assembly;
use crate::effect::Effect;

/// Removes hidden and replaced contributions. Nothing cascades, and a replacement keeps its own properties.
pub(crate) fn apply<'i>(assembly: &mut Assembly<'_, 'i>, policy: &[Resolved<'i>]) {
    for operation in policy {
        match operation.action {
            Action::Hide { target } => {
                assembly.remove(target);
                let key = assembly.catalogue.key(target);
                assembly.effects.push(Effect::Hide { policy_id: operation.id, target: key, removed: key });
            }
            Action::Replace { target, replacement } => {
                assembly.remove(target);
                assembly.touch(replacement, operation.id);
                let [target, replacement] = [target, replacement].map(|rank| assembly.catalogue.key(rank));
                assembly.effects.push(Effect::Replace { policy_id: operation.id, target, replacement });
            }
            Action::Reorder { .. } | Action::PathAlias { .. } | Action::RendererOverride { .. } => {}
        }
    }
}
