//! Refusals and their order.

use super::*;

#[test]
fn a_request_is_for_exactly_one_of_run_and_session() {
    // Case 2. Null counts as given, and names no surface.
    let run = json!({"runId": "r", "jobRunId": "j"});
    let session = json!({"sessionId": "s"});
    let cases = [
        ("neither", None, None, false),
        ("both", Some(run.clone()), Some(session.clone()), false),
        ("a run", Some(run.clone()), None, true),
        ("a session", None, Some(session.clone()), true),
        ("a run beside null", Some(run), Some(Value::Null), false),
        ("a session beside null", Some(Value::Null), Some(session), false),
        ("null for a run", Some(Value::Null), None, false),
        ("null for a session", None, Some(Value::Null), false),
        ("null for both", Some(Value::Null), Some(Value::Null), false),
    ];
    for (name, run, session, is_right) in cases {
        let mut request = base();
        request.as_object_mut().unwrap().remove("workflowRun");
        for (key, value) in [("workflowRun", run), ("interactive", session)] {
            if let Some(value) = value {
                request[key] = value;
            }
        }
        match composed(&request) {
            Ok(_) => assert!(is_right, "{name}"),
            Err(error) => assert!(!is_right && error.code() == Code::ComposeSurfaceXor, "{name}: {error}"),
        }
    }
}

#[test]
fn the_role_must_be_given_by_the_caller() {
    // Case 6.
    let mut without = base();
    without.as_object_mut().unwrap().remove("agentOverrides");
    assert_eq!(refused(&without).code(), Code::ComposeRoleRequired);
    for overrides in [json!(null), json!({}), json!({"role": null})] {
        let error = refused(&changed(base(), &[("/agentOverrides", overrides.clone())]));
        assert_eq!(error.code(), Code::ComposeRoleRequired, "{overrides}");
    }
    let any = composed(&changed(base(), &[("/agentOverrides/role", json!("brainstorming"))])).unwrap();
    assert_eq!(params(&any)["role"], "brainstorming", "any role passes here; dispatch judges it");
}

#[test]
fn run_only_members_are_refused_for_sessions() {
    let artifact = json!([{"artifactId": "a", "version": 1, "fileName": "f"}]);
    let artifacts = Some(Code::ComposeWorkflowOnlyInputArtifacts);
    let deliverables = Some(Code::ComposeWorkflowOnlyDeliverables);
    let cases = [
        // Case 7.
        ("/agentContext/inputArtifacts", json!([]), None),
        ("/agentContext/inputArtifacts", json!(null), None),
        ("/agentContext/inputArtifacts", artifact.clone(), artifacts),
        // Case 8: presence counts.
        ("/agentContext/deliverablesRef", json!([]), deliverables),
        ("/agentContext/deliverablesRef", json!(null), deliverables),
        ("/agentContext/deliverablesRef", json!(""), deliverables),
        ("/agentContext/deliverableSpecRef", json!(null), deliverables),
        ("/agentContext/deliverableSpecRef", json!("x"), deliverables),
        ("/agentOverrides/deliverableSpecRef", json!(null), deliverables),
        ("/agentOverrides/deliverableSpecRef", json!("x"), deliverables),
        ("/manifest/agent/deliverableSpecRef", json!(null), deliverables),
        ("/manifest/agent/deliverableSpecRef", json!("x"), deliverables),
    ];
    for (pointer, value, expected) in cases {
        let code = composed(&changed(session(), &[(pointer, value.clone())])).err().map(|error| error.code());
        assert_eq!(code, expected, "{pointer} {value}");
    }
    let without_role =
        changed(session(), &[("/agentContext/inputArtifacts", artifact), ("/agentOverrides", json!(null))]);
    assert_eq!(Some(refused(&without_role).code()), artifacts, "also when the role is missing");
}

