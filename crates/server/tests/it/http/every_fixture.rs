//! Runs every protocol fixture on a host with all optional features, and checks its outcome or why it is refused.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::published::Published;
use super::service::{CANARY, Host, TESTER, protocol_folder, workflow};

/// The expected outcome of a fixture.
#[derive(Debug)]
enum End {
    /// The run completes.
    Completed,
    /// The run fails with this code.
    Failed(&'static str),
    /// The run stays in this status until it gets an answer or time passes.
    Waits(&'static str),
    /// The workflow is refused because this is not supported.
    Refused(&'static str),
}

use End::{Completed, Failed, Refused, Waits};

/// Not supported on this host, and reported when the workflow is registered.
const A2A: End = Refused("/nodes/0/typeId");
const MEMORY: End = Refused("memory.supported");

fn table() -> BTreeMap<&'static str, (Value, End)> {
    let plain = |id, end| (id, (json!({}), end));
    let with = |id, body, end| (id, (body, end));
    BTreeMap::from([
        plain("conformance-a2a-task-roundtrip", A2A),
        plain("conformance-agent-channel-dispatch", Refused("agents.deployment")),
        plain("conformance-agent-identity", Completed),
        plain("conformance-agent-low-confidence", Waits("waiting-approval")),
        plain("conformance-agent-memory-cross-tenant", MEMORY),
        plain("conformance-agent-memory-redaction", MEMORY),
        plain("conformance-agent-memory-roundtrip", MEMORY),
        plain("conformance-agent-memory-ttl", MEMORY),
        plain("conformance-agent-pack-export", Completed),
        // Its agent is not installed there; see below for its outcome with the agent.
        plain("conformance-agent-pack-handoff-schema-validation", Refused("agents.manifestRuntime")),
        plain("conformance-agent-pack-install", Completed),
        plain("conformance-agent-pack-provenance", Completed),
        plain("conformance-agent-reasoning", Completed),
        plain("conformance-agent-reasoning-streaming", Completed),
        plain("conformance-approval", Waits("waiting-approval")),
        plain("conformance-cancellable", Waits("running")),
        plain("conformance-cap-breach", Completed),
        plain("conformance-capability-missing", Failed("capability_not_provided")),
        plain("conformance-channel-ttl", Completed),
        plain("conformance-clarification", Waits("waiting-input")),
        plain("conformance-configurable-schema", Completed),
        plain("conformance-conversation-capability-negotiation", Waits("waiting-approval")),
        plain("conformance-conversation-lifecycle", Completed),
        plain("conformance-conversation-replay", Completed),
        plain("conformance-conversation-vs-clarification", Completed),
        with("conformance-delay", json!({"inputs": {"delayMs": 20}}), Completed),
        plain("conformance-dispatch-cancellable-child", Waits("running")),
        plain("conformance-dispatch-cross-worker-handoff", Completed),
        plain("conformance-dispatch-cross-worker-handoff-child-a", Completed),
        plain("conformance-dispatch-cross-worker-handoff-child-b", Completed),
        plain("conformance-dispatch-deterministic-fail-child", Failed("hvmap_1b_failed_fixture")),
        plain("conformance-dispatch-input-mapping", Completed),
        plain("conformance-dispatch-input-mapping-child", Completed),
        plain("conformance-dispatch-input-mapping-no-default", Completed),
        plain("conformance-dispatch-loop", Completed),
        plain("conformance-dispatch-output-mapping", Completed),
        plain("conformance-dispatch-output-mapping-child", Completed),
        plain("conformance-dispatch-per-worker-override", Completed),
        // Without a program, the mock model returns what was requested.
        plain("conformance-envelope-nl-to-format-engaged", Completed),
        plain("conformance-envelope-recovery-applied", Completed),
        plain("conformance-envelope-refusal", Completed),
        plain("conformance-envelope-retry-attempted", Completed),
        plain("conformance-envelope-retry-exhausted", Completed),
        plain("conformance-envelope-truncated", Completed),
        plain("conformance-envelope-truncation-cap-exhaustion", Completed),
        plain("conformance-failure", Failed("conformance_test_failure")),
        with("conformance-idempotent", json!({"inputs": {"nonce": "n"}}), Completed),
        with("conformance-identity", json!({"inputs": {"payload": {"a": [1]}}}), Completed),
        plain("conformance-interrupt-auth-required", Waits("waiting-approval")),
        plain("conformance-interrupt-external-event", Waits("waiting-external")),
        plain("conformance-interrupt-parent-child-cancel", Waits("waiting-approval")),
        plain("conformance-interrupt-parent-child-cancel-child", Waits("waiting-approval")),
        plain("conformance-interrupt-quorum", Waits("waiting-approval")),
        plain("conformance-mcp-tool-roundtrip", Completed),
        plain("conformance-message-reducer", Completed),
        plain("conformance-model-capability-insufficient", Failed("capability_not_provided")),
        plain("conformance-multi-agent-confidence-escalation", Waits("waiting-input")),
        plain("conformance-multi-agent-handoff", Completed),
        plain("conformance-multi-agent-handoff-child", Completed),
        plain("conformance-multi-node", Completed),
        plain("conformance-noop", Completed),
        plain("conformance-orchestrator-dispatch", Completed),
        plain("conformance-orchestrator-low-confidence", Waits("waiting-approval")),
        plain("conformance-orchestrator-terminate", Completed),
        plain("conformance-phase4-nondet-tool", Completed),
        plain("conformance-phase4-replay-divergence", Completed),
        plain("conformance-prompt-all-four-kinds", Completed),
        plain("conformance-prompt-end-to-end", Completed),
        with(
            "conformance-run-duration-breach",
            json!({"configurable": {"runTimeoutMs": 1000}}),
            Failed("run_timeout"),
        ),
        with(
            "conformance-stream-text",
            json!({"configurable": {"mockProvider": {"id": "stream-text", "config": {"tokens": ["one ", "two"]}}}}),
            Completed,
        ),
        plain("conformance-subworkflow-child", Completed),
        plain("conformance-subworkflow-input-mapping", Completed),
        plain("conformance-subworkflow-input-mapping-child", Completed),
        plain("conformance-subworkflow-input-mapping-no-default", Completed),
        plain("conformance-subworkflow-mid-run-mutation", Waits("waiting-approval")),
        plain("conformance-subworkflow-mid-run-mutation-child", Waits("waiting-approval")),
        plain("conformance-subworkflow-parent", Completed),
        plain("conformance-version-fold", Completed),
        plain("conformance-wasm-pack-memory-cap-breach", Failed("sandbox_memory_exceeded")),
        plain("conformance-wasm-pack-roundtrip", Completed),
        plain("openwop-smoke-byok-roundtrip", Completed),
        plain("openwop-smoke-cost-emit", Completed),
    ])
}

/// Another host, with an echo tool.
async fn echoing() -> Host {
    let other = Host::start().await;
    let says = ("says", "core.openwop.mcp.expose-tool", json!({"name": "echo"}));
    let text = json!([{"name": "text", "type": "string"}]);
    let mut echo = workflow("echo", &[says, ("work", "core.end", json!({}))], &text);
    echo["nodes"][1]["inputs"] = json!({"said": {"type": "variable", "variableName": "text"}});
    other.register(&echo).await;
    other
}

/// A host with all optional features and every fixture that it accepts, and the results of their registration.
async fn equipped(fixtures: &[Value], servers: &[&Host]) -> (Host, BTreeMap<String, Value>) {
    let addresses: Vec<_> = servers.iter().map(|host| host.address).collect();
    let host = Host::start_equipped(&addresses).await;
    let mut refused = BTreeMap::new();
    for workflow in fixtures {
        let answer = host.post("/v1/workflows", workflow).await;
        if answer.status == 400 {
            refused.insert(workflow["id"].as_str().unwrap().to_owned(), answer.json());
        } else {
            assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
        }
    }
    (host, refused)
}

/// Creates a run with a test key, which may use mock models.
async fn begin(host: &Host, id: &str, body: &Value) -> String {
    let mut body = body.clone();
    body["workflowId"] = id.into();
    let key = format!("Bearer {TESTER}");
    let created = host.post_with("/v1/runs", &[("authorization", &key)], &body).await.expect(201);
    created["runId"].as_str().unwrap().to_owned()
}

/// Waits until a run has a status.
async fn wait_for_status(host: &Host, run_id: &str, status: &str) -> Value {
    loop {
        let run = host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
        let now = run["status"].as_str().unwrap().to_owned();
        assert!(!matches!(now.as_str(), "completed" | "failed" | "cancelled"), "{status}: {run}");
        if now == status {
            return run;
        }
        tokio::task::yield_now().await;
    }
}

/// The events of a run, validated against the published schemas of events and their payloads.
async fn events(host: &Host, published: &Published, run_id: &str) -> Vec<Value> {
    let polled = host.get(&format!("/v1/runs/{run_id}/events/poll?timeout=0")).await.expect(200);
    let events = polled["events"].as_array().unwrap().clone();
    for event in &events {
        published.check("run-event", event);
        published.check_payload(event);
    }
    events
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn every_fixture_reaches_its_outcome_or_is_refused_with_what_is_missing() {
    let (Some(fixtures), Some(published)) = (protocol_folder("fixtures"), Published::read()) else { return };
    let table = table();
    let ids: BTreeSet<&str> = fixtures.iter().map(|workflow| workflow["id"].as_str().unwrap()).collect();
    assert_eq!(ids, table.keys().copied().collect(), "every fixture is in the table, and nothing else");
    let other = echoing().await;
    let (host, mut refused) = equipped(&fixtures, &[&other]).await;
    for (id, (body, end)) in &table {
        if let Refused(needs) = end {
            let refusal = refused.remove(*id).unwrap_or_else(|| panic!("{id} was taken"));
            assert_eq!(refusal["error"], "validation_error", "{id}");
            let details = &refusal["details"];
            let said = [&details["requiredCapability"], &details["fields"][0]["path"]];
            assert!(said.contains(&&json!(needs)), "{id}: {refusal}");
            continue;
        }
        assert_eq!(refused.get(*id), None);
        let run_id = begin(&host, id, body).await;
        match end {
            Completed => {
                let run = host.end_of(&run_id).await;
                assert_eq!(run["status"], "completed", "{id}: {run}");
            }
            Failed(code) => {
                let run = host.end_of(&run_id).await;
                assert_eq!(
                    (&run["status"], &run["error"]["code"]),
                    (&json!("failed"), &json!(code)),
                    "{id}: {run}"
                );
            }
            Waits(status) => {
                wait_for_status(&host, &run_id, status).await;
            }
            Refused(_) => {}
        }
        let events_of_run = events(&host, &published, &run_id).await;
        assert!(!events_of_run.is_empty(), "{id}");
        assert!(!json!(events_of_run).to_string().contains(CANARY.1), "{id} shows a secret");
    }
    assert_eq!(refused, BTreeMap::new());
}

#[tokio::test]
async fn the_handoff_fixture_is_validated_against_its_agents_schemas() {
    let (Some(fixtures), Some(published)) = (protocol_folder("fixtures"), Published::read()) else { return };
    let id = "conformance-agent-pack-handoff-schema-validation";
    let fixture = fixtures.iter().find(|fixture| fixture["id"] == id).unwrap();
    let host = super::agents::with_the_structured_fixture().await;
    host.register(fixture).await;
    let cases = [
        (json!({"scenario": "valid-task", "text": "x"}), None),
        (json!({"scenario": "invalid-task"}), Some("handoff_task_schema_violation")),
        (json!({"scenario": "invalid-task", "text": 7}), Some("handoff_task_schema_violation")),
        (json!({"scenario": "mock-return-violation", "text": "x"}), Some("handoff_return_schema_violation")),
    ];
    for (inputs, code) in cases {
        // The run is created regardless of its inputs.
        let run_id = begin(&host, id, &json!({"inputs": inputs})).await;
        let run = host.end_of(&run_id).await;
        let events_of_run = events(&host, &published, &run_id).await;
        let kinds = kinds(&events_of_run);
        let Some(code) = code else {
            assert_eq!(run["status"], "completed", "{inputs}: {run}");
            continue;
        };
        assert_eq!((&run["status"], &run["error"]["code"]), (&json!("failed"), &json!(code)), "{inputs}");
        let failed = events_of_run.iter().find(|event| event["type"] == "node.failed").unwrap();
        assert_eq!(failed["payload"]["error"]["code"], code, "{inputs}");
        for never in ["node.started", "node.completed"] {
            assert!(!kinds.contains(&never), "no node begins, and nothing is kept: {inputs}: {kinds:?}");
        }
    }
}

#[tokio::test]
async fn envelopes_are_asked_for_again_cut_off_refused_and_recovered_as_the_fixtures_say() {
    let (Some(fixtures), Some(published)) = (protocol_folder("fixtures"), Published::read()) else { return };
    let (host, _) = equipped(&fixtures, &[]).await;
    let good = json!({"content": "{\"valid\":true}"});
    let cut = json!({"stopReason": "max_tokens", "content": "{\"partial"});
    let prose = json!({"content": "Sure, here it is: all is well."});
    let cases = [
        ("retry-attempted", json!([{"content": "no JSON"}, good]), vec!["retry.attempted"], None, 4096),
        (
            "retry-exhausted",
            json!([{"content": "{a"}, {"content": "{b"}, {"content": "{c"}]),
            vec!["retry.attempted", "retry.attempted", "retry.exhausted"],
            Some("envelope_payload_invalid"),
            4096,
        ),
        (
            "refusal",
            json!([{"stopReason": "safety", "refusalText": "I would rather not."}]),
            vec!["refusal"],
            Some("envelope_refused_by_provider"),
            4096,
        ),
        ("truncated", json!([cut, good]), vec!["truncated", "retry.attempted"], None, 100),
        (
            "truncation-cap-exhaustion",
            json!([cut, cut, cut, cut]),
            vec![
                "truncated",
                "retry.attempted",
                "truncated",
                "retry.attempted",
                "truncated",
                "retry.exhausted",
            ],
            Some("envelope_truncation_unrecoverable"),
            200,
        ),
        (
            "recovery-applied",
            json!([{"content": "```json\n{\"result\":\"ok\"}\n```"}]),
            vec!["recovery.applied"],
            None,
            4096,
        ),
        (
            "nl-to-format-engaged",
            json!([prose, prose, prose, {"content": "{\"result\":\"ok\"}"}]),
            vec!["retry.attempted", "retry.attempted", "nlToFormat.engaged"],
            None,
            4096,
        ),
    ];
    for (name, program, expected, code, room) in cases {
        let seams = "/v1/host/sample/test";
        let program = json!({"nodeId": "structured-call", "program": program});
        host.post(&format!("{seams}/mock-ai/program"), &program).await.expect(200);
        let run_id = begin(&host, &format!("conformance-envelope-{name}"), &json!({})).await;
        let run = host.end_of(&run_id).await;
        match code {
            None => assert_eq!(run["status"], "completed", "{name}: {run}"),
            Some(code) => assert_eq!(run["error"]["code"], code, "{name}: {run}"),
        }
        assert!(!run["error"].to_string().contains("rather"), "what a model says is in no error: {run}");
        let events_of_run = events(&host, &published, &run_id).await;
        let all = kinds(&events_of_run);
        let envelopes: Vec<&str> = all.iter().filter_map(|kind| kind.strip_prefix("envelope.")).collect();
        assert_eq!(envelopes, expected, "{name}");
        assert_eq!(all.contains(&"cap.breached"), name == "truncation-cap-exhaustion", "{name}");
        let calls = all.iter().filter(|kind| **kind == "provider.usage").count();
        assert!((1..=4).contains(&calls), "{name}: every call is counted, and there are few: {all:?}");
        let budget = host.get(&format!("{seams}/mock-ai/last-dispatch-budget?nodeId=structured-call")).await;
        assert_eq!(budget.expect(200)["maxTokens"], room, "{name}");
        host.post(&format!("{seams}/reset"), &json!({})).await.expect(200);
    }
}

#[tokio::test]
async fn a_replay_asks_no_model_again_whatever_it_would_say() {
    let (Some(fixtures), Some(published)) = (protocol_folder("fixtures"), Published::read()) else { return };
    let (host, _) = equipped(&fixtures, &[]).await;
    let program = json!([{"content": "{\"valid\":true}"}, {"stopReason": "safety", "refusalText": "no"}]);
    for id in ["conformance-phase4-replay-divergence", "conformance-phase4-nondet-tool"] {
        let program = json!({"nodeId": "structured-call", "program": program});
        host.post("/v1/host/sample/test/mock-ai/program", &program).await.expect(200);
        let first = begin(&host, id, &json!({})).await;
        assert_eq!(host.end_of(&first).await["status"], "completed");
        let fork = json!({"mode": "replay", "fromSeq": 0});
        let forked = host.post(&format!("/v1/runs/{first}:fork"), &fork).await.expect(201);
        let forked = forked["runId"].as_str().unwrap();
        let run = host.end_of(forked).await;
        assert_eq!(run["status"], "completed", "{id}: {run}");
        let (original, replayed) =
            (events(&host, &published, &first).await, events(&host, &published, forked).await);
        assert_eq!(kinds(&original), kinds(&replayed), "{id}");
        let answers = |events: &[Value]| -> Vec<Value> {
            let done = events.iter().filter(|event| event["type"] == "node.completed");
            done.map(|event| event["payload"]["outputs"].clone()).collect()
        };
        assert_eq!(answers(&original), answers(&replayed), "{id}: the recorded answer, and not the next one");
        host.post("/v1/host/sample/test/reset", &json!({})).await.expect(200);
    }
}

#[tokio::test]
async fn prompts_are_resolved_layer_by_layer_and_composed_before_a_model_is_asked() {
    let (Some(fixtures), Some(published)) = (protocol_folder("fixtures"), Published::read()) else { return };
    let (host, _) = equipped(&fixtures, &[]).await;
    for (id, count) in [("conformance-prompt-end-to-end", 1), ("conformance-prompt-all-four-kinds", 5)] {
        let run_id = begin(&host, id, &json!({})).await;
        assert_eq!(host.end_of(&run_id).await["status"], "completed", "{id}");
        let events_of_run = events(&host, &published, &run_id).await;
        let places = |wanted: &str| -> Vec<usize> {
            events_of_run
                .iter()
                .enumerate()
                .filter(|(_, event)| event["type"] == wanted)
                .map(|(place, _)| place)
                .collect()
        };
        let (resolved, composed) = (places("agent.promptResolved"), places("prompt.composed"));
        assert_eq!((resolved.len(), composed.len()), (count, count), "{id}");
        assert!(resolved.iter().max() < composed.iter().min(), "{id}");
        for place in resolved {
            let chain = events_of_run[place]["payload"]["chain"].as_array().unwrap();
            assert_eq!(chain.len(), 7, "every layer is listed");
            let applied: Vec<&Value> = chain.iter().filter(|entry| entry["applied"] == true).collect();
            assert_eq!((applied.len(), &applied[0]["layer"]), (1, &json!("node")));
        }
        assert!(composed.iter().max() < places("provider.usage").iter().min(), "{id}");
    }
    // The defaults of the workflow are the layer after the node.
    let mut fallback = fixtures.iter().find(|f| f["id"] == "conformance-prompt-end-to-end").unwrap().clone();
    fallback["id"] = "conformance-prompt-fallback".into();
    fallback["defaults"] = json!({"promptRefs": {"user": "prompt:conformance.prompt.writer-user"}});
    host.register(&fallback).await;
    let run_id = begin(&host, "conformance-prompt-fallback", &json!({})).await;
    assert_eq!(host.end_of(&run_id).await["status"], "completed");
    let events_of_run = events(&host, &published, &run_id).await;
    let user = events_of_run.iter().find(|event| event["payload"]["kind"] == "user").unwrap();
    let applied = user["payload"]["chain"].as_array().unwrap().iter().find(|entry| entry["applied"] == true);
    assert_eq!(applied.unwrap()["layer"], "workflow-defaults");
    for (kind, reference) in
        [("user", json!("no reference")), ("other", json!("prompt:a")), ("user", json!(1))]
    {
        fallback["defaults"]["promptRefs"] = json!({kind: reference});
        let refused = host.post("/v1/workflows", &fallback).await.refused(400, "validation_error");
        assert_eq!(refused["details"]["fields"][0]["path"], format!("/defaults/promptRefs/{kind}"));
    }
}

#[tokio::test]
async fn a_tool_in_the_place_of_a_model_is_called_once_and_its_words_are_marked() {
    let (Some(fixtures), Some(published)) = (protocol_folder("fixtures"), Published::read()) else { return };
    let other = echoing().await;
    let (host, _) = equipped(&fixtures, &[&other]).await;
    let run_id = begin(&host, "conformance-mcp-tool-roundtrip", &json!({})).await;
    let run = host.end_of(&run_id).await;
    let outputs = &run["nodeStates"]["mcp-call"]["outputs"];
    assert_eq!((&outputs["untrustedContent"], &outputs["isError"]), (&json!(true), &json!(false)), "{run}");
    let content = outputs["content"].as_str().unwrap();
    assert!(content.starts_with("<UNTRUSTED") && content.contains("roundtrip-probe"), "{content}");
    let events_of_run = events(&host, &published, &run_id).await;
    let tools: Vec<&str> =
        kinds(&events_of_run).into_iter().filter(|kind| kind.starts_with("agent.tool")).collect();
    assert_eq!(tools, ["agent.toolCalled", "agent.toolReturned"]);
    assert_eq!(other.get("/v1/runs").await.expect(200)["runs"].as_array().unwrap().len(), 1);
    let fork = json!({"mode": "replay", "fromSeq": 0});
    let forked = host.post(&format!("/v1/runs/{run_id}:fork"), &fork).await.expect(201);
    assert_eq!(host.end_of(forked["runId"].as_str().unwrap()).await["status"], "completed");
    assert_eq!(
        other.get("/v1/runs").await.expect(200)["runs"].as_array().unwrap().len(),
        1,
        "a replay calls no tool"
    );
}

#[tokio::test]
async fn the_cache_key_of_a_request_is_deterministic() {
    let host = Host::start_equipped(&[]).await;
    let keyed = |id: &str, mode: Value| {
        let mut keyed = workflow(id, &[("key", "core.openwop.http.idempotency-key", mode)], &json!([]));
        keyed["nodes"][0]["inputs"] = json!({"payload": {"type": "static", "value": {"amount": 1}}});
        keyed
    };
    for (id, config) in [("composite", json!({})), ("hash", json!({"mode": "hash"}))] {
        host.register(&keyed(id, config)).await;
        let mut keys = Vec::new();
        for _ in 0..2 {
            let run_id = host.create(id).await;
            let run = host.end_of(&run_id).await;
            let key = run["nodeStates"]["key"]["outputs"]["key"].as_str().unwrap().to_owned();
            let digits = key.strip_prefix("openwop-").unwrap();
            assert!(digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()), "{key}");
            let fork = json!({"mode": "replay", "fromSeq": 0});
            let forked = host.post(&format!("/v1/runs/{run_id}:fork"), &fork).await.expect(201);
            let replayed = host.end_of(forked["runId"].as_str().unwrap()).await;
            assert_eq!(replayed["nodeStates"]["key"]["outputs"]["key"], key.as_str(), "{replayed}");
            keys.push(key);
        }
        assert_eq!(
            keys[0] == keys[1],
            id == "hash",
            "two runs send two requests, unless only what is sent counts"
        );
    }
    host.register(&keyed("uuid", json!({"mode": "uuid"}))).await;
    let run_id = host.create("uuid").await;
    assert_eq!(host.end_of(&run_id).await["error"]["code"], "CONFIG_INVALID");
    host.post("/v1/workflows", &keyed("other", json!({"mode": "other"})))
        .await
        .refused(400, "validation_error");
}
