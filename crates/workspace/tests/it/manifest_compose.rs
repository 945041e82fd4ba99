//! Composing bound manifests: unchanged, and mounted in declaration order.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use workspace::compose::{Request, compose};
use workspace::library::Library;
use workspace::manifest::{self, Format, Manifest};
use workspace::plan::ValidPlan;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workspace")
}

fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

fn golden(spec: Value) -> Manifest {
    let mut spec = spec;
    spec["agent"] = json!({"slug": "engineer", "stage": "engineering", "role": "engineer"});
    let text = json!({
        "apiVersion": "interlock.dev/workspace/v1", "kind": "WorkspaceManifest",
        "metadata": {"slug": "m", "version": "1.0.0"}, "spec": spec,
    });
    manifest::compile(text.to_string().as_bytes(), "m.json", Format::Json).unwrap().0
}

fn run1() -> Map<String, Value> {
    object(json!({
        "orgId": "org1", "projectId": "proj1", "agentContext": {}, "agentOverrides": {"role": "engineer"},
        "workflowRun": {"runId": "run1", "jobRunId": "job1"},
    }))
}

#[test]
fn a_manifest_file_has_the_golden_identity() {
    // Vectors A and E of the specification, from manifests.
    let cases = [
        (json!({}), "3863925d34dfe759afd55fc5872d8915341442222944ec168dce4e8e0d6b0697"),
        (
            json!({"mounts": {"inputs": {"mode": "read-only"}, "deliverables": true}, "env": [{"name": "X", "value": "1"}]}),
            "2be519b647f6205d3e1e5b9b171e41c5cc01a5dab6fa3201ed082f27605987a0",
        ),
    ];
    for (spec, apply_id) in cases {
        let bound = golden(spec.clone()).bind_request(&Map::new(), run1()).unwrap();
        let request = Request::from_value(bound.value, &bound.mount_order).unwrap();
        assert_eq!(compose(&request, None).unwrap().apply_id, apply_id, "{spec}");
    }
}

#[test]
fn a_serialized_request_keeps_its_mount_order() {
    let text = "apiVersion: interlock.dev/workspace/v1\nkind: WorkspaceManifest\nmetadata: {slug: m, version: 1.0.0}\n\
                spec: {agent: {slug: a, stage: s, role: engineer}, mounts: {uploads: true, repos: true, inputs: true}}\n";
    let (manifest, _) = manifest::compile(text.as_bytes(), "m.yaml", Format::Yaml).unwrap();
    let bound = manifest.bind_request(&Map::new(), run1()).unwrap();
    // The compiled manifest inserted into the rest as text, as requests are stored.
    let mut rest = bound.value.clone();
    rest.as_object_mut().unwrap().remove("manifest");
    let rest = rest.to_string();
    let compiled = serde_json::to_string(&bound.bound.manifest).unwrap();
    let stored = format!("{},\"manifest\":{compiled}}}", rest.strip_suffix('}').unwrap());
    let from_text = compose(&Request::read(stored.as_bytes()).unwrap(), None).unwrap();
    let request = Request::from_value(bound.value, &bound.mount_order).unwrap();
    let plan = compose(&request, None).unwrap();
    assert_eq!(from_text, plan);
    let params = &plan.to_value()["entries"][0]["source"]["mounts"];
    let mounts: Vec<&str> =
        params.as_array().unwrap().iter().map(|mount| mount["mount"].as_str().unwrap()).collect();
    assert_eq!(mounts, ["/workspace/uploads", "/workspace/repos", "/workspace/inputs"]);
}

#[test]
fn the_example_composes_to_a_valid_plan() {
    let read = |name: &str| std::fs::read(examples().join(name)).unwrap();
    let parse = |name: &str| object(serde_json::from_slice(&read(name)).unwrap());
    let (manifest, _) = manifest::compile(&read("manifest.yaml"), "manifest.yaml", Format::Yaml).unwrap();
    let bound = manifest.bind_request(&parse("inputs.json"), parse("context.json")).unwrap();
    let request = Request::from_value(bound.value, &bound.mount_order).unwrap();
    let templates = Library::open(&examples().join("library")).unwrap().templates();
    let plan = compose(&request, Some(&templates)).unwrap();
    let keys: Vec<&str> = plan.entries.iter().map(|entry| entry.mount_key.as_str()).collect();
    let expected = [
        "agents-md",
        "context-json",
        "system-overlay",
        "tmp:seed",
        "agent-bundle:engineer",
        "agent-bundle:reviewer",
        "skill-bundle:code-review",
        "skill-command:code-review",
        "skill-bundle:writing/release-notes",
        "skill-command:writing/release-notes",
        "instruction:house-rules",
        "references:kb:handbook",
        "repo:demo",
        "deliverable-specs:release-notes",
        "seed:deliverables:release-notes-1.4.0.md",
    ];
    assert_eq!(keys, expected);
    ValidPlan::check(&plan.to_value(), None, false)
        .unwrap_or_else(|error| panic!("{error} {:?}", error.causes()));
}
