//! Step 9b, first half: conflicts that are seen without the graph, over all operations.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::policy::{Existing, Invalid, Operation};

type Groups<'a> = BTreeMap<&'a str, Vec<&'a Operation>>;

pub(crate) fn check(operations: &[Operation], existing: &Existing) -> Vec<Value> {
    let mut found = Vec::new();
    for (id, group) in colliding(grouped(operations, |operation| Some(&operation.id))) {
        found.push(Invalid::of_all(&group, "duplicate-operation-id", id, &format!("operation:{id}")));
    }
    for (kind, reason) in [
        ("hide", "duplicate-hide-target"),
        ("reorder", "duplicate-reorder-target"),
        ("replace", "duplicate-replace-target"),
        ("pathAlias", "duplicate-path-alias-target"),
    ] {
        let by_target =
            grouped(operations, |operation| operation.target.as_deref().filter(|_| operation.kind == kind));
        for (target, group) in colliding(by_target) {
            found.push(Invalid::of_all(&group, reason, &sorted_ids(&group)[1], target));
        }
    }
    for (claim, group) in colliding(grouped(operations, |operation| operation.claim.as_deref())) {
        let reason = "duplicate-renderer-override-claim";
        found.push(Invalid::of_all(&group, reason, &sorted_ids(&group)[1], claim));
    }
    let removals =
        grouped(operations, |operation| operation.target.as_deref().filter(|_| operation.removes()));
    for (target, group) in removals {
        let has = |kind: &str| group.iter().any(|operation| operation.kind == kind);
        if has("hide") && has("replace") {
            let reason = "hide-replace-same-target";
            found.push(Invalid::of_all(&group, reason, &sorted_ids(&group)[0], target));
        }
    }
    found.into_iter().map(|invalid| invalid.diagnostic(existing)).collect()
}

fn grouped<'a>(operations: &'a [Operation], by: impl Fn(&'a Operation) -> Option<&'a str>) -> Groups<'a> {
    let mut groups = Groups::new();
    for operation in operations {
        if let Some(name) = by(operation) {
            groups.entry(name).or_default().push(operation);
        }
    }
    groups
}

fn colliding(mut groups: Groups<'_>) -> Groups<'_> {
    groups.retain(|_, group| group.len() > 1);
    groups
}

/// The ids in byte order, multiplicity kept.
fn sorted_ids(group: &[&Operation]) -> Vec<String> {
    let mut ids: Vec<String> = group.iter().map(|operation| operation.id.clone()).collect();
    ids.sort();
    ids
}
