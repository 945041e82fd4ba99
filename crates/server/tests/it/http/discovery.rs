//! The discovery document.

use std::collections::{BTreeMap, BTreeSet};

use flow::id::WorkflowId;
use runs::EndedRuns;
use serde_json::Value;
use server::http::{RunFacts, Settings, capability_names};

use super::agents::one_agent;
use super::client::Answer;
use super::service::{Host, KEY, READER, TESTER, gate, noop, protocol_file};

async fn open(host: &Host, path: &str) -> Answer {
    host.send("GET", path, &[], None).await
}

#[tokio::test]
async fn discovery_is_public_and_has_what_the_profiles_require() {
    let host = Host::start().await;
    host.fixtures.set(["conformance-noop", "mine", "openwop-smoke-x"].map(WorkflowId::new));
    let answer = open(&host, "/.well-known/openwop").await;
    let document = answer.expect(200);
    assert_eq!(answer.header("cache-control"), Some("public, max-age=300"));
    assert!(!answer.text().contains("\"edit\""));
    assert!(document["protocolVersion"].as_str().unwrap().starts_with("1."));
    for name in ["clarificationRounds", "schemaRounds", "envelopesPerTurn"] {
        assert!(document["limits"][name].is_u64(), "{name}");
    }
    assert_eq!(document["limits"]["maxRequestBodyBytes"], 4 << 20);
    assert!(document["supportedEnvelopes"].as_array().unwrap().contains(&"clarification.request".into()));
    assert_eq!(document["fixtures"], serde_json::json!(["conformance-noop", "openwop-smoke-x"]));
    let families = document["capabilities"].as_object().unwrap();
    assert!(!families.is_empty());
    for (name, family) in families {
        assert_eq!(&document[name], family, "{name}");
    }
}

#[tokio::test]
async fn the_document_fulfils_the_predicates_of_the_profiles_that_are_served() {
    let host = Host::start().await;
    host.fixtures.set([WorkflowId::new("conformance-noop")]);
    let said = open(&host, "/.well-known/openwop").await.expect(200);
    let list = |pointer: &str| said.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
    let has = |pointer: &str, item: &str| list(pointer).contains(&item.into());
    let texts = |items: &[Value]| items.iter().all(|item| item.as_str().is_some_and(|text| !text.is_empty()));
    let rounds = ["clarificationRounds", "schemaRounds", "envelopesPerTurn"];
    let core = said["protocolVersion"].as_str().is_some_and(|version| version.starts_with("1."))
        && said["supportedEnvelopes"].is_array()
        && said["schemaVersions"].as_object().is_some_and(|versions| versions.values().all(Value::is_u64))
        && rounds.iter().all(|name| said["limits"][name].is_u64());
    let streams = said["supportedTransports"].is_null() || has("/supportedTransports", "rest");
    let interrupts = has("/supportedEnvelopes", "clarification.request");
    let profiles = [
        ("openwop-core", core),
        ("openwop-interrupts", interrupts),
        ("openwop-stream-sse and openwop-stream-poll", streams),
        ("openwop-replay-fork", said["replay"]["supported"] == true && !list("/replay/modes").is_empty()),
        ("openwop-fixtures", !list("/fixtures").is_empty() && texts(&list("/fixtures"))),
        ("openwop-core-standard", core && interrupts && streams),
        ("openwop-audit-log-integrity", has("/auth/profiles", "openwop-audit-log-integrity")),
    ];
    for (profile, holds) in profiles {
        assert!(holds, "{profile}: {said:#}");
    }
    let integrity = &said["auth"]["auditLogIntegrity"];
    assert_eq!(
        (&integrity["hashChain"], &integrity["checkpointSignatureAlgorithm"]),
        (&true.into(), &"ed25519".into())
    );
    assert!(integrity["checkpointPublicKey"].is_string() && integrity["checkpointIntervalEntries"].is_u64());
    for (one, other) in
        [("/orchestrator/supported", "/agents/orchestrator"), ("/dispatch/supported", "/agents/dispatch")]
    {
        assert_eq!(
            (said.pointer(one), said.pointer(other)),
            (Some(&true.into()), Some(&true.into())),
            "both spellings"
        );
    }
    assert_eq!(said["idempotency"]["crossRegion"], "single-region");
    assert!(said["engineVersion"].is_u64() && said["eventLogSchemaVersion"] == 2);
    assert!(said.get("secrets").is_none(), "this host has no secrets, so none are advertised");
}

