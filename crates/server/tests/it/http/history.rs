//! Forks, notes, debug bundles and the audit log.

use serde_json::{Value, json};

use super::service::{Host, OTHER, READER, gate, noop, slow};

fn shape(events: &Value) -> Vec<(String, Value)> {
    let events = events["events"].as_array().unwrap();
    events.iter().map(|event| (event["type"].to_string(), event["nodeId"].clone())).collect()
}

#[tokio::test]
async fn a_replay_repeats_its_source_and_a_branch_continues_it() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let source = host.create("noop").await;
    let path = format!("/v1/runs/{source}:fork");
    let events = async |run_id: &str| host.get(&format!("/v1/runs/{run_id}/events/poll")).await.expect(200);
    for body in [json!({"mode": "replay"}), json!({"mode": "branch", "fromSeq": 0})] {
        let forked = host.post(&path, &body).await.expect(201);
        assert_eq!((&forked["sourceRunId"], &forked["mode"]), (&json!(source), &body["mode"]));
        let fork = forked["runId"].as_str().unwrap();
        assert_ne!(fork, source);
        assert_eq!(host.end_of(fork).await["status"], "completed");
        assert_eq!(shape(&events(fork).await), shape(&events(&source).await));
        let same = host.get(&format!("/v1/runs/{source}:diff?against={fork}")).await.expect(200);
        assert_eq!(same["a"], source.as_str());
    }
    let cases = [
        (json!({"mode": "dance"}), 400),
        (json!({"mode": "replay", "fromSeq": -1}), 400),
        (json!({"mode": "replay", "fromSeq": 1.5}), 400),
        (json!({"mode": "branch"}), 400),
        (json!({"mode": "replay", "runOptionsOverlay": {"tags": ["x"]}}), 400),
        (json!({"mode": "branch", "fromSeq": 99_999}), 422),
    ];
    for (body, status) in cases {
        host.post(&path, &body).await.refused(status, "validation_error");
    }
    host.post("/v1/runs/none:fork", &json!({"mode": "replay"})).await.refused(404, "run_not_found");
    let reader = format!("Bearer {READER}");
    host.post_with(&path, &[("authorization", &reader)], &json!({"mode": "replay"}))
        .await
        .refused(403, "forbidden");
}

#[tokio::test]
async fn many_runs_are_ended_with_an_answer_for_each() {
    let host = Host::start().await;
    host.register(&slow()).await;
    host.register(&noop()).await;
    let (running, done) = (host.create("slow").await, host.create("noop").await);
    let body = json!({"runIds": [running, "none", done]});
    for _ in 0..2 {
        let ended = host.post("/v1/runs:bulk-cancel", &body).await.expect(200);
        let results = ended["results"].as_array().unwrap();
        assert_eq!((&results[0]["ok"], &results[0]["runId"]), (&json!(true), &json!(running)));
        assert_eq!((&results[1]["ok"], &results[1]["error"]["code"]), (&json!(false), &json!("not_found")));
        assert_eq!(
            (&results[2]["ok"], &results[2]["error"]["code"]),
            (&json!(false), &json!("run_terminal"))
        );
    }
    let many: Vec<String> = (0..101).map(|number| format!("run_{number}")).collect();
    for body in [json!({}), json!({"runIds": []}), json!({"runIds": "x"}), json!({"runIds": many})] {
        let refused = host.post("/v1/runs:bulk-cancel", &body).await.refused(400, "validation_error");
        assert_eq!(refused["details"]["maxRunIds"], 100, "{refused}");
    }
    host.get("/v1/runs:bulk-cancel").await.refused(405, "method_not_allowed");
}

#[tokio::test]
async fn annotations_are_stored_beside_a_run() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let run_id = host.create("noop").await;
    let path = format!("/v1/runs/{run_id}/annotations");
    assert_eq!(host.get(&path).await.expect(200), json!({"annotations": []}));
    let note = json!({"signal": {"kind": "rating", "rating": 4}, "note": "key sk-aaaaaaaaaaaaaaaaaaaaaaaa"});
    let made = host.post(&path, &note).await.expect(201);
    assert_eq!(made["target"]["runId"], run_id.as_str());
    assert!(!made.to_string().contains("sk-aaaa"));
    assert_eq!(host.get(&path).await.expect(200)["annotations"], json!([made]));
    host.post(&path, &json!({"signal": {"kind": "rating", "rating": 6}}))
        .await
        .refused(400, "validation_error");
    host.post("/v1/runs/none/annotations", &note).await.refused(404, "run_not_found");
    host.get_as(OTHER, &path).await.refused(404, "run_not_found");
}

#[tokio::test]
async fn a_debug_bundle_has_the_run_and_its_events_but_no_token() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    let answer = host.get(&format!("/v1/runs/{run_id}/debug-bundle")).await;
    let bundle = answer.expect(200);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(bundle["bundleVersion"], "1.0");
    let polled = host.get(&format!("/v1/runs/{run_id}/events/poll")).await.expect(200);
    assert_eq!(bundle["events"], polled["events"]);
    assert!(!answer.text().contains("interruptToken"));
    let cut = host.get(&format!("/v1/runs/{run_id}/debug-bundle?maxEvents=1")).await.expect(200);
    assert_eq!((cut["events"].as_array().unwrap().len(), &cut["truncated"]), (1, &json!(true)));
    host.get(&format!("/v1/runs/{run_id}/debug-bundle?maxEvents=x")).await.refused(400, "validation_error");
    host.get("/v1/runs/none/debug-bundle").await.refused(404, "run_not_found");
}

#[tokio::test]
async fn the_audit_log_is_verified_for_those_who_may_read_it() {
    let host = Host::start().await;
    host.register(&noop()).await;
    host.create("noop").await;
    let verified = host.get("/v1/audit/verify").await.expect(200);
    assert_eq!((&verified["chainValid"], &verified["anomalies"]), (&json!(true), &json!([])));
    assert!(verified["toSeq"].as_u64().unwrap() > 0);
    let part = host.get("/v1/audit/verify?fromSeq=0&toSeq=1").await.expect(200);
    assert_eq!((&part["fromSeq"], &part["toSeq"]), (&json!(0), &json!(1)));
    for query in ["fromSeq=x", "fromSeq=2&toSeq=1", "fromSeq=-1", "toSeq=18446744073709551615"] {
        host.get(&format!("/v1/audit/verify?{query}")).await.refused(400, "validation_error");
    }
    host.get_as(READER, "/v1/audit/verify").await.refused(403, "forbidden");
}
