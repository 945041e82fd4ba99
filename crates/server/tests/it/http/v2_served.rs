//! Compares discovery with what is served in version 2, in both directions, as `served.rs` does for version 1.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::served::hosts;
use super::service::{Host, KEY, noop};

const VERSION: (&str, &str) = ("openwop-version", "2.0");

/// A family or facet, and an operation that is served if and only if it is advertised.
const GATED: [(&str, &str, &str); 21] = [
    ("/replay", "POST", "/runs/{runId}:fork"),
    ("/replay", "GET", "/host/effect-seams"),
    ("/runList", "GET", "/runs"),
    ("/feedback", "GET", "/runs/{runId}/annotations"),
    ("/feedback", "POST", "/runs/{runId}/annotations"),
    ("/webhooks", "POST", "/webhooks"),
    ("/webhooks/deadLetter", "GET", "/webhooks/{webhookId}/dead-letters"),
    ("/webhooks/secretRotation", "POST", "/webhooks/{webhookId}/rotate-secret"),
    ("/webhooks", "DELETE", "/webhooks/{webhookId}"),
    ("/auditLogIntegrity", "GET", "/audit/verify?fromSeq=0&toSeq=0"),
    ("/multiAgent/executionModel/crossHostCausation", "GET", "/runs/{runId}/ancestry"),
    ("/agents/manifestRuntime", "GET", "/agents"),
    ("/toolCatalog", "GET", "/tools"),
    // Neither served nor advertised.
    ("/prompts/endpointsSupported", "GET", "/prompts"),
    ("/content", "GET", "/content/settings"),
    ("/triggerBridge", "POST", "/trigger-subscriptions"),
    ("/agents/roster", "GET", "/agents/roster"),
    ("/agents/orgChart", "GET", "/agents/org-chart"),
    ("/agents/evalSuite", "GET", "/runs/{runId}/eval-summary"),
    ("/compensation", "GET", "/runs/{runId}/compensation"),
    ("/hostEvents", "GET", "/host/events"),
];

/// Operations that need no family, and those that need the one of the operation above them.
const CORE: [&str; 17] = [
    "/.well-known/openwop",
    "/openapi.json",
    "/workflows/{workflowId}",
    "/runs",
    "/runs/{runId}",
    "/runs/{runId}/cancel",
    "/runs:bulk-cancel",
    "/runs/{runId}:pause",
    "/runs/{runId}:resume",
    "/runs/{runId}:diff",
    "/runs/{runId}/events",
    "/runs/{runId}/events/poll",
    "/runs/{runId}/artifacts/{artifactId}",
    "/runs/{runId}/interrupts/{nodeId}",
    "/interrupts/{token}",
    "/agents/{agentId}",
    "/tools/{toolId}",
];

/// The operation of the family `idempotency`. It is served before the family is advertised: see [`CORE_STANDARD`].
const EFFECTS: &str = "/runs/{runId}/effects";

/// The families that together claim the profile `openwop-core-standard`.
const CORE_STANDARD: [&str; 5] = ["interrupt", "replay", "webhooks", "idempotency", "eventLog"];

/// Families without an operation: they describe how runs and nodes behave.
const BEHAVIOR: [&str; 18] = [
    "auth",
    "blobStorage",
    "cache",
    "conversationPrimitive",
    "eventLog",
    "fs",
    "interrupt",
    "kvStorage",
    "limits",
    "nodePackRuntimes",
    "queueBus",
    "sandbox",
    "searchIndex",
    "sql",
    "subWorkflow",
    "tableStorage",
    "uiPlugins",
    "vectorStore",
];

/// Members of the document that are not families.
const METADATA: [&str; 9] = [
    "protocolVersions",
    "preferredVersion",
    "implementation",
    "engineVersion",
    "eventLogSchemaVersion",
    "fixtures",
    "conformance",
    "testing",
    "observability",
];

async fn discovery(host: &Host) -> Value {
    host.send("GET", "/.well-known/openwop", &[VERSION], None).await.expect(200)
}

/// A run and a subscription for operations that need one.
async fn objects(host: &Host) -> (String, String) {
    host.register(&noop()).await;
    let run_id = host.create("noop").await;
    host.end_of(&run_id).await;
    let wanted = json!({"url": "https://93.184.215.14/hook", "events": ["run.completed"]});
    let made = host.post_with("/webhooks", &[VERSION], &wanted).await.expect(201);
    (run_id, made["webhookId"].as_str().unwrap().replace('/', "~2F"))
}

#[tokio::test]
async fn an_operation_of_version_2_is_served_exactly_if_its_family_is_advertised() {
    for (name, host) in hosts().await {
        let said = discovery(&host).await;
        let (run_id, webhook_id) = objects(&host).await;
        for (pointer, method, path) in GATED {
            let target = path.replace("{runId}", &run_id).replace("{webhookId}", &webhook_id);
            let key = format!("Bearer {KEY}");
            let headers = [("authorization", key.as_str()), ("content-type", "application/json"), VERSION];
            let body = (method == "POST").then_some(b"{}".as_slice());
            let answer = host.send(method, &target, &headers, body).await;
            let is_advertised = said.pointer(pointer).is_some();
            assert_eq!(answer.status != 404, is_advertised, "{name}: {method} {path}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn every_operation_and_every_family_of_version_2_is_in_a_table() {
    let gated: BTreeSet<&str> =
        GATED.iter().filter_map(|(_, _, path)| path.split('?').next()).chain(CORE).chain([EFFECTS]).collect();
    let with_operation: BTreeSet<&str> =
        GATED.iter().filter_map(|(pointer, _, _)| pointer.split('/').nth(1)).collect();
    for (name, host) in hosts().await {
        let document = host.send("GET", "/openapi.json", &[VERSION], None).await.expect(200);
        for path in document["paths"].as_object().unwrap().keys() {
            assert!(gated.contains(path.as_str()), "{name}: {path} is in no table");
        }
        for family in discovery(&host).await.as_object().unwrap().keys() {
            let family = family.as_str();
            let is_known = with_operation.contains(family)
                || BEHAVIOR.contains(&family)
                || METADATA.contains(&family)
                || family == "workflowChainPacks";
            assert!(is_known, "{name}: nothing checks that `{family}` is served");
        }
    }
}

/// All families of the profile are a claim to conform to it. One of its scenarios needs new runs in era 3.
#[tokio::test]
async fn the_core_profile_is_claimed_only_with_its_era() {
    for (name, host) in hosts().await {
        let said = discovery(&host).await;
        let is_claimed = CORE_STANDARD.iter().all(|family| said.get(*family).is_some());
        assert_eq!(is_claimed, said["eventLogSchemaVersion"] == 3, "{name}: {said}");
    }
}
