//! The golden fixtures: every file is run, and every fixture of the specification has its file.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::wire::{canonical, composed, without_messages};

/// The map of WCP-005. These ids are never renamed or removed.
const SPECIFIED: [&str; 38] = [
    "fixture-happy-single-module",
    "fixture-happy-multi-instance",
    "fixture-same-local-id-across-instances",
    "fixture-duplicate-instance-id",
    "fixture-duplicate-canonical-key",
    "fixture-invalid-local-id",
    "fixture-duplicate-route-path",
    "fixture-invalid-route-path",
    "fixture-route-path-trailing-slash-rejected",
    "fixture-route-path-alias",
    "fixture-route-path-alias-creates-conflict",
    "fixture-duplicate-message-renderer-claim",
    "fixture-duplicate-tool-renderer-claim",
    "fixture-duplicate-activity-renderer-claim",
    "fixture-message-appenders-do-not-conflict",
    "fixture-renderer-override",
    "fixture-invalid-policy-target",
    "fixture-unsupported-policy-schema-version",
    "fixture-policy-hide-route",
    "fixture-policy-reorder-sidebar",
    "fixture-policy-replace-descriptor",
    "fixture-policy-conflict",
    "fixture-policy-reorder-cycle",
    "fixture-policy-hide-excludes-required-handle",
    "fixture-policy-replace-updates-required-handles",
    "fixture-runtime-ready",
    "fixture-runtime-read-only",
    "fixture-runtime-needs-configuration",
    "fixture-runtime-unauthorized",
    "fixture-runtime-disabled",
    "fixture-runtime-error",
    "fixture-kernel-builtins-and-modules-same-pipeline",
    "fixture-claude-builtins-default-composition",
    "fixture-builtin-module-route-conflict-diagnostic",
    "fixture-builtin-module-renderer-conflict-diagnostic",
    "fixture-builtin-owner-shape-diagnostics",
    "fixture-kernel-required-render-handles",
    "fixture-required-render-handles-runtime-fallback",
];

#[expect(clippy::disallowed_methods, reason = "the ban on files is for the kernel, not for its tests")]
fn fixtures() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut fixtures: Vec<(String, Value)> = std::fs::read_dir(folder)
        .expect("the fixtures are beside the tests")
        .map(|entry| {
            let path = entry.expect("the folder can be listed").path();
            let name = path.file_stem().expect("a fixture has a name").to_string_lossy().into_owned();
            assert_eq!(path.extension().and_then(|extension| extension.to_str()), Some("json"), "{name}");
            let bytes = std::fs::read(&path).expect("a fixture can be read");
            let fixture =
                canon::json::read(&bytes, &canon::json::Limits::default()).expect("a fixture is JSON");
            (name, fixture)
        })
        .collect();
    fixtures.sort_by(|(a, _), (b, _)| a.cmp(b));
    fixtures
}

#[test]
fn every_fixture_composes_to_its_complete_expectation() {
    let mut failures = Vec::new();
    for (name, fixture) in fixtures() {
        assert_eq!(fixture["id"], name.as_str(), "a fixture is named after its id");
        let actual = canonical(&without_messages(composed(&fixture["input"])));
        if actual != canonical(&fixture["expect"]) {
            failures
                .push(format!("{name}\n  expected {}\n  actual   {actual}", canonical(&fixture["expect"])));
        }
    }
    assert!(failures.is_empty(), "{} fixtures differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_specified_fixture_exists() {
    let present: BTreeSet<String> = fixtures().into_iter().map(|(name, _)| name).collect();
    let missing: Vec<_> = SPECIFIED.iter().filter(|id| !present.contains(**id)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let unknown: Vec<_> = present
        .iter()
        .filter(|name| !name.starts_with("fixture-x-") && !SPECIFIED.contains(&name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "additions start with fixture-x-: {unknown:?}");
}

#[test]
fn the_model_agrees_with_every_fixture() {
    for (name, fixture) in fixtures() {
        let actual = without_messages(crate::model::compose(&fixture["input"]));
        assert_eq!(canonical(&actual), canonical(&fixture["expect"]), "{name}");
    }
}

#[test]
fn input_order_has_no_effect() {
    for (name, fixture) in fixtures() {
        let expected = canonical(&composed(&fixture["input"]));
        for seed in 0..3 {
            let permuted = crate::generate::permuted(&fixture["input"], seed);
            assert_eq!(canonical(&composed(&permuted)), expected, "{name}, permutation {seed}");
        }
    }
}
