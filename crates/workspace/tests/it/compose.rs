//! Composing, case by case.

mod briefcase;
mod identity;
mod refusals;
mod slots;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use workspace::compose::{Request, RequestError, TemplateResolver, compose, tree};
use workspace::plan::{Entry, MountPlan, ValidPlan};
use workspace::slot::{Mode, Slot};
use workspace::{Code, Error};

/// Request A of the specification.
pub(crate) fn base() -> Value {
    json!({
        "orgId": "org1", "projectId": "proj1", "agentContext": {}, "agentOverrides": {"role": "engineer"},
        "workflowRun": {"runId": "run1", "jobRunId": "job1"},
        "manifest": {
            "slug": "m", "version": "1.0.0",
            "agent": {"slug": "engineer", "groupKey": "engineering", "role": "engineer"},
            "mounts": {}, "seedFiles": [], "env": [], "requiredTemplateNames": [],
        },
    })
}

/// Request B: the same for a session.
fn session() -> Value {
    let mut request = base();
    request.as_object_mut().expect("an object").remove("workflowRun");
    request["interactive"] = json!({"sessionId": "s1"});
    request["agentOverrides"]["role"] = json!("agent-session");
    request
}

/// The request with changes: a JSON pointer and a value.
fn changed(mut request: Value, changes: &[(&str, Value)]) -> Value {
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        request.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}"))[key] = value.clone();
    }
    request
}

fn enabled(mode: Option<&str>) -> Value {
    match mode {
        Some(mode) => json!({"enabled": true, "mode": mode, "config": {}}),
        None => json!({"enabled": true, "config": {}}),
    }
}

fn composed(request: &Value) -> Result<MountPlan, Error> {
    composed_with(request, None)
}

/// Through a file, to include the reader.
fn composed_with(request: &Value, templates: Option<&dyn TemplateResolver>) -> Result<MountPlan, Error> {
    compose(&Request::read(request.to_string().as_bytes()).expect("JSON"), templates)
}

fn keys(plan: &MountPlan) -> Vec<&str> {
    plan.entries.iter().map(|entry| entry.mount_key.as_str()).collect()
}

/// The keys after the five of every plan.
fn added(plan: &MountPlan) -> Vec<&str> {
    keys(plan).split_off(5)
}

fn entry<'a>(plan: &'a MountPlan, key: &str) -> &'a Entry {
    plan.entries
        .iter()
        .find(|entry| entry.mount_key == key)
        .unwrap_or_else(|| panic!("{key} in {:?}", keys(plan)))
}

fn source(plan: &MountPlan, key: &str) -> Value {
    json!(entry(plan, key).source)
}

fn params(plan: &MountPlan) -> Value {
    source(plan, "agents-md")
}

fn refused(request: &Value) -> Error {
    composed(request).expect_err(&request.to_string())
}

#[test]
fn every_plan_starts_with_the_platform_slots() {
    // Case 1.
    let plan = composed(&base()).unwrap();
    assert_eq!(
        keys(&plan),
        ["agents-md", "context-json", "system-overlay", "tmp:seed", "agent-bundle:engineer"]
    );
    let expected = json!({
        "applyId": "3863925d34dfe759afd55fc5872d8915341442222944ec168dce4e8e0d6b0697",
        "entries": [
            {"mountKey": "agents-md", "slot": "/workspace/AGENTS.md", "relPath": "", "mode": "read-only", "source": {
                "kind": "rendered-agents-md", "orgId": "org1", "projectId": "proj1", "agentSlug": "engineer",
                "groupKey": "engineering", "role": "engineer", "runId": "run1", "jobRunId": "job1"}},
            {"mountKey": "context-json", "slot": "/workspace/context.json", "relPath": "", "mode": "read-only", "source": {
                "kind": "rendered-context-json", "orgId": "org1", "projectId": "proj1", "agentSlug": "engineer",
                "groupKey": "engineering", "role": "engineer", "runId": "run1", "jobRunId": "job1"}},
            {"mountKey": "system-overlay", "slot": "/workspace/.opencode/system-overlay.md", "relPath": "",
             "mode": "read-only", "source": {
                "kind": "rendered-system-overlay", "orgId": "org1", "projectId": "proj1", "agentSlug": "engineer",
                "groupKey": "engineering", "role": "engineer", "runId": "run1", "jobRunId": "job1"}},
            {"mountKey": "tmp:seed", "slot": "/workspace/tmp", "relPath": ".keep", "mode": "read-write", "source": {
                "kind": "static-literal", "pathWithinWorkspace": "tmp/.keep", "bytes": ""}},
            {"mountKey": "agent-bundle:engineer", "slot": "/workspace/.opencode/agents", "relPath": "engineer.md",
             "mode": "read-only", "source": {
                "kind": "agent-definition", "orgId": "org1", "agentSlug": "engineer", "groupKey": "engineering",
                "agentMode": "primary"}},
        ],
    });
    assert_eq!(plan.to_value(), expected);
    assert!(ValidPlan::check(&plan.to_value(), None, false).is_ok());
}

