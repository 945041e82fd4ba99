//! Policies: drawn as sketches, and resolved against the keys that the sources turned out to declare.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

use super::{BAD_PATHS, COLLECTIONS, Focus, PATHS, mostly, rarely};

/// An operation before its keys are known; numbers choose among the fitting ones.
#[derive(Clone, Debug)]
struct Sketch {
    kind: &'static str,
    /// Chooses among all keys, declared or not, and not only among the fitting ones.
    wild: bool,
    /// May choose a target that an operation of the same kind already has.
    crowding: bool,
    /// Shares the id of the first operation.
    same_id: bool,
    target: u16,
    other: u16,
    position: &'static str,
    path: &'static str,
}

#[derive(Clone, Debug)]
pub(super) struct PolicySketch {
    given: bool,
    version: Value,
    ids: Vec<&'static str>,
    operations: Vec<Sketch>,
}

pub(super) fn policy_sketch(focus: Focus) -> BoxedStrategy<PolicySketch> {
    let version = prop_oneof![
        60 => Just(json!("0.1")),
        1 => select(vec![json!("9.9"), json!(null), json!(["0.1"])]),
    ];
    let ids = Just(vec!["op-1", "op-10", "op-2", "a", "z", "é"]).prop_shuffle();
    let operations = match focus {
        Focus::Everything => prop_oneof![
            3 => vec(operation(focus), 0..=0),
            4 => vec(operation(focus), 1..=1),
            4 => vec(operation(focus), 2..=2),
            4 => vec(operation(focus), 3..=6),
        ]
        .boxed(),
        _ => vec(operation(focus), 2..=6).boxed(),
    };
    (rarely(6), version, ids, operations)
        .prop_map(|(omitted, version, ids, operations)| PolicySketch {
            given: !omitted,
            version,
            ids,
            operations,
        })
        .boxed()
}

fn operation(focus: Focus) -> BoxedStrategy<Sketch> {
    let kind = match focus {
        Focus::Everything | Focus::Conflicts => prop_oneof![
            2 => Just("hide"),
            5 => Just("reorder"),
            3 => Just("replace"),
            2 => Just("pathAlias"),
            2 => Just("rendererOverride"),
        ]
        .boxed(),
        Focus::Order => prop_oneof![12 => Just("reorder"), 1 => Just("hide")].boxed(),
        Focus::Removal => {
            prop_oneof![5 => Just("replace"), 3 => select(&["hide", "reorder", "rendererOverride"][..])]
                .boxed()
        }
    };
    let position = select(&["first", "last", "before", "after", "before", "after"][..]);
    let crowding = if focus == Focus::Conflicts { 2 } else { 10 };
    let wild = if focus == Focus::Conflicts { 8 } else { 25 };
    let flags = (rarely(wild), rarely(crowding), rarely(40));
    (kind, flags, any::<u16>(), any::<u16>(), position, mostly(15, PATHS, BAD_PATHS))
        .prop_map(|(kind, (wild, crowding, same_id), target, other, position, path)| Sketch {
            kind,
            wild,
            crowding,
            same_id,
            target,
            other,
            position,
            path,
        })
        .boxed()
}

/// A declared contribution, as far as a policy cares.
#[derive(Clone)]
struct KnownContribution {
    key: String,
    kind: &'static str,
    claim: Option<String>,
    /// Fallback surfaces are ordered inside these only.
    group: String,
    /// A guess: the explicit activation hints are not read.
    active: bool,
}

/// The policy object; `None` when it is omitted.
pub(super) fn resolve_policy(sketch: &PolicySketch, input: &Value) -> Option<Value> {
    if !sketch.given {
        return None;
    }
    let known = known(input);
    let mut taken: BTreeSet<(&str, String)> = BTreeSet::new();
    let mut operations = Vec::new();
    for (index, operation) in sketch.operations.iter().enumerate() {
        let id = if operation.same_id { sketch.ids[0] } else { sketch.ids[index] };
        if let Some(mut resolved) = resolve_operation(operation, &known, &mut taken) {
            resolved["id"] = json!(id);
            resolved["kind"] = json!(operation.kind);
            operations.push(resolved);
        }
    }
    Some(json!({"policySchemaVersion": sketch.version, "operations": operations}))
}

