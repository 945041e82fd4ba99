//! Every way in which data of a run leaves the host, checked for values that must not leave.

use serde_json::{Value, json};

use super::canaries::CANARIES;
use super::service::{Host, KEY, workflow};

/// Requests a document or a stream of an ended run.
async fn body_of(host: &Host, path: &str, accept: &str) -> String {
    let key = format!("Bearer {KEY}");
    let answer = host.send("GET", path, &[("authorization", &key), ("accept", accept)], None).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text()
}

/// The events of a run, through every route that returns them.
async fn events_of(host: &Host, run_id: &str, other: &str) -> Vec<(String, String)> {
    let mut exits = Vec::new();
    for path in [
        "/events/poll?timeout=0",
        "/events",
        "/events?streamMode=debug",
        "/events?streamMode=messages",
        "/events?streamMode=updates,messages,debug&bufferMs=1",
        "/debug-bundle",
        "/annotations",
        "/ancestry",
        &format!(":diff?against={other}"),
        &format!(":diff?against={run_id}"),
    ] {
        let path = format!("/v1/runs/{run_id}{path}");
        let text = body_of(host, &path, "*/*").await;
        exits.push((path, text));
    }
    let path = format!("/v1/runs/{run_id}/events?streamMode=debug");
    let page = body_of(host, &path, "application/json").await;
    exits.push((format!("{path} as JSON"), page));
    exits
}

/// The state of a run, through every route that returns it.
async fn states_of(host: &Host, run_id: &str) -> Vec<(String, String)> {
    let mut exits = Vec::new();
    for path in [
        format!("/v1/runs/{run_id}"),
        format!("/v1/runs/{run_id}/events?streamMode=values"),
        "/v1/runs".into(),
    ] {
        let text = body_of(host, &path, "*/*").await;
        exits.push((path, text));
    }
    exits
}

/// The result of an MCP tool call.
async fn called(host: &Host, name: &str, arguments: &Value) -> String {
    let params = json!({"name": name, "arguments": arguments});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let key = format!("Bearer {KEY}");
    let answer = host.post_with("/v1/mcp", &[("authorization", &key)], &message).await;
    assert!(answer.expect(200)["result"].is_object(), "{}", answer.text());
    answer.text()
}

/// A tool that echoes its input.
fn tool(id: &str, variables: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"word": {"type": "string"}}});
    let says = json!({"name": id, "description": "Says it again.", "inputSchema": schema});
    let mut document = workflow(
        id,
        &[("says", "core.openwop.mcp.expose-tool", says), ("work", "core.identity", json!({}))],
        variables,
    );
    document["nodes"][1]["inputs"] = json!({"word": {"type": "variable", "variableName": "word"}});
    document
}

/// A workflow that takes a word, processes it, and asks a person about it.
fn asking(id: &str, variables: &Value) -> Value {
    let questions = json!({"questions": [{"id": "q", "question": "Which word?"}]});
    let mut document = workflow(
        id,
        &[
            ("work", "core.identity", json!({})),
            ("gate", "core.approvalGate", json!({"title": "Go on?", "actions": ["accept"]})),
            ("ask", "core.clarificationGate", questions),
        ],
        variables,
    );
    for place in [0, 1] {
        document["nodes"][place]["inputs"] = json!({"word": {"type": "variable", "variableName": "word"}});
    }
    document
}

/// Runs it to completion, with the word in every place where a caller can put one.
async fn played(host: &Host, workflow_id: &str, word: &str) -> String {
    let run_id = host.create_with(&json!({"workflowId": workflow_id, "inputs": {"word": word}})).await;
    let path = |of_run: &str| format!("/v1/runs/{run_id}{of_run}");
    host.post(&path(":pause"), &json!({"reason": word})).await.expect(202);
    host.post(&path(":resume"), &json!({"reason": word})).await.expect(202);
    let accept = json!({"resumeValue": {"action": "accept", "feedback": word, "comment": word}});
    host.post(&path("/interrupts/gate"), &accept).await.expect(200);
    host.post(&path("/interrupts/ask"), &json!({"resumeValue": {"answers": {"q": word}}})).await.expect(200);
    assert_eq!(host.end_of(&run_id).await["status"], "completed");
    run_id
}

