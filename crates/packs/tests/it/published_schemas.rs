//! Compares the tables of this crate with the published protocol schemas, if available.

use packs::manifest::Manifest;
use serde_json::Value;

use crate::support::{every_kind, protocol};

const SCHEMAS: [(&str, &str); 6] = [
    ("node", "node-pack-manifest"),
    ("workflow-chain", "workflow-chain-pack-manifest"),
    ("prompt", "prompt-pack-manifest"),
    ("artifact-type", "artifact-type-pack-manifest"),
    ("card", "chat-card-pack-manifest"),
    ("connection", "connection-pack-manifest"),
];

/// The manifest without members of later schema revisions.
fn as_published(manifest: &Value) -> Value {
    let mut manifest = manifest.clone();
    if let Some(edge) = manifest.pointer_mut("/chains/0/dag/edges/0").and_then(Value::as_object_mut) {
        edge.remove("triggerRule");
    }
    manifest
}

fn read(path: std::path::PathBuf) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The schema of a kind with its references resolved.
fn validator(name: &str) -> Option<jsonschema::Validator> {
    let folder = protocol("schemas")?;
    let mut registry = jsonschema::Registry::new();
    for other in ["agent-manifest", "prompt-ref", "prompt-template", "prompt-kind"] {
        let id = format!("https://openwop.dev/spec/v1/{other}.schema.json");
        let schema = read(folder.join(format!("{other}.schema.json")));
        registry = registry.add(id, schema).unwrap();
    }
    let registry = registry.prepare().unwrap();
    let schema = read(folder.join(format!("{name}.schema.json")));
    Some(jsonschema::draft202012::options().with_registry(&registry).build(&schema).unwrap())
}

#[test]
fn accepted_manifests_match_the_published_schemas() {
    for (manifest, (kind, schema)) in every_kind().iter().zip(SCHEMAS) {
        let Some(validator) = validator(schema) else { return };
        let manifest = as_published(manifest);
        assert!(Manifest::from_value(&manifest).is_ok(), "{kind}");
        let refused: Vec<String> = validator.iter_errors(&manifest).map(|error| error.to_string()).collect();
        assert!(refused.is_empty(), "{kind}: {refused:?}");
    }
}

#[test]
fn rejects_what_the_published_schemas_reject() {
    let mut compared = 0;
    for (manifest, (kind, schema)) in every_kind().iter().zip(SCHEMAS) {
        let Some(validator) = validator(schema) else { return };
        for changed in changes(&as_published(manifest)) {
            if !validator.is_valid(&changed) {
                compared += 1;
                assert!(Manifest::from_value(&changed).is_err(), "{kind}: {changed}");
            }
        }
    }
    assert!(compared > 300, "only {compared} manifests were compared");
}

/// Variants of the manifest with each value, at any depth, removed or replaced.
fn changes(manifest: &Value) -> Vec<Value> {
    let mut pointers = Vec::new();
    let mut waiting = vec![(String::new(), manifest)];
    while let Some((pointer, value)) = waiting.pop() {
        match value {
            Value::Object(members) => {
                waiting.extend(members.iter().map(|(name, value)| (format!("{pointer}/{name}"), value)));
            }
            Value::Array(items) => {
                waiting.extend(
                    items.iter().enumerate().map(|(place, value)| (format!("{pointer}/{place}"), value)),
                );
            }
            _ => {}
        }
        if !pointer.is_empty() {
            pointers.push(pointer);
        }
    }
    let mut changed = Vec::new();
    for pointer in pointers {
        for other in [
            Value::Null,
            7.into(),
            "".into(),
            "Ä b".into(),
            Value::Array(Vec::new()),
            serde_json::json!({"extra": 1}),
        ] {
            let mut copy = manifest.clone();
            *copy.pointer_mut(&pointer).unwrap() = other;
            changed.push(copy);
        }
        let (above, name) = pointer.rsplit_once('/').unwrap();
        let mut copy = manifest.clone();
        if let Some(members) = copy.pointer_mut(above).and_then(Value::as_object_mut) {
            members.remove(name);
            changed.push(copy);
        }
    }
    changed
}

#[test]
fn reads_published_manifests() {
    let Some(folder) = protocol("fixtures/pack-manifests") else { return };
    let mut looked_at = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert!(Manifest::read(&bytes).is_ok(), "{}: {:?}", path.display(), Manifest::read(&bytes));
        looked_at += 1;
    }
    assert!(looked_at > 0);
}