/// `None` when nothing fits.
fn resolve_operation(
    sketch: &Sketch,
    known: &[KnownContribution],
    taken: &mut BTreeSet<(&'static str, String)>,
) -> Option<Value> {
    if sketch.wild {
        return Some(wild_operation(sketch, known));
    }
    let fits = |item: &&KnownContribution| {
        item.active
            && match sketch.kind {
                "reorder" => {
                    !item.kind.ends_with("renderers") && item.kind != "routes" && companions(item, known) > 0
                }
                "replace" => companions(item, known) > 0,
                "pathAlias" => item.kind == "routes",
                "rendererOverride" => item.claim.is_some(),
                _ => true,
            }
    };
    let free =
        |item: &&KnownContribution| sketch.crowding || !taken.contains(&(sketch.kind, subject(sketch, item)));
    let fitting: Vec<&KnownContribution> = known.iter().filter(fits).filter(free).collect();
    let width = if sketch.crowding { 2 } else { fitting.len() };
    let target = *pick(&fitting[..width.min(fitting.len())], sketch.target)?;
    taken.insert((sketch.kind, subject(sketch, target)));
    // A removed key is taken for everything, and a named one for removal: danglers come from crowding.
    for kind in ["hide", "replace", "reorder", "pathAlias"] {
        if matches!(sketch.kind, "hide" | "replace") || matches!(kind, "hide" | "replace") {
            taken.insert((kind, target.key.clone()));
        }
    }
    let others: Vec<&KnownContribution> = known
        .iter()
        .filter(|item| item.active && item.group == target.group && item.key != target.key)
        .filter(|item| sketch.crowding || !taken.contains(&("gone", item.key.clone())))
        .collect();
    if matches!(sketch.kind, "hide" | "replace") {
        taken.insert(("gone", target.key.clone()));
    }
    let other = pick(&others, sketch.other).map_or(&target.key, |item| &item.key).clone();
    for kind in ["hide", "replace"] {
        if sketch.kind == "replace" || sketch.kind == "reorder" {
            taken.insert((kind, other.clone()));
        }
    }
    Some(operands(sketch, &target.key, &other, target.claim.as_deref().unwrap_or("tool:q")))
}

/// What two operations of one kind must not share.
fn subject(sketch: &Sketch, item: &KnownContribution) -> String {
    match (&item.claim, sketch.kind) {
        (Some(claim), "rendererOverride") => claim.clone(),
        _ => item.key.clone(),
    }
}

/// How many others could be an anchor or replacement for this one.
fn companions(item: &KnownContribution, known: &[KnownContribution]) -> usize {
    known.iter().filter(|other| other.active && other.group == item.group && other.key != item.key).count()
}

fn wild_operation(sketch: &Sketch, known: &[KnownContribution]) -> Value {
    let mut keys: Vec<&str> = known.iter().map(|item| item.key.as_str()).collect();
    keys.extend(["lab:routes/gone", "builtin-a:routes/a", "not a key", ""]);
    let mut claims: Vec<&str> = known.iter().filter_map(|item| item.claim.as_deref()).collect();
    claims.extend(["message:user.text", "message:assistant", "tool:unknown", "tool", ""]);
    // Prefer a declared claim: otherwise the selected renderer is never checked.
    let declared = claims.len() - 5;
    let count = if declared > 0 && !sketch.other.is_multiple_of(4) { declared } else { claims.len() };
    let claim = claims[usize::from(sketch.other) % count];
    let target = keys[usize::from(sketch.target) % keys.len()];
    let other = keys[usize::from(sketch.other) % keys.len()];
    operands(sketch, target, other, claim)
}

fn operands(sketch: &Sketch, target: &str, other: &str, claim: &str) -> Value {
    match sketch.kind {
        "hide" => json!({"target": target}),
        "reorder" if matches!(sketch.position, "first" | "last") => {
            json!({"target": target, "position": sketch.position})
        }
        "reorder" => json!({"target": target, "position": sketch.position, "anchor": other}),
        "replace" => json!({"target": target, "replacement": other}),
        "pathAlias" => json!({"target": target, "path": sketch.path}),
        _ => json!({"claim": claim, "use": target}),
    }
}

fn pick<T>(items: &[T], number: u16) -> Option<&T> {
    (!items.is_empty()).then(|| &items[usize::from(number) % items.len()])
}

fn known(input: &Value) -> Vec<KnownContribution> {
    let mut known = Vec::new();
    for (sources, owner_id) in [("builtins", "/owner/ownerId"), ("modules", "/instanceId")] {
        for source in input[sources].as_array().into_iter().flatten() {
            let owner = source.pointer(owner_id).and_then(Value::as_str).unwrap_or_default();
            let runtime = source.pointer("/runtime/status").and_then(Value::as_str);
            for (collection, kind) in COLLECTIONS {
                let entries = source["contributions"].get(collection).and_then(Value::as_array);
                for entry in entries.into_iter().flatten() {
                    let id = entry["id"].as_str().unwrap_or_default();
                    let declared = entry["status"].as_str();
                    let any = declared == Some("anyNonReady");
                    let active = match (declared, runtime) {
                        (None, runtime) => runtime.is_none_or(|status| status == "ready"),
                        (Some(_), None) => !any,
                        (Some(declared), Some(status)) => status != "ready" && (any || declared == status),
                    };
                    let matched = declared.map(|declared| runtime.unwrap_or(declared));
                    known.push(KnownContribution {
                        key: format!("{owner}:{kind}/{id}"),
                        kind,
                        claim: entry["claim"].as_str().map(str::to_owned),
                        group: format!("{kind} {} {any}", matched.unwrap_or_default()),
                        active,
                    });
                }
            }
        }
    }
    known
}
