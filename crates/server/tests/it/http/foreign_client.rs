//! The requests of the official client 1.8.0 for version 1, and the replies to it and others outside of `/v1`.

use axum::Router;
use axum::response::Redirect;
use serde_json::json;
use server::http::Settings;

use super::service::{Host, KEY, noop};

type Headers<'h> = &'h [(&'h str, &'h str)];
/// Method, path and headers of the request; status, code and path of the reply.
type Case<'c> = (&'c str, &'c str, Headers<'c>, u16, &'c str, Option<&'c str>);

/// `webhooks_register` raised `KeyError: 'url'` after the subscription was created, and its generated secret was lost (finding 2 of
/// the review of clients).
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

/// The typed `RunConfigurable` sends unset options as `null`, and an empty `extras` (finding 3 of the review of clients).
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
    // A branch accepts the same options.
    let fork = json!({"mode": "branch", "fromSeq": 1, "runOptionsOverlay": {"configurable": configurable, "tags": null}});
    let forked = host.post(&format!("/v1/runs/{run_id}:fork"), &fork).await.expect(201);
    let forked = host.get(&format!("/v1/runs/{}", forked["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(forked["configurable"], json!({"recursionLimit": 50}));
    // Options that are set are still validated.
    for wrong in [json!({"extras": {"a": 1}}), json!({"recursionLimit": 0}), json!({"unknown": 1})] {
        let body = json!({"workflowId": "noop", "configurable": wrong});
        host.post("/v1/runs", &body).await.refused(400, "validation_error");
    }
}

/// An API client outside of `/v1` was redirected to the sign-in page, or asked to send forms (finding 4 of the review of clients).
#[tokio::test]
async fn programs_outside_of_v1_get_version_2_or_the_path_to_use_and_browsers_get_pages() {
    let pages = Router::new().fallback(async || Redirect::to("/console/sign-in"));
    let host = Host::start_with_pages(Settings::default(), pages).await;
    let bearer = format!("Bearer {KEY}");
    let (key, json) = (("authorization", bearer.as_str()), ("accept", "application/json"));
    let cases: [Case<'_>; 10] = [
        ("GET", "/runs", &[json], 401, "unauthenticated", None),
        ("GET", "/runs/run_1", &[key], 404, "not_found", None),
        ("POST", "/runs", &[key, ("content-type", "application/json")], 400, "validation_error", None),
        ("GET", "/v2/runs", &[key, json], 400, "validation_error", Some("/v1/runs")),
        ("GET", "/workflows", &[key, json], 400, "validation_error", Some("/v1/workflows")),
        ("GET", "/foo", &[key, ("openwop-version", "2.0")], 404, "not_found", None),
        ("GET", "/foo", &[("accept", "*/*")], 400, "validation_error", None),
        ("GET", "/", &[json], 400, "validation_error", None),
        ("GET", "/runs", &[key, json, ("openwop-version", "3.0")], 406, "protocol_version_unsupported", None),
        ("GET", "/v1/foo", &[key, json], 404, "not_found", None),
    ];
    for (method, path, headers, status, code, meant) in cases {
        let body = (method == "POST").then_some(&b"{}"[..]);
        let answer = host.send(method, path, headers, body).await;
        let error_body = answer.refused(status, code);
        assert_eq!(error_body["details"]["path"].as_str(), meant, "{method} {path}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{method} {path}");
    }
    let browser = ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
    let form = ("content-type", "application/x-www-form-urlencoded");
    let seen: [(&str, &str, Headers<'_>); 6] = [
        ("GET", "/runs", &[browser]),
        ("GET", "/foo", &[]),
        ("POST", "/console/sign-in", &[form, ("accept", "*/*")]),
        ("GET", "/console/runs", &[("accept", "*/*")]),
        ("GET", "/console", &[key, json]),
        ("GET", "/", &[("accept", "*/*")]),
    ];
    for (method, path, headers) in seen {
        let body = (method == "POST").then_some(&b"key=x"[..]);
        let answer = host.send(method, path, headers, body).await;
        assert_eq!(
            (answer.status, answer.header("location")),
            (303, Some("/console/sign-in")),
            "{method} {path}"
        );
    }
    // A client of version 1 that names its version is served as before.
    host.send("GET", "/v1/runs", &[key, json, ("openwop-version", "1.0")], None).await.expect(200);
}

/// Finding 7 of the review of clients: families that this host does not have were 404 or 400, but the client expects 501.
#[tokio::test]
async fn absent_capabilities_are_501_and_parameterless_reads_are_404_as_in_version_2() {
    let host = Host::start().await;
    let absent = [
        ("GET", "/v1/prompts/greeting", "prompts.endpointsSupported"),
        ("POST", "/v1/prompts:render", "prompts.endpointsSupported"),
        ("POST", "/v1/prompts", "prompts.mutableLibrary"),
        ("PUT", "/v1/prompts/greeting", "prompts.mutableLibrary"),
        ("GET", "/v1/content/pages/home", "content"),
        ("PUT", "/v1/content/settings", "content"),
        ("GET", "/v1/host/workspace/files", "workspace"),
        ("GET", "/v1/host/workspace/files/notes%2Ftoday.md", "workspace"),
        ("DELETE", "/v1/host/workspace/files/notes%2Ftoday.md", "workspace"),
        ("POST", "/v1/trigger-subscriptions", "triggerBridge.ingestion.registrationEndpoint"),
    ];
    let bearer = format!("Bearer {KEY}");
    for (method, path, capability) in absent {
        host.send(method, path, &[], None).await.refused(401, "unauthenticated");
        let answer = host.send(method, path, &[("authorization", &bearer)], Some(b"{}")).await;
        let refused = answer.refused(501, "capability_not_provided");
        assert_eq!(refused["details"]["requiredCapability"], capability, "{method} {path}");
    }
    // The parameterless reads of version 2 that are not served. The suite compares both versions.
    for path in [
        "/v1/agents",
        "/v1/agents/org-chart",
        "/v1/agents/roster",
        "/v1/content/pages",
        "/v1/content/settings",
        "/v1/host/effect-seams",
        "/v1/host/events",
        "/v1/prompts",
        "/v1/proposals",
        "/v1/connection-providers",
    ] {
        host.get(path).await.refused(404, "not_found");
    }
}

/// Finding 5 of the review of clients: a client that speaks another version was silently served the wrong contract.
#[tokio::test]
async fn a_version_that_contradicts_the_path_is_refused_and_every_reply_names_its_version() {
    let host = Host::start().await;
    let bearer = format!("Bearer {KEY}");
    let get = async |path: &str, version: &str| {
        let headers = [("authorization", bearer.as_str()), ("openwop-version", version)];
        host.send("GET", path, &headers, None).await
    };
    for (path, version, status, code) in [
        ("/v1/runs", "2.0", 400, "protocol_version_mismatch"),
        ("/v1/openapi.json", "2", 400, "protocol_version_mismatch"),
        ("/v1/none", "2", 400, "protocol_version_mismatch"),
        ("/.well-known/openwop", "9", 406, "protocol_version_unsupported"),
        ("/runs", "x", 406, "protocol_version_unsupported"),
    ] {
        let answer = get(path, version).await;
        assert_eq!(answer.refused(status, code)["details"]["protocolVersions"], json!(["1.0", "2.0"]));
        let follows = if path.starts_with("/v1/") { "1.0" } else { "2.0" };
        assert_eq!(answer.header("openwop-version"), Some(follows), "{path}");
    }
    for path in ["/v1/runs", "/.well-known/openwop", "/v1/runs/none", "/v1/openapi.json"] {
        assert_eq!(get(path, "1.0").await.header("openwop-version"), Some("1.0"), "{path}");
        assert_eq!(host.send("GET", path, &[], None).await.header("openwop-version"), Some("1.0"), "{path}");
    }
    for path in ["/healthz", "/metrics"] {
        let answer = get(path, "9").await;
        assert_eq!((answer.status, answer.header("openwop-version")), (200, None), "{path}");
    }
}
