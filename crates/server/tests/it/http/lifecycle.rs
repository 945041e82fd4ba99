//! The lifecycle of runs: create, read, list, pause, end.

use std::collections::BTreeSet;

use serde_json::json;
use server::http::Settings;

use super::service::{Host, OTHER, TESTER, noop, short, slow, workflow};

#[tokio::test]
async fn a_run_is_created_read_and_ends() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let answer = host.post("/v1/runs", &json!({"workflowId": "noop"})).await;
    let created = answer.expect(201);
    let run_id = created["runId"].as_str().unwrap();
    assert_eq!(created["eventsUrl"], format!("http://host.test/v1/runs/{run_id}/events"));
    assert_eq!(created["statusUrl"], format!("http://host.test/v1/runs/{run_id}"));
    assert!(answer.header("openwop-idempotent-replay").is_none());
    let read = host.end_of(run_id).await;
    assert_eq!((&read["runId"], &read["status"]), (&json!(run_id), &json!("completed")));
}

#[tokio::test]
async fn a_new_run_is_readable_at_once_with_an_initial_status() {
    let host = Host::start().await;
    let event = json!({"kind": "external-event", "data": {"eventType": "e", "correlation": {"id": 1}}});
    let ask = json!({"questions": [{"id": "q", "question": "?"}]});
    let cases = [
        ("core.noop", json!({}), "running", "completed"),
        ("core.fail", json!({}), "running", "failed"),
        ("core.delay", json!({"delayMs": 30_000}), "running", "running"),
        ("core.approvalGate", json!({}), "waiting-approval", "waiting-approval"),
        ("core.clarificationGate", ask, "waiting-input", "waiting-input"),
        ("core.interrupt", event, "running", "waiting-external"),
    ];
    for (place, (type_id, config, initial_status, is)) in cases.into_iter().enumerate() {
        let id = format!("w{place}");
        host.register(&workflow(&id, &[("n", type_id, config)], &json!([]))).await;
        let created = host.post("/v1/runs", &json!({"workflowId": id})).await.expect(201);
        assert_eq!(created["status"], initial_status, "{type_id}");
        let read = host.get(&format!("/v1/runs/{}", created["runId"].as_str().unwrap())).await.expect(200);
        assert_eq!(read["status"], is, "{type_id}");
        assert_eq!(read["owner"], json!({"tenant": "a", "principal": "full"}));
        assert_eq!((read["engineVersion"].is_string(), &read["eventLogSchemaVersion"]), (true, &json!(2)));
    }
}

