//! Step 9b, second half: replace and reorder cycles, over operations that passed 9a.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::model::policy::{Existing, Invalid, Operation};

/// An arrow of a graph, and the operation that drew it.
type Arrow<'a> = (&'a str, &'a str, &'a Operation);

/// One diagnostic per strongly connected component of `target -> replacement`.
pub(crate) fn check_replaces(passed: &[&Operation], existing: &Existing) -> Vec<Value> {
    let arrows = replace_arrows(passed);
    components(&arrows).into_iter().map(|group| cycle("replace-cycle", &group).diagnostic(existing)).collect()
}

/// Does this operation's arrow lie inside a replace cycle?
pub(crate) fn in_replace_cycle(operation: &Operation, passed: &[&Operation]) -> bool {
    let arrows = replace_arrows(passed);
    operation
        .replacement
        .as_deref()
        .is_some_and(|replacement| reaches(&arrows, replacement, operation.target()))
}

fn replace_arrows<'a>(passed: &[&'a Operation]) -> Vec<Arrow<'a>> {
    passed
        .iter()
        .filter_map(|operation| Some((operation.target(), operation.replacement.as_deref()?, *operation)))
        .collect()
}

/// Components of the precedence arrows, and the pairs that disagree about buckets (step 16).
pub(crate) fn check_reorders(passed: &[&Operation], all: &[Operation], existing: &Existing) -> Vec<Value> {
    // None of several reorders on one target enters the graph; the target is in conflict already.
    let reorders_on = |target: &str| {
        all.iter().filter(|operation| operation.kind == "reorder" && operation.target() == target).count()
    };
    let reorders: Vec<&Operation> = passed
        .iter()
        .copied()
        .filter(|operation| operation.kind == "reorder" && reorders_on(operation.target()) == 1)
        .collect();

    let arrows: Vec<Arrow<'_>> = reorders
        .iter()
        .filter_map(|operation| {
            let anchor = operation.anchor.as_deref()?;
            match operation.position.as_deref()? {
                "before" => Some((operation.target(), anchor, *operation)),
                _ => Some((anchor, operation.target(), *operation)),
            }
        })
        .collect();
    let mut found: Vec<Invalid> =
        components(&arrows).iter().map(|group| cycle("reorder-cycle", group)).collect();

    // `before` a `first` item, or `after` a `last` one.
    for relative in &reorders {
        for absolute in &reorders {
            let named = relative.anchor.as_deref() == Some(absolute.target());
            let positions = (relative.position.as_deref(), absolute.position.as_deref());
            if named && matches!(positions, (Some("before"), Some("first")) | (Some("after"), Some("last"))) {
                found.push(cycle("reorder-cycle", &[*relative, *absolute]));
            }
        }
    }
    found.into_iter().map(|invalid| invalid.diagnostic(existing)).collect()
}

/// `policyId` is the smallest id, `target` that operation's target, the smallest one if ids are equal.
fn cycle(reason: &'static str, group: &[&Operation]) -> Invalid {
    let (id, target) = group
        .iter()
        .map(|operation| (operation.id.as_str(), operation.target()))
        .min()
        .expect("a cycle has an operation");
    Invalid::of_all(group, reason, id, target)
}

/// The operations of every component that holds a cycle: an edge is in a cycle if its head reaches its tail.
fn components<'a>(arrows: &[Arrow<'a>]) -> Vec<Vec<&'a Operation>> {
    let mut by_nodes: Vec<(BTreeSet<&str>, Vec<&Operation>)> = Vec::new();
    for &(from, to, operation) in arrows {
        if !reaches(arrows, to, from) {
            continue;
        }
        // The component of `from`: whatever it reaches and is reached from.
        let nodes: BTreeSet<&str> = arrows
            .iter()
            .flat_map(|arrow| [arrow.0, arrow.1])
            .filter(|node| reaches(arrows, from, node) && reaches(arrows, node, from))
            .collect();
        match by_nodes.iter_mut().find(|(known, _)| *known == nodes) {
            Some((_, operations)) => operations.push(operation),
            None => by_nodes.push((nodes, vec![operation])),
        }
    }
    by_nodes.into_iter().map(|(_, operations)| operations).collect()
}

/// Is there a way, possibly of no step at all?
fn reaches(arrows: &[Arrow<'_>], from: &str, to: &str) -> bool {
    let mut seen: BTreeSet<&str> = BTreeSet::from([from]);
    loop {
        let next: Vec<&str> = arrows
            .iter()
            .filter(|(tail, head, _)| seen.contains(tail) && !seen.contains(head))
            .map(|(_, head, _)| *head)
            .collect();
        if next.is_empty() {
            return seen.contains(to);
        }
        seen.extend(next);
    }
}
