//! Properties of all requests.

use canon::canonical;
use canon::digest::Digest;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use workspace::Code;
use workspace::compose::{Request, compose};
use workspace::plan::ValidPlan;

use crate::compose::base;

/// Any JSON, with difficult keys and numbers.
fn json() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        "[a-z]{1,3}",
        "[0-9]{1,3}",
        Just("4294967294".to_owned()),
        Just("4294967295".to_owned()),
        Just("__proto__".to_owned()),
        "\\PC{0,3}",
        Just("\u{ffff}".to_owned()),
        Just("\u{10000}".to_owned()),
        Just("enabled".to_owned()),
        Just("kind".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no infinities", |double| double.is_finite()).prop_map(Value::from),
        (0..4_i32).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
        Just(json!("read-write")),
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// The text of a value with members in an order that `seed` decides.
fn shuffled(value: &Value, seed: u64) -> String {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            let weight = |key: &str| {
                key.bytes().fold(seed, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
            };
            members.sort_by_key(|(key, _)| weight(key));
            let members: Vec<String> = members
                .iter()
                .map(|(key, member)| format!("{}: {}", Value::from(key.as_str()), shuffled(member, seed)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| shuffled(item, seed)).collect::<Vec<_>>().join(","))
        }
        plain => plain.to_string(),
    }
}

/// A naive implementation of the canonical text.
fn naive_canonical(value: &Value) -> String {
    let index =
        |key: &str| key.parse::<u32>().ok().filter(|index| index.to_string() == key && *index != u32::MAX);
    match value {
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().filter(|key| *key != "__proto__").collect();
            keys.sort_by(|left, right| match (index(left), index(right)) {
                (Some(left), Some(right)) => left.cmp(&right),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => left.encode_utf16().collect::<Vec<_>>().cmp(&right.encode_utf16().collect()),
            });
            let members: Vec<String> = keys
                .iter()
                .map(|key| format!("{}:{}", Value::from(key.as_str()), naive_canonical(&members[*key])))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(naive_canonical).collect::<Vec<_>>().join(","))
        }
        // Numbers and strings follow RFC 8785.
        plain => canonical::string_of(plain),
    }
}

fn naive_apply_id(request: &Value) -> String {
    let short = |value: &Value| Digest::of_bytes(naive_canonical(value).as_bytes()).to_hex()[..16].to_owned();
    let manifest = &request["manifest"];
    let mut hashed = Map::new();
    for key in ["agent", "mounts", "seedFiles", "env", "requiredTemplateNames"] {
        if let Some(value) = manifest.get(key) {
            hashed.insert(key.to_owned(), value.clone());
        }
    }
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let parts = [
        text(&request["orgId"]),
        text(&request["projectId"]),
        text(&manifest["slug"]),
        text(&manifest["version"]),
        short(&Value::Object(hashed)),
        text(&manifest["agent"]["slug"]),
        text(&request["agentOverrides"]["role"]),
        short(&request["agentContext"]),
        format!(
            "wf:{}:{}",
            text(&request["workflowRun"]["runId"]),
            text(&request["workflowRun"]["jobRunId"])
        ),
    ];
    Digest::of_bytes(parts.join(":").as_bytes()).to_hex()
}

