//! Any bytes as input of the kernel.
//!
//! The first byte chooses: either the rest is bytes for the strict reader, or it picks and
//! joins fragments of plausible inputs, which get much further than arbitrary text does.
//!
//! * Composing never panics, and composing the same again gives the same bytes.
//! * There is a composition exactly when there is no diagnostic.
//! * Every diagnostic is registered and complete, and they are sorted by the stable key.
//! * Composing does not depend on the order of the input.
#![no_main]

use canon::canonical;
use composition::diagnostic::{Code, MAX_MESSAGE_CHARACTERS};
use composition::{ContributionKind, Input, ComposeOutcome, compose};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let input = if choice % 2 == 0 {
        Input::read(rest).ok()
    } else {
        let value = workspace(&mut Unstructured::new(rest)).expect("an empty source still gives choices");
        Some(Input::from_value(value).expect("fragments are shallow"))
    };
    if let Some(input) = input {
        check(&input);
    }
});

fn check(input: &Input) {
    let outcome = compose(input);
    let written = serde_json::to_vec(&outcome).expect("a result is JSON");
    assert_eq!(outcome.is_ok(), outcome.diagnostics.is_empty(), "the kernel knows only errors");
    check_diagnostics(&outcome);

    let again = serde_json::to_vec(&compose(input)).expect("a result is JSON");
    assert!(written == again, "composing twice gives two results");

    let turned = Input::from_value(turned_around(input.as_value())).expect("no deeper than it was");
    let otherwise = serde_json::to_value(compose(&turned)).expect("a result is JSON");
    let result = serde_json::from_slice::<Value>(&written).expect("just written");
    assert_eq!(
        canonical::string_of(&result),
        canonical::string_of(&otherwise),
        "the order of the input decides"
    );
}

fn check_diagnostics(outcome: &ComposeOutcome<'_>) {
    let mut previous = None;
    for diagnostic in &outcome.diagnostics {
        assert!(Code::ALL.contains(&diagnostic.code()));
        assert!(!diagnostic.subjects().is_empty());
        assert!(diagnostic.message().chars().count() <= MAX_MESSAGE_CHARACTERS);
        let canonical = |value: Value| canonical::string_of(&value);
        let key = (
            diagnostic.severity(),
            diagnostic.code().category().as_str(),
            diagnostic.code().as_str(),
            canonical(serde_json::to_value(diagnostic.details()).expect("details are JSON")),
            canonical(serde_json::to_value(diagnostic.subjects()).expect("subjects are JSON")),
        );
        assert!(previous.as_ref() < Some(&key), "sorted, and no two alike");
        previous = Some(key);
        let _ = diagnostic.to_string();
    }
}

/// The same input with every list reversed whose order does not matter.
fn turned_around(input: &Value) -> Value {
    let mut input = input.clone();
    for sources in ["builtins", "modules"] {
        if let Some(Value::Array(sources)) = input.get_mut(sources) {
            sources.reverse();
            for source in sources {
                if let Some(Value::Object(collections)) = source.get_mut("contributions") {
                    for collection in collections.values_mut() {
                        if let Value::Array(descriptors) = collection {
                            descriptors.reverse();
                        }
                    }
                }
            }
        }
    }
    if let Some(Value::Array(operations)) = input.pointer_mut("/policy/operations") {
        operations.reverse();
    }
    input
}

/// Values for strings of the wrong kind; few, so that they collide.
const TEXTS: [&str; 12] =
    ["a", "b", "", "A_", "0.1", "0.2", "ready", "é\u{1}\"", "/a/:id", "tool:x", "a:routes/a", "builtin-a"];
const OWNERS: [&str; 4] = ["a", "a-2", "b", "builtin-c"];
const BUILTINS: [&str; 3] = ["builtin-a", "builtin-a-2", "builtin-b"];
const IDS: [&str; 4] = ["a", "b", "c", "d-1"];
const PATHS: [&str; 7] = ["/", "/a", "/b", "/a/:id", "/a/:name", "/a/", "a"];
const CLAIMS: [&str; 6] = ["x", "y", "user", "assistant.text", "", "a..b"];
const STATUSES: [&str; 7] =
    ["ready", "readOnly", "needsConfiguration", "unauthorized", "disabled", "error", "anyNonReady"];
const OPERATION_IDS: [&str; 6] = ["1", "2", "3", "4", "5", "6"];

