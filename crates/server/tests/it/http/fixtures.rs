//! The protocol fixtures, end to end.

use serde_json::{Value, json};
use server::http::Settings;

use super::published::Published;
use super::service::{Host, protocol_file, protocol_folder};

fn fixture(id: &str) -> Option<Value> {
    protocol_file(&format!("fixtures/{id}.json"))
}

/// A host as a suite starts it: mock nodes are supported if seams are enabled.
async fn suite() -> Host {
    Host::start_with(Settings { test_seams: true, ..Settings::default() }).await
}

#[tokio::test]
async fn fixtures_end_as_they_should() {
    let host = suite().await;
    let nested = json!({"a": [1, {"b": null}], "c": "ü"});
    let cases = [
        ("conformance-noop", json!({}), "completed"),
        ("conformance-identity", json!({"inputs": {"payload": nested}}), "completed"),
        ("conformance-multi-node", json!({}), "completed"),
        ("conformance-failure", json!({}), "failed"),
        ("conformance-delay", json!({"inputs": {"delayMs": 50}}), "completed"),
        ("conformance-cap-breach", json!({"configurable": {"recursionLimit": 3}}), "failed"),
        ("conformance-cap-breach", json!({}), "completed"),
        ("conformance-capability-missing", json!({}), "failed"),
        ("conformance-channel-ttl", json!({}), "completed"),
        ("conformance-run-duration-breach", json!({"configurable": {"runTimeoutMs": 1000}}), "failed"),
    ];
    for (id, mut body, status) in cases {
        let Some(workflow) = fixture(id) else { return };
        host.register(&workflow).await;
        assert_eq!(host.get(&format!("/v1/workflows/{id}")).await.expect(200), workflow);
        body["workflowId"] = id.into();
        let run_id = host.create_with(&body).await;
        let run = host.end_of(&run_id).await;
        assert_eq!(run["status"], status, "{id}: {run}");
        match id {
            "conformance-identity" => assert_eq!(run["variables"]["payload"], nested),
            "conformance-run-duration-breach" => assert_eq!(run["error"]["code"], "run_timeout"),
            "conformance-capability-missing" => assert_eq!(run["error"]["code"], "capability_not_provided"),
            _ => {}
        }
        if status == "failed" && id == "conformance-cap-breach" {
            assert_eq!(run["error"]["code"], "recursion_limit_exceeded");
        }
    }
}

#[tokio::test]
async fn waiting_fixtures_continue_when_they_are_answered() {
    let host = suite().await;
    let accept = |voter: &str| json!({"action": "accept", "voter": voter});
    let cases = [
        ("conformance-approval", "waiting-approval", "gate", vec![accept("a")]),
        ("conformance-clarification", "waiting-input", "ask", vec![json!({"answers": {"q1": "blue"}})]),
        (
            "conformance-interrupt-quorum",
            "waiting-approval",
            "gate",
            vec![accept("a"), accept("b"), accept("c")],
        ),
        (
            "conformance-interrupt-external-event",
            "waiting-external",
            "wait-for-external",
            vec![json!({"orderId": "fixture-order-1", "status": "completed"})],
        ),
        ("conformance-interrupt-auth-required", "waiting-approval", "gate", vec![accept("a")]),
    ];
    for (id, status, node, answers) in cases {
        let Some(workflow) = fixture(id) else { return };
        host.register(&workflow).await;
        let run_id = host.create(id).await;
        let path = format!("/v1/runs/{run_id}");
        assert_eq!(host.get(&path).await.expect(200)["status"], status, "{id}");
        for answer in answers {
            let answered =
                host.post(&format!("{path}/interrupts/{node}"), &json!({"resumeValue": answer})).await;
            assert_eq!(answered.status, 200, "{id}: {}", answered.text());
        }
        let run = host.end_of(&run_id).await;
        assert_eq!(run["status"], "completed", "{id}: {run}");
    }
}

#[tokio::test]
async fn cancelling_a_parent_cancels_its_children() {
    let host = suite().await;
    for id in ["conformance-interrupt-parent-child-cancel-child", "conformance-interrupt-parent-child-cancel"]
    {
        let Some(workflow) = fixture(id) else { return };
        host.register(&workflow).await;
    }
    let parent = host.create("conformance-interrupt-parent-child-cancel").await;
    // A child run is readable as soon as its id is known.
    let read = host.get(&format!("/v1/runs/{parent}")).await.expect(200);
    let child = read["childRuns"][0]["runId"].as_str().unwrap().to_owned();
    host.get(&format!("/v1/runs/{child}")).await.expect(200);
    while host.get(&format!("/v1/runs/{parent}")).await.expect(200)["status"] != "waiting-approval" {
        tokio::task::yield_now().await;
    }
    let read = host.get(&format!("/v1/runs/{parent}")).await.expect(200);
    assert_eq!(read["childRuns"][0]["status"], "waiting-approval", "a parent shows what its child waits for");
    let ancestry = host.get(&format!("/v1/runs/{child}/ancestry")).await.expect(200);
    let cause = json!({"runId": parent, "hostId": ancestry["hostId"], "cause": "core.subWorkflow"});
    assert_eq!(ancestry["parent"], cause);
    let owner =
        async |run_id: &str| host.get(&format!("/v1/runs/{run_id}")).await.expect(200)["owner"].clone();
    assert_eq!(owner(&child).await, owner(&parent).await, "a child is of whom its parent is");
    host.post(&format!("/v1/runs/{parent}/cancel"), &json!({})).await.expect(200);
    assert_eq!(host.end_of(&parent).await["status"], "cancelled");
    assert_eq!(host.end_of(&child).await["status"], "cancelled");
    let answer = json!({"resumeValue": {"action": "accept"}});
    host.post(&format!("/v1/runs/{child}/interrupts/child-gate"), &answer)
        .await
        .refused(410, "interrupt_gone");
}

