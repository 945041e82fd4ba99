//! The contents of enabled slots.

use super::*;

#[test]
fn unknown_slots_are_refused_when_they_are_enabled() {
    // Case 14.
    let error = refused(&changed(base(), &[("/manifest/mounts/bogus", enabled(None))]));
    assert_eq!(error.code(), Code::UnknownSlot);
    let details = json!({"slotKey": "bogus", "site": "rendered.mounts", "manifestSlug": "m", "manifestVersion": "1.0.0"});
    assert_eq!(Value::Object(error.details().clone()), details);
    for off in [json!({"enabled": false}), json!({}), json!({"enabled": null, "mode": 5})] {
        assert!(composed(&changed(base(), &[("/manifest/mounts/bogus", off.clone())])).is_ok(), "{off}");
    }
    let near = refused(&changed(base(), &[("/manifest/mounts/input", enabled(None))]));
    assert!(near.message().contains("did you mean `inputs`?"), "{near}");
    // The platform's slots are in the table and accepted.
    let plan = composed(&changed(base(), &[("/manifest/mounts/tmp", enabled(None))])).unwrap();
    assert_eq!(params(&plan)["mounts"], json!([{"mount": "/workspace/tmp", "mode": "read-write"}]));
    assert_eq!(added(&plan), [""; 0]);
}

#[test]
fn input_artifacts_go_to_enabled_slots() {
    // Case 15.
    let error = refused(&changed(base(), &[("/agentContext/inputArtifacts", json!([artifact("x")]))]));
    assert_eq!(error.code(), Code::ComposeSlotNotEnabled);
    assert!(error.message().ends_with("enabled slots: (none)"), "{error}");
    let two = json!({"uploads": enabled(None), "references": enabled(None)});
    let request = changed(
        base(),
        &[("/agentContext/inputArtifacts", json!([artifact("x")])), ("/manifest/mounts", two)],
    );
    assert_eq!(refused(&request).details()["enabled"], "references, uploads");

    // Case 16.
    let inputs = ("/manifest/mounts/inputs", enabled(None));
    let request = changed(
        base(),
        &[("/agentContext/inputArtifacts", json!([artifact(" page.html ")])), inputs.clone()],
    );
    let plan = composed(&request).unwrap();
    assert_eq!(added(&plan), ["input-artifact:a1:v2:page.html"]);
    let mounted = entry(&plan, "input-artifact:a1:v2:page.html");
    assert_eq!((mounted.rel_path.as_str(), mounted.mode), ("page.html", Mode::ReadOnly));
    let reported =
        json!([{"path": "/workspace/inputs/ page.html ", "sourceArtifactId": "a1", "sourceVersion": 2}]);
    assert_eq!(params(&plan)["inputArtifacts"], reported);

    // Null is kept, and counts as absent for the slot.
    let given = json!([{"artifactId": "a", "version": 0, "fileName": "f", "slot": null, "payloadField": null, "contentType": null}]);
    let plan =
        composed(&changed(base(), &[("/agentContext/inputArtifacts", given), inputs.clone()])).unwrap();
    let expected = json!({
        "kind": "artifact-version", "artifactId": "a", "version": 0, "fileName": "f", "payloadField": null, "contentType": null,
    });
    assert_eq!(source(&plan, "input-artifact:a:v0:f"), expected);

    // Case 17.
    for name in ["../x", "a..b", "/x", "", "  ", " /x", "\u{feff}", "x/.."] {
        let error = refused(&changed(
            base(),
            &[("/agentContext/inputArtifacts", json!([artifact(name)])), inputs.clone()],
        ));
        assert_eq!(error.code(), Code::ComposeInvalidFileName, "{name:?}");
    }

    // Case 18.
    let into = json!([{"artifactId": "a1", "version": 2, "fileName": "f", "slot": "deliverables"}]);
    let request = changed(
        base(),
        &[("/agentContext/inputArtifacts", into), ("/manifest/mounts/deliverables", enabled(None))],
    );
    let plan = composed(&request).unwrap();
    let mounted = entry(&plan, "input-artifact:a1:v2:f");
    assert_eq!((mounted.slot.as_str(), mounted.mode), ("/workspace/deliverables", Mode::ReadOnly));
}