fn workspace(u: &mut Unstructured<'_>) -> Result<Value> {
    let mut input = Map::new();
    let builtins = list(u, 3, |u| {
        let mut owner = json!({"ownerKind": "builtin", "ownerId": one_of(u, &BUILTINS)?});
        sometimes(u, &mut owner, "packageId", |u| text(u, &["p", "q"]))?;
        let source = json!({"owner": owner, "contributions": contributions(u)?});
        spoiled(u, source)
    })?;
    input.insert("builtins".into(), builtins);
    let modules = list(u, 3, |u| {
        let id = one_of(u, &OWNERS)?;
        let source = json!({
            "packageId": one_of(u, &["p", "q"])?,
            "instanceId": id,
            "moduleApiVersion": "0.1",
            "runtime": runtime(u, id)?,
            "contributions": contributions(u)?,
        });
        spoiled(u, source)
    })?;
    input.insert("modules".into(), modules);
    if u.ratio(3, 4)? {
        let operations = list(u, 6, operation)?;
        let policy = json!({"policySchemaVersion": "0.1", "operations": operations});
        input.insert("policy".into(), spoiled(u, policy)?);
    }
    if u.ratio(1, 10)? {
        let versions: Map<String, Value> = ["compositionSchema", "policySchema", "moduleApi", "renderHandle"]
            .iter()
            .map(|name| Ok((format!("{name}Versions"), list(u, 2, |u| text(u, &["0.1", "0.2"]))?)))
            .collect::<Result<_>>()?;
        input.insert("supportedVersions".into(), versions.into());
    }
    spoiled(u, input.into())
}

fn runtime(u: &mut Unstructured<'_>, id: &str) -> Result<Value> {
    let mut runtime = json!({
        "instanceId": id,
        "status": one_of(u, &STATUSES[..6])?,
        "grants": list(u, 2, |u| text(u, &TEXTS))?,
        "missing": [],
        "actions": list(u, 1, |u| {
            let action = json!({"id": "go", "label": "Go", "kind": one_of(u, &["open", "retry", "custom"])?});
            spoiled(u, action)
        })?,
    });
    sometimes(u, &mut runtime, "message", |u| text(u, &TEXTS))?;
    sometimes(u, &mut runtime, "data", anything)?;
    spoiled(u, runtime)
}

fn contributions(u: &mut Unstructured<'_>) -> Result<Value> {
    let mut collections = Map::new();
    for kind in ContributionKind::ALL {
        if u.ratio(1, 2)? {
            collections.insert(kind.collection().into(), list(u, 4, |u| descriptor(u, *kind))?);
        }
    }
    spoiled(u, collections.into())
}

fn descriptor(u: &mut Unstructured<'_>, kind: ContributionKind) -> Result<Value> {
    let mut descriptor = json!({"id": one_of(u, &IDS)?});
    let members: &[&str] = match kind {
        ContributionKind::Routes => &["path", "renderHandle"],
        ContributionKind::SidebarItems => &["label", "routeKey"],
        ContributionKind::ConfigurationSurfaces | ContributionKind::IntegrationSurfaces => {
            &["purpose", "renderHandle"]
        }
        ContributionKind::MessageRenderers
        | ContributionKind::ToolRenderers
        | ContributionKind::ActivityRenderers => &["claim", "renderHandle"],
        ContributionKind::MessageAppenders => &["targetMessageType", "position", "renderHandle"],
        ContributionKind::FallbackSurfaces => &["status", "renderHandle"],
    };
    for member in members {
        descriptor[*member] = match *member {
            "path" => text(u, &PATHS)?,
            "routeKey" => key(u, Some(ContributionKind::Routes))?.into(),
            "claim" => claim(u, kind)?.into(),
            "position" => text(u, &["before", "after"])?,
            "status" => text(u, &STATUSES[1..])?,
            "renderHandle" => handle(u)?,
            _ => text(u, &["user", "x"])?,
        };
    }
    sometimes(u, &mut descriptor, "metadata", |u| Ok(json!({"any": anything(u)?})))?;
    if kind != ContributionKind::FallbackSurfaces {
        sometimes(u, &mut descriptor, "activeWhen", |u| list(u, 3, |u| text(u, &STATUSES[..6])))?;
    }
    spoiled(u, descriptor)
}

fn handle(u: &mut Unstructured<'_>) -> Result<Value> {
    let mut handle = json!({"renderHandleVersion": "0.1", "kind": "page", "id": one_of(u, &IDS)?});
    sometimes(u, &mut handle, "data", |u| Ok(json!({"any": anything(u)?})))?;
    spoiled(u, handle)
}

