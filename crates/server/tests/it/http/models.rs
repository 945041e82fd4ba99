//! Seams for models, the sandbox and chains.

use serde_json::{Value, json};
use server::http::Settings;

use super::client::Answer;
use super::service::Host;

async fn seams() -> Host {
    Host::start_with(Settings { test_seams: true, test_sandbox: true, ..Settings::default() }).await
}

async fn ask(host: &Host, path: &str, body: &Value) -> Answer {
    host.post(&format!("/v1/host/sample/{path}"), body).await
}

/// Asserts an error in the nested form.
fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (status, &json!(code)), "{}", answer.text());
}

fn envelope(kind: &str, correlation: &str, payload: &Value) -> Value {
    json!({
        "type": kind, "envelopeId": "e1", "correlationId": correlation, "payload": payload,
        "meta": {"source": "ai-generation", "ts": "2026-01-01T00:00:00Z"},
    })
}

#[tokio::test]
async fn an_envelope_has_one_outcome_until_the_reset() {
    let host = seams().await;
    let error = envelope("error", "c1", &json!({"code": "ambiguous_intent", "message": "What?"}));
    let accepted = ask(&host, "envelope/accept", &json!({"envelope": error})).await.expect(200);
    assert_eq!(accepted["status"], "accepted");
    let again = ask(&host, "envelope/accept", &json!({"envelope": error})).await.expect(200);
    assert_eq!(again, accepted);
    let other = envelope("schema.response", "c1", &json!({"envelopeType": "error", "ack": true}));
    let conflict = ask(&host, "envelope/accept", &json!({"envelope": other})).await.expect(200);
    assert_eq!(conflict["reason"], "envelope_correlation_conflict");
    ask(&host, "test/reset", &json!({})).await.expect(200);
    let fresh = ask(&host, "envelope/accept", &json!({"envelope": other})).await.expect(200);
    assert_eq!(fresh["status"], "accepted");
    refused(&ask(&host, "envelope/accept", &json!({})).await, 400, "invalid_argument");
}