/// Findings 12 and 13 of the review against the current suite: these were served but not advertised.
#[tokio::test]
async fn suppressed_effects_compact_tools_and_editions_of_mcp_are_advertised() {
    let said = open(&Host::start().await, "/.well-known/openwop").await.expect(200);
    assert_eq!(said["replay"]["sideEffectSuppression"], "recorded-outcome");
    assert_eq!(said["toolCatalog"]["compactView"], true);
    let editions = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"];
    assert_eq!(said["mcp"]["protocolVersions"], serde_json::json!(editions));
    assert_eq!(said["protocolVersion"], "1.0");
    assert_eq!(
        (&said["protocolVersions"], &said["preferredVersion"]),
        (&serde_json::json!(["1.0", "2.0"]), &"1.0".into())
    );
}

#[tokio::test]
async fn discovery_has_a_tag_that_changes_with_what_it_says() {
    let host = Host::start().await;
    let first = open(&host, "/.well-known/openwop").await;
    let tag = first.header("capabilities-etag").unwrap().to_owned();
    assert_eq!(first.header("etag"), Some(tag.as_str()));
    let unchanged = host.send("GET", "/.well-known/openwop", &[("if-none-match", &tag)], None).await;
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    host.fixtures.set([WorkflowId::new("conformance-noop")]);
    let changed = host.send("GET", "/.well-known/openwop", &[("if-none-match", &tag)], None).await;
    changed.expect(200);
    assert_ne!(changed.header("capabilities-etag"), Some(tag.as_str()));
}

/// Removes references to other documents: they describe parts that are not served.
fn local(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members
                .retain(|name, value| name != "$ref" || value.as_str().is_some_and(|to| to.starts_with('#')));
            members.values_mut().for_each(local);
        }
        Value::Array(items) => items.iter_mut().for_each(local),
        _ => {}
    }
}

#[tokio::test]
async fn discovery_matches_its_schema() {
    let Some(mut schema) = protocol_file("schemas/capabilities.schema.json") else { return };
    local(&mut schema);
    // Older clients look for the path of the mount here; the schema was added later.
    if let Some(mcp) = schema.pointer_mut("/properties/mcp/properties") {
        mcp["serverUrls"] = serde_json::json!({"type": "array", "items": {"type": "string"}});
        // From a newer version of the schema.
        mcp["protocolVersions"] = serde_json::json!({"type": "array", "items": {"type": "string"}});
    }
    if let Some(tools) = schema.pointer_mut("/properties/toolCatalog/properties") {
        tools["compactView"] = serde_json::json!({"type": "boolean"});
    }
    let schema = jsonschema::validator_for(&schema).unwrap();
    let seams = Settings { test_seams: true, ..Settings::default() };
    let plugins = Settings { ui_plugins: true, ..Settings::default() };
    let hosts = [
        Host::start().await,
        Host::start_with(seams).await,
        Host::start_with(plugins).await,
        Host::start_equipped(&[]).await,
    ];
    for host in hosts {
        let document = open(&host, "/.well-known/openwop").await.expect(200);
        check(&schema, &document);
    }
}