#[test]
fn contents_of_user_data_slots() {
    let with = |request: Value, slot: &str, context: Value| {
        composed(&changed(
            request,
            &[(&format!("/manifest/mounts/{slot}"), enabled(None)), ("/agentContext", context)],
        ))
        .unwrap()
    };
    // Case 19.
    let plan = with(base(), "inputs", json!({"inputsJsonBase64": "e30="}));
    let expected = json!({"kind": "static-literal", "pathWithinWorkspace": "inputs.json", "bytes": "e30="});
    assert_eq!(source(&plan, "inputs:json"), expected);
    assert_eq!(added(&with(session(), "inputs", json!({"inputsJsonBase64": "e30="}))), [""; 0]);

    // Case 20.
    let context = json!({
        "kbSpaceIds": ["k", "k"], "externalProjectIds": ["x", "x"],
        "kbPageMounts": [{"spaceId": "k", "pageSlugs": ["p", "p"]}, {"spaceId": "j", "pageSlugs": []}, {"spaceId": "j"},
                         {"spaceId": "j", "pageSlugs": null}],
    });
    let plan = with(base(), "references", context);
    assert_eq!(added(&plan), ["references:kb:k", "references:kb-pages:k", "references:project:x"]);
    assert_eq!(
        source(&plan, "references:kb-pages:k"),
        json!({"kind": "kb-pages", "spaceId": "k", "pageSlugs": ["p"]})
    );
    assert_eq!(
        source(&plan, "references:project:x"),
        json!({"kind": "scm-repo", "repoRef": "x", "ref": "HEAD"})
    );
    let places: Vec<&str> = plan.entries[5..].iter().map(|entry| entry.rel_path.as_str()).collect();
    assert_eq!(places, ["kb/k", "kb/k", "external-projects/x"]);

    // Case 21.
    let refs = [
        (json!("x"), vec!["deliverables:x"]),
        (json!(["x", "y"]), vec!["deliverables:x", "deliverables:y"]),
        (json!(["x", "x"]), vec!["deliverables:x", "deliverables:x"]),
        (json!(""), vec![]),
        (json!([]), vec![]),
        (json!(null), vec![]),
    ];
    for (deliverables_ref, expected) in refs {
        let plan = with(base(), "deliverables", json!({"deliverablesRef": deliverables_ref.clone()}));
        assert_eq!(added(&plan), expected, "{deliverables_ref}");
    }

    let plan = with(base(), "repos", json!({"repoRef": "o/r"}));
    assert_eq!(source(&plan, "repo:o/r"), json!({"kind": "scm-repo", "repoRef": "o/r", "ref": "HEAD"}));
    assert_eq!(
        (entry(&plan, "repo:o/r").rel_path.as_str(), entry(&plan, "repo:o/r").mode),
        ("o/r", Mode::ReadWrite)
    );
    for (revision, expected) in [(json!("v1"), "v1"), (json!(null), "HEAD"), (json!(""), "")] {
        let plan = with(base(), "repos", json!({"repoRef": "o/r", "repoRevision": revision}));
        assert_eq!(source(&plan, "repo:o/r")["ref"], expected);
    }
    assert_eq!(added(&with(base(), "repos", json!({"repoRef": "", "repoRevision": "v1"}))), [""; 0]);

    for request in [base(), session()] {
        let plan = with(request, "attachments", json!({"sessionId": "other"}));
        assert_eq!(
            source(&plan, "attachments:other"),
            json!({"kind": "session-attachment", "sessionId": "other"})
        );
        assert_eq!(entry(&plan, "attachments:other").rel_path, "");
    }
    assert_eq!(
        added(&with(session(), "attachments", json!({}))),
        [""; 0],
        "the session of the surface does not count"
    );
    assert_eq!(added(&with(session(), "deliverables", json!({}))), [""; 0]);
}

#[test]
fn the_mode_of_a_mount_is_declared_or_the_slot_default() {
    for (mode, expected) in
        [(None, "read-write"), (Some("read-only"), "read-only"), (Some("read-write"), "read-write")]
    {
        let request = changed(
            base(),
            &[
                ("/manifest/mounts/deliverables", enabled(mode)),
                ("/agentContext/deliverablesRef", json!("x")),
            ],
        );
        let plan = composed(&request).unwrap();
        assert_eq!(entry(&plan, "deliverables:x").mode.as_str(), expected);
        assert_eq!(params(&plan)["mounts"], json!([{"mount": "/workspace/deliverables", "mode": expected}]));
    }
    // Composing does not check it; validation does.
    let plan =
        composed(&changed(base(), &[("/manifest/mounts/references", enabled(Some("read-write")))])).unwrap();
    assert_eq!(ValidPlan::check(&plan.to_value(), None, false).unwrap_err().code(), Code::PlanModeNotAllowed);
}
