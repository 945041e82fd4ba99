//! What the official client 1.8.0 for version 1 sends, request by request, and what it and others meet outside of `/v1`.

use axum::Router;
use axum::response::Redirect;
use serde_json::json;
use server::http::Settings;

use super::service::{Host, KEY, noop};

type Headers<'h> = &'h [(&'h str, &'h str)];
/// Method, path and headers; the status, the code and the path that are answered.
type Case<'c> = (&'c str, &'c str, Headers<'c>, u16, &'c str, Option<&'c str>);

/// `webhooks_register` raised `KeyError: 'url'` after the subscription was made, and its generated secret was lost (finding 2 of the
/// review of clients).
#[tokio::test]
async fn a_webhook_is_registered_and_the_answer_has_all_that_the_client_reads() {
    let host = Host::start().await;
    let body = json!({"url": "https://example.com/hook", "events": ["run.completed", "run.failed"]});
    let made = host.post_with("/v1/webhooks", &[("accept", "application/json")], &body).await.expect(201);
    assert_eq!((&made["url"], &made["eventTypes"]), (&body["url"], &body["events"]));
    assert_eq!(made["subscriptionId"], made["webhookId"]);
    assert!(made["secret"].as_str().is_some_and(|secret| secret.len() >= 32));
    let created = made["createdAt"].as_str().unwrap();
    assert!(created.starts_with("20") && created.ends_with('Z'), "{created}");
}

/// The typed `RunConfigurable` sends what is not set as `null`, and an empty `extras` (finding 3 of the review of clients).
#[tokio::test]
async fn options_that_are_null_are_not_set() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let configurable = json!({
        "recursionLimit": 50, "runTimeoutMs": null, "maxLoopIterations": null, "model": null, "temperature": null,
        "maxTokens": null, "promptOverrides": null, "extras": {},
    });
    let body = json!({"workflowId": "noop", "inputs": {}, "configurable": configurable});
    let run_id = host.create_with(&body).await;
    let run = host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
    assert_eq!(run["configurable"], json!({"recursionLimit": 50}));
    let every = json!({
        "workflowId": "noop", "inputs": null, "tenantId": null, "scopeId": null, "callbackUrl": null, "configurable": null,
        "tags": null, "metadata": null,
    });
    host.create_with(&every).await;
    let nested = json!({"workflowId": "noop", "configurable": {"ai": {"provider": null, "model": null}, "mockProvider": null}});
    host.create_with(&nested).await;
    // A branch takes the same options.
    let fork = json!({"mode": "branch", "fromSeq": 1, "runOptionsOverlay": {"configurable": configurable, "tags": null}});
    let forked = host.post(&format!("/v1/runs/{run_id}:fork"), &fork).await.expect(201);
    let forked = host.get(&format!("/v1/runs/{}", forked["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(forked["configurable"], json!({"recursionLimit": 50}));
    // What is set is still checked.
    for wrong in [json!({"extras": {"a": 1}}), json!({"recursionLimit": 0}), json!({"unknown": 1})] {
        let body = json!({"workflowId": "noop", "configurable": wrong});
        host.post("/v1/runs", &body).await.refused(400, "validation_error");
    }
}

/// A program outside of `/v1` was sent to the sign-in page, or told to send forms (finding 4 of the review of clients).
#[tokio::test]
async fn programs_outside_of_v1_are_told_which_path_to_use_and_browsers_see_pages() {
    let pages = Router::new().fallback(async || Redirect::to("/sign-in"));
    let host = Host::start_with_pages(Settings::default(), pages).await;
    let bearer = format!("Bearer {KEY}");
    let (key, json) = (("authorization", bearer.as_str()), ("accept", "application/json"));
    let cases: [Case<'_>; 9] = [
        ("GET", "/runs", &[key, json], 400, "validation_error", Some("/v1/runs")),
        ("GET", "/runs", &[json], 400, "validation_error", Some("/v1/runs")),
        ("GET", "/runs/run_1", &[key], 400, "validation_error", Some("/v1/runs/{runId}")),
        (
            "POST",
            "/runs",
            &[key, ("content-type", "application/json")],
            400,
            "validation_error",
            Some("/v1/runs"),
        ),
        ("GET", "/v2/runs", &[key, json], 400, "validation_error", Some("/v1/runs")),
        ("GET", "/openapi.json", &[json], 400, "validation_error", Some("/v1/openapi.json")),
        ("GET", "/foo", &[("accept", "*/*")], 400, "validation_error", None),
        (
            "GET",
            "/runs",
            &[key, json, ("openwop-version", "2.0")],
            406,
            "protocol_version_unsupported",
            Some("/v1/runs"),
        ),
        ("GET", "/v1/foo", &[key, json], 404, "not_found", None),
    ];
    for (method, path, headers, status, code, meant) in cases {
        let body = (method == "POST").then_some(&b"{}"[..]);
        let answer = host.send(method, path, headers, body).await;
        let told = answer.refused(status, code);
        assert_eq!(told["details"]["path"].as_str(), meant, "{method} {path}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{method} {path}");
    }
    let browser = ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
    let cookie = ("cookie", "session=x");
    let form = ("content-type", "application/x-www-form-urlencoded");
    let seen: [(&str, &str, Headers<'_>); 5] = [
        ("GET", "/runs", &[browser]),
        ("GET", "/foo", &[]),
        ("GET", "/runs/run_1", &[cookie, ("accept", "text/event-stream")]),
        ("POST", "/sign-in", &[form, ("accept", "*/*")]),
        ("GET", "/", &[("accept", "*/*")]),
    ];
    for (method, path, headers) in seen {
        let body = (method == "POST").then_some(&b"key=x"[..]);
        let answer = host.send(method, path, headers, body).await;
        assert_eq!((answer.status, answer.header("location")), (303, Some("/sign-in")), "{method} {path}");
    }
    // A client of version 1 that names its version is served as before.
    host.send("GET", "/v1/runs", &[key, json, ("openwop-version", "1.0")], None).await.expect(200);
}
