//! The layers of the environment.

mod resolved;
mod secrets;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use workspace::environment::resolved::{SkillRows, Tier};
use workspace::environment::variables::{MAX_TOTAL, MAX_VALUE};
use workspace::environment::{self, Platform, Reason, ResolvedVariables, Scope, SecretSource};
use workspace::manifest::{self, Bound, CredentialKind, Format, Skill, Surface};
use workspace::{Code, Error};
use zeroize::Zeroizing;

pub(crate) fn bound(spec: Value) -> Bound {
    let mut spec = spec;
    spec["agent"] =
        json!({"slug": "engineer", "stage": "engineering", "role": "engineer", "defaultModel": "m-manifest"});
    let text = json!({
        "apiVersion": "interlock.dev/workspace/v1", "kind": "WorkspaceManifest",
        "metadata": {"slug": "m", "version": "1.0.0"}, "spec": spec,
    });
    let (manifest, _) = manifest::compile(text.to_string().as_bytes(), "m", Format::Json)
        .unwrap_or_else(|error| panic!("{error} {:?}", error.causes()));
    manifest.bind(Surface::Workflow, &Map::new(), Map::new()).unwrap()
}

pub(crate) fn platform() -> Platform {
    let scope = Scope::Run { run_id: "run1".to_owned(), job_run_id: "job1".to_owned() };
    Platform { org_id: "org1".into(), project_id: "proj1".into(), apply_id: "abc".into(), scope }
}

/// Secrets by reference; calls are counted.
#[derive(Default)]
struct Table {
    values: BTreeMap<&'static str, Result<&'static str, Reason>>,
    calls: Mutex<BTreeMap<String, usize>>,
}

impl SecretSource for Table {
    fn fetch(&self, _kind: CredentialKind, source_ref: &str) -> Result<Zeroizing<String>, Reason> {
        *self.calls.lock().unwrap().entry(source_ref.to_owned()).or_default() += 1;
        let value = self.values.get(source_ref).copied().unwrap_or(Err(Reason::NotFound));
        value.map(|value| Zeroizing::new(value.to_owned()))
    }
}

fn table(values: &[(&'static str, Result<&'static str, Reason>)]) -> Arc<Table> {
    Arc::new(Table { values: values.iter().copied().collect(), calls: Mutex::default() })
}

/// Versions and tiers of skills, from a table.
pub(crate) struct Rows(pub(crate) Vec<(&'static str, &'static str, Tier)>);

impl SkillRows for Rows {
    fn row(&self, skill: &Skill) -> Result<(Option<String>, Tier), Error> {
        let row = self.0.iter().find(|(slug, _, _)| *slug == skill.slug);
        match row {
            Some((_, version, tier)) => Ok((Some((*version).to_owned()), *tier)),
            None => Err(Error::new(Code::SkillVersionUnsatisfied, format!("no version of {}", skill.slug))),
        }
    }
}

type Overlay<'a> = &'a [(&'a str, &'a str)];

fn resolve(
    bound: &Bound,
    overlay: Overlay<'_>,
    source: Arc<dyn SecretSource>,
) -> Result<ResolvedVariables, Error> {
    let overlay: Vec<(String, String)> =
        overlay.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    environment::resolve(bound, &overlay, &platform(), b"key of org1", &source)
}

fn credential(name: &str, source_ref: &str, required: bool) -> Value {
    json!({"name": name, "kind": "generic-secret", "sourceRef": source_ref, "required": required})
}

#[test]
fn a_later_layer_wins_and_the_platform_last() {
    let bound =
        bound(json!({"env": [{"name": "B", "value": "manifest"}, {"name": "A", "value": "manifest"}]}));
    let outcome = resolve(&bound, &[("A", "call"), ("C", "call")], table(&[])).unwrap();
    let shown: Vec<(&str, &str, &str)> = (outcome.env.iter())
        .map(|item| (item.name.as_str(), item.value.as_deref().unwrap(), item.layer.as_str()))
        .collect();
    let expected = [
        ("A", "call", "invocation"),
        ("B", "manifest", "manifest"),
        ("C", "call", "invocation"),
        ("INTERLOCK_APPLY_ID", "abc", "platform"),
        ("INTERLOCK_JOB_RUN_ID", "job1", "platform"),
        ("INTERLOCK_ORG_ID", "org1", "platform"),
        ("INTERLOCK_PROJECT_ID", "proj1", "platform"),
        ("INTERLOCK_RUN_ID", "run1", "platform"),
        ("INTERLOCK_WORKSPACE", "/workspace", "platform"),
        ("TMPDIR", "/workspace/tmp", "platform"),
    ];
    assert_eq!(shown, expected);
    let session = Platform { scope: Scope::Session { session_id: "s1".into() }, ..platform() };
    let source: Arc<dyn SecretSource> = table(&[]);
    let outcome = environment::resolve(&bound, &[], &session, b"", &source).unwrap();
    let names: Vec<&str> = outcome.env.iter().map(|item| item.name.as_str()).collect();
    assert!(names.contains(&"INTERLOCK_SESSION_ID") && !names.contains(&"INTERLOCK_RUN_ID"), "{names:?}");
}

