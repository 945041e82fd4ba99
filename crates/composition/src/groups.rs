//! Lookups and duplicate detection in linear time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// A hash map for lookups only. It is never iterated into output, because its order is random, which prevents chosen
/// collisions.
pub(crate) type Lookup<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

enum Seen<T> {
    Once(T),
    Group(usize),
}

/// The items that share a key with another, grouped by key, each group in order.
///
/// Groups are in the order in which they became one. Nothing is allocated per item besides its map entry, because
/// groups are rare.
pub(crate) fn repeated<K: Hash + Eq + Clone, T>(items: impl Iterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let capacity = items.size_hint().1.unwrap_or_default();
    let mut seen: Lookup<K, Seen<T>> = Lookup::with_capacity_and_hasher(capacity, Default::default());
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, item) in items {
        match seen.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(Seen::Once(item));
            }
            Entry::Occupied(mut occupied) => {
                let group = match occupied.get() {
                    Seen::Group(group) => *group,
                    Seen::Once(_) => groups.len(),
                };
                if let Seen::Once(first) = std::mem::replace(occupied.get_mut(), Seen::Group(group)) {
                    groups.push((occupied.key().clone(), vec![first]));
                }
                groups[group].1.push(item);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_only_duplicates() {
        let items = ["a", "b", "c", "b", "a", "b"];
        let groups = repeated(items.into_iter().enumerate().map(|(index, item)| (item, index)));
        assert_eq!(groups, [("b", vec![1, 3, 5]), ("a", vec![0, 4])]);
    }
}