#[tokio::test]
async fn credentials_are_redacted_in_events_but_available_to_nodes() {
    let host = Host::start().await;
    let declared = json!([{"name": "word", "type": "string"}]);
    host.register(&asking("asking", &declared)).await;
    host.register(&tool("tells", &declared)).await;
    for canary in CANARIES {
        let word = format!("the\n{canary}, no less");
        let (one, two) = (played(&host, "asking", &word).await, played(&host, "asking", "plain").await);
        // The stored value is the original: the run continues with it, and its state contains it.
        let run = host.get(&format!("/v1/runs/{one}")).await.expect(200);
        assert_eq!(run["variables"]["word"], word);
        let fork = host.post(&format!("/v1/runs/{one}:fork"), &json!({"mode": "replay"})).await.expect(201);
        let fork = fork["runId"].as_str().unwrap();
        assert_eq!(host.end_of(fork).await["variables"]["word"], word);
        let cancelled = host.create_with(&json!({"workflowId": "asking", "inputs": {"word": "plain"}})).await;
        host.post(&format!("/v1/runs/{cancelled}/cancel"), &json!({"reason": word})).await.expect(200);
        for (run_id, other) in [(one.as_str(), two.as_str()), (fork, &two), (&two, &one), (&cancelled, &one)]
        {
            for (exit, text) in events_of(&host, run_id, other).await {
                assert!(!text.contains(canary), "{exit}: {text}");
            }
        }
        let log = host.get(&format!("/v1/runs/{one}/events/poll?timeout=0")).await.expect(200);
        let hidden = log["events"].to_string().matches("the\\n[REDACTED], no less").count();
        assert!(hidden >= 6, "the input, what became of it, three reasons and an answer: {log}");
        let bundle = host.get(&format!("/v1/runs/{one}/debug-bundle")).await.expect(200);
        assert_eq!((&bundle["events"], &bundle["redactionApplied"]), (&log["events"], &json!(true)));
        let result = called(&host, "tells", &json!({"word": word})).await;
        assert!(!result.contains(canary) && result.contains("[REDACTED]"), "{result}");
    }
}

#[tokio::test]
async fn sensitive_values_appear_in_no_output() {
    const WORD: &str = "open sesame";
    let host = Host::start().await;
    for mode in ["mask", "omit", "hash"] {
        let declared = json!([{"name": "word", "type": "string", "sensitive": true}]);
        let hiding = |mut document: Value| {
            document["metadata"] = json!({"complianceConfig": {"maskingMode": mode}});
            for node in document["nodes"].as_array_mut().unwrap() {
                let given =
                    json!({"word": true, "output": true, "answers": true, "q": true, "feedback": true});
                node["outputSensitivity"] = given;
            }
            document
        };
        let (asks, tells) = (format!("asks-{mode}"), format!("tells-{mode}"));
        host.register(&hiding(asking(&asks, &declared))).await;
        host.register(&hiding(tool(&tells, &declared))).await;
        let waiting = host.create_with(&json!({"workflowId": asks, "inputs": {"word": WORD}})).await;
        let run = host.get(&format!("/v1/runs/{waiting}")).await.expect(200);
        assert_eq!(run["status"], "waiting-approval", "{run}");
        let token = run["interrupt"]["interruptToken"].as_str().unwrap();
        let inspected = host.send("GET", &format!("/v1/interrupts/{token}"), &[], None).await;
        assert!(!run.to_string().contains(WORD) && !inspected.text().contains(WORD), "{mode}: {run}");
        host.post(&format!("/v1/runs/{waiting}/cancel"), &json!({})).await.expect(200);

        let run_id = host.create_with(&json!({"workflowId": asks, "inputs": {"word": WORD}})).await;
        let path = |of_run: &str| format!("/v1/runs/{run_id}{of_run}");
        let accept = json!({"resumeValue": {"action": "accept", "feedback": WORD}});
        host.post(&path("/interrupts/gate"), &accept).await.expect(200);
        let answers = json!({"resumeValue": {"answers": {"q": WORD}}});
        host.post(&path("/interrupts/ask"), &answers).await.expect(200);
        assert_eq!(host.end_of(&run_id).await["status"], "completed");
        let fork = host.post(&path(":fork"), &json!({"mode": "replay"})).await.expect(201);
        let fork = fork["runId"].as_str().unwrap();
        host.end_of(fork).await;
        for run_id in [&waiting, &run_id, fork] {
            for (exit, text) in
                events_of(&host, run_id, &waiting).await.into_iter().chain(states_of(&host, run_id).await)
            {
                assert!(!text.contains(WORD), "{mode} {exit}: {text}");
            }
        }
        let result = called(&host, &tells, &json!({"word": WORD})).await;
        assert!(!result.contains(WORD), "{mode}: {result}");
    }
}
