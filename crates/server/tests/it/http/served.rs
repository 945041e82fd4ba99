//! Compares discovery with what is served, in both directions: an advertised operation is served, one that is not advertised is not,
//! and every path and every family of capabilities is in one of the tables below.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use server::http::Settings;

use super::agents::one_agent;
use super::service::{Host, KEY};

/// A capability, and an operation that is served if and only if it is advertised.
const GATED: [(&str, &str, &str); 28] = [
    ("/runs/pauseResume", "POST", "/v1/runs/{runId}:pause"),
    ("/runs/pauseResume", "POST", "/v1/runs/{runId}:resume"),
    ("/runs/bulkCancel", "POST", "/v1/runs:bulk-cancel"),
    ("/replay", "POST", "/v1/runs/{runId}:fork"),
    ("/debugBundle", "GET", "/v1/runs/{runId}/debug-bundle"),
    ("/feedback", "GET", "/v1/runs/{runId}/annotations"),
    ("/feedback", "POST", "/v1/runs/{runId}/annotations"),
    ("/webhooks", "GET", "/v1/webhooks"),
    ("/webhooks", "POST", "/v1/webhooks"),
    ("/webhooks", "DELETE", "/v1/webhooks/{webhookId}"),
    ("/webhooks", "GET", "/v1/webhooks/{webhookId}/dead-letters"),
    ("/webhooks/secretRotation", "POST", "/v1/webhooks/{webhookId}/rotate-secret"),
    ("/auth/auditLogIntegrity", "GET", "/v1/audit/verify"),
    (
        "/multiAgent/executionModel/crossHostCausation/ancestryEndpointSupported",
        "GET",
        "/v1/runs/{runId}/ancestry",
    ),
    ("/agents/manifestRuntime", "GET", "/v1/agents"),
    ("/toolCatalog", "GET", "/v1/tools"),
    ("/mcp/serverMount", "POST", "/v1/mcp"),
    ("/packs/testMode", "GET", "/v1/packs-test/{name}"),
    ("/packs/testMode", "POST", "/v1/packs-test/reset"),
    ("/observability/testSeams", "POST", "/v1/host/sample/test/reset"),
    // Neither served nor advertised.
    ("/prompts/endpointsSupported", "GET", "/v1/prompts/{templateId}"),
    ("/content", "PUT", "/v1/content/settings"),
    ("/workspace", "GET", "/v1/host/workspace/files"),
    ("/triggerBridge", "POST", "/v1/trigger-subscriptions"),
    ("/agents/roster", "GET", "/v1/agents/roster"),
    ("/agents/orgChart", "GET", "/v1/agents/org-chart"),
    ("/agents/deployment", "GET", "/v1/agents/{agentId}/deployments"),
    ("/agents/evalSuite", "GET", "/v1/runs/{runId}/eval-summary"),
];

/// Paths that need no capability: the core of the protocol, the pack registry, and our own extensions. A path includes all paths below it.
const CORE: [&str; 19] = [
    "/.well-known/openwop",
    "/.well-known/openwop-registry",
    "/.well-known/openwop-registry.json",
    "/healthz",
    "/keys",
    "/mcp",
    "/metrics",
    "/readyz",
    "/schemas",
    "/v1/agents/{agentId}",
    "/v1/blobs",
    "/v1/host/sample",
    "/v1/index.json",
    "/v1/interrupts",
    "/v1/openapi.json",
    "/v1/packs",
    "/v1/runs",
    "/v1/tools/{toolId}",
    "/v1/workflows",
];

/// Families without an operation: they describe how runs and nodes behave. docs/conformance.md names the tests of each.
const BEHAVIOR: [&str; 25] = [
    "aiProviders",
    "blobStorage",
    "cache",
    "conformance",
    "conversationPrimitive",
    "dispatch",
    "envelopes",
    "extensions",
    "fs",
    "idempotency",
    "kvStorage",
    "nodePackRuntimes",
    "orchestrator",
    "prompts",
    "providerUsage",
    "queueBus",
    "restTransport",
    "sandbox",
    "searchIndex",
    "secrets",
    "sql",
    "subWorkflow",
    "tableStorage",
    "uiPlugins",
    "vectorStore",
];

