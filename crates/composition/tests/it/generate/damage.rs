//! Damage: one to three structural mutations anywhere in an input, and JSON of any kind.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::small_input;

/// Names that mean something somewhere, so that a stray member is often nearly right.
const NAMES: &str = "\
    builtins modules policy supportedVersions compositionSchemaVersion owner ownerKind ownerId \
    packageId packageVersion moduleApiVersion instanceId runtime status grants missing actions message \
    data contributions routes sidebarItems fallbackSurfaces id label activeWhen metadata path \
    renderHandle renderHandleVersion routeKey claim position policySchemaVersion operations kind \
    target anchor use surprise";

fn name() -> impl Strategy<Value = &'static str> {
    select(NAMES.split(' ').collect::<Vec<_>>())
}

#[derive(Clone, Debug)]
enum Mutation {
    Replace(Value),
    /// Of an object; other nodes become `null`.
    DeleteMember(u16),
    /// To an object; other nodes are put into an array.
    AddMember(&'static str, Value),
    /// Of an array; other nodes are emptied.
    RepeatElement(u16),
}

/// A small input, damaged one to three times.
pub(crate) fn broken_input() -> BoxedStrategy<Value> {
    (small_input(), vec((any::<u16>(), mutation()), 1..=3))
        .prop_map(|(mut input, mutations)| {
            for (place, mutation) in mutations {
                let count = count_nodes(&input);
                let mut place = usize::from(place) % count;
                mutate_node(&mut input, &mut place, &mutation);
            }
            input
        })
        .boxed()
}

fn mutation() -> BoxedStrategy<Mutation> {
    let texts = &["", "text", "ready", "0.1", "lab", "\u{1}", "lab:routes/a", "é"][..];
    let replacement = prop_oneof![
        1 => Just(json!(null)),
        1 => Just(json!(7)),
        1 => Just(json!(true)),
        2 => select(texts).prop_map(|text| json!(text)),
        1 => Just(json!([])),
        1 => Just(json!([null, "text", {}])),
        1 => Just(json!({})),
        2 => long_text(),
    ];
    let member = (name(), select(vec![json!(null), json!("x"), json!([]), json!({}), json!(3)]));
    prop_oneof![
        4 => replacement.prop_map(Mutation::Replace),
        4 => any::<u16>().prop_map(Mutation::DeleteMember),
        2 => member.prop_map(|(name, value)| Mutation::AddMember(name, value)),
        1 => any::<u16>().prop_map(Mutation::RepeatElement),
    ]
    .boxed()
}

/// At and over every cap, in bytes and in code points.
fn long_text() -> impl Strategy<Value = Value> {
    let lengths = select(&[128_usize, 129, 214, 215, 256, 257, 513, 600][..]);
    let letters = select(&["a", "é", "/a", "-"][..]);
    (letters, lengths).prop_map(|(letter, length)| json!(letter.repeat(length)))
}

fn count_nodes(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(count_nodes).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(count_nodes).sum::<usize>(),
        _ => 1,
    }
}

/// Walks to the node with the given number, in document order; true once it has been changed.
fn mutate_node(value: &mut Value, place: &mut usize, mutation: &Mutation) -> bool {
    if *place == 0 {
        apply(value, mutation);
        return true;
    }
    *place -= 1;
    match value {
        Value::Array(elements) => elements.iter_mut().any(|element| mutate_node(element, place, mutation)),
        Value::Object(members) => members.values_mut().any(|member| mutate_node(member, place, mutation)),
        _ => false,
    }
}

fn apply(value: &mut Value, mutation: &Mutation) {
    match (mutation, &mut *value) {
        (Mutation::Replace(new), _) => *value = new.clone(),
        (Mutation::DeleteMember(number), Value::Object(members)) if !members.is_empty() => {
            let name = members.keys().nth(usize::from(*number) % members.len()).cloned();
            members.remove(&name.unwrap_or_default());
        }
        (Mutation::DeleteMember(_), _) => *value = Value::Null,
        (Mutation::AddMember(name, new), Value::Object(members)) => {
            members.insert((*name).to_owned(), new.clone());
        }
        (Mutation::AddMember(_, new), _) => *value = json!([new]),
        (Mutation::RepeatElement(number), Value::Array(elements)) if !elements.is_empty() => {
            let element = elements[usize::from(*number) % elements.len()].clone();
            elements.push(element);
        }
        (Mutation::RepeatElement(_), _) => *value = json!(""),
    }
}

/// Random JSON whose member names are often those of an input.
pub(crate) fn any_json() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<i64>().prop_map(|value| json!(value)),
        any::<f64>().prop_map(|value| json!(value)),
        select(&["0.1", "ready", "builtin", "lab", "builtin-a", "hide", "/a"][..])
            .prop_map(|value| json!(value)),
        any::<String>().prop_map(|value| json!(value)),
    ];
    let tree = leaf.prop_recursive(6, 64, 6, |inner| {
        let member_name = prop_oneof![6 => name().prop_map(str::to_owned), 1 => any::<String>()];
        prop_oneof![
            1 => vec(inner.clone(), 0..=4).prop_map(|elements| json!(elements)),
            3 => vec((member_name, inner), 0..=6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<String, Value>>())),
        ]
    });
    let sources = || vec(tree.clone(), 0..=2);
    let input = (sources(), sources(), tree.clone()).prop_map(
        |(builtins, modules, policy)| json!({"builtins": builtins, "modules": modules, "policy": policy}),
    );
    prop_oneof![1 => tree.clone(), 1 => input].boxed()
}
