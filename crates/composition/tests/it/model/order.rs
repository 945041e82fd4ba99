//! Step 16: the order of the ordered collections (D-18).

use serde_json::{Value, json};

use crate::model::{graph::Item, policy::Operation};

/// Records the reorder effects, and the operation id on the target (never on the anchor).
pub(crate) fn record_reorders(operations: &[Operation], graph: &mut [Item]) -> Vec<Value> {
    let mut effects = Vec::new();
    for operation in operations.iter().filter(|operation| operation.kind == "reorder") {
        for item in graph.iter_mut().filter(|item| Some(&item.key) == operation.target.as_ref()) {
            item.policy_ids.insert(operation.id.clone());
            effects.push(json!({
                "policyId": operation.id, "kind": "reorder",
                "target": operation.target, "collection": item.kind.name,
            }));
        }
    }
    effects
}

/// One collection, or one display group of fallbacks: buckets, each in its smallest topological order.
pub(crate) fn arranged<'a>(items: Vec<&'a Item>, operations: &[Operation]) -> Vec<&'a Item> {
    let mut base = items;
    base.sort_by_key(|item| base_rank(item));
    let reorder_of = |item: &Item| {
        operations
            .iter()
            .find(|operation| operation.kind == "reorder" && operation.target.as_ref() == Some(&item.key))
    };
    let bucket_of = |item: &Item| match reorder_of(item).and_then(|operation| operation.position.as_deref()) {
        Some("first") => 0,
        Some("last") => 2,
        _ => 1,
    };
    // Must `before` come out before `after`, by an operation on either of them?
    let precedes = |before: &Item, after: &Item| {
        let says = |item: &Item, position: &str, anchor: &Item| {
            reorder_of(item).is_some_and(|operation| {
                operation.position.as_deref() == Some(position)
                    && operation.anchor.as_ref() == Some(&anchor.key)
            })
        };
        says(before, "before", after) || says(after, "after", before)
    };
    let mut order = Vec::new();
    for bucket in 0..3 {
        let mut waiting: Vec<&Item> = base.iter().copied().filter(|item| bucket_of(item) == bucket).collect();
        while !waiting.is_empty() {
            let ready = waiting
                .iter()
                .position(|item| !waiting.iter().any(|other| precedes(other, item)))
                .expect("step 9b refused every cycle");
            order.push(waiting.remove(ready));
        }
    }
    order
}

/// The base order: appenders by type, position (a plain string, D-22) and key; everything else by key.
fn base_rank(item: &Item) -> (String, String, String) {
    if item.kind.name == "message-appenders" {
        (item.text("targetMessageType").into(), item.text("position").into(), item.key.clone())
    } else {
        (String::new(), String::new(), item.key.clone())
    }
}