#[tokio::test]
async fn the_options_of_a_run_are_limited_and_stored_unchanged() {
    let host = Host::start().await;
    let variables = json!([
        {"name": "needed", "type": "string", "required": true},
        {"name": "given", "type": "number", "required": true, "defaultValue": 1},
    ]);
    let mut document = workflow("w", &[("n", "core.noop", json!({}))], &variables);
    document["configurableSchema"] = json!({
        "type": "object", "properties": {"recursionLimit": {"type": "integer"}, "acme.x": {"type": "string"}},
        "additionalProperties": false,
    });
    host.register(&document).await;
    host.register(&noop()).await;
    let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"m": inner}));
    let inputs = json!({"needed": "x"});
    let refused = [
        json!({"workflowId": "w"}),
        json!({"workflowId": "w", "inputs": {"needed": 5}}),
        json!({"workflowId": "w", "inputs": inputs, "configurable": {"other": 1}}),
        json!({"workflowId": "w", "inputs": inputs, "configurable": {"acme.x": 1}}),
        json!({"workflowId": "noop", "tags": vec!["t"; 101]}),
        json!({"workflowId": "noop", "tags": ["t".repeat(257)]}),
        json!({"workflowId": "noop", "tags": [7]}),
        json!({"workflowId": "noop", "metadata": deep(5)}),
        json!({"workflowId": "noop", "metadata": {"m": "x".repeat(8192)}}),
        json!({"workflowId": "noop", "metadata": []}),
        json!({"workflowId": "noop", "configurable": {"recursionLimit": 1.5}}),
        json!({"workflowId": "noop", "configurable": {"recursionLimit": "3"}}),
        json!({"workflowId": "noop", "configurable": {"runTimeoutMs": 0}}),
        json!({"workflowId": "noop", "configurable": {"maxLoopIterations": -1}}),
        json!({"workflowId": "noop", "configurable": {"temperature": 2.5}}),
        json!({"workflowId": "noop", "configurable": {"maxTokens": 0}}),
        json!({"workflowId": "noop", "configurable": {"escalationThreshold": 1.1}}),
        json!({"workflowId": "noop", "configurable": {"reasoningVerbosity": "loud"}}),
        json!({"workflowId": "noop", "configurable": {"budget": {"maxTokens": 5}}}),
        json!({"workflowId": "noop", "configurable": {"ai": {"provider": "unknown"}}}),
        json!({"workflowId": "noop", "configurable": {"ai.provider": "unknown"}}),
        json!({"workflowId": "noop", "configurable": {"ai": "unknown"}}),
        json!({"workflowId": "noop", "configurable": {"recursionLimits": 5}}),
        json!({"workflowId": "noop", "configurable": {"distillation": {}}}),
        json!({"workflowId": "noop", "configurable": {"model": 7}}),
        json!({"workflowId": "noop", "configurable": {"model": ""}}),
        json!({"workflowId": "noop", "configurable": {"model": "m".repeat(257)}}),
        json!({"workflowId": "noop", "configurable": {"ai": {"model": 7}}}),
        json!({"workflowId": "noop", "configurable": {"ai.model": 7}}),
        json!({"workflowId": "noop", "configurable": {"promptOverrides": 5}}),
    ];
    for body in refused {
        let answer = host.post("/v1/runs", &body).await.refused(400, "validation_error");
        assert!(answer["details"].is_object(), "{body}: {answer}");
    }
    let tags = vec!["ü".repeat(256); 100];
    let accepted = [
        json!({"workflowId": "w", "inputs": inputs, "configurable": {"recursionLimit": 5}}),
        json!({"workflowId": "w", "inputs": {"needed": "x", "given": 2}, "configurable": {"acme.x": "y"}}),
        json!({"workflowId": "noop", "tags": tags, "metadata": deep(4)}),
        json!({"workflowId": "noop", "configurable": {"recursionLimit": 1_000_000, "acme.anything": [1]}}),
        json!({"workflowId": "noop", "configurable": {"maxTokens": 2_000_000, "model": "m", "ai.model": "n"}}),
        json!({"workflowId": "noop", "configurable": {"ai": {"model": "m"}, "promptOverrides": {}}}),
    ];
    for body in accepted {
        let run_id = host.create_with(&body).await;
        let read = host.end_of(&run_id).await;
        for member in ["configurable", "tags", "metadata", "inputs"] {
            let empty = if member == "tags" { json!([]) } else { json!({}) };
            assert_eq!(read[member], body.get(member).cloned().unwrap_or(empty), "{member} of {body}");
        }
        assert_eq!(read["status"], "completed");
    }
    let shown = host.get("/v1/workflows/w").await.expect(200);
    assert_eq!(shown["configurableSchema"], document["configurableSchema"]);
}

#[tokio::test]
async fn an_invalid_create_request_names_the_problem() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
    let cases = [
        (json!({}), 400, "validation_error"),
        (json!([]), 400, "validation_error"),
        (json!({"workflowId": 7}), 400, "validation_error"),
        (json!({"workflowId": "noop", "workflwoId": 1}), 400, "validation_error"),
        (json!({"workflowId": "noop", "tags": "x"}), 400, "validation_error"),
        (json!({"workflowId": "noop", "configurable": {"recursionLimit": 0}}), 400, "validation_error"),
        (json!({"workflowId": "noop", "tenantId": "b"}), 403, "forbidden"),
        (json!({"workflowId": "none"}), 404, "workflow_not_found"),
        (json!({"workflowId": jwt}), 404, "workflow_not_found"),
    ];
    for (body, status, code) in cases {
        let answer = host.post("/v1/runs", &body).await;
        answer.refused(status, code);
        assert!(!answer.text().contains(jwt));
    }
}

