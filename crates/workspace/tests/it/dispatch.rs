//! Validation of dispatches.

use serde_json::{Map, Value, json};
use workspace::compose::{RESERVED_CONTEXT_KEYS, Request, compose};
use workspace::dispatch::{DispatchRequest, Settled, Target, settle, takes};
use workspace::manifest::{Role, Surface};
use workspace::{Code, Error};

fn run() -> Value {
    json!({
        "idempotencyKey": "key-1", "orgId": "org1", "projectId": "proj1", "surface": "workflow",
        "workflowRun": {"runId": "run1", "jobRunId": "job1"}, "agentRef": "engineer@1.2.0", "manifestRef": "m@1.0.0",
        "role": "engineer", "inputs": {}, "agentContext": {"prompt": "x"}, "deliverableSpecRef": null, "deadlineMs": 60_000,
    })
}

fn session() -> Value {
    let mut body = run();
    body.as_object_mut().expect("an object").remove("workflowRun");
    body["interactive"] = json!({"sessionId": "s1", "turnGen": 2});
    body["surface"] = json!("agent-session");
    body["role"] = json!("agent-session");
    body
}

fn changed(mut body: Value, changes: &[(&str, Value)]) -> Value {
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        body.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}"))[key] = value.clone();
    }
    body
}

fn checked(body: &Value) -> Result<DispatchRequest, Error> {
    let target =
        Target { surface_compat: &[Surface::Workflow, Surface::AgentSession], check_inputs: &|_| Ok(()) };
    DispatchRequest::check(body, &target)
}

fn problems(error: &Error) -> Vec<Code> {
    std::iter::once(error.code()).chain(error.causes().iter().map(Error::code)).collect()
}

#[test]
fn a_valid_dispatch_can_be_composed() {
    let dispatch = checked(&run()).unwrap();
    assert_eq!(
        (dispatch.surface(), dispatch.role(), dispatch.deadline_ms()),
        (Surface::Workflow, Role::Engineer, 60_000)
    );
    assert_eq!(dispatch.idempotency_key(), "key-1");
    assert_eq!(dispatch.body(), &run());
    let mut request = dispatch.compose_request();
    request["manifest"] = json!({
        "slug": "m", "version": "1.0.0", "agent": {"slug": "engineer", "groupKey": "engineering"}, "mounts": {},
    });
    assert!(compose(&Request::from_value(request, &[]).unwrap(), None).is_ok());
    assert_eq!(checked(&session()).unwrap().surface(), Surface::AgentSession);
    let full = changed(
        run(),
        &[
            ("/model", json!({"kind": "strategy", "modelClass": "coding", "temperature": 0.2})),
            (
                "/subAgents",
                json!([{"slug": "qa", "alias": "tester", "modelOverride": {"kind": "concrete", "modelId": "m:x", "providerSlug": "p"}}]),
            ),
            (
                "/composition",
                json!({"limits": {"maxDepth": 8, "maxFanout": 32, "maxSpawns": 256}, "allowedSubAgents": ["qa"]}),
            ),
            ("/resumeFrom", json!({"projectId": "proj1", "runId": "run0"})),
            ("/snapshotRef", json!("sha256:00")),
            ("/envOverlay", json!({"A": "1"})),
            (
                "/briefcase",
                json!({
                    "uploads": [{"filename": "a.txt", "contentType": null, "artifact": {"artifactId": "a", "version": 1}}],
                    "references": [{"kind": "kb_page", "ref": "s/p/q", "title": "t"}], "vars": {"x": 1}, "mcpTools": [],
                }),
            ),
            (
                "/agentContext",
                json!({
                    "skills": ["a"], "inputsJsonBase64": "e30=", "kbPageMounts": [{"spaceId": "s", "pageSlugs": ["p"]}],
                    "deliverablesRef": ["x"], "inputArtifacts": [{"artifactId": "a", "version": 1, "fileName": "f", "slot": null}],
                }),
            ),
        ],
    );
    assert!(checked(&full).is_ok(), "{:?}", checked(&full));
}

