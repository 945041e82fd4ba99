//! Properties of the kernel.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::generate::{any_json, broken_input, permuted, small_input};
use crate::wire::{canonical, composed, without_messages};

fn any_input() -> impl Strategy<Value = Value> {
    prop_oneof![6 => small_input(), 3 => broken_input(), 1 => any_json()]
}

/// Every string member `name` anywhere in `value`, lists of strings included.
fn strings_at<'v>(value: &'v Value, name: &str, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                match value {
                    Value::String(text) if member == name => found.push(text),
                    Value::Array(items) if member == name => {
                        found.extend(items.iter().filter_map(Value::as_str));
                    }
                    // What authors attach is theirs, and not a reference.
                    _ if matches!(member.as_str(), "metadata" | "data") => {}
                    _ => strings_at(value, name, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| strings_at(item, name, found)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_kernel_agrees_with_the_naive_model(input in any_input()) {
        let actual = without_messages(composed(&input));
        let expected = without_messages(crate::model::compose(&input));
        prop_assert_eq!(canonical(&actual), canonical(&expected));
    }

    #[test]
    fn permuting_the_input_has_no_effect(input in any_input(), seed in any::<u64>()) {
        prop_assert_eq!(canonical(&composed(&input)), canonical(&composed(&permuted(&input, seed))));
    }

    #[test]
    fn results_are_complete_or_absent(input in any_input()) {
        let result = composed(&input);
        let ok = result["ok"] == true;
        prop_assert_eq!(ok, result["composition"].is_object());
        prop_assert_eq!(ok, result["diagnostics"].as_array().unwrap().is_empty(), "the kernel knows only errors");
        if ok {
            prop_assert_eq!(&result["composition"]["appliedPolicy"], &result["policyEffects"]);
            prop_assert_eq!(&result["composition"]["diagnostics"], &result["diagnostics"]);
            prop_assert_eq!(result["composition"].as_object().unwrap().len(), 17);
        } else {
            prop_assert!(result["composition"].is_null());
        }
    }

    #[test]
    fn output_references_exist(input in small_input()) {
        let result = composed(&input);
        let mut keys = Vec::new();
        strings_at(&result["composition"], "key", &mut keys);
        let keys: BTreeSet<&str> = keys.into_iter().collect();
        for member in ["usedBy", "routeKey", "rendererKey", "selected"] {
            let mut named = Vec::new();
            strings_at(&result["composition"], member, &mut named);
            for name in named {
                prop_assert!(keys.contains(name), "{} {} is not in the output", member, name);
            }
        }
    }

    #[test]
    fn replacements_are_shown_unless_overridden(input in small_input()) {
        let result = composed(&input);
        let (mut replacements, mut known) = (Vec::new(), Vec::new());
        strings_at(&result["composition"]["appliedPolicy"], "replacement", &mut replacements);
        strings_at(&result["composition"]["appliedPolicy"], "overridden", &mut known);
        strings_at(&result["composition"], "key", &mut known);
        for replacement in replacements {
            prop_assert!(known.contains(&replacement), "{} was lost", replacement);
        }
    }

    #[test]
    fn removed_contributions_leave_no_trace(input in small_input()) {
        let result = composed(&input);
        let mut removed = Vec::new();
        for effect in result["policyEffects"].as_array().unwrap() {
            match effect["kind"].as_str().unwrap() {
                "hide" | "replace" => removed.push(effect["target"].as_str().unwrap()),
                "rendererOverride" => strings_at(effect, "overridden", &mut removed),
                _ => {}
            }
        }
        let mut used = Vec::new();
        for member in ["key", "usedBy", "rendererKey"] {
            strings_at(&result["composition"], member, &mut used);
        }
        for key in removed {
            prop_assert!(!used.contains(&key), "{} was removed", key);
        }
    }

    #[test]
    fn diagnostics_are_registered_sorted_and_short(input in any_input()) {
        let input = composition::Input::from_value(input).unwrap();
        let outcome = composition::compose(&input);
        let mut previous = None;
        for diagnostic in &outcome.diagnostics {
            let wire = serde_json::to_value(diagnostic).unwrap();
            prop_assert!(!diagnostic.subjects().is_empty());
            prop_assert!(!diagnostic.message().is_empty());
            prop_assert!(diagnostic.message().chars().count() <= composition::diagnostic::MAX_MESSAGE_CHARACTERS);
            // The stable key relies on details and subjects serializing to canonical bytes.
            for part in ["details", "subjects"] {
                prop_assert_eq!(serde_json::to_string(&wire[part]).unwrap(), canonical(&wire[part]));
            }
            let key = (
                wire["category"].as_str().unwrap().to_owned(),
                wire["code"].as_str().unwrap().to_owned(),
                serde_json::to_string(diagnostic.details()).unwrap(),
                serde_json::to_string(diagnostic.subjects()).unwrap(),
            );
            prop_assert_eq!(&key.2, &canonical(&wire["details"]));
            prop_assert_eq!(&key.3, &canonical(&wire["subjects"]));
            prop_assert!(previous.as_ref() < Some(&key), "sorted, and no two alike");
            previous = Some(key);
        }
    }
}

/// Two modules of one name declare one key, with a handle and without: the policy that selects it names the first of both.
#[test]
fn a_key_that_is_declared_twice_is_named_once_by_a_policy_that_selects_it() {
    let module = |version: Option<&str>, renderer: Value| {
        let mut module = json!({
            "contributions": {"messageRenderers": [renderer]},
            "instanceId": "lab-2", "moduleApiVersion": "0.1", "packageId": "@maya/lab",
            "runtime": {"actions": [], "grants": [], "instanceId": "lab-2", "missing": [], "status": "ready"},
        });
        if let Some(version) = version {
            module["packageVersion"] = version.into();
        }
        module
    };
    let handle = json!({"id": "lab.a", "kind": "route", "renderHandleVersion": "0.1"});
    let input = json!({
        "builtins": [],
        "modules": [
            module(Some("0.1.0"), json!({"claim": "message:x", "id": "a-2"})),
            module(None, json!({"claim": "message:x", "id": "a-2", "renderHandle": handle})),
        ],
        "policy": {
            "operations": [{
                "claim": "message:x", "id": "op-1", "kind": "rendererOverride", "use": "lab-2:message-renderers/a-2",
            }],
            "policySchemaVersion": "0.1",
        },
    });
    let actual = without_messages(composed(&input));
    assert_eq!(canonical(&actual), canonical(&without_messages(crate::model::compose(&input))));
    let diagnostics = actual["diagnostics"].as_array().unwrap();
    let invalid = diagnostics.iter().find(|one| one["code"] == "WCP_POLICY_INVALID").unwrap();
    assert_eq!(invalid["subjects"].as_array().unwrap().len(), 2, "the contribution, and the operation");
}
