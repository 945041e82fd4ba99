//! Dependency cycles.

use std::collections::BTreeMap;

use crate::name::PackName;

/// The first cycle, its first pack repeated at the end. Iterative, in name order.
pub(super) fn first<'a, I, D>(graph: I) -> Option<Vec<&'a PackName>>
where
    I: IntoIterator<Item = (&'a PackName, D)>,
    D: Iterator<Item = &'a PackName>,
{
    let graph: BTreeMap<&PackName, Vec<&PackName>> =
        graph.into_iter().map(|(name, needs)| (name, needs.collect())).collect();
    let mut done: BTreeMap<&PackName, bool> = BTreeMap::new();
    for start in graph.keys() {
        if done.contains_key(start) {
            continue;
        }
        // The path from the start, and how many dependencies of each pack on it were visited.
        let mut way: Vec<(&PackName, usize)> = vec![(start, 0)];
        done.insert(start, false);
        while let Some((name, next)) = way.last_mut() {
            let Some(need) = graph.get(name).and_then(|needs| needs.get(*next)) else {
                done.insert(name, true);
                way.pop();
                continue;
            };
            *next += 1;
            match done.get(need) {
                Some(true) => {}
                Some(false) => {
                    let from = way.iter().position(|(name, _)| name == need).unwrap_or(0);
                    let mut cycle: Vec<&PackName> = way[from..].iter().map(|(name, _)| *name).collect();
                    cycle.push(need);
                    return Some(cycle);
                }
                None => {
                    done.insert(need, false);
                    way.push((need, 0));
                }
            }
        }
    }
    None
}