/// The rest of the families without an operation.
const TESTING: [&str; 2] = ["testing", "workflowChainPacks"];

async fn discovery(host: &Host) -> Value {
    host.send("GET", "/.well-known/openwop", &[], None).await.expect(200)
}

fn is_advertised(said: &Value, pointer: &str) -> bool {
    match said.pointer(pointer) {
        Some(Value::Bool(served)) => *served,
        Some(Value::Object(members)) => members.get("supported") != Some(&Value::Bool(false)),
        _ => false,
    }
}

/// Whether an operation is served, judging by its reply: an unknown path, method or capability differs from an unknown object.
async fn is_served(host: &Host, method: &str, path: &str) -> bool {
    let path = path.replace(['{', '}'], "");
    let path = path.replace("packs-test/name", "packs-test/vendor.acme.none");
    let body = match path.as_str() {
        "/v1/mcp" => json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        _ => json!({}),
    };
    let key = format!("Bearer {KEY}");
    let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
    let body = body.to_string();
    let body = (method != "GET").then_some(body.as_bytes());
    let answer = host.send(method, &path, &headers, body).await;
    let code = answer.json_or_null()["error"].as_str().unwrap_or_default().to_owned();
    !matches!(code.as_str(), "not_found" | "method_not_allowed" | "capability_not_provided")
}

/// A host with default settings, one for suites, one with all optional features, and one without the mount.
pub(super) async fn hosts() -> Vec<(&'static str, Host)> {
    let seams = Settings { test_seams: true, test_spans: true, ..Settings::default() };
    let without = Host::start().await;
    without.runs.features().withhold(["mcp.serverMount.supported"].into());
    vec![
        ("default", Host::start().await),
        ("for suites", Host::start_with(seams).await),
        ("with everything", Host::start_equipped_with(seams, &[], Some(one_agent()), None).await),
        ("without the mount", without),
    ]
}

#[tokio::test]
async fn an_operation_is_served_exactly_if_its_capability_is_advertised() {
    for (name, host) in hosts().await {
        let said = discovery(&host).await;
        for (pointer, method, path) in GATED {
            let advertised = is_advertised(&said, pointer);
            let served = is_served(&host, method, path).await;
            assert_eq!(served, advertised, "{name}: {method} {path} and {pointer}");
        }
    }
}

#[tokio::test]
async fn every_path_and_every_family_is_in_a_table() {
    for (name, host) in hosts().await {
        let said = discovery(&host).await;
        let gated: BTreeSet<&str> = GATED.iter().map(|(_, _, path)| *path).collect();
        let is_core = |path: &str| {
            CORE.iter().any(|core| {
                path.strip_prefix(core).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':']))
            })
        };
        let document = host.send("GET", "/v1/openapi.json", &[], None).await.expect(200);
        for path in document["paths"].as_object().unwrap().keys() {
            let is_below = gated.iter().any(|gated| {
                path.strip_prefix(gated).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            assert!(is_below || is_core(path), "{name}: {path} belongs to no capability and is not core");
        }
        let with_operation: BTreeSet<&str> =
            GATED.iter().filter_map(|(pointer, _, _)| pointer.split('/').nth(1)).collect();
        for family in said["capabilities"].as_object().unwrap().keys() {
            let is_known = with_operation.contains(family.as_str())
                || BEHAVIOR.contains(&family.as_str())
                || TESTING.contains(&family.as_str());
            assert!(is_known, "{name}: nothing checks that `{family}` is served");
        }
    }
}

/// Line 2 of the issue: discovery publishes no local file path, in any configuration.
#[tokio::test]
async fn discovery_publishes_no_path_of_this_machine() {
    for (name, host) in hosts().await {
        let said = discovery(&host).await;
        let folder = host.workspaces.parent().unwrap().to_str().unwrap();
        assert!(!said.to_string().contains(folder), "{name}: {said}");
        if let Some(fs) = said.get("fs") {
            assert_eq!(fs["sandboxRoot"], "/", "{name}");
        }
    }
}