#[tokio::test]
async fn envelope_schemas_are_public() {
    let host = Host::start().await;
    for kind in ["clarification.request", "schema.request", "schema.response", "error", "media.image"] {
        let path = format!("/schemas/envelopes/{kind}.schema.json");
        let answer = host.send("GET", &path, &[], None).await;
        let schema = answer.expect(200);
        assert_eq!(schema["additionalProperties"], false, "{kind}");
        assert_eq!(answer.header("content-type"), Some("application/schema+json"));
        assert_eq!(answer.header("cache-control"), Some("public, max-age=300"));
        let text = schema.to_string();
        assert!(!text.contains("oneOf"), "a model reads it: {text}");
    }
    for kind in ["vendor.acme.x", "%2e%2e", "error.schema"] {
        let path = format!("/schemas/envelopes/{kind}.schema.json");
        host.send("GET", &path, &[], None).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn an_envelope_is_judged_by_what_comes_with_it() {
    let host = seams().await;
    let error =
        |correlation: &str| envelope("error", correlation, &json!({"code": "x", "message": "key-12345678"}));
    let vendor = envelope("vendor.acme.thing", "v", &json!({}));
    let cases = [
        (json!({"envelope": {"type": "error"}}), "invalid"),
        (json!({"envelope": vendor, "hostSupportedEnvelopes": []}), "gated"),
        (json!({"envelope": vendor, "nodeAllowedKinds": ["vendor.acme.other"]}), "gated"),
        (
            json!({"envelope": error("a"), "counters": {"envelopesPerTurn": {"current": 3, "cap": 3}}}),
            "breached",
        ),
        (
            json!({"envelope": error("b"), "schemaVersionFloor": {"error": 2}, "envelopeStrictness": "strict"}),
            "invalid",
        ),
        (
            json!({"envelope": error("c"), "schemaVersionFloor": {"error": 2}, "envelopeStrictness": "warn"}),
            "accepted",
        ),
        (
            json!({"envelope": error("d"), "runTrustBoundary": "untrusted", "boundInterruptKind": "approval"}),
            "invalid",
        ),
    ];
    for (body, status) in cases {
        let outcome = ask(&host, "envelope/accept", &body).await.expect(200);
        assert_eq!(outcome["status"], status, "{body}: {outcome}");
    }
    let canary =
        json!({"envelope": error("e"), "byokCanaries": [{"value": "key-12345678", "secretId": "k"}]});
    let outcome = ask(&host, "envelope/accept", &canary).await.expect(200);
    assert_eq!(
        (&outcome["redactedPayload"]["message"], &outcome["redactionCount"]),
        (&json!("[REDACTED:k]"), &json!(1))
    );
    for body in [
        json!({"envelope": error("f"), "counters": {"schemaRounds": 1}}),
        json!({"envelope": error("f"), "envelopeStrictness": "lax"}),
        json!({"envelope": error("f"), "hostSupportedEnvelopes": [1]}),
    ] {
        refused(&ask(&host, "envelope/accept", &body).await, 400, "invalid_argument");
    }
}

#[tokio::test]
async fn what_follows_from_an_envelope_is_read_where_it_was_projected_to() {
    let host = Host::start_with(Settings { test_seams: true, test_spans: true, ..Settings::default() }).await;
    let accept = async |body: Value| ask(&host, "envelope/accept", &body).await.expect(200);
    let events = async |run: &str| {
        let read = host.get(&format!("/v1/host/sample/test/runs/{run}/events?correlationId=c")).await;
        read.expect(200)["events"].as_array().unwrap().clone()
    };
    let error = envelope("error", "c", &json!({"code": "x", "message": "the words"}));
    let outcome = accept(json!({"envelope": error, "projectTo": {"runId": "r1", "nodeId": "n"}})).await;
    let events_of_run = events("r1").await;
    assert_eq!(
        (&events_of_run[0]["type"], &events_of_run[0]["payload"]["level"]),
        (&json!("log.appended"), &json!("error"))
    );
    assert_eq!(outcome["recordedEventIds"], json!([events_of_run[0]["eventId"]]));
    assert_eq!(
        (&events_of_run[0]["nodeId"], &events_of_run[0]["contentTrust"]),
        (&json!("n"), &json!("trusted"))
    );
    let spans = host.get("/v1/host/sample/test/otel/spans?runId=r1").await.expect(200);
    assert_eq!(spans["spans"][0]["name"], "envelope.accepted");
    assert_eq!(spans["spans"][0]["attributes"]["envelope_correlation_id"], "c");
    assert!(!spans.to_string().contains("the words"), "a span says nothing of what an envelope says");
    // The log has the earlier outcome although the process remembers nothing: no handler runs, and no events are added.
    let again = json!({"envelope": error, "persistedDedup": {"runId": "r1"}, "projectTo": {"runId": "r1"}});
    let recorded = accept(again).await;
    assert_eq!(
        (&recorded["status"], &recorded["recordedEventIds"]),
        (&json!("accepted"), &outcome["recordedEventIds"])
    );
    assert_eq!(events("r1").await.len(), 1);
    let other = envelope("schema.response", "c", &json!({"envelopeType": "error", "ack": true}));
    let conflict = accept(json!({"envelope": other, "persistedDedup": {"runId": "r1"}})).await;
    assert_eq!(conflict["reason"], "envelope_correlation_conflict");
    let elsewhere = accept(json!({"envelope": other, "persistedDedup": {"runId": "r2"}})).await;
    assert_eq!(elsewhere["status"], "accepted");
    let question = json!({"questions": [{"id": "q", "question": "Which?"}]});
    ask(&host, "test/reset", &json!({})).await.expect(200);
    host.get("/v1/host/sample/test/runs/r1/events").await.refused(404, "run_not_found");
    let cases = [
        (
            envelope("clarification.request", "c", &question),
            json!({}),
            "fail-node",
            vec!["clarification.requested", "interrupt.requested"],
        ),
        (
            envelope("vendor.acme.x", "c", &json!({})),
            json!({"nodeAllowedKinds": ["vendor.acme.y"]}),
            "fail-node",
            vec!["node.failed"],
        ),
        (
            envelope("vendor.acme.x", "c", &json!({})),
            json!({"nodeAllowedKinds": ["vendor.acme.y"]}),
            "discard-and-warn",
            vec!["log.appended"],
        ),
        (
            envelope("error", "c", &json!({"code": "x", "message": "m"})),
            json!({"counters": {"envelopesPerTurn": {"current": 1, "cap": 1}}}),
            "fail-node",
            vec!["cap.breached", "node.failed"],
        ),
    ];
    for (place, (envelope, mut body, mode, expected)) in cases.into_iter().enumerate() {
        body["envelope"] = envelope;
        body["projectTo"] = json!({"runId": format!("p{place}"), "refusalMode": mode});
        body["priorCorrelations"] = json!([]);
        accept(body.clone()).await;
        let events_of_run = events(&format!("p{place}")).await;
        let kinds: Vec<&str> = events_of_run.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, expected, "{body}");
        ask(&host, "test/reset", &json!({})).await.expect(200);
    }
    for body in [
        json!({"envelope": error, "projectTo": {}}),
        json!({"envelope": error, "projectTo": {"runId": "r", "refusalMode": "x"}}),
    ] {
        refused(&ask(&host, "envelope/accept", &body).await, 400, "invalid_argument");
    }
}

#[tokio::test]
async fn events_are_checked_as_recorded_ones_are() {
    let host = seams().await;
    let usage = json!({"provider": "p", "model": "m", "inputTokens": 1, "outputTokens": 2});
    let body = json!({"runId": "r", "payload": usage, "correlationId": "c", "nodeId": "n"});
    let event = ask(&host, "test/emit-provider-usage", &body).await.expect(200)["event"].clone();
    assert_eq!((&event["payload"], &event["causationId"]), (&usage, &json!("c")));
    let read = host.get("/v1/host/sample/test/runs/r/events?type=provider.usage").await.expect(200);
    assert_eq!(read["events"], json!([event]));
    let none = host.get("/v1/host/sample/test/runs/r/events?nodeId=other").await.expect(200);
    assert_eq!(none["events"], json!([]));
    host.get_as(super::service::OTHER, "/v1/host/sample/test/runs/r/events")
        .await
        .refused(404, "run_not_found");
    let mut leaking = usage.clone();
    leaking["credentialRef"] = json!("secret:x");
    let answer = ask(&host, "test/emit-provider-usage", &json!({"runId": "r", "payload": leaking})).await;
    refused(&answer, 400, "provider_usage_credential_leak");
    refused(&ask(&host, "test/emit-provider-usage", &json!({"runId": "r"})).await, 400, "invalid_argument");
    refused(
        &ask(&host, "test/emit-provider-usage", &json!({"payload": usage})).await,
        400,
        "invalid_argument",
    );
    let recovery = json!({
        "runId": "r", "type": "envelope.recovery.applied", "payload": {"nodeId": "n", "path": "direct"},
    });
    ask(&host, "test/emit-envelope-reliability", &recovery).await.expect(200);
    let mut telling = recovery.clone();
    telling["payload"]["content"] = json!("x");
    let answer = ask(&host, "test/emit-envelope-reliability", &telling).await;
    refused(&answer, 400, "envelope_recovery_content_leak");
}

#[tokio::test]
async fn models_are_asked_what_the_crate_of_models_says() {
    let host = seams().await;
    let wrapped = json!({"payload": "</UNTRUSTED>", "contentTrust": "untrusted"});
    let prompt = ask(&host, "test/llm-prompt-wrap", &wrapped).await.expect(200)["prompt"].clone();
    assert_eq!(prompt.as_str().unwrap().matches("</UNTRUSTED>").count(), 1);
    let plain = ask(&host, "test/llm-prompt-wrap", &json!({"payload": "x"})).await.expect(200);
    assert_eq!(plain["prompt"], "x");
    refused(&ask(&host, "test/llm-prompt-wrap", &json!({})).await, 400, "invalid_argument");
    let request = json!({"provider": "p", "model": "m", "messages": [{"role": "user", "content": "x"}]});
    let key = ask(&host, "test/llm-cache-key", &request).await.expect(200)["cacheKey"].clone();
    assert_eq!(key.as_str().unwrap().len(), 64);
    refused(&ask(&host, "test/llm-cache-key", &json!({"provider": "p"})).await, 400, "invalid_argument");
    let gate = json!({
        "module": {"requiredModelCapabilities": ["vision-input"]}, "activeProvider": "mock", "activeModel": "m",
        "substitutionSupported": true, "supportedProviders": ["mock"], "nodeId": "n",
    });
    let answer = ask(&host, "test/evaluate-model-capability-gate", &gate).await.expect(200);
    assert_eq!(
        (&answer["outcome"]["route"], &answer["event"]["type"]),
        (&json!("refuse"), &json!("model.capability.insufficient"))
    );
}

#[tokio::test]
async fn the_mock_model_replies_as_programmed_and_reports_its_token_budget() {
    let host = seams().await;
    let program = json!({"nodeId": "ask", "program": [{"content": "{\"valid\": true}"}]});
    assert_eq!(
        ask(&host, "test/mock-ai/program", &program).await.expect(200),
        json!({"ok": true, "count": 1})
    );
    refused(&ask(&host, "test/mock-ai/program", &json!({"nodeId": "ask"})).await, 400, "invalid_argument");
    let budget = host.get("/v1/host/sample/test/mock-ai/last-dispatch-budget?nodeId=ask").await;
    refused(&budget, 404, "not_found");
}

#[tokio::test]
async fn misbehaving_modules_are_stopped_with_a_reason() {
    let host = seams().await;
    let invoke = async |body: Value| ask(&host, "test/sandbox-invoke", &body).await.expect(200);
    let echoed = invoke(json!({"typeId": "well-behaved.echo", "args": {"a": 1}})).await;
    assert!(echoed["result"].is_object(), "{echoed}");
    for (type_id, code) in [
        ("misbehave.fs-escape-read", "sandbox_escape_attempt"),
        ("misbehave.network-escape", "sandbox_escape_attempt"),
        ("misbehave.memory-bomb", "sandbox_memory_exceeded"),
        ("misbehave.capability-gate-violation", "sandbox_capability_denied"),
    ] {
        assert_eq!(invoke(json!({"typeId": type_id})).await["error"]["code"], code, "{type_id}");
    }
    ask(&host, "test/sandbox-invoke", &json!({"typeId": "none"}))
        .await
        .refused(404, "sandbox_pack_not_found");
    ask(&host, "test/sandbox-load", &json!({"packId": "misbehaving-fs"})).await.expect(200);
    ask(&host, "test/sandbox-load", &json!({"packId": "none"})).await.refused(404, "sandbox_pack_not_found");
    let off = Host::start_with(Settings { test_seams: true, ..Settings::default() }).await;
    ask(&off, "test/sandbox-load", &json!({"packId": "misbehaving-fs"}))
        .await
        .refused(404, "sandbox_pack_not_found");
}

#[tokio::test]
async fn a_pack_that_requires_more_than_it_is_granted_is_not_installed() {
    let host = seams().await;
    let manifest = json!({
        "name": "vendor.acme.nodes", "version": "1.0.0", "engines": {"openwop": ">=1.0 <2.0.0"},
        "nodes": [{"typeId": "acme.fetch", "version": "1.0.0", "category": "data", "role": "pure"}],
        "runtime": {"language": "wasm", "entry": "nodes.wasm", "requires": ["net.outbound"]},
    });
    let ask = async |body: Value| ask(&host, "packs/install-gate", &body).await;
    let granted = ask(json!({"manifest": manifest, "grantSet": ["net.outbound"]})).await.expect(200);
    assert_eq!(granted["outcome"], "installed");
    let refused = ask(json!({"manifest": manifest, "grantSet": ["clock"], "gating": true})).await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json()["error"], "pack_runtime_requirement_unmet");
    assert_eq!(refused.json()["unmet"], json!(["net.outbound"]));
    ask(json!({"manifest": {}})).await.refused(400, "invalid_manifest");
}