#[test]
fn the_first_failure_wins_in_the_order_of_the_checks() {
    let artifact = json!([{"artifactId": "a", "version": 1, "fileName": "..", "slot": "nope"}]);
    // Each row adds a mistake that is found before all earlier rows, and includes all of theirs.
    let run = [
        ("an unknown slot of a seed", "/manifest/seedFiles", json!([{"slot": "nope"}]), Code::UnknownSlot),
        ("templates", "/manifest/requiredTemplateNames", json!(["t"]), Code::ComposeTemplateResolverMissing),
        (
            "a bad reference",
            "/briefcase",
            json!({"references": [{"kind": "x", "ref": ""}]}),
            Code::ComposeBadReference,
        ),
        (
            "a bad upload, declared before",
            "/briefcase/uploads",
            json!([{"filename": "..", "artifact": {"artifactId": "a", "version": 1}}]),
            Code::ComposeInvalidFileName,
        ),
        ("a slot that is not enabled", "/agentContext/inputArtifacts", artifact, Code::ComposeSlotNotEnabled),
        ("an unknown mount", "/manifest/mounts/zzz", json!({"enabled": true}), Code::UnknownSlot),
        ("no role", "/agentOverrides", json!(null), Code::ComposeRoleRequired),
        ("two surfaces", "/interactive", json!({"sessionId": "s"}), Code::ComposeSurfaceXor),
    ];
    let mut request = changed(
        base(),
        &[("/manifest/mounts", json!({"references": enabled(None), "uploads": enabled(None)}))],
    );
    for (name, pointer, value, code) in run {
        request = changed(request, &[(pointer, value)]);
        let order = ["uploads".to_owned(), "references".to_owned()];
        let error = compose(&Request::from_value(request.clone(), &order).unwrap(), None).unwrap_err();
        assert_eq!(error.code(), code, "{name}");
    }
    let session_rows = [
        ("an unknown mount", "/manifest/mounts/zzz", json!({"enabled": true}), Code::UnknownSlot),
        ("no role", "/agentOverrides", json!(null), Code::ComposeRoleRequired),
        ("deliverables", "/agentContext/deliverablesRef", json!(null), Code::ComposeWorkflowOnlyDeliverables),
        ("artifacts", "/agentContext/inputArtifacts", json!([1]), Code::ComposeWorkflowOnlyInputArtifacts),
        ("two surfaces", "/workflowRun", json!(null), Code::ComposeSurfaceXor),
    ];
    let mut request = session();
    for (name, pointer, value, code) in session_rows {
        request = changed(request, &[(pointer, value)]);
        assert_eq!(refused(&request).code(), code, "{name} of a session");
    }
    // Within the artifacts: in order, and the slot before the name.
    let inputs = ("/manifest/mounts/inputs", enabled(None));
    let artifacts = json!([{"artifactId": "a", "version": 1, "fileName": ".."}, {"artifactId": "a", "version": 1, "fileName": "x", "slot": "nope"}]);
    let error = refused(&changed(base(), &[("/agentContext/inputArtifacts", artifacts), inputs]));
    assert_eq!(error.code(), Code::ComposeInvalidFileName);
}