/// A request that uses every feature.
fn full() -> Value {
    let mut request = base();
    let mounts =
        ["inputs", "uploads", "references", "repos", "deliverable-specs", "deliverables", "attachments"];
    request["manifest"]["mounts"] = mounts
        .iter()
        .map(|key| ((*key).to_owned(), json!({"enabled": true, "mode": null, "config": {}})))
        .collect();
    request["manifest"]["seedFiles"] =
        json!([{"slot": "inputs", "relPath": "seed", "source": {"kind": "inline", "bytesBase64": ""}}]);
    request["manifest"]["workingFiles"] = json!([{"slug": "w", "path": "p", "format": "text", "syncDirection": "up-only",
        "sourceKind": "k", "sourceRef": {}}]);
    request["systemSkillSlugs"] = json!(["s"]);
    request["agentContext"] = json!({
        "delegatedSubAgents": ["qa"], "skills": ["a"], "instructions": ["i"], "inputsJsonBase64": "e30=", "kbSpaceIds": ["k"],
        "kbPageMounts": [{"spaceId": "k", "pageSlugs": ["p"]}], "externalProjectIds": ["x"], "repoRef": "o/r",
        "repoRevision": "main", "deliverableSpecRef": "d", "deliverablesRef": ["d"], "sessionId": "s",
        "inputArtifacts": [{"artifactId": "a", "version": 1, "fileName": "f", "contentType": "text/plain"}], "prompt": "p",
    });
    request["briefcase"] = json!({
        "uploads": [{"filename": "u", "contentType": null, "artifact": {"artifactId": "a", "version": 1}}],
        "references": [{"kind": "artifact", "ref": "a@1", "title": "t"}, {"kind": "scm_repo", "ref": "r@b"}],
    });
    request
}

/// Every JSON pointer into a value.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, member)| pointers(member, &format!("{at}/{key}"), all));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| pointers(item, &format!("{at}/{index}"), all));
        }
        _ => {}
    }
}

#[test]
fn a_request_with_every_feature_composes_to_a_valid_plan() {
    let plan = compose(&Request::from_value(full(), &[]).unwrap(), None).unwrap();
    let kinds: std::collections::BTreeSet<&str> =
        plan.entries.iter().map(|entry| entry.source.kind().as_str()).collect();
    assert_eq!(kinds.len(), 14, "every kind of source: {kinds:?}");
    let valid = ValidPlan::check(&plan.to_value(), None, false).unwrap();
    let slots: Vec<Value> =
        valid.grants().iter().map(|grant| json!({"mount": grant.slot.path(), "mode": grant.mode})).collect();
    let applied = json!({"entries": plan.entries, "slots": slots});
    assert_eq!(
        valid.digest(),
        Digest::of_canonical(&applied).unwrap().to_hex(),
        "the digest is of the canonical JSON"
    );
}

proptest! {
    #[test]
    fn the_identity_does_not_depend_on_the_order_of_keys(context in json(), env in json(), seed in any::<u64>()) {
        let mut request = base();
        request["agentContext"] = json!({"value": context});
        request["manifest"]["env"] = env;
        let id = |text: String| compose(&Request::read(text.as_bytes()).unwrap(), None).unwrap().apply_id;
        let plain = id(request.to_string());
        prop_assert_eq!(&plain, &id(shuffled(&request, seed)));
        prop_assert_eq!(plain, naive_apply_id(&request), "and it is that of the recipe's words");
    }

    #[test]
    fn a_request_of_any_shape_is_composed_or_refused(place in any::<proptest::sample::Index>(), value in json()) {
        let mut request = full();
        let mut places = Vec::new();
        pointers(&request, "", &mut places);
        *request.pointer_mut(&places[place.index(places.len())]).unwrap() = value;
        match compose(&Request::read(request.to_string().as_bytes()).unwrap(), None) {
            Ok(plan) => {
                prop_assert_eq!(plan.apply_id.len(), 64);
                let text = plan.to_value().to_string();
                let read = canon::json::read(text.as_bytes(), &canon::json::Limits::DEFAULT).unwrap();
                match ValidPlan::check(&read, None, false) {
                    Ok(valid) => {
                        prop_assert_eq!(valid.apply_id(), plan.apply_id);
                        let written: Vec<Value> = valid.entries().iter().map(|entry| json!(entry.source)).collect();
                        let composed: Vec<Value> = plan.entries.iter().map(|entry| json!(entry.source)).collect();
                        prop_assert!(written.len() <= composed.len());
                    }
                    Err(refused) => prop_assert!(!refused.message().is_empty()),
                }
            }
            Err(refused) => {
                let code = refused.code();
                let of_composing = code.as_str().starts_with("COMPOSE_");
                let others = [Code::UnknownSlot, Code::ValidationError, Code::LimitExceeded];
                prop_assert!(of_composing || others.contains(&code), "{}", refused);
            }
        }
    }
}