#[test]
fn single_mistakes_and_their_codes() {
    let invalid = Code::DispatchInvalid;
    let bad_context = Code::DispatchBadContext;
    let deep = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let cases: Vec<(&str, Value, Code)> = vec![
        // Case 57, and the other ids.
        ("/orgId", json!("a:b"), invalid),
        ("/orgId", json!(""), invalid),
        ("/orgId", json!("x".repeat(129)), invalid),
        ("/orgId", json!("a\nb"), invalid),
        ("/orgId", json!(5), invalid),
        ("/projectId", json!(null), invalid),
        ("/idempotencyKey", json!("a:b"), invalid),
        ("/workflowRun/runId", json!("a:b"), invalid),
        ("/workflowRun/jobRunId", json!(""), invalid),
        ("/workflowRun", json!(5), invalid),
        ("/agentRef", json!("engineer@"), invalid),
        ("/agentRef", json!("@1.0.0"), invalid),
        ("/agentRef", json!("a@b@c"), invalid),
        ("/agentRef", json!("a:b"), invalid),
        ("/manifestRef", json!("m"), invalid),
        ("/surface", json!("web"), invalid),
        ("/surface", json!("agent-session"), invalid),
        ("/role", json!("boss"), invalid),
        ("/role", json!("brainstorming"), Code::DispatchRoleSurface),
        ("/role", json!("agent-session"), Code::DispatchRoleSurface),
        ("/inputs", json!([]), invalid),
        ("/deadlineMs", json!(999), invalid),
        ("/deadlineMs", json!(604_800_001), invalid),
        ("/deadlineMs", json!(1000.5), invalid),
        ("/deadlineMs", json!(null), invalid),
        ("/deliverableSpecRef", json!(5), invalid),
        ("/model", json!({"kind": "best"}), invalid),
        ("/model", json!({"kind": "strategy", "modelClass": "poetry"}), invalid),
        ("/model", json!({"kind": "concrete"}), invalid),
        ("/model", json!({"kind": "concrete", "modelId": ""}), invalid),
        ("/model", json!({"kind": "concrete", "modelId": "m", "temperature": 2.1}), invalid),
        ("/subAgents", json!([{"slug": "a:b"}]), invalid),
        ("/subAgents", json!({}), invalid),
        ("/composition", json!({"limits": {"maxDepth": 9}}), invalid),
        ("/composition", json!({"limits": {"maxFanout": 33}}), invalid),
        ("/composition", json!({"limits": {"maxSpawns": 257}}), invalid),
        ("/composition", json!({"limits": {"maxSpawns": -1}}), invalid),
        ("/composition", json!({"allowedSubAgents": [""]}), invalid),
        ("/resumeFrom", json!({"projectId": "other", "runId": "r"}), invalid),
        ("/resumeFrom", json!({"projectId": "proj1"}), invalid),
        ("/snapshotRef", json!(""), invalid),
        ("/envOverlay", json!({"A": 1}), invalid),
        ("/breifcase", json!({}), invalid),
        ("/briefcase", json!([]), invalid),
        (
            "/briefcase",
            json!({"uploads": [{"filename": "..", "artifact": {"artifactId": "a", "version": 1}}]}),
            invalid,
        ),
        (
            "/briefcase",
            json!({"uploads": [{"filename": "x", "artifact": {"artifactId": "a", "version": 0}}]}),
            invalid,
        ),
        ("/briefcase", json!({"vars": vec![0]}), invalid),
        ("/agentContext", json!([]), bad_context),
        ("/agentContext", json!(null), bad_context),
        ("/agentContext", json!({"x": "y".repeat(1 << 20)}), bad_context),
        ("/agentContext", json!({"x": deep(32)}), bad_context),
        ("/agentContext", json!({"__proto__": 1}), bad_context),
        ("/agentContext", json!({"a": [{"__proto__": 1}]}), bad_context),
        ("/agentContext", json!({"skills": "a"}), bad_context),
        ("/agentContext", json!({"skills": [1]}), bad_context),
        ("/agentContext", json!({"inputsJsonBase64": "e30"}), bad_context),
        ("/agentContext", json!({"inputsJsonBase64": "bm8="}), bad_context),
        (
            "/agentContext",
            json!({"inputArtifacts": [{"artifactId": "a", "version": 0, "fileName": "f"}]}),
            bad_context,
        ),
        (
            "/agentContext",
            json!({"inputArtifacts": [{"artifactId": "a", "version": 1, "fileName": "../f"}]}),
            bad_context,
        ),
        ("/agentContext", json!({"kbPageMounts": [{"pageSlugs": []}]}), bad_context),
    ];
    for (pointer, value, code) in cases {
        let refused = checked(&changed(run(), &[(pointer, value.clone())])).expect_err(pointer);
        assert_eq!(
            problems(&refused),
            [code],
            "{pointer} {}",
            value.to_string().chars().take(80).collect::<String>()
        );
    }
    assert!(checked(&changed(run(), &[("/agentContext", json!({"x": deep(31)}))])).is_ok(), "32 levels");
    for pointer in RESERVED_CONTEXT_KEYS {
        let refused =
            checked(&changed(run(), &[(&format!("/agentContext/{pointer}"), json!(5))])).expect_err(pointer);
        assert_eq!(refused.code(), bad_context, "{pointer}");
        assert_eq!(refused.details()["pointer"], format!("/agentContext/{pointer}"));
        assert!(
            checked(&changed(run(), &[(&format!("/agentContext/{pointer}"), json!(null))])).is_ok(),
            "{pointer}"
        );
    }
    for nothing in [json!(null), json!([]), json!("x")] {
        assert_eq!(checked(&nothing).unwrap_err().code(), invalid);
    }
    assert_eq!(checked(&deep(200)).unwrap_err().code(), Code::LimitExceeded);
}

