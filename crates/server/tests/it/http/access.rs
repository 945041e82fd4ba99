//! Access control, and what refused callers can learn.

use flow::id::Tenant;
use ports::runs::prelude::*;
use runs::Scope;
use runs::keys::{self, ApiKey};
use serde_json::{Value, json};

use super::client::{raw, request};
use super::service::{EXPIRED, Host, KEY, OTHER, READER, REVOKED, noop};

#[tokio::test]
async fn without_a_valid_key_the_reply_only_has_the_reason() {
    let host = Host::start().await;
    let unknown = "ilk_live_ffffffffffffffffffffffff";
    let cases: [(&str, Option<String>, &str); 10] = [
        ("none", None, "unauthenticated"),
        ("unknown", Some(format!("Bearer {unknown}")), "unauthenticated"),
        ("another scheme", Some(format!("Basic {KEY}")), "unauthenticated"),
        ("no scheme", Some(KEY.to_owned()), "unauthenticated"),
        ("empty", Some("Bearer ".to_owned()), "unauthenticated"),
        ("long", Some(format!("Bearer {}", "k".repeat(5000))), "unauthenticated"),
        ("of a provider", Some("Bearer sk-proj-abcdefghijklmnop1234".to_owned()), "unauthenticated"),
        ("a token", Some("Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln".to_owned()), "unauthenticated"),
        ("revoked", Some(format!("Bearer {REVOKED}")), "key_revoked"),
        ("over", Some(format!("Bearer {EXPIRED}")), "key_expired"),
    ];
    for (name, authorization, code) in cases {
        for path in ["/v1/runs", "/v1/runs/run_1", "/v1/nothing", "/v1/runs/run_1/artifacts/a", "/metrics"] {
            for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
                let headers: Vec<_> =
                    authorization.iter().map(|value| ("authorization", value.as_str())).collect();
                let answer = host.send(method, path, &headers, None).await;
                answer.refused(401, code);
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{name}");
                assert!(answer.header("allow").is_none(), "{name} {method} {path}");
                assert!(!answer.text().contains("ilk_live_"), "{name}");
                let presented = authorization.as_deref().and_then(|value| value.split(' ').next_back());
                let presented = presented.filter(|value| !value.is_empty());
                let reply_text = format!("{:?} {}", answer.headers, answer.text());
                assert!(presented.is_none_or(|value| !reply_text.contains(value)), "{name}: {reply_text}");
            }
        }
    }
}

#[tokio::test]
async fn two_keys_in_one_request_are_rejected() {
    let host = Host::start().await;
    let key = format!("Bearer {KEY}");
    let answer =
        host.send("GET", "/v1/runs", &[("authorization", &key), ("authorization", &key)], None).await;
    answer.refused(401, "unauthenticated");
}

#[tokio::test]
async fn a_missing_scope_is_reported_before_any_lookup() {
    let host = Host::start().await;
    let reader = format!("Bearer {READER}");
    let cases = [
        ("POST", "/v1/runs", "runs:create"),
        ("POST", "/v1/workflows", "manifest:write"),
        ("GET", "/v1/workflows/none", "manifest:read"),
        ("POST", "/v1/runs/none:pause", "runs:cancel"),
        ("POST", "/v1/runs/none/interrupts/none", "approvals:respond"),
        ("GET", "/v1/runs/none/artifacts/none", "artifacts:read"),
        ("GET", "/metrics", "host:admin"),
    ];
    for (method, path, scope) in cases {
        let answer = host.send(method, path, &[("authorization", &reader)], Some(b"not json")).await;
        assert_eq!(answer.refused(403, "forbidden")["details"]["scopeRequired"], scope);
    }
}

/// The scopes that the protocol requires, independent of the route table.
const SCOPES: [(&str, &str, &[Scope]); 28] = [
    ("GET", "/v1/workflows/none", &[Scope::ManifestRead]),
    ("POST", "/v1/runs", &[Scope::RunsCreate]),
    ("GET", "/v1/runs", &[Scope::RunsRead]),
    ("GET", "/v1/runs/none", &[Scope::RunsRead]),
    ("POST", "/v1/runs/none/cancel", &[Scope::RunsCancel]),
    ("POST", "/v1/runs:bulk-cancel", &[Scope::RunsCancel]),
    ("POST", "/v1/runs/none:pause", &[Scope::RunsCancel]),
    ("POST", "/v1/runs/none:resume", &[Scope::RunsCancel]),
    ("POST", "/v1/runs/none:fork", &[Scope::RunsCreate, Scope::RunsRead]),
    ("GET", "/v1/runs/none/events", &[Scope::RunsRead]),
    ("GET", "/v1/runs/none/events/poll", &[Scope::RunsRead]),
    ("GET", "/v1/runs/none/ancestry", &[Scope::RunsRead]),
    ("GET", "/v1/runs/none:diff?against=none", &[Scope::RunsRead]),
    ("POST", "/v1/runs/none/interrupts/none", &[Scope::ApprovalsRespond]),
    ("POST", "/v1/runs/none/approvals/none", &[Scope::ApprovalsRespond]),
    ("GET", "/v1/runs/none/artifacts/none", &[Scope::ArtifactsRead]),
    ("GET", "/v1/runs/none/annotations", &[Scope::RunsRead]),
    ("GET", "/v1/runs/none/debug-bundle", &[Scope::RunsRead]),
    // Finding 6 of the review of clients: these required `manifest:read`.
    ("GET", "/v1/agents", &[Scope::RunsRead]),
    ("GET", "/v1/agents/none", &[Scope::RunsRead]),
    ("POST", "/v1/webhooks", &[Scope::WebhooksManage]),
    ("DELETE", "/v1/webhooks/none", &[Scope::WebhooksManage]),
    ("GET", "/v1/audit/verify", &[Scope::AuditRead]),
    ("POST", "/v1/workflows", &[Scope::ManifestWrite]),
    ("GET", "/v1/workflows", &[Scope::ManifestRead]),
    ("POST", "/v1/packs/vendor.acme.none/-/1.0.0/yank", &[Scope::PacksYank]),
    // The scope to yank a version does not allow unyanking it.
    ("DELETE", "/v1/packs/vendor.acme.none/-/1.0.0/yank", &[Scope::PacksYankRevert]),
    ("GET", "/metrics", &[Scope::Admin]),
];