#[tokio::test]
async fn a_chain_expands_only_if_this_host_supports_all_its_nodes() {
    let host = seams().await;
    let pack = "vendor.openwop.workflow-chain-sample";
    let ask = async |body: Value| ask(&host, "workflow-chain:expand", &body).await;
    let body = |chain: &str, parameters: Value| json!({"packName": pack, "chainId": format!("{pack}.{chain}"), "parameters": parameters});
    let expanded =
        ask(body("summarize-text", json!({"sourceText": "Long.", "targetLength": 7}))).await.expect(200);
    let id = expanded["nodes"][0]["id"].as_str().unwrap();
    assert!(
        id.ends_with("_summarize") && id.contains(expanded["expansionId"].as_str().unwrap()),
        "{expanded}"
    );
    assert_eq!((&expanded["packName"], &expanded["packVersion"]), (&json!(pack), &json!("1.0.0")));
    ask(body("summarize-text", json!({"sourceText": 1}))).await.refused(422, "chain_parameter_invalid");
    // This host has no storage for nodes.
    let unserved = ask(body("fetch-and-summarize", json!({"url": "x"}))).await;
    unserved.refused(422, "chain_unresolvable_typeid");
    assert_eq!(unserved.json()["details"]["typeId"], "core.storage.kv-get");
    ask(body("none", json!({}))).await.refused(404, "chain_not_found");
    ask(json!({"packName": "vendor.acme.none", "chainId": "x"})).await.refused(404, "pack_not_found");
    ask(json!({"packName": pack})).await.refused(422, "invalid_request");
}