#[tokio::test]
async fn an_idempotency_key_creates_one_run() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let body = json!({"workflowId": "noop"});
    let keyed = [("idempotency-key", "the-key")];
    let answers =
        futures_util::future::join_all((0..10).map(|_| host.post_with("/v1/runs", &keyed, &body))).await;
    let runs: BTreeSet<String> =
        answers.iter().map(|answer| answer.expect(201)["runId"].to_string()).collect();
    assert_eq!(runs.len(), 1);
    let fresh =
        answers.iter().filter(|answer| answer.header("openwop-idempotent-replay") == Some("false")).count();
    assert_eq!(fresh, 1);
    let other = json!({"workflowId": "noop", "tags": ["x"]});
    host.post_with("/v1/runs", &keyed, &other).await.refused(409, "idempotency_key_mismatch");
    let long = "k".repeat(256);
    host.post_with("/v1/runs", &[("idempotency-key", &long)], &body).await.refused(400, "validation_error");
    assert_eq!(host.get("/v1/runs").await.expect(200)["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn x_dedup_allows_one_active_run_per_scope() {
    let host = Host::start().await;
    host.register(&slow()).await;
    let body = json!({"workflowId": "slow", "scopeId": "s"});
    let dedup = [("x-dedup", "enforce")];
    let run_id = host.post_with("/v1/runs", &dedup, &body).await.expect(201)["runId"].clone();
    let answer = host.post_with("/v1/runs", &dedup, &body).await;
    let refused = answer.refused(409, "run_already_active");
    assert_eq!(refused["details"]["activeRunId"], run_id);
    assert_eq!(answer.header("retry-after").unwrap(), refused["details"]["retryAfter"].to_string());
    host.post("/v1/runs", &body).await.expect(201);
    host.post_with("/v1/runs", &[("x-dedup", "perhaps")], &body).await.refused(400, "validation_error");
}

#[tokio::test]
async fn engine_versions_are_forced_by_keys_for_tests_alone() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let body = json!({"workflowId": "noop"});
    let tester = format!("Bearer {TESTER}");
    let forced = |version: &'static str| [("x-force-engine-version", version)];
    let tested = |version: &'static str| {
        [("authorization", tester.clone()), ("x-force-engine-version", version.into())]
    };
    host.post_with("/v1/runs", &forced("1"), &body).await.refused(403, "force_engine_version_forbidden");
    for (version, status) in [("1", 201), ("9999", 400), ("x", 400), ("-1", 400)] {
        let headers = tested(version);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = host.post_with("/v1/runs", &headers, &body).await;
        assert_eq!(answer.status, status, "{version}");
        match version {
            "1" => {
                let read = host.end_of(answer.json()["runId"].as_str().unwrap()).await;
                assert_eq!((&read["status"], &read["engineVersion"]), (&json!("completed"), &json!("1")));
            }
            "9999" => drop(answer.refused(400, "unsupported_force_engine_version")),
            _ => {}
        }
    }
    let range = host.send("GET", "/.well-known/openwop", &[], None).await.expect(200)["testing"].clone();
    assert_eq!(range["forceEngineVersionRange"], json!({"min": 1, "max": 1}));
}