#[test]
fn a_session_has_no_workflow_facts() {
    // Case 3.
    let plan = composed(&changed(session(), &[("/agentContext/prompt", json!("x"))])).unwrap();
    let params = params(&plan);
    assert_eq!(params["sessionId"], "s1");
    for key in ["runId", "jobRunId", "workflowInputs"] {
        assert!(params.get(key).is_none(), "{key}");
    }
}

#[test]
fn the_spec_ref_is_the_first_non_empty_one() {
    // Case 9, and what null means.
    let (over, manifest, context) = (
        "/agentOverrides/deliverableSpecRef",
        "/manifest/agent/deliverableSpecRef",
        "/agentContext/deliverableSpecRef",
    );
    let cases = [
        (vec![(over, json!("a")), (manifest, json!("b")), (context, json!("c"))], Some(json!("a"))),
        (vec![(manifest, json!("b")), (context, json!("c"))], Some(json!("b"))),
        (vec![(over, json!(null)), (manifest, json!(null)), (context, json!("c"))], Some(json!("c"))),
        (vec![(over, json!("")), (manifest, json!("b"))], Some(json!(""))),
        (vec![(context, json!(null))], Some(json!(null))),
        (vec![(over, json!(null)), (manifest, json!(null))], None),
        (vec![], None),
    ];
    for (changes, expected) in cases {
        let request =
            changed(changed(base(), &changes), &[("/manifest/mounts/deliverable-specs", enabled(None))]);
        let plan = composed(&request).unwrap();
        assert_eq!(params(&plan).get("deliverableSpecRef"), expected.as_ref(), "{changes:?}");
        let mounted = match expected.as_ref().and_then(Value::as_str) {
            Some(key) if !key.is_empty() => vec![format!("deliverable-specs:{key}")],
            _ => vec![],
        };
        assert_eq!(added(&plan), mounted, "{changes:?}");
    }
}

#[test]
fn agents_skills_and_instructions() {
    // Case 10: twice, and validating makes it once.
    let plan =
        composed(&changed(base(), &[("/agentContext/delegatedSubAgents", json!(["engineer", "qa", "qa"]))]))
            .unwrap();
    assert_eq!(added(&plan), ["agent-bundle:qa", "agent-bundle:qa"]);
    assert_eq!(source(&plan, "agent-bundle:qa")["agentMode"], "subagent");
    assert_eq!(source(&plan, "agent-bundle:qa")["groupKey"], "engineering");
    assert_eq!(ValidPlan::check(&plan.to_value(), None, false).unwrap().entries().len(), 6);

    // Case 11.
    let skills = [("/systemSkillSlugs", json!(["s"])), ("/agentContext/skills", json!(["a", "s", "a"]))];
    let plan = composed(&changed(base(), &skills)).unwrap();
    assert_eq!(added(&plan), ["skill-bundle:s", "skill-command:s", "skill-bundle:a", "skill-command:a"]);

    // Case 12.
    let plan = composed(&changed(base(), &[("/agentContext/skills", json!(["code-review"]))])).unwrap();
    let command = source(&plan, "skill-command:code-review");
    let body = STANDARD.decode(command["bytes"].as_str().unwrap()).unwrap();
    assert_eq!(body.len(), 134);
    let digest = canon::digest::Digest::of_bytes(&body).to_hex();
    assert_eq!(digest, "59000725a2a957d2de3e687f3bd2a81e255f0879fb8d4981165baeee0dd3f881");
    assert_eq!(command["pathWithinWorkspace"], ".opencode/command/code-review.md");
    assert_eq!(entry(&plan, "skill-command:code-review").rel_path, "code-review.md");
    assert_eq!(entry(&plan, "skill-bundle:code-review").rel_path, "code-review");

    let plan = composed(&changed(base(), &[("/agentContext/instructions", json!(["x", "y", "x"]))])).unwrap();
    assert_eq!(added(&plan), ["instruction:x", "instruction:y"]);
    let expected = json!({
        "kind": "instruction-section", "orgId": "org1", "sectionKey": "x", "agentSlug": "engineer", "groupKey": "engineering",
    });
    assert_eq!(source(&plan, "instruction:x"), expected);
}

#[test]
fn workflow_inputs_are_the_remaining_context_keys() {
    // Case 13.
    let plan = composed(&changed(
        base(),
        &[("/agentContext", json!({"prompt": "p", "nothing": null, "skills": []}))],
    ))
    .unwrap();
    assert_eq!(params(&plan)["workflowInputs"], json!({"prompt": "p", "nothing": null}));
    let reserved = json!({
        "delegatedSubAgents": [], "skills": [], "instructions": [], "inputsJsonBase64": "", "kbSpaceIds": [],
        "kbPageMounts": [], "externalProjectIds": [], "repoRef": "", "repoRevision": "", "deliverableSpecRef": "",
        "deliverablesRef": "", "sessionId": "", "inputArtifacts": [],
    });
    assert_eq!(reserved.as_object().unwrap().len(), workspace::compose::RESERVED_CONTEXT_KEYS.len());
    let plan = composed(&changed(base(), &[("/agentContext", reserved)])).unwrap();
    assert!(params(&plan).get("workflowInputs").is_none());
    let proto = json!({"__proto__": {"a": 1}, "deep": {"__proto__": 1}});
    let plan = composed(&changed(base(), &[("/agentContext", proto)])).unwrap();
    assert_eq!(
        params(&plan)["workflowInputs"],
        json!({"deep": {"__proto__": 1}}),
        "it vanishes from the top only"
    );
}