#[test]
fn a_session_must_not_have_run_only_members() {
    let cases = [
        ("/deliverableSpecRef", json!("x"), 1),
        ("/deliverableSpecRef", json!(null), 0),
        ("/agentContext/deliverableSpecRef", json!(null), 1),
        ("/agentContext/deliverablesRef", json!([]), 1),
        ("/agentContext/inputArtifacts", json!([{"artifactId": "a", "version": 1, "fileName": "f"}]), 1),
        ("/agentContext/inputArtifacts", json!([]), 0),
        ("/interactive/turnGen", json!(-1), 1),
        ("/workflowRun", json!({"runId": "r", "jobRunId": "j"}), 1),
    ];
    for (pointer, value, count) in cases {
        let result = checked(&changed(session(), &[(pointer, value.clone())]));
        let found = result.err().map(|error| problems(&error)).unwrap_or_default();
        assert_eq!(found, vec![Code::DispatchInvalid; count], "{pointer} {value}");
    }
}

#[test]
fn all_problems_are_reported_in_check_order() {
    let body = json!({
        "idempotencyKey": "", "orgId": "a:b", "projectId": "p", "agentRef": "a", "surface": "workflow",
        "workflowRun": {"runId": "r", "jobRunId": "j"}, "role": "brainstorming", "agentContext": {"skills": 5, "repoRef": 5},
        "briefcase": {"references": [{"kind": "artifact", "ref": "a@x"}]}, "deadlineMs": 0, "more": 1,
    });
    let target = Target {
        surface_compat: &[Surface::AgentSession],
        check_inputs: &|_: &Map<String, Value>| {
            Err(Error::new(Code::BindInputMissing, "x").caused_by([Error::new(Code::BindInputInvalid, "y")]))
        },
    };
    let refused = DispatchRequest::check(&body, &target).unwrap_err();
    let expected = [
        Code::DispatchInvalid,
        Code::DispatchInvalid,
        Code::SurfaceIncompatible,
        Code::DispatchRoleSurface,
        Code::BindInputMissing,
        Code::BindInputInvalid,
        Code::DispatchBadContext,
        Code::DispatchBadContext,
        Code::DispatchInvalid,
        Code::DispatchInvalid,
        Code::DispatchInvalid,
    ];
    assert_eq!(problems(&refused), expected);
}

