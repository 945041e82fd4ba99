//! Drift between two resolved environments.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use workspace::Code;
use workspace::environment::drift::{Kind, Report, Severity, Verdict, compare};
use workspace::environment::local::LocalSecrets;
use workspace::environment::resolved::{self, AgentFacts, Invocation, ResolvedEnvironment, Tier};
use workspace::environment::{self, SecretSource};
use workspace::manifest::Surface;
use workspace::slot::Slot;

use crate::environment::{Rows, bound, platform};

/// A resolved environment with all parts.
fn base() -> Value {
    let bound = bound(json!({
        "mounts": {"repos": true, "references": true},
        "skills": [{"slug": "s"}],
        "env": [{"name": "A", "value": "1"}, {"name": "TOKEN", "value": "${credential.T}"}],
        "credentials": [
            {"name": "T", "kind": "scm-token", "sourceRef": "env:CARGO_PKG_NAME", "required": true},
            {"name": "O", "kind": "generic-secret", "sourceRef": "env:CARGO_PKG_NAME"},
        ],
        "toolSelection": [{"kind": "provider", "providerKind": "catalog", "resourceId": "r"}],
        "persistence": {"paths": ["p", "q"]},
    }));
    let source: Arc<dyn SecretSource> = Arc::new(LocalSecrets);
    let outcome = environment::resolve(&bound, &[], &platform(), b"key", &source).unwrap();
    let sub_agents = serde_json::from_value(json!([{"slug": "qa", "defaultModel": "m1"}])).unwrap();
    let facts = AgentFacts {
        version: Some("1".to_owned()),
        grant: [workspace::manifest::ToolKey::Read, workspace::manifest::ToolKey::Write].into(),
        sub_agents,
        ..AgentFacts::default()
    };
    let rows = Rows(vec![("s", "1.0.0", Tier::Org)]);
    let resolved =
        resolved::resolve(&bound, Surface::ALL, &facts, &Invocation::default(), &outcome, &rows, "then")
            .unwrap();
    serde_json::to_value(resolved).unwrap()
}

fn environment_of(value: &Value) -> ResolvedEnvironment {
    serde_json::from_value(value.clone()).unwrap()
}

fn report(before: &Value, after: &Value) -> Report {
    let snapshotted: BTreeSet<Slot> = [Slot::Repos].into();
    compare(Some(&environment_of(before)), &environment_of(after), &snapshotted, "now").unwrap()
}

type Change = fn(&mut Value);