fn artifact(file_name: &str) -> Value {
    json!({"artifactId": "a1", "version": 2, "fileName": file_name})
}

struct Theme;

impl TemplateResolver for Theme {
    fn resolve(&self, name: &str, vars: &Map<String, Value>) -> Result<String, Error> {
        match name {
            "t" => Ok(format!("t={}", vars.get("theme").and_then(Value::as_str).unwrap_or("?"))),
            _ => Err(Error::new(Code::TemplateNotFound, format!("there is no template `{name}`"))),
        }
    }
}

#[test]
fn seed_files_are_literals_and_rendered_templates() {
    let seed = |slot: &str, source: Value| json!({"slot": slot, "relPath": "d/x.css", "source": source});
    let with_seeds = |seeds: Value| changed(base(), &[("/manifest/seedFiles", seeds)]);
    let template = |name: &str| json!({"kind": "template", "name": name, "vars": {"theme": "dark"}});

    // Case 26: also when no seed file uses it.
    let required = changed(base(), &[("/manifest/requiredTemplateNames", json!(["t"]))]);
    assert_eq!(refused(&required).code(), Code::ComposeTemplateResolverMissing);
    assert!(composed_with(&required, Some(&Theme)).is_ok());
    // And when it is not listed.
    let unlisted = with_seeds(json!([seed("deliverables", template("t"))]));
    assert_eq!(refused(&unlisted).code(), Code::ComposeTemplateResolverMissing);

    // Case 27.
    let error = refused(&with_seeds(json!([seed("nope", template("t"))])));
    assert_eq!((error.code(), &error.details()["site"]), (Code::UnknownSlot, &json!("manifest.seedFiles")));

    // Case 28: the slot need not be enabled.
    let plan = composed_with(&unlisted, Some(&Theme)).unwrap();
    let key = "seed:deliverables:d/x.css";
    let expected = json!({"kind": "static-literal", "pathWithinWorkspace": "d/x.css", "bytes": STANDARD.encode("t=dark")});
    assert_eq!(source(&plan, key), expected);
    assert_eq!(
        (entry(&plan, key).slot.as_str(), entry(&plan, key).mode),
        ("/workspace/deliverables", Mode::ReadOnly)
    );

    let inline =
        with_seeds(json!([seed("inputs", json!({"kind": "inline", "bytesBase64": "not checked here"}))]));
    assert_eq!(source(&composed(&inline).unwrap(), "seed:inputs:d/x.css")["bytes"], "not checked here");

    // The first failing seed is reported, and the resolver's error is passed on.
    let two = with_seeds(json!([seed("inputs", template("missing")), seed("nope", template("t"))]));
    assert_eq!(composed_with(&two, Some(&Theme)).unwrap_err().code(), Code::TemplateNotFound);
}

#[test]
fn working_files_are_renderer_parameters() {
    let file = json!({"slug": "w", "path": "deliverables/w.md", "format": "markdown", "syncDirection": "bidirectional", "sourceKind": "doc", "sourceRef": {"id": "1"}, "more": 1});
    let plan = composed(&changed(base(), &[("/manifest/workingFiles", json!([file]))])).unwrap();
    let expected = json!([{"slug": "w", "path": "deliverables/w.md", "format": "markdown", "syncDirection": "bidirectional", "sourceKind": "doc", "sourceRef": {"id": "1"}}]);
    assert_eq!(params(&plan)["workingFiles"], expected);
    for nothing in [json!([]), json!(null)] {
        let plan = composed(&changed(base(), &[("/manifest/workingFiles", nothing)])).unwrap();
        assert!(params(&plan).get("workingFiles").is_none());
    }
}

#[test]
fn the_tree_lists_all_mounts_and_empty_slots() {
    let mounts = json!({"inputs": enabled(None), "deliverables": enabled(None), "references": enabled(None)});
    let context = json!({"inputsJsonBase64": "e30=", "kbSpaceIds": ["k"]});
    let plan =
        composed(&changed(base(), &[("/manifest/mounts", mounts), ("/agentContext", context)])).unwrap();
    let shown: Vec<String> = tree::tree(&plan)
        .into_iter()
        .map(|node| {
            format!(
                "{} {} {}",
                node.path,
                node.mode,
                node.kind.map_or("-", workspace::plan::SourceKind::as_str)
            )
        })
        .collect();
    let expected = [
        ".opencode/agents/engineer.md read-only agent-definition",
        ".opencode/system-overlay.md read-only rendered-system-overlay",
        "AGENTS.md read-only rendered-agents-md",
        "context.json read-only rendered-context-json",
        "deliverables/ read-write -",
        "inputs/inputs.json read-only static-literal",
        "references/kb/k/ read-only kb-space",
        "tmp/.keep read-write static-literal",
    ];
    assert_eq!(shown, expected);
}