/// Creates a key with these scopes and returns the value of its `Authorization` header.
async fn key_with(host: &Host, name: String, scopes: Vec<Scope>) -> String {
    let text = format!("ilk_live_scoped_{name:0>20}");
    let key = ApiKey {
        id: name,
        tenant: Tenant::new("a"),
        scopes,
        test: false,
        created_at: 0,
        expires_at: None,
        revoked_at: None,
        session: None,
    };
    host.runs.keys().put(keys::hash(&text), &key).await.unwrap();
    format!("Bearer {text}")
}

#[tokio::test]
async fn annotating_needs_one_of_two_scopes() {
    let host = Host::start().await;
    let annotate = async |scope: Scope| {
        let key = key_with(&host, scope.as_str().replace(':', "x"), vec![scope]).await;
        host.send("POST", "/v1/runs/none/annotations", &[("authorization", &key)], Some(b"{}")).await
    };
    for scope in [Scope::RunsAnnotate, Scope::RunsCreate] {
        annotate(scope).await.refused(400, "validation_error");
    }
    let refused = annotate(Scope::RunsRead).await.refused(403, "forbidden");
    assert_eq!(refused["details"]["scopeRequired"], "runs:annotate");
}

#[tokio::test]
async fn each_route_is_opened_by_its_own_scopes_and_by_no_others() {
    let host = Host::start().await;
    for (place, (method, path, scopes)) in SCOPES.into_iter().enumerate() {
        for missing in scopes {
            let others = Scope::ALL.iter().copied().filter(|scope| scope != missing).collect();
            let key = key_with(&host, format!("less{place}{missing}").replace(':', "x"), others).await;
            let refused = host.send(method, path, &[("authorization", &key)], Some(b"{}")).await;
            let refused = refused.refused(403, "forbidden");
            assert_eq!(refused["details"]["scopeRequired"], missing.as_str(), "{method} {path}");
        }
        let key = key_with(&host, format!("only{place}"), scopes.to_vec()).await;
        let answer = host.send(method, path, &[("authorization", &key)], Some(b"{}")).await;
        assert!(!matches!(answer.status, 401 | 403), "{method} {path}: {}", answer.text());
    }
}

#[tokio::test]
async fn tenants_do_not_see_each_other() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let run_id = host.create("noop").await;
    host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
    for path in [
        format!("/v1/runs/{run_id}"),
        format!("/v1/runs/{run_id}/events"),
        format!("/v1/runs/{run_id}/events/poll"),
        format!("/v1/runs/{run_id}/ancestry"),
        format!("/v1/runs/{run_id}:diff?against={run_id}"),
    ] {
        host.get_as(OTHER, &path).await.refused(404, "run_not_found");
    }
    assert_eq!(host.get_as(OTHER, "/v1/runs").await.expect(200), json!({"runs": []}));
    assert_eq!(host.get_as(OTHER, "/v1/workflows").await.expect(200), json!({"workflows": []}));
    host.get_as(OTHER, "/v1/workflows/noop").await.refused(404, "workflow_not_found");
    let other = format!("Bearer {OTHER}");
    host.post_with(&format!("/v1/runs/{run_id}/cancel"), &[("authorization", &other)], &json!({}))
        .await
        .refused(404, "run_not_found");
}

#[tokio::test]
async fn rejected_callers_are_in_the_audit_log() {
    let host = Host::start().await;
    let entries = |tenant: &str| {
        let entries = host.store.audit(&Tenant::new(tenant), 0, 100, 100).wait().unwrap();
        let entries = entries.iter().map(|entry| serde_json::from_slice::<Value>(&entry.entry).unwrap());
        let denied = entries.filter(|entry| entry["action"] == "request.denied");
        denied.map(|entry| entry["details"].clone()).collect::<Vec<_>>()
    };
    host.get_as("ilk_live_unknown_unknown", "/v1/runs").await.refused(401, "unauthenticated");
    host.get_as(READER, "/v1/workflows").await.refused(403, "forbidden");
    let unknown = json!({"status": 401, "error": "unauthenticated", "method": "GET", "route": "/v1/runs"});
    let lacking = json!({"status": 403, "error": "forbidden", "method": "GET", "route": "/v1/workflows"});
    assert_eq!(entries(""), [unknown]);
    assert_eq!(entries("a"), [lacking]);
}

#[tokio::test]
async fn paths_outside_the_protocol_need_no_key_to_be_refused() {
    let host = Host::start().await;
    for path in ["/", "/workflows", "/v2/runs", "/.well-known/other", "/v1"] {
        raw(host.address, &request("GET", path, &[], None)).await.unwrap().refused(400, "validation_error");
    }
}
