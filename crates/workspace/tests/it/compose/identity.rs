//! The identity of a request, and the order of its mounts.

use super::*;

#[test]
fn the_golden_vectors_hold() {
    let mut reordered =
        String::from(r#"{"skills":["b","a"],"n":1.5,"z":-0,"10":1.0,"nested":{"b":null,"a":[true,false]},"#);
    reordered += "\"9\":2,\"prompt\":\"h\\u00e9llo\\n\\\"x\\\"\u{2028}\\u0001\\/\",\"big\":1e21}";
    let context_d: Value = serde_json::from_str(&reordered).unwrap();
    let e = changed(
        base(),
        &[
            ("/manifest/mounts/inputs", enabled(Some("read-only"))),
            ("/manifest/mounts/deliverables", enabled(None)),
            ("/manifest/env", json!([{"name": "X", "value": "1"}])),
        ],
    );
    let cases = [
        ("A, case 1", base(), "3863925d34dfe759afd55fc5872d8915341442222944ec168dce4e8e0d6b0697"),
        ("B, case 3", session(), "e9d267f7a4a87d9619b1ffcacbd3ac06182cb5078d7a2482744e0ff4cd05e9d3"),
        (
            "C, case 4",
            changed(session(), &[("/interactive/turnGen", json!(3))]),
            "f110c1f28e4591b3471304c0d31fcb8ab87d7046a93c09cca1d6c8a76d3d7233",
        ),
        (
            "D, case 4",
            changed(base(), &[("/agentContext", context_d)]),
            "3297b8a9888073f7de4d63300d47389c4b8f6655e478f501aa3de77fffff1f92",
        ),
        ("E, case 5", e, "2be519b647f6205d3e1e5b9b171e41c5cc01a5dab6fa3201ed082f27605987a0"),
    ];
    for (name, request, expected) in cases {
        assert_eq!(composed(&request).unwrap().apply_id, expected, "{name}");
    }
    let from_text =
        base().to_string().replace(r#""agentContext":{}"#, &format!(r#""agentContext":{reordered}"#));
    let plan = compose(&Request::read(from_text.as_bytes()).unwrap(), None).unwrap();
    assert_eq!(
        plan.apply_id, "3297b8a9888073f7de4d63300d47389c4b8f6655e478f501aa3de77fffff1f92",
        "D as text"
    );
}

#[test]
fn the_identity_covers_exactly_the_specified_members() {
    let base_id = composed(&base()).unwrap().apply_id;
    let same = [
        ("/briefcase", json!({"uploads": [], "references": [{"kind": "kb_space", "ref": "s"}]})),
        ("/systemSkillSlugs", json!(["s"])),
        ("/agentOverrides/deliverableSpecRef", json!("spec")),
        ("/manifest/workingFiles", json!([])),
        ("/manifest/extends", json!("x")),
        ("/manifest/description", json!("x")),
        ("/agentContext/__proto__", json!({"a": 1})),
        ("/unknown", json!(1)),
    ];
    for (pointer, value) in same {
        let plan = composed(&changed(base(), &[(pointer, value)])).unwrap();
        assert_eq!(plan.apply_id, base_id, "{pointer}");
    }
    let other = [
        ("/orgId", json!("x")),
        ("/projectId", json!("x")),
        ("/manifest/slug", json!("x")),
        ("/manifest/version", json!("2.0.0")),
        ("/manifest/agent/unknown", json!(null)),
        ("/manifest/agent/slug", json!("x")),
        ("/manifest/agent/role", json!("auditor")),
        ("/manifest/env", json!(null)),
        ("/manifest/mounts/bogus", json!({"enabled": false})),
        ("/manifest/seedFiles", json!(null)),
        ("/manifest/requiredTemplateNames", json!(null)),
        ("/agentOverrides/role", json!("auditor")),
        ("/agentContext/unknown", json!(null)),
        ("/agentContext/skills", json!(null)),
        ("/workflowRun/runId", json!("run2")),
        ("/workflowRun/jobRunId", json!("job2")),
    ];
    for (pointer, value) in other {
        let plan = composed(&changed(base(), &[(pointer, value)])).unwrap();
        assert_ne!(plan.apply_id, base_id, "{pointer}");
    }
    let turns = |turn| composed(&changed(session(), &[("/interactive/turnGen", turn)])).unwrap().apply_id;
    assert_eq!(turns(json!(null)), composed(&session()).unwrap().apply_id);
    assert_eq!(turns(json!(0)), turns(json!(null)));
    assert_eq!(turns(json!(3.0)), turns(json!(3)));
    let mut without_env = base();
    without_env["manifest"].as_object_mut().unwrap().remove("env");
    assert_ne!(composed(&without_env).unwrap().apply_id, base_id, "absent is not empty");
}

#[test]
fn mounts_keep_their_text_order() {
    // Case 5. The identity does not depend on the order, but the renderer's parameters do.
    let with_mounts = |mounts: &str| {
        let text = base().to_string().replace(r#""mounts":{}"#, &format!(r#""mounts":{mounts}"#));
        compose(&Request::read(text.as_bytes()).unwrap(), None).unwrap()
    };
    let mounts = |plan: &MountPlan| -> Vec<String> {
        let params = params(plan);
        params["mounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|mount| mount["mount"].as_str().unwrap().to_owned())
            .collect()
    };
    let one = with_mounts(r#"{"uploads":{"enabled":true},"9":{"enabled":false},"inputs":{"enabled":true}}"#);
    let other =
        with_mounts(r#"{"inputs":{"enabled":true},"uploads":{"enabled":true},"9":{"enabled":false}}"#);
    assert_eq!(mounts(&one), ["/workspace/uploads", "/workspace/inputs"]);
    assert_eq!(mounts(&other), ["/workspace/inputs", "/workspace/uploads"]);
    assert_eq!(one.apply_id, other.apply_id);

    // In memory, the order is given explicitly.
    let value =
        changed(base(), &[("/manifest/mounts", json!({"inputs": enabled(None), "uploads": enabled(None)}))]);
    let order = ["uploads".to_owned(), "nowhere".to_owned()];
    let plan = compose(&Request::from_value(value.clone(), &order).unwrap(), None).unwrap();
    assert_eq!(mounts(&plan), ["/workspace/uploads", "/workspace/inputs"]);
    let plan = compose(&Request::from_value(value, &[]).unwrap(), None).unwrap();
    assert_eq!(mounts(&plan), ["/workspace/inputs", "/workspace/uploads"]);

    // Keys that look like numbers come first, in numeric order, and the first unknown one is
    // reported.
    let text = base().to_string().replace(
        r#""mounts":{}"#,
        r#""mounts":{"bogus":{"enabled":true},"10":{"enabled":true},"9":{"enabled":true}}"#,
    );
    let error = compose(&Request::read(text.as_bytes()).unwrap(), None).unwrap_err();
    assert_eq!((error.code(), &error.details()["slotKey"]), (Code::UnknownSlot, &json!("9")));
}

#[test]
fn numbers_are_doubles_in_the_plan_too() {
    let inputs = ("/manifest/mounts/inputs", enabled(None));
    let text =
        changed(base(), &[("/agentContext", json!({"inputArtifacts": [artifact("f")], "n": 5})), inputs])
            .to_string()
            .replace(r#""version":2"#, r#""version":2.0"#)
            .replace(r#""n":5"#, r#""n":9007199254740993"#);
    let plan = compose(&Request::read(text.as_bytes()).unwrap(), None).unwrap();
    assert_eq!(added(&plan), ["input-artifact:a1:v2:f"]);
    assert_eq!(params(&plan)["workflowInputs"].to_string(), r#"{"n":9007199254740992}"#);
}