#[tokio::test]
async fn answers_that_a_profile_does_not_take_leave_the_run_waiting() {
    let host = suite().await;
    let reject = |voter: &str| json!({"resumeValue": {"action": "reject", "voter": voter}});
    for id in [
        "conformance-interrupt-auth-required",
        "conformance-interrupt-external-event",
        "conformance-interrupt-quorum",
    ] {
        let Some(workflow) = fixture(id) else { return };
        host.register(&workflow).await;
    }
    let run_id = host.create("conformance-interrupt-auth-required").await;
    let run = host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
    if let Some(token) = run["interrupt"]["interruptToken"].as_str() {
        let body = json!({"resumeValue": {"action": "accept"}}).to_string();
        let answer = host.send("POST", &format!("/v1/interrupts/{token}"), &[], Some(body.as_bytes())).await;
        assert!(matches!(answer.status, 401 | 403), "{}", answer.text());
    }
    let run_id = host.create("conformance-interrupt-external-event").await;
    let wrong = json!({"resumeValue": {"orderId": "other", "status": "completed"}});
    let path = format!("/v1/runs/{run_id}/interrupts/wait-for-external");
    host.post(&path, &wrong).await.refused(422, "validation_error");
    assert_eq!(host.get(&format!("/v1/runs/{run_id}")).await.expect(200)["status"], "waiting-external");
    let run_id = host.create("conformance-interrupt-quorum").await;
    for voter in ["a", "b"] {
        host.post(&format!("/v1/runs/{run_id}/interrupts/gate"), &reject(voter)).await.expect(200);
    }
    let run = host.end_of(&run_id).await;
    assert_eq!((&run["status"], &run["error"]["code"]), (&json!("failed"), &json!("interrupt_rejected")));
}

#[tokio::test]
async fn no_fixture_makes_the_host_fail_and_every_answer_is_as_it_was_published() {
    let (Some(fixtures), Some(published)) = (protocol_folder("fixtures"), Published::read()) else { return };
    let host = suite().await;
    let mut ids = Vec::new();
    for workflow in fixtures {
        let registered = host.post("/v1/workflows", &workflow).await;
        assert!(matches!(registered.status, 200 | 201 | 400), "{}: {}", workflow["id"], registered.text());
        if registered.status != 400 {
            ids.push(workflow["id"].as_str().unwrap().to_owned());
        }
    }
    assert!(ids.len() > 30, "{ids:?}");
    for id in ids {
        let created = host.post("/v1/runs", &json!({"workflowId": id})).await;
        assert!(matches!(created.status, 201 | 400), "{id}: {}", created.text());
        if created.status == 400 {
            continue;
        }
        let run_id = created.json()["runId"].as_str().unwrap().to_owned();
        let path = format!("/v1/runs/{run_id}");
        let note = json!({"signal": {"kind": "rating", "rating": 5}, "note": "good"});
        published.check("annotation", &host.post(&format!("{path}/annotations"), &note).await.expect(201));
        for (path, schema, each) in [
            (path.clone(), "run-snapshot", None),
            (format!("{path}/events/poll?timeout=0"), "run-event", Some("events")),
            (format!("{path}:diff?against={run_id}"), "run-diff-response", None),
            (format!("{path}/ancestry"), "run-ancestry-response", None),
            (format!("{path}/debug-bundle"), "debug-bundle", None),
            (format!("{path}/annotations"), "annotation", Some("annotations")),
        ] {
            let mut answer = host.get(&path).await.expect(200);
            // A bundle contains the snapshot while the run continues: validate it with the schema of snapshots. The schema of
            // bundles only knows the statuses of an older edition.
            if let Some(run) = answer.get("run") {
                published.check("run-snapshot", run);
            }
            if let Some(status) = answer.pointer_mut("/run/status") {
                *status = json!("running");
            }
            match each {
                None => published.check(schema, &answer),
                Some(each) => {
                    answer[each].as_array().unwrap().iter().for_each(|item| published.check(schema, item));
                }
            }
        }
        host.post(&format!("{path}/cancel"), &json!({})).await.expect(200);
        let ended = host.end_of(&run_id).await;
        assert!(
            matches!(ended["status"].as_str(), Some("completed" | "failed" | "cancelled")),
            "{id}: {ended}"
        );
    }
    let verified = host.get("/v1/audit/verify").await.expect(200);
    assert_eq!(verified["chainValid"], true);
    published.check("audit-verify-result", &verified);
    for path in ["/v1/runs/none", "/v1/runs?limit=none", "/v1/nowhere", "/v1/interrupts/none"] {
        published.check("error-envelope", &host.get(path).await.json());
    }
}
