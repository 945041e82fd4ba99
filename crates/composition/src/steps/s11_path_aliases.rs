//! Step 11: apply `pathAlias`.

use super::s09_policy::{Action, Resolved};
use crate::assembly::Assembly;
use crate::contribution::Body;
use crate::effect::Effect;

/// Sets the effective paths of routes. The declared path and the key are unchanged.
pub(crate) fn apply<'i>(assembly: &mut Assembly<'_, 'i>, policy: &[Resolved<'i>]) {
    for operation in policy {
        if let Action::PathAlias { target, path } = operation.action
            && let Body::Route { path: declared, .. } = assembly.catalogue.get(target).body
        {
            assembly.aliases.insert(target, (path, operation.id));
            assembly.touch(target, operation.id);
            assembly.effects.push(Effect::PathAlias {
                policy_id: operation.id,
                target: assembly.catalogue.key(target),
                original_path: declared,
                effective_path: path,
            });
        }
    }
}