/// A change of the base, and its expected report.
type Case = (Kind, Severity, &'static str, Change);

#[test]
fn every_kind_of_drift_is_found_with_its_severity() {
    use Severity::{Critical, Warning};
    let cases: Vec<Case> = vec![
        (Kind::AgentChanged, Critical, "other", |v| v["agent"]["slug"] = json!("other")),
        (Kind::AgentVersionChanged, Warning, "engineer", |v| v["agent"]["version"] = json!("2")),
        (Kind::RoleChanged, Warning, "engineer", |v| v["agent"]["role"] = json!("auditor")),
        (Kind::StageChanged, Warning, "engineer", |v| v["agent"]["stage"] = json!("x")),
        (Kind::ModelChanged, Warning, "engineer", |v| {
            v["agent"]["model"] = json!({"kind": "concrete", "modelId": "x"});
        }),
        (Kind::ManifestVersionChanged, Warning, "m", |v| v["manifestRef"]["version"] = json!("1.1.0")),
        (Kind::ManifestContentChanged, Warning, "m", |v| v["manifestRef"]["digest"] = json!("other")),
        (Kind::SurfaceIncompatible, Critical, "workflow", |v| v["surfaceCompat"] = json!(["agent-session"])),
        (Kind::SubagentAdded, Warning, "new", |v| {
            push(v, "subAgents", json!({"slug": "new", "layer": "manifest"}));
        }),
        (Kind::SubagentRemoved, Warning, "qa", |v| v["subAgents"] = json!([])),
        (Kind::SubagentModelChanged, Warning, "qa", |v| v["subAgents"][0]["model"] = json!("m2")),
        (Kind::SkillAdded, Warning, "t", |v| {
            push(v, "skills", json!({"slug": "t", "version": "1.0.0", "tier": "org", "layer": "agent"}));
        }),
        (Kind::SkillRemoved, Warning, "s", |v| v["skills"] = json!([])),
        (Kind::SkillVersionChanged, Warning, "s", |v| v["skills"][0]["version"] = json!("1.1.0")),
        (
            Kind::ToolSelectionAdded,
            Warning,
            r#"{"kind":"tool","providerKind":"mcp_server","resourceId":"x","toolName":"t"}"#,
            |v| {
                push(
                    v,
                    "toolSelection",
                    json!({"kind": "tool", "providerKind": "mcp_server", "resourceId": "x", "toolName": "t"}),
                );
            },
        ),
        (
            Kind::ToolSelectionRemoved,
            Warning,
            r#"{"kind":"provider","providerKind":"catalog","resourceId":"r"}"#,
            |v| v["toolSelection"] = json!([]),
        ),
        (Kind::CredentialAdded, Warning, "N", |v| {
            push(
                v,
                "credentials",
                json!({"name": "N", "kind": "mcp-auth", "sourceRef": "x", "required": true, "resolved": true}),
            );
        }),
        (Kind::CredentialRemoved, Critical, "T", |v| {
            drop(v["credentials"].as_array_mut().unwrap().remove(0));
        }),
        (Kind::CredentialRemoved, Warning, "O", |v| drop(v["credentials"].as_array_mut().unwrap().remove(1))),
        (Kind::CredentialKindChanged, Critical, "O", |v| v["credentials"][1]["kind"] = json!("wallet-entry")),
        (Kind::CredentialSourceChanged, Warning, "T", |v| v["credentials"][0]["sourceRef"] = json!("file:x")),
        (Kind::CredentialUnresolved, Warning, "O", |v| v["credentials"][1]["resolved"] = json!(false)),
        (Kind::EnvVarAdded, Warning, "N", |v| {
            push(v, "env", json!({"name": "N", "value": "x", "layer": "manifest", "digest": "d"}));
        }),
        (Kind::EnvVarRemoved, Warning, "A", |v| drop(v["env"].as_array_mut().unwrap().remove(0))),
        (Kind::EnvVarChanged, Warning, "A", |v| v["env"][0]["digest"] = json!("other")),
        (Kind::PermissionWidened, Critical, "exec", |v| push(v, "permissions", json!("exec"))),
        (Kind::PermissionNarrowed, Warning, "write", |v| v["permissions"] = json!(["read"])),
        (Kind::MountAdded, Warning, "inputs", |v| {
            push(v, "mounts", json!({"slot": "inputs", "mode": "read-only"}));
        }),
        (Kind::MountRemoved, Warning, "references", |v| drop(v["mounts"].as_array_mut().unwrap().remove(0))),
        (Kind::MountModeChanged, Critical, "repos", |v| v["mounts"][1]["mode"] = json!("read-only")),
        (Kind::MountModeChanged, Warning, "references", |v| v["mounts"][0]["mode"] = json!("read-write")),
        (Kind::PersistenceChanged, Warning, "persistence", |v| v["persistence"] = json!(["p"])),
        (Kind::OutputSurfaceChanged, Warning, "outputSurface", |v| {
            v["outputSurface"] = json!({"kind": "web", "port": 1, "healthPath": "/", "autoOpen": false});
        }),
    ];
    let base = base();
    for (kind, severity, subject, change) in &cases {
        let mut changed = base.clone();
        change(&mut changed);
        let report = report(&base, &changed);
        let found: Vec<_> =
            report.drifts.iter().map(|drift| (drift.kind, drift.severity, drift.subject.as_str())).collect();
        assert_eq!(found, [(*kind, *severity, *subject)], "{kind}");
        if let Some(listed) = kind.severity() {
            assert_eq!(listed, *severity, "{kind}");
        }
        let verdict = if *severity == Critical { Verdict::Critical } else { Verdict::Warning };
        assert_eq!(report.verdict, verdict, "{kind}");
    }
    let covered: BTreeSet<Kind> = cases.iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(covered.len(), Kind::ALL.len(), "every kind has a row");
}

fn push(value: &mut Value, list: &str, item: Value) {
    value[list].as_array_mut().unwrap().push(item);
}

#[test]
fn unchanged_parts_are_not_reported() {
    let base = base();
    let cases: [(&str, Change); 5] = [
        ("nothing", |_| {}),
        ("the time", |v| v["resolvedAt"] = json!("later")),
        ("the order of a set", |v| v["persistence"] = json!(["q", "p"])),
        ("the identity of the plan", |v| {
            for item in v["env"]
                .as_array_mut()
                .unwrap()
                .iter_mut()
                .filter(|item| item["name"] == "INTERLOCK_APPLY_ID")
            {
                item["digest"] = json!("other");
            }
        }),
        ("the order of mounts", |v| v["mounts"].as_array_mut().unwrap().reverse()),
    ];
    for (name, change) in cases {
        let mut changed = base.clone();
        change(&mut changed);
        let report = report(&base, &changed);
        assert_eq!((report.drifts.len(), report.verdict), (0, Verdict::Clean), "{name}: {:?}", report.drifts);
    }
    let first = compare(None, &environment_of(&base), &BTreeSet::new(), "now").unwrap();
    assert_eq!(
        (first.verdict, serde_json::to_value(&first).unwrap()["baseline"].clone()),
        (Verdict::Clean, Value::Null)
    );
}

#[test]
fn warnings_do_not_prevent_a_resume() {
    // Case 52.
    let base = base();
    let mut changed = base.clone();
    changed["skills"][0]["version"] = json!("1.1.0");
    push(
        &mut changed,
        "env",
        json!({"name": "NEW", "value": "secret-ish", "layer": "manifest", "digest": "0123456789abcdef"}),
    );
    let report = report(&base, &changed);
    assert_eq!((report.counts.warning, report.counts.critical, report.verdict), (2, 0, Verdict::Warning));
    assert!(report.check().is_ok());
    let written = serde_json::to_value(&report).unwrap();
    let kinds: Vec<&Value> =
        written["drifts"].as_array().unwrap().iter().map(|drift| &drift["kind"]).collect();
    assert_eq!(kinds, ["env-var-added", "skill-version-changed"], "sorted by kind");
    assert_eq!(written["drifts"][0]["after"], "0123456789abcdef", "a value is its digest");
    assert!(!written.to_string().contains("secret-ish"));
    assert_eq!((&written["schema"], &written["comparedAt"]), (&json!(1), &json!("now")));
}

#[test]
fn a_missing_required_credential_prevents_a_resume() {
    // Case 53.
    let base = base();
    let mut changed = base.clone();
    changed["credentials"].as_array_mut().unwrap().remove(0);
    changed["agent"]["slug"] = json!("other");
    changed["persistence"] = json!([]);
    let report = report(&base, &changed);
    let order: Vec<&str> = report.drifts.iter().map(|drift| drift.kind.as_str()).collect();
    assert_eq!(
        order,
        ["agent-changed", "credential-removed", "persistence-changed"],
        "the critical ones first"
    );
    let error = report.check().unwrap_err();
    assert_eq!(error.code(), Code::DriftCritical);
    assert_eq!(error.details()["drifts"], json!(["agent-changed (other)", "credential-removed (T)"]));
}
