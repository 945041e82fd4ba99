//! Idempotent requests get the same reply, including errors.

use std::collections::BTreeSet;

use runs::rates::{Rate, RateLimits};
use serde_json::{Value, json};
use server::http::Settings;

use super::client::Answer;
use super::service::{Host, KEY, READER, TESTER, gate, noop};

const REPLAY: &str = "openwop-idempotent-replay";

fn keyed(key: &str) -> [(&str, &str); 1] {
    [("idempotency-key", key)]
}

async fn post(host: &Host, path: &str, key: &str, body: &Value) -> Answer {
    host.post_with(path, &keyed(key), body).await
}

#[tokio::test]
async fn a_permanent_error_is_repeated_for_the_same_key() {
    let host = Host::start().await;
    let body = json!({"workflowId": "noop"});
    let refused = post(&host, "/v1/runs", "k", &body).await;
    let first = refused.refused(404, "workflow_not_found");
    host.register(&noop()).await;
    let again = post(&host, "/v1/runs", "k", &body).await;
    assert_eq!(again.refused(404, "workflow_not_found"), first);
    assert_eq!(again.header(REPLAY), Some("true"));
    post(&host, "/v1/runs", "k", &json!({"workflowId": "other"}))
        .await
        .refused(409, "idempotency_key_mismatch");
    post(&host, "/v1/runs", "another", &body).await.expect(201);
}

#[tokio::test]
async fn an_error_that_the_caller_can_fix_is_not_recorded_for_a_key() {
    let host = Host::start().await;
    host.register(&noop()).await;
    for _ in 0..2 {
        let refused = post(&host, "/v1/runs", "k", &json!({"workflowId": "noop", "tags": 1})).await;
        refused.refused(400, "validation_error");
        assert_eq!(refused.header(REPLAY), None);
    }
    post(&host, "/v1/runs", "k", &json!({"workflowId": "noop"})).await.expect(201);
}

#[tokio::test]
async fn a_request_is_the_same_whatever_the_order_of_its_members_and_on_every_repetition() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let spellings = [
        r#"{"workflowId":"noop","tags":["a"],"metadata":{"x":1,"y":2}}"#,
        r#"{ "metadata": {"y": 2.0, "x": 1}, "tags": ["\u0061"], "workflowId": "noop" }"#,
    ];
    let authorization = format!("Bearer {KEY}");
    let headers = [("authorization", authorization.as_str()), ("idempotency-key", "k")];
    let mut bodies = BTreeSet::new();
    for (place, spelling) in spellings.iter().cycle().take(6).enumerate() {
        let answer = host.send("POST", "/v1/runs", &headers, Some(spelling.as_bytes())).await;
        answer.expect(201);
        assert_eq!(answer.header(REPLAY), Some(if place == 0 { "false" } else { "true" }));
        bodies.insert(answer.body);
    }
    assert_eq!(bodies.len(), 1, "the bytes of the first answer");
    // Reads ignore the idempotency key.
    for _ in 0..2 {
        let listed = host.send("GET", "/v1/runs", &headers, None).await;
        assert_eq!(listed.expect(200)["runs"].as_array().unwrap().len(), 1);
        assert_eq!(listed.header(REPLAY), None);
    }
}

#[tokio::test]
async fn permission_and_temporary_errors_are_not_recorded_for_a_key() {
    let limits = RateLimits { key: Some(Rate::new(1, 2)), ..RateLimits::default() };
    let host = Host::start_limited(Settings::default(), limits).await;
    let keyed_as = async |key: &str, idempotency: &str, body: &Value| {
        let authorization = format!("Bearer {key}");
        let headers = [("authorization", authorization.as_str()), ("idempotency-key", idempotency)];
        host.post_with("/v1/runs", &headers, body).await
    };
    let (body, key) = (json!({"workflowId": "noop"}), format!("Bearer {KEY}"));
    host.post_with("/v1/workflows", &[("authorization", &key)], &noop()).await.expect(201);
    let refused = keyed_as(READER, "k", &body).await;
    refused.refused(403, "forbidden");
    assert_eq!(refused.header(REPLAY), None);
    let created = keyed_as(KEY, "k", &body).await;
    created.expect(201);
    assert_eq!(created.header(REPLAY), Some("false"), "the same tenant and the same key: nothing was kept");
    // The rate limit of the key is used up; another key of the tenant sends the request again.
    let limited = keyed_as(KEY, "l", &body).await;
    limited.refused(429, "rate_limited");
    let created = keyed_as(TESTER, "l", &body).await;
    created.expect(201);
    assert_eq!(created.header(REPLAY), Some("false"));
}

#[tokio::test]
async fn during_shutdown_requests_get_503_with_retry_after() {
    let host = Host::start().await;
    host.register(&noop()).await;
    host.runs.drain().await;
    let refused = post(&host, "/v1/runs", "k", &json!({"workflowId": "noop"})).await;
    let body = refused.refused(503, "service_unavailable");
    assert_eq!(refused.header("retry-after").unwrap(), body["details"]["retryAfter"].to_string());
    assert!(body["details"]["correlationId"].as_str().is_some_and(|id| !id.is_empty()));
    assert_eq!(refused.header(REPLAY), None);
    for path in ["/.well-known/openwop", "/v1/openapi.json"] {
        host.send("GET", path, &[], None).await.expect(200);
    }
}

#[tokio::test]
async fn a_conflict_is_final_and_the_reply_to_an_idempotency_key_never_changes() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    let resume = format!("/v1/runs/{run_id}:resume");
    post(&host, &resume, "r", &json!({})).await.refused(409, "conflict");
    post(&host, &format!("/v1/runs/{run_id}:pause"), "p", &json!({})).await.expect(202);
    let again = post(&host, &resume, "r", &json!({})).await;
    again.refused(409, "conflict");
    assert_eq!(again.header(REPLAY), Some("true"));
    post(&host, &resume, "r2", &json!({})).await.expect(202);
}

#[tokio::test]
async fn nothing_is_recorded_for_an_unauthenticated_caller() {
    let host = Host::start().await;
    for _ in 0..2 {
        let body = json!({"resumeValue": 1}).to_string();
        let refused = host.send("POST", "/v1/interrupts/nonsense", &keyed("k"), Some(body.as_bytes())).await;
        refused.refused(404, "interrupt_not_found");
        assert_eq!(refused.header(REPLAY), None);
    }
}

#[tokio::test]
async fn deleting_a_webhook_twice_with_one_key_is_idempotent() {
    let host = Host::start().await;
    let body = json!({"url": "https://example.com/hook", "events": ["run.completed"]});
    let id = host.post("/v1/webhooks", &body).await.expect(201)["webhookId"].as_str().unwrap().to_owned();
    let authorization = format!("Bearer {KEY}");
    let delete = async |key: &str| {
        let headers = [("authorization", authorization.as_str()), ("idempotency-key", key)];
        host.send("DELETE", &format!("/v1/webhooks/{id}"), &headers, None).await
    };
    for replayed in ["false", "true"] {
        let deleted = delete("k").await;
        assert_eq!((deleted.status, deleted.body.len()), (204, 0));
        assert_eq!(deleted.header(REPLAY), Some(replayed));
    }
    delete("other").await.refused(404, "subscription_not_found");
}