#[tokio::test]
async fn models_are_advertised_only_if_they_are_available() {
    let families = ["aiProviders", "providerUsage", "envelopes", "workflowChainPacks"];
    let without = open(&Host::start().await, "/.well-known/openwop").await.expect(200);
    let seams = Settings { test_seams: true, ..Settings::default() };
    let host = Host::start_with(seams).await;
    let with = open(&host, "/.well-known/openwop").await.expect(200);
    for family in families {
        assert!(without[family].is_null() && with[family].is_object(), "{family}");
        assert_eq!(with[family], with["capabilities"][family]);
    }
    // The universal kinds are always known; only a model can produce envelopes.
    let universal = ["clarification.request", "schema.request", "schema.response", "error"];
    for (document, per_turn) in [(&without, 0), (&with, 5)] {
        assert_eq!(document["supportedEnvelopes"], serde_json::json!(universal));
        assert!(universal.iter().all(|kind| document["schemaVersions"][kind] == 1), "{document}");
        assert_eq!(document["limits"]["envelopesPerTurn"], per_turn);
    }
    let always =
        ["recursionLimit", "runTimeoutMs", "maxLoopIterations", "escalationThreshold", "reasoningVerbosity"];
    let of_models = ["ai.provider", "ai.model", "model", "temperature", "maxTokens", "promptOverrides"];
    for (host, expected) in [(&without, always.to_vec()), (&with, [&always[..], &of_models].concat())] {
        let listed: BTreeSet<&str> =
            host["configurable"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(listed, expected.into_iter().collect(), "the supported kinds are advertised");
        let reasoning = serde_json::json!({"verbosity": "summary", "tokenLimit": 512, "streaming": true});
        assert_eq!(host["agents"]["reasoning"], reasoning);
    }
    assert_eq!((&without["limits"]["schemaRounds"], &with["limits"]["schemaRounds"]), (&0.into(), &2.into()));
    // What is advertised is accepted, for test keys.
    host.register(&noop()).await;
    let key = format!("Bearer {TESTER}");
    let create = async |id: &str| {
        let body = serde_json::json!({"workflowId": "noop", "configurable": {"mockProvider": {"id": id}}});
        host.post_with("/v1/runs", &[("authorization", &key)], &body).await
    };
    for mock in with["testing"]["mockProviders"].as_array().unwrap() {
        let answer = create(mock.as_str().unwrap()).await;
        assert!(answer.status == 201 || answer.json()["error"] == "validation_error", "{}", answer.text());
    }
    let refused = create("none").await;
    refused.refused(400, "unsupported_mock_provider");
    assert_eq!(refused.json()["details"]["supportedProviders"], with["testing"]["mockProviders"]);
}

fn check(schema: &jsonschema::Validator, document: &Value) {
    let problems: Vec<String> =
        schema.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(problems.is_empty(), "{problems:#?}");
}

#[tokio::test]
async fn health_is_open_and_metrics_are_not() {
    let mut host = Host::start().await;
    open(&host, "/healthz").await.expect(200);
    open(&host, "/readyz").await.expect(200);
    open(&host, "/metrics").await.refused(401, "unauthenticated");
    host.get_as(READER, "/metrics").await.refused(403, "forbidden");
    host.get("/v1/runs/no-such-run").await.refused(404, "run_not_found");
    let text = host.get_as(KEY, "/metrics").await.text();
    let counted = "interlock_http_request_duration_seconds_count{route=\"/v1/runs/{runId}\",method=\"GET\",status=\"4xx\"} 1";
    assert!(text.contains(counted), "{text}");
    assert!(!text.contains("no-such-run"), "no run is a label");
    host.runs.drain().await;
    let refused = open(&host, "/readyz").await;
    refused.refused(503, "service_unavailable");
    assert!(refused.header("retry-after").is_some());
    host.stop().await;
}

#[tokio::test]
async fn a_trace_is_continued() {
    let host = Host::start().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let vendors = "acme=00f067aa0ba902b7";
    let headers = [("traceparent", parent.as_str()), ("tracestate", vendors)];
    let answer = host.send("GET", "/healthz", &headers, None).await;
    assert_eq!(answer.header("tracestate"), Some(vendors));
    let listed = answer.header("traceparent").unwrap();
    assert!(listed.starts_with(&format!("00-{trace}-")) && listed.ends_with("-01"), "{listed}");
    assert_ne!(listed, parent);
    assert_eq!(open(&host, "/healthz").await.header("traceparent").unwrap().len(), 55);
}

#[tokio::test]
async fn runs_are_counted_by_how_they_ended() {
    let host = Host::start().await;
    host.register(&noop()).await;
    host.register(&gate()).await;
    host.create("noop").await;
    let waiting = host.create("gate").await;
    host.create("gate").await;
    host.post(&format!("/v1/runs/{waiting}/cancel"), &serde_json::json!({})).await.expect(200);
    let text = host.get("/metrics").await.text();
    for line in [
        "openwop_run_created_total 3",
        "openwop_run_completed_total{openwop_run_status=\"completed\"} 1",
        "openwop_run_completed_total{openwop_run_status=\"cancelled\"} 1",
        "openwop_run_completed_total{openwop_run_status=\"failed\"} 0",
        "openwop_run_active 1",
        "openwop_interrupt_requested_total 2",
        "openwop_run_duration_seconds_count 2",
        "openwop_node_completed_total 1",
        "openwop_node_duration_seconds_bucket{le=\"+Inf\"} 1",
        "openwop_activity_duration_seconds_count 0",
        "openwop_activity_tokens_total{direction=\"input\"} 0",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} in\n{text}");
    }
    assert!(!text.contains(&waiting), "metrics contain no run id");
}

