//! Workflows: register, list, read.

use flow::definition::Capabilities;
use runs::rates::RateLimits;
use serde_json::json;
use server::http::Settings;

use super::service::{Host, gate, noop, workflow};

#[tokio::test]
async fn a_workflow_is_returned_as_registered_and_registering_it_again_changes_nothing() {
    let host = Host::start().await;
    let first = host.post("/v1/workflows", &noop()).await.expect(201);
    assert_eq!(first["workflowId"], "noop");
    assert_eq!(host.post("/v1/workflows", &noop()).await.expect(200), first);
    assert_eq!(host.get("/v1/workflows/noop").await.expect(200), noop());
    let listed = json!({"workflows": [{"workflowId": "noop", "digest": first["digest"]}]});
    assert_eq!(host.get("/v1/workflows").await.expect(200), listed);
    host.get("/v1/workflows/none").await.refused(404, "workflow_not_found");
}

#[tokio::test]
async fn an_invalid_workflow_is_rejected_with_the_paths_of_its_problems() {
    let host = Host::start().await;
    let mut dangling = noop();
    dangling["edges"] = json!([{"id": "e", "sourceNodeId": "only", "targetNodeId": "none"}]);
    let gated = workflow("mine", &[("agent", "core.conformance.mock-agent", json!({}))], &json!([]));
    for document in [json!({}), json!([]), json!("x"), dangling] {
        let refused = host.post("/v1/workflows", &document).await.refused(400, "validation_error");
        assert!(
            refused["details"]["fields"].as_array().is_some_and(|fields| !fields.is_empty()),
            "{refused}"
        );
    }
    host.post("/v1/workflows", &gated).await.refused(400, "capability_required");
    let keyed = [("idempotency-key", "k")];
    let first = host.post_with("/v1/workflows", &keyed, &noop()).await;
    first.expect(201);
    assert_eq!(first.header("openwop-idempotent-replay"), Some("false"));
    let again = host.post_with("/v1/workflows", &keyed, &noop()).await;
    again.expect(201);
    assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));
    host.post_with("/v1/workflows", &keyed, &gated).await.refused(409, "idempotency_key_mismatch");
}

/// Finding 2 of the current suite: an unsupported trigger is refused like every other unsupported feature.
#[tokio::test]
async fn a_trigger_that_would_never_fire_is_refused_with_the_capability_that_it_needs() {
    let host = Host::start().await;
    for (kind, capability) in [("schedule", "scheduling.supported"), ("webhook", "triggerBridge.supported")] {
        let mut document = noop();
        document["triggers"] =
            json!([{"id": "t", "type": kind, "enabled": true, "config": {"cron": "* * * * *"}}]);
        let refused = host.post("/v1/workflows", &document).await.refused(400, "validation_error");
        let details = &refused["details"];
        assert_eq!(details["requiredCapability"], capability);
        assert_eq!(details["fields"][0]["path"], "/triggers/0/type");
        host.get("/v1/workflows/noop").await.refused(404, "workflow_not_found");
    }
    let mut document = noop();
    document["triggers"] = json!([{"id": "t", "type": "schedule", "enabled": false}]);
    host.post("/v1/workflows", &document).await.expect(201);
}

#[tokio::test]
async fn a_closed_capability_gate_names_the_missing_capability() {
    let closed = Capabilities {
        conversation: false,
        orchestrator: false,
        dispatch: false,
        dispatch_mapping: false,
        sub_workflow_input_mapping: false,
        ..Capabilities::OURS
    };
    let host = Host::start_capable(Settings::default(), RateLimits::default(), closed).await;
    let mapped = json!({"workflowId": "x", "inputMapping": {"a": "b"}});
    let cases = [
        ("core.conversationGate", json!({}), "capability_required", "conversationPrimitive"),
        ("core.orchestrator.supervisor", json!({}), "capability_required", "orchestrator.supported"),
        ("core.dispatch", json!({}), "capability_required", "dispatch.supported"),
        ("core.conformance.mock-agent", json!({}), "capability_required", "conformance.mockAgent"),
        ("core.subWorkflow", mapped, "validation_error", "subWorkflow.inputMapping"),
    ];
    for (type_id, config, code, capability) in cases {
        let document = workflow("mine", &[("n", type_id, config)], &json!([]));
        let refused = host.post("/v1/workflows", &document).await.refused(400, code);
        let details = &refused["details"];
        assert_eq!(details["requiredCapability"], capability, "{type_id}");
        assert_eq!((&details["offendingTypeId"], &details["nodeId"]), (&json!(type_id), &json!("n")));
        host.post("/v1/runs", &json!({"workflowId": "mine"})).await.refused(404, "workflow_not_found");
    }
    let said = host.send("GET", "/.well-known/openwop", &[], None).await.expect(200);
    for pointer in ["/conversationPrimitive", "/orchestrator/supported", "/agents/orchestrator"] {
        assert_eq!(
            said.pointer(pointer),
            Some(&json!(false)),
            "{pointer}: what is refused is not advertised"
        );
    }
    for pointer in
        ["/dispatch/supported", "/agents/dispatch", "/agents/dispatchMapping", "/subWorkflow/inputMapping"]
    {
        assert_eq!(
            said.pointer(pointer),
            Some(&json!(false)),
            "{pointer}: what is refused is not advertised"
        );
    }
}

#[tokio::test]
async fn new_runs_use_the_newest_version() {
    let host = Host::start().await;
    let version = |nodes: &[&str]| {
        let nodes: Vec<_> = nodes.iter().map(|node| (*node, "core.noop", json!({}))).collect();
        workflow("changing", &nodes, &json!([]))
    };
    let (first, second) = (version(&["a"]), version(&["a", "b"]));
    // Switching back: a version that was registered before becomes the newest again.
    for (document, nodes) in [(&first, 1), (&second, 2), (&first, 1), (&second, 2)] {
        host.register(document).await;
        let run_id = host.create("changing").await;
        assert_eq!(host.end_of(&run_id).await["nodeStates"].as_object().unwrap().len(), nodes);
    }
    // Active runs continue with the version that they began with.
    let mut waits = gate();
    waits["id"] = json!("changing");
    host.register(&waits).await;
    let run_id = host.create("changing").await;
    host.register(&first).await;
    let answer = json!({"resumeValue": {"action": "accept"}});
    host.post(&format!("/v1/runs/{run_id}/interrupts/gate"), &answer).await.expect(200);
    let ended = host.end_of(&run_id).await;
    assert_eq!((&ended["status"], ended["nodeStates"].get("a")), (&json!("completed"), None));
}

#[tokio::test]
async fn workflows_are_listed_page_by_page() {
    let host = Host::start().await;
    for id in ["c", "a", "e", "b", "d"] {
        host.register(&workflow(id, &[("only", "core.noop", json!({}))], &json!([]))).await;
    }
    let mut seen = Vec::new();
    let mut path = "/v1/workflows?limit=2".to_owned();
    loop {
        let page = host.get(&path).await.expect(200);
        let ids = page["workflows"].as_array().unwrap().iter();
        seen.push(
            ids.map(|workflow| workflow["workflowId"].as_str().unwrap().to_owned()).collect::<Vec<_>>(),
        );
        let Some(next) = page["nextCursor"].as_str() else { break };
        path = format!("/v1/workflows?limit=2&cursor={next}");
    }
    assert_eq!(seen, [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);
    host.get("/v1/workflows?limit=0").await.refused(400, "validation_error");
}