#[tokio::test]
async fn runs_are_listed_in_pages_and_filtered() {
    let host = Host::start().await;
    host.register(&noop()).await;
    host.register(&slow()).await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(host.create_with(&json!({"workflowId": "noop", "tags": ["t"]})).await);
    }
    made.push(host.create("slow").await);
    let mut seen = Vec::new();
    let mut path = "/v1/runs?limit=4".to_owned();
    loop {
        let page = host.get(&path).await.expect(200);
        let runs = page["runs"].as_array().unwrap();
        seen.extend(runs.iter().map(|run| run["runId"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("/v1/runs?limit=4&cursor={cursor}");
    }
    seen.reverse();
    assert_eq!(seen, made);
    let count = async |query: &str| {
        host.get(&format!("/v1/runs?{query}")).await.expect(200)["runs"].as_array().unwrap().len()
    };
    assert_eq!(count("workflowId=noop").await, 5);
    assert_eq!(count("tag=t").await, 5);
    assert_eq!(count("tag=other").await, 0);
    assert_eq!(count("status=completed").await, 5);
    assert_eq!(count("limit=100000").await, 6);
    for query in ["status=done", "limit=0", "limit=x", "limit=-1", "cursor=1", "cursor=%00"] {
        host.get(&format!("/v1/runs?{query}")).await.refused(400, "validation_error");
    }
    host.get("/v1/runs?tenantId=b").await.refused(403, "forbidden");
}

#[tokio::test]
async fn a_run_is_ended_by_either_spelling_and_once() {
    let host = Host::start().await;
    host.register(&slow()).await;
    for spelling in ["/cancel", ":cancel"] {
        let run_id = host.create("slow").await;
        let path = format!("/v1/runs/{run_id}{spelling}");
        let cancelled = host.post(&path, &json!({"reason": "enough"})).await.expect(200);
        assert_eq!(cancelled["runId"], run_id.as_str());
        assert!(matches!(cancelled["status"].as_str(), Some("cancelled" | "cancelling")), "{cancelled}");
        assert_eq!(host.end_of(&run_id).await["status"], "cancelled");
        let log = host.get(&format!("/v1/runs/{run_id}/events/poll")).await.expect(200);
        // Also without a body.
        let key = format!("Bearer {}", super::service::KEY);
        let again = host.send("POST", &path, &[("authorization", &key)], None).await.expect(200);
        assert_eq!(again["status"], "cancelled");
        assert_eq!(
            host.get(&format!("/v1/runs/{run_id}/events/poll")).await.expect(200),
            log,
            "nothing is added"
        );
    }
    host.register(&noop()).await;
    let done = host.create("noop").await;
    host.end_of(&done).await;
    let ended = host.post(&format!("/v1/runs/{done}/cancel"), &json!({})).await.expect(200);
    assert_eq!(ended, json!({"runId": done, "status": "completed"}), "the end that it came to stays");
    host.post("/v1/runs/none/cancel", &json!({})).await.refused(404, "run_not_found");
    host.post("/v1/runs/none/cancel", &json!({"reasn": 1})).await.refused(400, "validation_error");
    host.post("/v1/runs/none/cancel", &json!({"reason": 1})).await.refused(400, "validation_error");
}

#[tokio::test]
async fn a_paused_run_can_be_resumed() {
    let host = Host::start().await;
    host.register(&slow()).await;
    let run_id = host.create("slow").await;
    let path = |action: &str| format!("/v1/runs/{run_id}:{action}");
    let refused = host.post(&path("resume"), &json!({})).await.refused(409, "conflict");
    assert_eq!(refused["details"]["runStatus"], "running");
    host.post(&path("pause"), &json!({"drainPolicy": "later"})).await.refused(400, "validation_error");
    let paused = host.post(&path("pause"), &json!({"drainPolicy": "immediate"})).await.expect(202);
    assert_eq!(paused["status"], "paused");
    let again = host.post(&path("pause"), &json!({})).await.refused(409, "conflict");
    assert_eq!(
        (&again["details"]["runStatus"], &again["details"]["pausedAt"]),
        (&json!("paused"), &paused["pausedAt"])
    );
    let resumed = host.post(&path("resume"), &json!({})).await.expect(202);
    assert_eq!((&resumed["status"], resumed["resumedAt"].is_string()), (&json!("running"), true));
    let log = host.get(&format!("/v1/runs/{run_id}/events/poll?timeout=0")).await.expect(200);
    let kinds: Vec<_> = log["events"].as_array().unwrap().iter().map(|event| event["type"].clone()).collect();
    assert_eq!(
        kinds,
        ["run.started", "node.started", "run.paused", "run.resumed"],
        "one pause, and then it continues"
    );
    host.post(&path("cancel"), &json!({})).await.expect(200);
    assert_eq!(host.end_of(&run_id).await["status"], "cancelled");
    let refused = host.post(&path("pause"), &json!({})).await.refused(409, "conflict");
    assert_eq!(refused["details"]["runStatus"], "cancelled");
}

/// Finding 6 of the current suite: the running node ends before the pause, and the same idempotency key gets the first reply.
#[tokio::test]
async fn a_pause_that_drains_is_answered_once_and_comes_after_the_end_of_the_node() {
    let host = Host::start().await;
    let nodes = [("wait", "core.delay", json!({"delayMs": 300})), ("end", "core.noop", json!({}))];
    let mut document = workflow("drains", &nodes, &json!([]));
    document["edges"] = json!([{"id": "e", "sourceNodeId": "wait", "targetNodeId": "end"}]);
    host.register(&document).await;
    let run_id = host.create("drains").await;
    let path = |action: &str| format!("/v1/runs/{run_id}:{action}");
    let keyed = [("idempotency-key", "pause")];
    let first = host.post_with(&path("pause"), &keyed, &json!({})).await.expect(202);
    assert_eq!((&first["status"], &first["draining"]), (&json!("paused"), &json!(true)));
    assert_eq!(host.post_with(&path("pause"), &keyed, &json!({})).await.expect(202), first);
    let again = host.post(&path("pause"), &json!({})).await.refused(409, "conflict");
    assert_eq!(again["details"]["pausedAt"], first["pausedAt"]);
    while host.get(&format!("/v1/runs/{run_id}")).await.expect(200)["status"] != "paused" {
        tokio::task::yield_now().await;
    }
    assert_eq!(host.post_with(&path("pause"), &keyed, &json!({})).await.expect(202), first);
    let again = host.post(&path("pause"), &json!({})).await.refused(409, "conflict");
    assert_eq!(again["details"]["runStatus"], "paused");
    host.post(&path("resume"), &json!({})).await.expect(202);
    assert_eq!(host.end_of(&run_id).await["status"], "completed");
    let log = host.get(&format!("/v1/runs/{run_id}/events/poll?timeout=0")).await.expect(200);
    let kinds: Vec<_> = log["events"].as_array().unwrap().iter().map(|event| event["type"].clone()).collect();
    assert_eq!(
        kinds[2..6],
        ["interlock.pauseRequested", "node.completed", "run.paused", "run.resumed"],
        "{kinds:?}"
    );
}

#[tokio::test]
async fn runs_are_compared_and_know_where_they_came_from() {
    let host = Host::start().await;
    host.register(&noop()).await;
    host.register(&workflow("fails", &[("f", "core.fail", json!({}))], &json!([]))).await;
    let (a, b, c) = (host.create("noop").await, host.create("noop").await, host.create("fails").await);
    let same = host.get(&format!("/v1/runs/{a}:diff?against={b}")).await.expect(200);
    assert_eq!((&same["divergedAtSeq"], &same["eventDiffs"]), (&json!(null), &json!([])));
    let differs = host.get(&format!("/v1/runs/{a}:diff?against={c}")).await.expect(200);
    assert_eq!(differs["eventDiffs"][0]["seq"], differs["divergedAtSeq"]);
    host.get(&format!("/v1/runs/{a}:diff")).await.refused(400, "validation_error");
    host.get(&format!("/v1/runs/{a}:diff?against=none")).await.refused(404, "run_not_found");
    assert_eq!(host.get(&format!("/v1/runs/{a}/ancestry")).await.expect(200)["parent"], json!(null));
    assert_eq!(host.get(&format!("/v1/runs/{c}")).await.expect(200)["status"], "failed");
    host.get(&format!("/v1/runs/{a}/artifacts/none")).await.refused(404, "not_found");
}

#[tokio::test]
async fn an_announced_artifact_is_readable_with_the_scope() {
    let host = Host::start_with(Settings { test_seams: true, ..Settings::default() }).await;
    let emit = json!({"artifactType": "report", "data": {"pages": 3}});
    host.register(&workflow("conformance-emit", &[("emit", "conformance.artifact.emit", emit)], &json!([])))
        .await;
    let run_id = host.create("conformance-emit").await;
    host.end_of(&run_id).await;
    let log = host.get(&format!("/v1/runs/{run_id}/events/poll")).await.expect(200);
    let announced =
        log["events"].as_array().unwrap().iter().find(|event| event["type"] == "artifact.created");
    let announced = &announced.unwrap()["payload"];
    assert_eq!((&announced["artifactType"], &announced["nodeId"]), (&json!("report"), &json!("emit")));
    let path = format!("/v1/runs/{run_id}/artifacts/{}", announced["artifactId"].as_str().unwrap());
    let artifact = host.get(&path).await.expect(200);
    assert_eq!(artifact["data"], json!({"pages": 3}));
    host.get_as(OTHER, &path).await.refused(404, "run_not_found");
    host.post(&path, &json!({})).await.refused(405, "method_not_allowed");
}

#[tokio::test]
async fn active_requests_are_answered_during_shutdown() {
    let mut host = Host::start().await;
    host.register(&slow()).await;
    host.register(&short()).await;
    let run_id = host.create("slow").await;
    let address = host.address;
    let path = format!("/v1/runs/{run_id}/events/poll?lastSequence=1000&timeout=60");
    let request = super::client::request(
        "GET",
        &path,
        &[("authorization", &format!("Bearer {}", super::service::KEY))],
        None,
    );
    let polling = tokio::spawn(async move { super::client::raw(address, &request).await });
    while !host.get("/metrics").await.text().contains("interlock_http_requests_in_flight 2") {
        tokio::task::yield_now().await;
    }
    host.stop().await;
    let polled = polling.await.unwrap().unwrap();
    assert_eq!(polled.expect(200), json!({"events": [], "isComplete": false}));
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn mocks_of_providers_are_for_tests_and_there_are_none() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let body = json!({"workflowId": "noop", "configurable": {"mockProvider": {"id": "stream-text"}}});
    let refused = host.post("/v1/runs", &body).await.refused(403, "mock_provider_forbidden");
    assert_eq!(refused["details"]["supportedProviders"], json!([]));
    assert_eq!(refused["details"]["requestedProvider"], "stream-text");
    let (key, body) = (format!("Bearer {TESTER}"), body.to_string());
    let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
    let refused = host.send("POST", "/v1/runs", &headers, Some(body.as_bytes())).await;
    refused.refused(400, "unsupported_mock_provider");
}
