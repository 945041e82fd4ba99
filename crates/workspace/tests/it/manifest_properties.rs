//! Properties of all manifests.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use workspace::manifest::{self, Format, Surface};

/// Values that a manifest may contain, including tokens and near-tokens.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z${}.|: ]{0,12}".prop_map(Value::from),
        prop_oneof![
            Just("${input.a}"),
            Just("${input.a | default: 1}"),
            Just("${credential.T}"),
            Just("read-only"),
            Just("engineer"),
            Just("string")
        ]
        .prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("mounts".to_owned()),
        Just("inputs".to_owned()),
        Just("agent".to_owned()),
        Just("seedFiles".to_owned()),
        Just("env".to_owned()),
        Just("credentials".to_owned()),
        Just("name".to_owned()),
        Just("value".to_owned()),
        Just("slug".to_owned()),
        Just("type".to_owned()),
        Just("role".to_owned()),
        Just("mode".to_owned()),
        Just("references".to_owned()),
        Just("work".to_owned()),
        Just("path".to_owned()),
        "[a-zA-Z]{0,8}"
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn manifest_of(spec: &Value) -> Value {
    json!({
        "apiVersion": "interlock.dev/workspace/v1",
        "kind": "WorkspaceManifest",
        "metadata": {"slug": "m", "version": "1.0.0"},
        "spec": spec,
    })
}

proptest! {
    #[test]
    fn any_spec_gives_a_result_or_located_problems(spec in value()) {
        let text = manifest_of(&spec).to_string();
        match manifest::compile(text.as_bytes(), "m.json", Format::Json) {
            Ok((manifest, _)) => {
                let _ = manifest.bind(Surface::Workflow, &Map::new(), Map::new());
            }
            Err(error) => {
                for error in std::iter::once(&error).chain(error.causes()) {
                    prop_assert!(error.details()["path"].as_str().is_some_and(|path| path.starts_with('$')));
                    prop_assert!(error.details()["line"].as_u64().is_some_and(|line| line > 0));
                }
            }
        }
    }

    #[test]
    fn json_gives_the_same_result_in_both_readers(spec in value()) {
        // JSON is also YAML, so the problems are the same apart from positions.
        let text = serde_json::to_string_pretty(&manifest_of(&spec)).unwrap();
        let paths = |format| match manifest::compile(text.as_bytes(), "m", format) {
            Ok(_) => Vec::new(),
            Err(error) => std::iter::once(&error)
                .chain(error.causes())
                .map(|error| (error.details()["path"].clone(), error.details()["line"].clone()))
                .collect(),
        };
        prop_assert_eq!(paths(Format::Json), paths(Format::Yaml));
    }

    #[test]
    fn any_bytes_are_compiled_or_rejected(text in "([a-z0-9:\\[\\]{}&*!|>'\" \n#,-]|: |- |\n  ){0,120}") {
        for format in [Format::Yaml, Format::Json] {
            prop_assert!(manifest::compile(text.as_bytes(), "m", format).is_err());
        }
    }

    #[test]
    fn input_text_is_never_read_as_a_token(text in "[a-z${}.|]{0,20}|\\$\\{(input|credential)\\.[aT]\\}") {
        let spec = json!({
            "agent": {"slug": "a", "stage": "s", "role": "engineer"},
            "inputs": {"a": {"type": "string"}},
            "credentials": [{"name": "T", "kind": "scm-token", "sourceRef": "x"}],
            "env": [{"name": "A", "value": "<${input.a}>"}],
            "mounts": {"references": {"x": "${input.a}"}},
        });
        let manifest = manifest_of(&spec).to_string();
        let (manifest, _) = manifest::compile(manifest.as_bytes(), "m", Format::Json).unwrap();
        let inputs: Map<String, Value> = [("a".to_owned(), Value::from(text.as_str()))].into_iter().collect();
        let bound = manifest.bind(Surface::Workflow, &inputs, Map::new()).unwrap();
        prop_assert_eq!(&bound.manifest.mounts[0].1.config["x"], &Value::from(text.as_str()));
        let credentials = bound.manifest.env[0].pieces.iter()
            .filter(|piece| matches!(piece, manifest::EnvPiece::Credential(_))).count();
        prop_assert_eq!(credentials, 0);
    }

    #[test]
    fn binding_is_deterministic(n in any::<i32>(), s in ".{0,20}") {
        let spec = json!({
            "agent": {"slug": "a", "stage": "s", "role": "engineer"},
            "inputs": {"n": {"type": "number"}, "s": {"type": "string"}},
            "env": [{"name": "A", "value": "x"}],
            "mounts": {"references": {"n": "${input.n}", "s": "${input.s}"}, "repos": {"e": "${input.n}/${input.s}"}},
        });
        let text = manifest_of(&spec).to_string();
        let inputs: Map<String, Value> = serde_json::from_value(json!({"n": n, "s": s})).unwrap();
        let bind = || {
            let (manifest, _) = manifest::compile(text.as_bytes(), "m", Format::Json).unwrap();
            let bound = manifest.bind(Surface::Workflow, &inputs, Map::new()).unwrap();
            serde_json::to_string(&bound.manifest).unwrap()
        };
        let once = bind();
        prop_assert_eq!(&once, &bind());
        let written: Value = serde_json::from_str(&once).unwrap();
        prop_assert_eq!(&written["mounts"]["references"]["config"]["n"], &json!(n), "the type is kept");
        prop_assert_eq!(&written["mounts"]["repos"]["config"]["e"], &json!(format!("{n}/{s}")));
    }
}
