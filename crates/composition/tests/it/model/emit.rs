//! Steps 17 and 18: the composition as the ordering contract of WCP-005 lists it.

use serde_json::{Value, json};

use crate::model::{
    graph::{Item, owner, owner_key, runtime_summary},
    json::{Object, canonical, pick, text},
    order::arranged,
    policy::Operation,
    source::{KINDS, Source},
};

const STATUS_ORDER: [&str; 5] = ["readOnly", "needsConfiguration", "unauthorized", "disabled", "error"];
const EFFECT_ORDER: [&str; 5] = ["hide", "replace", "pathAlias", "rendererOverride", "reorder"];

pub(crate) fn composition(
    sources: &[Source],
    graph: &[Item],
    operations: &[Operation],
    effects: &[Value],
) -> Value {
    let mut composition = json!({
        "compositionSchemaVersion": "0.1",
        "policySchemaVersion": "0.1",
        "owners": owners(sources),
        "modules": modules(sources),
        "rendererClaims": renderer_claims(graph, operations),
        "requiredRenderHandles": required_handles(graph),
        "appliedPolicy": effects,
        "diagnostics": [],
    });
    for kind in KINDS {
        let items: Vec<&Item> = graph.iter().filter(|item| item.active && item.kind == kind).collect();
        let composed: Vec<Value> = in_order(kind.name, items, operations).into_iter().map(composed).collect();
        composition[kind.collection] = json!(composed);
    }
    composition
}

/// The output ordering of one collection.
fn in_order<'a>(kind: &str, mut items: Vec<&'a Item>, operations: &[Operation]) -> Vec<&'a Item> {
    match kind {
        "routes" => {
            items.sort_by_key(|item| (item.effective_path.clone(), item.key.clone()));
            items
        }
        "message-renderers" | "tool-renderers" | "activity-renderers" => {
            items.sort_by_key(|item| (item.text("claim").to_owned(), item.key.clone()));
            items
        }
        "fallback-surfaces" => {
            // Matched status order, then concrete before any, then the reorder result of the group (D-27).
            let mut order = Vec::new();
            for status in STATUS_ORDER {
                for any in [false, true] {
                    let group = (kind, Some(status), any);
                    let members = items.iter().copied().filter(|item| item.group() == group).collect();
                    order.extend(arranged(members, operations));
                }
            }
            order
        }
        _ => arranged(items, operations),
    }
}

fn composed(item: &Item) -> Value {
    // Unknown members are not copied (D-13), nor is `activeWhen`, which the output types do not have.
    let own: &[&str] = match item.kind.name {
        "routes" => &[],
        "sidebar-items" => &["section", "routeKey"],
        "configuration-surfaces" | "integration-surfaces" => &["purpose"],
        "message-appenders" => &["targetMessageType", "position"],
        "fallback-surfaces" => &["status"],
        _ => &["claim"],
    };
    let mut output = pick(&item.descriptor, own);
    output.extend(pick(&item.descriptor, &["label", "metadata"]));
    let mut insert = |name: &str, value: Value| output.insert(name.to_owned(), value);
    insert("key", json!(item.key));
    insert("kind", json!(item.kind.name));
    insert("owner", item.owner.clone());
    insert("localId", json!(item.text("id")));
    insert("policyIds", json!(item.policy_ids));
    if let Some(runtime) = &item.runtime {
        insert("runtime", runtime.clone());
    }
    if item.kind.has_handle() {
        insert("renderHandle", Value::Object(handle(item)));
    }
    if let Some(path) = &item.effective_path {
        insert("declaredPath", json!(item.text("path")));
        insert("effectivePath", json!(path));
    }
    if let Some(status) = &item.matched_status {
        insert("matchedStatus", json!(status));
    }
    Value::Object(output)
}

fn handle(item: &Item) -> Object {
    let handle = item.descriptor["renderHandle"].as_object().expect("step 1 checked the handle");
    pick(handle, &["renderHandleVersion", "kind", "id", "data"])
}

/// D-20: every input owner, active or not; built-in sets with equal owners are one.
fn owners(sources: &[Source]) -> Vec<Value> {
    let mut owners: Vec<Value> = sources.iter().map(owner).collect();
    owners.sort_by_key(owner_key);
    owners.dedup();
    owners
}

/// D-20: every module, by instance id.
fn modules(sources: &[Source]) -> Vec<Value> {
    let mut modules = Vec::new();
    for source in sources.iter().filter(|source| !source.builtin) {
        let mut module =
            pick(&source.value, &["instanceId", "packageId", "packageVersion", "moduleApiVersion"]);
        module.insert("owner".into(), owner(source));
        module.insert("runtime".into(), json!(runtime_summary(source)));
        modules.push(module);
    }
    modules.sort_by_key(|module| text(module, "instanceId").map(str::to_owned));
    modules.into_iter().map(Value::Object).collect()
}

/// By claim, then renderer key; the override that settled a claim is named.
fn renderer_claims(graph: &[Item], operations: &[Operation]) -> Vec<Value> {
    let mut items: Vec<&Item> =
        graph.iter().filter(|item| item.active && item.kind.family.is_some()).collect();
    items.sort_by_key(|item| (item.text("claim").to_owned(), item.key.clone()));
    let mut bindings = Vec::new();
    for item in items {
        let mut binding = json!({
            "claim": item.claim(),
            "rendererKind": item.kind.family,
            "rendererKey": item.key,
            "owner": item.owner,
            "renderHandle": handle(item),
        });
        let settled = operations.iter().find(|operation| operation.claim.as_deref() == item.claim());
        if let Some(operation) = settled {
            binding["policyId"] = json!(operation.id);
        }
        bindings.push(binding);
    }
    bindings
}

/// Step 17: one entry per owner key and handle identity, as its first user wrote it, by the whole handle key.
fn required_handles(graph: &[Item]) -> Vec<Value> {
    let mut users: Vec<&Item> = graph.iter().filter(|item| item.active && item.kind.has_handle()).collect();
    users.sort_by_key(|item| item.key.clone());
    let handle_key =
        |item: &Item| format!("{}:{}", owner_key(&item.owner), canonical(&Value::Object(handle(item))));
    let mut keys: Vec<String> = users.iter().map(|item| handle_key(item)).collect();
    keys.sort();
    keys.dedup();
    let mut manifest = Vec::new();
    for key in keys {
        let sharing: Vec<&&Item> = users.iter().filter(|item| handle_key(item) == key).collect();
        let used_by: Vec<&str> = sharing.iter().map(|item| item.key.as_str()).collect();
        manifest.push(json!({"owner": sharing[0].owner, "handle": handle(sharing[0]), "usedBy": used_by}));
    }
    manifest
}

/// Policy kind order, then target or claim, then id.
pub(crate) fn sorted_effects(mut effects: Vec<Value>) -> Vec<Value> {
    effects.sort_by_key(|effect| {
        let text = |name: &str| effect[name].as_str().map(str::to_owned);
        let kind = EFFECT_ORDER.iter().position(|kind| effect["kind"] == *kind);
        (kind, text("target").or(text("claim")), text("policyId"))
    });
    effects
}
