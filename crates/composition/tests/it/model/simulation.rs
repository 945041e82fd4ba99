//! Step 9c: what the policy would leave dangling.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::{
    cycle::in_replace_cycle,
    graph::Item,
    json::text,
    policy::{Existing, Invalid, Operation},
};

const REASON: &str = "policy-created-dangling-reference";

pub(crate) fn check(passed: &[&Operation], graph: &[Item], existing: &Existing) -> Vec<Value> {
    // R: removed keys, each with the smallest id that removes it.
    let mut removed: BTreeMap<&str, &str> = BTreeMap::new();
    for operation in passed.iter().filter(|operation| operation.removes()) {
        let remover = removed.entry(operation.target()).or_insert(&operation.id);
        *remover = (*remover).min(operation.id.as_str());
    }
    let mut found = Vec::new();

    // 9c(i): surviving active sidebar items.
    for item in graph.iter().filter(|item| item.active && item.kind.name == "sidebar-items") {
        let Some(route) = text(&item.descriptor, "routeKey") else { continue };
        if removed.contains_key(item.key.as_str()) {
            continue;
        }
        if let Some(remover) = removed.get(route) {
            let invalid = Invalid {
                reason: REASON,
                policy_id: (*remover).to_owned(),
                target: route.to_owned(),
                extra: vec![("from", item.key.clone())],
                related: None,
                named: vec![item.key.clone(), route.to_owned()],
            };
            found.push(invalid.diagnostic(existing));
        }
    }

    // 9c(ii): other operations, once per removed key.
    for operation in passed {
        let mut keys = operation.operands();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let Some(remover) = removed.get(key) else { continue };
            // A remover and its own target; two removers of one target are a matter of 9b.
            if operation.removes() && operation.target() == key {
                continue;
            }
            // An edge inside a replace cycle is a matter of 9b as well.
            if operation.replacement.as_deref() == Some(key) && in_replace_cycle(operation, passed) {
                continue;
            }
            // The operation holds the reference; the removed key is one of its operands.
            let mut invalid = Invalid::of_all(&[*operation], REASON, remover, key);
            if let Some(renderer) = &operation.renderer {
                invalid = invalid.with("use", renderer);
            }
            found.push(invalid.diagnostic(existing));
        }
    }
    found
}
