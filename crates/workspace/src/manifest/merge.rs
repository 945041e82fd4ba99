//! Merges a base and a manifest.
//!
//! Objects keep the base's order with the manifest's declarations; lists have the base's items,
//! then the manifest's, and of equal items the last is kept in its position.

use std::collections::BTreeSet;

use super::model::Spec;

/// The child over the base. A child without a base goes through here too: its duplicates are merged
/// the same way.
pub(super) fn specs(base: Spec, child: Spec) -> Spec {
    let env = base.env.into_iter().map(|mut item| {
        item.from_base = true;
        item
    });
    Spec {
        inputs: declarations(base.inputs, child.inputs),
        mounts: declarations(base.mounts, child.mounts),
        seed_files: last_of(base.seed_files, child.seed_files, |seed| (seed.slot, seed.key.clone())),
        env: last_of(env, child.env, |item| item.name.clone()),
        skills: last_of(base.skills, child.skills, |skill| skill.slug.clone()),
        tool_selection: last_of(base.tool_selection, child.tool_selection, Clone::clone),
        credentials: last_of(base.credentials, child.credentials, |credential| credential.name.clone()),
        permissions: child.permissions.or(base.permissions),
        persistence: last_of(base.persistence, child.persistence, Clone::clone),
        output_surface: child.output_surface.or(base.output_surface),
        working_files: last_of(base.working_files, child.working_files, |file| file.slug.clone()),
    }
}

/// The union of keys: those of the base first, each with the child's declaration if there is one.
fn declarations<K: PartialEq, V>(base: Vec<(K, V)>, child: Vec<(K, V)>) -> Vec<(K, V)> {
    let mut merged = base;
    for (key, value) in child {
        match merged.iter_mut().find(|(known, _)| *known == key) {
            Some(place) => place.1 = value,
            None => merged.push((key, value)),
        }
    }
    merged
}

/// Base then child; of equal keys the last.
fn last_of<T, K: Ord>(
    base: impl IntoIterator<Item = T>,
    child: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<T> {
    let items: Vec<T> = base.into_iter().chain(child).collect();
    let mut seen = BTreeSet::new();
    let mut kept: Vec<T> = items.into_iter().rev().filter(|item| seen.insert(key(item))).collect();
    kept.reverse();
    kept
}