#[test]
fn platform_variables_follow_from_the_request() {
    let run =
        json!({"orgId": "org1", "projectId": "proj1", "workflowRun": {"runId": "run1", "jobRunId": "job1"}});
    assert_eq!(Platform::of_request(&run, "abc"), Some(platform()));
    let session = json!({"orgId": "org1", "projectId": "proj1", "interactive": {"sessionId": "s1"}});
    let scope = Scope::Session { session_id: "s1".into() };
    assert_eq!(Platform::of_request(&session, "abc"), Some(Platform { scope, ..platform() }));
    assert_eq!(Platform::of_request(&json!({"orgId": "org1"}), "abc"), None);
}

#[test]
fn a_base_variable_has_its_layer() {
    struct Base;
    impl manifest::Bases for Base {
        fn find(&self, _: &str, _: &str) -> Result<Option<manifest::BaseFile>, Error> {
            let text = "apiVersion: interlock.dev/workspace/v1\nkind: WorkspaceManifest\nmetadata: {slug: b, version: 1.0.0}\n\
                        spec: {env: [{name: A, value: base}, {name: B, value: base}]}\n";
            Ok(Some(manifest::BaseFile { name: "b".into(), bytes: text.into(), format: Format::Yaml }))
        }
    }
    let text = "apiVersion: interlock.dev/workspace/v1\nkind: WorkspaceManifest\nextends: interlock://manifest/b@1.0.0\n\
                metadata: {slug: m, version: 1.0.0}\nspec: {agent: {slug: a, stage: s, role: engineer}, env: [{name: A, value: own}]}\n";
    let (manifest, _) = manifest::compile_with(text.as_bytes(), "m", Format::Yaml, &Base).unwrap();
    let bound = manifest.bind(Surface::Workflow, &Map::new(), Map::new()).unwrap();
    let outcome = resolve(&bound, &[], table(&[])).unwrap();
    let layers: Vec<(&str, &str)> =
        outcome.env.iter().take(2).map(|item| (item.name.as_str(), item.layer.as_str())).collect();
    assert_eq!(layers, [("A", "manifest"), ("B", "base-manifest")]);
}

#[test]
fn invalid_overlays_are_refused() {
    let bound = bound(json!({}));
    let large = "x".repeat(MAX_VALUE + 1);
    let half = "x".repeat(MAX_VALUE);
    let many: Vec<String> = (0..MAX_TOTAL / MAX_VALUE).map(|n| format!("V{n}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), half.as_str())).collect();
    let cases: [(&str, Overlay<'_>, Code, usize); 9] = [
        ("ours", &[("INTERLOCK_X", "1")], Code::EnvReservedName, 0),
        ("the older family", &[("XEMA_X", "1")], Code::EnvReservedName, 0),
        ("the path", &[("PATH", "1"), ("LD_PRELOAD", "1")], Code::EnvReservedName, 1),
        ("lower case", &[("lower", "1")], Code::ValidationError, 0),
        ("nothing", &[("", "1")], Code::ValidationError, 0),
        ("an assignment", &[("A=B", "1")], Code::ValidationError, 0),
        ("NUL", &[("A", "\0")], Code::ValidationError, 0),
        ("one too large", &[("A", &large)], Code::EnvValueTooLarge, 0),
        ("all too large", &many, Code::EnvValueTooLarge, 0),
    ];
    for (name, overlay, code, causes) in cases {
        let error = resolve(&bound, overlay, table(&[])).expect_err(name);
        assert_eq!((error.code(), error.causes().len()), (code, causes), "{name}: {error}");
    }
    resolve(&bound, &[("A", &half)], table(&[])).expect("the bound itself is within it");
}

#[test]
fn a_digest_depends_on_the_key_of_the_organisation_and_on_the_value() {
    let bound = bound(json!({}));
    let source: Arc<dyn SecretSource> = table(&[]);
    let digest = |key: &[u8], value: &str| {
        let overlay = [("A".to_owned(), value.to_owned())];
        environment::resolve(&bound, &overlay, &platform(), key, &source).unwrap().env[0]
            .digest
            .clone()
            .unwrap()
    };
    assert_eq!(
        digest(b"key", "what do ya want for nothing?"),
        digest(b"key", "what do ya want for nothing?")
    );
    assert_ne!(digest(b"key", "a"), digest(b"other", "a"));
    assert_ne!(digest(b"key", "a"), digest(b"key", "b"));
    // RFC 4231, test case 2.
    assert_eq!(digest(b"Jefe", "what do ya want for nothing?"), "5bdcc146bf60754e");
}