fn operation(u: &mut Unstructured<'_>) -> Result<Value> {
    let id = one_of(u, &OPERATION_IDS)?;
    // Operations on one kind meet each other; the rest is refused anyway.
    let kind = *u.choose(ContributionKind::ALL)?;
    let operation = match u.int_in_range(0..=4)? {
        0 => json!({"id": id, "kind": "hide", "target": key(u, Some(kind))?}),
        1 => {
            let target = key(u, Some(ContributionKind::Routes))?;
            json!({"id": id, "kind": "pathAlias", "target": target, "path": one_of(u, &PATHS)?})
        }
        2 => {
            let used = *u.choose(&[ContributionKind::MessageRenderers, ContributionKind::ToolRenderers])?;
            json!({"id": id, "kind": "rendererOverride", "claim": claim(u, used)?, "use": key(u, Some(used))?})
        }
        3 => {
            json!({"id": id, "kind": "replace", "target": key(u, Some(kind))?, "replacement": key(u, Some(kind))?})
        }
        _ => {
            let position = one_of(u, &["before", "after", "first", "last"])?;
            let mut operation =
                json!({"id": id, "kind": "reorder", "target": key(u, Some(kind))?, "position": position});
            if matches!(position, "before" | "after") {
                operation["anchor"] = key(u, Some(kind))?.into();
            }
            operation
        }
    };
    spoiled(u, operation)
}

/// A key, nearly always of that kind.
fn key(u: &mut Unstructured<'_>, kind: Option<ContributionKind>) -> Result<String> {
    let kind = match kind {
        Some(kind) if !u.ratio(1, 16)? => kind,
        _ => *u.choose(ContributionKind::ALL)?,
    };
    let owner = if u.ratio(1, 2)? { one_of(u, &BUILTINS)? } else { one_of(u, &OWNERS)? };
    Ok(format!("{owner}:{kind}/{}", one_of(u, &IDS)?))
}

fn claim(u: &mut Unstructured<'_>, kind: ContributionKind) -> Result<String> {
    let family = kind.renderer_kind().map_or("widget", |family| family.as_str());
    Ok(format!("{family}:{}", one_of(u, &CLAIMS)?))
}

fn anything(u: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match u.int_in_range(0..=7)? {
        0 => Value::Null,
        1 => true.into(),
        2 => u.arbitrary::<i64>()?.into(),
        3 => u.arbitrary::<f64>()?.into(),
        4 => json!([1, "a"]),
        5 => json!({"é": 1, "\u{10000}": 2, "b": {}, "\u{ffff}": []}),
        6 => json!({}),
        _ => text(u, &TEXTS)?,
    })
}

/// The same value, or sometimes with a field removed, added or changed.
fn spoiled(u: &mut Unstructured<'_>, mut value: Value) -> Result<Value> {
    if !u.ratio(1, 24)? {
        return Ok(value);
    }
    let Value::Object(members) = &mut value else { return anything(u) };
    if members.is_empty() {
        return anything(u);
    }
    let names: Vec<String> = members.keys().cloned().collect();
    let name = u.choose(&names)?.clone();
    match u.int_in_range(0..=3)? {
        0 => drop(members.remove(&name)),
        1 => drop(members.insert("unknown".into(), anything(u)?)),
        _ => drop(members.insert(name, anything(u)?)),
    }
    Ok(value)
}

fn sometimes(
    u: &mut Unstructured<'_>,
    object: &mut Value,
    name: &str,
    value: impl FnOnce(&mut Unstructured<'_>) -> Result<Value>,
) -> Result<()> {
    if u.ratio(1, 4)? {
        object[name] = value(u)?;
    }
    Ok(())
}

fn list(
    u: &mut Unstructured<'_>,
    most: usize,
    mut item: impl FnMut(&mut Unstructured<'_>) -> Result<Value>,
) -> Result<Value> {
    let count = u.int_in_range(0..=most)?;
    (0..count).map(|_| item(u)).collect()
}

fn one_of<'t>(u: &mut Unstructured<'_>, texts: &[&'t str]) -> Result<&'t str> {
    u.choose(texts).copied()
}

fn text(u: &mut Unstructured<'_>, texts: &[&str]) -> Result<Value> {
    one_of(u, texts).map(Value::from)
}