#[test]
fn references_are_read_strictly() {
    let cases = [
        ("kb_space", "s", true),
        ("kb_space", "", false),
        ("kb_space", "s/x", false),
        ("kb_page", "s/p", true),
        ("kb_page", "s/p/q", true),
        ("kb_page", "s", false),
        ("kb_page", "/p", false),
        ("kb_page", "s/", false),
        ("kb_page", "s//p", false),
        ("artifact", "a@3", true),
        ("artifact", "a@b@3", false),
        ("artifact", "a@3abc", false),
        ("artifact", "a@ 3", false),
        ("artifact", "a@+3", false),
        ("artifact", "a@0", false),
        ("artifact", "a@1.0", false),
        ("artifact", "a@", false),
        ("artifact", "@3", false),
        ("artifact", "a@9007199254740993", false),
        ("artifact", "a@99999999999999999999999", false),
        ("scm_repo", "o/r", true),
        ("scm_repo", "o/r@main", true),
        // Case 25.
        ("scm_repo", "git@h:o/r", false),
        ("scm_repo", "o/r@", false),
        ("scm_repo", "@main", false),
        ("scm_repo", "o/r@a@b", false),
        ("scm_repo", "https://h/o/r@main", true),
        ("external_url", "https://example.org", true),
        ("external_url", "", false),
        ("kb_space", "a\u{0}", false),
        ("ftp", "x", false),
    ];
    for (kind, text, is_right) in cases {
        let body = changed(run(), &[("/briefcase", json!({"references": [{"kind": kind, "ref": text}]}))]);
        match checked(&body) {
            Ok(_) => assert!(is_right, "{kind} {text}"),
            Err(refused) => {
                assert!(!is_right, "{kind} {text}: {refused}");
                assert_eq!(problems(&refused), [Code::DispatchInvalid]);
                assert_eq!(refused.details()["pointer"], "/briefcase/references/0");
            }
        }
    }
}

#[test]
fn the_briefcase_is_limited() {
    let upload = json!({"filename": "x", "contentType": null, "artifact": {"artifactId": "a", "version": 1}});
    let reference = json!({"kind": "kb_space", "ref": "s"});
    let vars = |count: usize| -> Value {
        Value::Object((0..count).map(|index| (index.to_string(), json!(1))).collect())
    };
    let cases = [
        ("uploads", json!(vec![upload.clone(); 200]), json!(vec![upload; 201])),
        ("references", json!(vec![reference.clone(); 500]), json!(vec![reference; 501])),
        ("vars", vars(100), vars(101)),
    ];
    for (key, most, more) in cases {
        assert!(checked(&changed(run(), &[("/briefcase", json!({key: most}))])).is_ok(), "{key}");
        let refused = checked(&changed(run(), &[("/briefcase", json!({key: more}))])).expect_err(key);
        assert_eq!(problems(&refused), [Code::DispatchInvalid], "{key}");
    }
}

#[test]
fn roles_and_surfaces() {
    let taken = |surface: Surface| -> Vec<&str> {
        Role::ALL.iter().filter(|role| takes(surface, **role)).map(|role| role.as_str()).collect()
    };
    let of_runs = [
        "unit-worker",
        "coordinator",
        "engineer",
        "auditor",
        "generic-agent",
        "gate-reviewer",
        "clarification-coordinator",
        "scope-validator",
    ];
    assert_eq!(taken(Surface::Workflow), of_runs);
    let of_sessions = [
        "coordinator",
        "engineer",
        "generic-agent",
        "clarification-coordinator",
        "agent-session",
        "brainstorming",
    ];
    assert_eq!(taken(Surface::AgentSession), of_sessions);
    for role in Role::ALL {
        for (body, surface) in [(run(), Surface::Workflow), (session(), Surface::AgentSession)] {
            let result = checked(&changed(body, &[("/role", json!(role.as_str()))]));
            match result {
                Ok(_) => assert!(takes(surface, *role), "{role} {surface}"),
                Err(refused) => {
                    assert!(!takes(surface, *role) && problems(&refused) == [Code::DispatchRoleSurface]);
                }
            }
        }
    }
}

#[test]
fn an_idempotency_key_is_for_one_request() {
    let first = checked(&run()).unwrap();
    assert_eq!(settle(None, &first), Ok(Settled::New));
    let one = checked(&changed(run(), &[("/agentContext/n", json!(1))])).unwrap();
    let the_same = checked(&changed(run(), &[("/agentContext/n", json!(1.0))])).unwrap();
    assert_eq!(
        settle(Some(one.digest()), &the_same),
        Ok(Settled::Repeated),
        "another spelling, the same body"
    );
    let other = checked(&changed(run(), &[("/deadlineMs", json!(60_001))])).unwrap();
    let refused = settle(Some(first.digest()), &other).unwrap_err();
    assert_eq!(refused.code(), Code::DispatchIdempotencyConflict);
    assert_eq!(refused.details()["recorded"], first.digest());
}