#[test]
fn members_of_the_wrong_type_are_refused_with_their_pointer() {
    let all: Map<String, Value> =
        Slot::ALL[8..].iter().map(|slot| (slot.key().to_owned(), enabled(None))).collect();
    let request = changed(base(), &[("/manifest/mounts", Value::Object(all))]);
    let cases = [
        ("/orgId", json!(5), "/orgId"),
        ("/projectId", json!(null), "/projectId"),
        ("/agentContext", json!([]), "/agentContext"),
        ("/manifest", json!("m"), "/manifest"),
        ("/manifest/slug", json!(1), "/manifest/slug"),
        ("/manifest/agent", json!(null), "/manifest/agent"),
        ("/manifest/agent/slug", json!({}), "/manifest/agent/slug"),
        ("/manifest/agent/groupKey", json!(null), "/manifest/agent/groupKey"),
        ("/manifest/mounts", json!([]), "/manifest/mounts"),
        ("/manifest/mounts/inputs", json!(true), "/manifest/mounts/inputs"),
        ("/manifest/mounts/a~b", json!(null), "/manifest/mounts/a~0b"),
        ("/manifest/mounts/inputs/enabled", json!("yes"), "/manifest/mounts/inputs/enabled"),
        ("/manifest/mounts/inputs/mode", json!("rw"), "/manifest/mounts/inputs/mode"),
        ("/manifest/seedFiles", json!({}), "/manifest/seedFiles"),
        (
            "/manifest/seedFiles",
            json!([{"slot": "inputs", "relPath": "x", "source": {"kind": "url"}}]),
            "/manifest/seedFiles/0/source/kind",
        ),
        ("/manifest/requiredTemplateNames", json!([1]), "/manifest/requiredTemplateNames/0"),
        ("/manifest/workingFiles", json!([{"slug": 1}]), "/manifest/workingFiles/0/slug"),
        ("/agentOverrides", json!("engineer"), "/agentOverrides"),
        ("/agentOverrides/role", json!(5), "/agentOverrides/role"),
        ("/workflowRun", json!("run1"), "/workflowRun"),
        ("/workflowRun/runId", json!(5), "/workflowRun/runId"),
        ("/systemSkillSlugs", json!("s"), "/systemSkillSlugs"),
        ("/briefcase", json!([]), "/briefcase"),
        ("/briefcase", json!({"uploads": {}}), "/briefcase/uploads"),
        ("/briefcase", json!({"uploads": [{"filename": 5}]}), "/briefcase/uploads/0/filename"),
        (
            "/briefcase",
            json!({"uploads": [{"filename": "x", "artifact": {"artifactId": "a", "version": "1"}}]}),
            "/briefcase/uploads/0/artifact/version",
        ),
        ("/agentContext/skills", json!(5), "/agentContext/skills"),
        ("/agentContext/skills", json!(["a", null]), "/agentContext/skills/1"),
        ("/agentContext/delegatedSubAgents", json!({}), "/agentContext/delegatedSubAgents"),
        ("/agentContext/instructions", json!("x"), "/agentContext/instructions"),
        ("/agentContext/inputsJsonBase64", json!(1), "/agentContext/inputsJsonBase64"),
        ("/agentContext/kbSpaceIds", json!([[]]), "/agentContext/kbSpaceIds/0"),
        ("/agentContext/kbPageMounts", json!([{"pageSlugs": ["p"]}]), "/agentContext/kbPageMounts/0/spaceId"),
        (
            "/agentContext/kbPageMounts",
            json!([{"spaceId": "s", "pageSlugs": [{}]}]),
            "/agentContext/kbPageMounts/0/pageSlugs/0",
        ),
        ("/agentContext/externalProjectIds", json!(true), "/agentContext/externalProjectIds"),
        ("/agentContext/repoRef", json!(["r"]), "/agentContext/repoRef"),
        ("/agentContext/deliverableSpecRef", json!(5), "/agentContext/deliverableSpecRef"),
        ("/agentContext/deliverablesRef", json!(5), "/agentContext/deliverablesRef"),
        ("/agentContext/deliverablesRef", json!(["x", 5]), "/agentContext/deliverablesRef/1"),
        ("/agentContext/sessionId", json!(5), "/agentContext/sessionId"),
        ("/agentContext/inputArtifacts", json!({}), "/agentContext/inputArtifacts"),
        (
            "/agentContext/inputArtifacts",
            json!([{"artifactId": "a", "version": "1", "fileName": "f"}]),
            "/agentContext/inputArtifacts/0/version",
        ),
        (
            "/agentContext/inputArtifacts",
            json!([{"artifactId": "a", "version": 1, "fileName": "f", "contentType": 5}]),
            "/agentContext/inputArtifacts/0/contentType",
        ),
    ];
    for (pointer, value, expected) in cases {
        let error = refused(&changed(request.clone(), &[(pointer, value.clone())]));
        assert_eq!(
            (error.code(), &error.details()["pointer"]),
            (Code::ValidationError, &json!(expected)),
            "{pointer} {value}"
        );
    }
    for nothing in [json!(null), json!([]), json!("x")] {
        assert_eq!(refused(&nothing).code(), Code::ValidationError, "{nothing}");
    }
    let error = refused(&changed(session(), &[("/interactive/turnGen", json!("3"))]));
    assert_eq!(error.details()["pointer"], "/interactive/turnGen");
}

#[test]
fn the_size_of_a_composed_plan_is_bounded() {
    let many: Vec<String> = (0..20_000).map(|index| index.to_string()).collect();
    let error = refused(&changed(base(), &[("/agentContext/skills", json!(many))]));
    assert_eq!(error.code(), Code::LimitExceeded, "more entries than a valid plan has");
    let error = refused(&changed(base(), &[("/orgId", json!("o".repeat(1025)))]));
    assert_eq!((error.code(), &error.details()["pointer"]), (Code::LimitExceeded, &json!("/orgId")));
    let deep = format!("{}{}", "[".repeat(129), "]".repeat(129));
    assert!(matches!(Request::read(deep.as_bytes()), Err(RequestError::Json(_))));
    let deepest = base().to_string().replace(
        r#""agentContext":{}"#,
        &format!(r#""agentContext":{{"x":{}{}}}"#, "[".repeat(126), "]".repeat(126)),
    );
    assert!(compose(&Request::read(deepest.as_bytes()).unwrap(), None).is_ok(), "as deep as the reader goes");
    let twice = br#"{"manifest": {"mounts": {"a": 1, "a": 2}}}"#;
    assert!(matches!(Request::read(twice), Err(RequestError::Json(_))), "a key twice has no order");
}