/// A host with all optional features: seams, spans, plugins, secrets, agents, traces and an MCP server.
async fn with_everything() -> (Host, Settings) {
    let settings = Settings {
        test_seams: true,
        test_spans: true,
        ui_plugins: true,
        test_sandbox: true,
        ..Settings::default()
    };
    let other = Host::start().await;
    let ended_runs = Some(EndedRuns::queue().0);
    let host = Host::start_equipped_with(settings, &[other.address], Some(one_agent()), ended_runs).await;
    assert!(host.runs.traces().are_enabled());
    (host, settings)
}

/// The families with a row in the tables of docs/conformance.md, with the tests of each.
fn rows(document: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut is_table = false;
    for line in document.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            is_table = matches!(title, "What is advertised" | "Extensions");
        }
        let Some(cells) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else { continue };
        let cells: Vec<&str> = cells.split(" | ").map(str::trim).collect();
        if let (true, [capability, .., tested]) = (is_table, cells.as_slice()) {
            let names = capability.split('`').skip(1).step_by(2);
            let families = names.map(|name| name.split('.').next().unwrap_or(name));
            found.extend(families.map(|family| (family.to_owned(), (*tested).to_owned())));
        }
    }
    found
}

#[tokio::test]
async fn every_family_that_is_advertised_has_a_row_in_the_table_of_conformance() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    let rows = rows(&std::fs::read_to_string(path).unwrap());
    let (host, _) = with_everything().await;
    let document = open(&host, "/.well-known/openwop").await.expect(200);
    let families = document["capabilities"].as_object().unwrap();
    for expected in
        ["uiPlugins", "secrets", "toolCatalog", "multiAgent", "packs", "sandbox", "mcp", "observability"]
    {
        assert!(
            families.contains_key(expected),
            "this host is to say everything, and does not say {expected}"
        );
    }
    let without: Vec<_> =
        families.keys().filter(|family| rows.get(*family).is_none_or(String::is_empty)).collect();
    assert!(without.is_empty(), "these have no row with tests in docs/conformance.md: {without:?}");
}

#[tokio::test]
async fn packs_may_require_exactly_the_advertised_capabilities() {
    let (full, all) = with_everything().await;
    let seams = Settings { test_seams: true, ..Settings::default() };
    for (host, settings) in [(full, all), (Host::start_with(seams).await, seams)] {
        let document = open(&host, "/.well-known/openwop").await.expect(200);
        let families = document["capabilities"].as_object().unwrap();
        let (runs, executors) = (&host.runs, host.runs.features().executors().unwrap());
        let names = capability_names(RunFacts::of(runs), executors, &settings, runs.traces().are_enabled());
        // Packs cannot use the test catalogue.
        for (family, value) in families.iter().filter(|(family, _)| *family != "packs") {
            assert_eq!(names.contains(family), value["supported"] != false, "{family}: {value}");
        }
        for name in &names {
            let value = document.pointer(&format!("/capabilities/{}", name.replace('.', "/")));
            assert!(value.is_some_and(|value| *value != false && value["supported"] != false), "{name}");
        }
        // A family may be disabled while a part of it is enabled.
        assert_eq!(names.contains("mcp"), runs.features().capabilities().mcp_client);
        assert!(names.contains("mcp.serverMount"), "{names:?}");
    }
}
