//! Steps 10 to 15: hide, replace, alias, override, and the conflicts that remain.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::model::{
    diagnostic::{diagnostic, set},
    grammar::shape,
    graph::Item,
    json::text,
    namespace::unresolved,
    policy::Operation,
};

fn of_kind<'a>(operations: &'a [Operation], kind: &'a str) -> impl Iterator<Item = &'a Operation> {
    operations.iter().filter(move |operation| operation.kind == kind)
}

fn item_mut<'a>(graph: &'a mut [Item], key: &str) -> &'a mut Item {
    graph.iter_mut().find(|item| item.key == key).expect("step 9a found every reference")
}

/// Step 10. Both removals are over before anything else looks at the graph.
pub(crate) fn hide_and_replace(operations: &[Operation], graph: &mut [Item]) -> Vec<Value> {
    let mut effects = Vec::new();
    for operation in of_kind(operations, "hide") {
        item_mut(graph, operation.target.as_deref().unwrap_or_default()).active = false;
        effects.push(json!({
            "policyId": operation.id, "kind": "hide", "target": operation.target, "removed": operation.target,
        }));
    }
    for operation in of_kind(operations, "replace") {
        item_mut(graph, operation.target.as_deref().unwrap_or_default()).active = false;
        let replacement = item_mut(graph, operation.replacement.as_deref().unwrap_or_default());
        replacement.policy_ids.insert(operation.id.clone());
        effects.push(json!({
            "policyId": operation.id, "kind": "replace",
            "target": operation.target, "replacement": operation.replacement,
        }));
    }
    effects
}

/// Step 11. The effect is recorded even if the path stays what it was.
pub(crate) fn alias_paths(operations: &[Operation], graph: &mut [Item]) -> Vec<Value> {
    let mut effects = Vec::new();
    for operation in of_kind(operations, "pathAlias") {
        let route = item_mut(graph, operation.target.as_deref().unwrap_or_default());
        route.effective_path.clone_from(&operation.path);
        route.policy_ids.insert(operation.id.clone());
        effects.push(json!({
            "policyId": operation.id, "kind": "pathAlias", "target": operation.target,
            "originalPath": route.text("path"), "effectivePath": operation.path,
        }));
    }
    effects
}

/// Step 12: one diagnostic per shape that several surviving routes have.
pub(crate) fn route_conflicts(operations: &[Operation], graph: &[Item]) -> Vec<Value> {
    let mut shapes: BTreeMap<String, Vec<&Item>> = BTreeMap::new();
    for route in graph.iter().filter(|item| item.active) {
        if let Some(path) = &route.effective_path {
            shapes.entry(shape(path)).or_default().push(route);
        }
    }
    let mut found = Vec::new();
    for (shape, routes) in shapes.into_iter().filter(|(_, routes)| routes.len() > 1) {
        let aliases = of_kind(operations, "pathAlias")
            .filter(|operation| routes.iter().any(|route| operation.target.as_ref() == Some(&route.key)));
        let details = json!({
            "path": routes.iter().filter_map(|route| route.effective_path.as_ref()).min(),
            "shape": shape,
            "keys": set(routes.iter().map(|route| route.key.as_str())),
            "policyIds": set(aliases.map(|operation| operation.id.as_str())),
        });
        let subjects = routes.iter().map(|route| route.subject.clone()).collect();
        found.push(diagnostic("WCP_ROUTE_DUPLICATE_PATH", &details, subjects, &["006", "010"]));
    }
    found
}

/// Step 13: the selected renderer keeps its claim, the other surviving ones are dropped everywhere.
pub(crate) fn override_renderers(operations: &[Operation], graph: &mut [Item]) -> Vec<Value> {
    let mut effects = Vec::new();
    for operation in of_kind(operations, "rendererOverride") {
        let selected = operation.renderer.as_deref().unwrap_or_default();
        let mut overridden = Vec::new();
        for item in graph.iter_mut().filter(|item| item.active && item.claim() == operation.claim.as_deref())
        {
            if item.key == selected {
                item.policy_ids.insert(operation.id.clone());
            } else {
                item.active = false;
                overridden.push(item.key.clone());
            }
        }
        overridden.sort();
        effects.push(json!({
            "policyId": operation.id, "kind": "rendererOverride", "claim": operation.claim,
            "selected": selected, "overridden": overridden,
        }));
    }
    effects
}

/// Step 14: claims that more than one renderer still holds.
pub(crate) fn claim_conflicts(graph: &[Item]) -> Vec<Value> {
    let mut claims: BTreeMap<&str, Vec<&Item>> = BTreeMap::new();
    for item in graph.iter().filter(|item| item.active) {
        if let Some(claim) = item.claim() {
            claims.entry(claim).or_default().push(item);
        }
    }
    let mut found = Vec::new();
    for (claim, items) in claims.into_iter().filter(|(_, items)| items.len() > 1) {
        let keys = set(items.iter().map(|item| item.key.as_str()));
        let details = json!({"claim": claim, "rendererKind": items[0].kind.family, "keys": keys});
        let subjects = items.iter().map(|item| item.subject.clone()).collect();
        found.push(diagnostic("WCP_RENDERER_DUPLICATE_CLAIM", &details, subjects, &["006", "010"]));
    }
    found
}

/// Step 15: every surviving sidebar item names a surviving route, if it names one.
pub(crate) fn broken_references(graph: &[Item]) -> Vec<Value> {
    let mut found = Vec::new();
    for item in graph.iter().filter(|item| item.active && item.kind.name == "sidebar-items") {
        let Some(reference) = text(&item.descriptor, "routeKey") else { continue };
        let reason = match graph.iter().find(|route| route.key == reference) {
            None => "missing-target",
            Some(route) if !route.active => "inactive-target",
            Some(_) => continue,
        };
        found.push(unresolved(reason, Some(&item.key), reference, &item.subject));
    }
    found
}
