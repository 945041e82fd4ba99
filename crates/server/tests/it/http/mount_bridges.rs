//! MCP clients that use sampling, and clients that request progress.

use serde_json::{Value, json};
use server::http::Settings;

use super::client::Answer;
use super::service::{Host, OTHER, READER, noop, workflow};

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

async fn ask(host: &Host, method: &str, params: &Value) -> Value {
    host.post("/v1/mcp", &request(method, params)).await.expect(200)
}

async fn runs(host: &Host) -> Vec<Value> {
    host.get("/v1/runs?limit=200").await.expect(200)["runs"].as_array().unwrap().clone()
}

fn sampling() -> Value {
    json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "What is a queue?"}}],
        "systemPrompt": "Be short.", "maxTokens": 64,
    })
}

fn handler(id: &str) -> Value {
    workflow(
        id,
        &[("sample", "core.openwop.mcp.handle-sampling", json!({"modelHint": "mock-mini"}))],
        &json!([]),
    )
}

#[tokio::test]
async fn sampling_returns_the_reply_of_the_authors_model() {
    let host = Host::start_with(Settings { test_seams: true, ..Settings::default() }).await;
    let found = host.send("GET", "/.well-known/openwop", &[], None).await.expect(200);
    assert_eq!(found["mcp"]["serverMount"]["samplingBridge"], true);
    let unhandled = ask(&host, "sampling/createMessage", &sampling()).await;
    assert_eq!(unhandled["error"]["code"], -32601, "no workflow handles it");
    host.register(&handler("samples")).await;
    let program = json!({"nodeId": "sample", "program": [
        {"content": "A line."}, {"content": "A lin", "stopReason": "max_tokens"},
        {"stopReason": "safety", "refusalText": "I would rather not."},
    ]});
    host.post("/v1/host/sample/test/mock-ai/program", &program).await.expect(200);
    let answered = ask(&host, "sampling/createMessage", &sampling()).await;
    let expected = json!({
        "role": "assistant", "content": {"type": "text", "text": "A line."}, "model": "mock-mini", "stopReason": "endTurn",
    });
    assert_eq!(answered["result"], expected, "{answered}");
    let run_id = runs(&host).await[0]["runId"].as_str().unwrap().to_owned();
    let run = host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
    assert_eq!(run["metadata"]["trustBoundary"], "untrusted", "{run}");
    let events = host.get(&format!("/v1/runs/{run_id}/events/poll?timeout=0")).await.expect(200);
    assert!(events.to_string().contains("provider.usage"), "usage is recorded: {events}");
    let budget =
        host.get("/v1/host/sample/test/mock-ai/last-dispatch-budget?nodeId=sample").await.expect(200);
    assert_eq!(budget["maxTokens"], 64, "as much as the client wants, and no more");
    // A replay uses the recorded reply and calls no model.
    let forked =
        host.post(&format!("/v1/runs/{run_id}:fork"), &json!({"mode": "replay", "fromSeq": 0})).await;
    let forked = host.end_of(forked.expect(201)["runId"].as_str().unwrap()).await;
    assert_eq!(forked["nodeStates"]["sample"]["outputs"]["content"]["text"], "A line.");
    let refused = ask(&host, "sampling/createMessage", &sampling()).await;
    let cut = refused["result"]["stopReason"].as_str().map(str::to_owned);
    assert_eq!(cut.as_deref(), Some("maxTokens"), "{refused}");
    let refused = ask(&host, "sampling/createMessage", &sampling()).await;
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    assert!(!refused.to_string().contains("rather"), "what a model says is in no error: {refused}");
}

#[tokio::test]
async fn a_request_for_a_model_is_checked_before_there_is_a_run() {
    let host = Host::start_with(Settings { test_seams: true, ..Settings::default() }).await;
    host.register(&handler("samples")).await;
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 4] = [
        ("/messages", |request| request["messages"] = json!([])),
        ("/messages/0/content", |request| request["messages"][0]["content"] = json!({"type": "image"})),
        ("/maxTokens", |request| request["maxTokens"] = json!("many")),
        ("/temperature", |request| request["temperature"] = json!(9)),
    ];
    for (path, change) in cases {
        let mut request = sampling();
        change(&mut request);
        let refused = ask(&host, "sampling/createMessage", &request).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert_eq!(refused["error"]["data"]["violations"][0]["path"], path, "{refused}");
    }
    assert!(runs(&host).await.is_empty());
    // Other tenants have no handler, and a key that may not create runs creates none.
    let message = request("sampling/createMessage", &sampling());
    let other = format!("Bearer {OTHER}");
    let theirs = host.post_with("/v1/mcp", &[("authorization", &other)], &message).await.expect(200);
    assert_eq!(theirs["error"]["code"], -32601);
    let reader = format!("Bearer {READER}");
    host.post_with("/v1/mcp", &[("authorization", &reader)], &message).await.refused(403, "forbidden");
    // A run that was not started by a client has no request, and reports that.
    let run_id = host.create("samples").await;
    assert_eq!(host.end_of(&run_id).await["error"]["code"], "validation_error");
}

fn tool() -> Value {
    let says = ("says", "core.openwop.mcp.expose-tool", json!({"name": "steps"}));
    let delay = |id| (id, "core.delay", json!({"delayMs": 20}));
    workflow("steps", &[says, delay("one"), delay("two"), ("three", "core.noop", json!({}))], &json!([]))
}

async fn call(host: &Host, accept: &str, meta: Value) -> Answer {
    let message = request("tools/call", &json!({"name": "steps", "arguments": {}, "_meta": meta}));
    host.post_with("/v1/mcp", &[("accept", accept)], &message).await
}

#[tokio::test]
async fn a_call_with_a_progress_token_gets_progress_and_then_the_result() {
    let host = Host::start().await;
    host.register(&tool()).await;
    let both = "application/json, text/event-stream";
    let answer = call(&host, both, json!({"progressToken": "t-1"})).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    let text = answer.text();
    let messages: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let (last, progress) = messages.split_last().unwrap();
    assert_eq!((&last["id"], &last["result"]["isError"]), (&json!(7), &json!(false)), "{last}");
    assert!(!progress.is_empty(), "{text}");
    let mut before = 0;
    for message in progress {
        assert_eq!(message["method"], "notifications/progress");
        assert_eq!(message["params"]["progressToken"], "t-1");
        let progress = message["params"]["progress"].as_u64().unwrap();
        assert!(progress > before, "it only grows: {text}");
        before = progress;
        assert_eq!(message["params"]["total"], 4);
        assert_eq!(message["params"].as_object().unwrap().len(), 3, "a number, and nothing of the run");
    }
    // A client that accepts no streams or sends no progress token gets a plain reply.
    for (accept, meta) in [
        ("application/json", json!({"progressToken": "t"})),
        (both, json!({})),
        (both, json!({"progressToken": {}})),
    ] {
        let answer = call(&host, accept, meta).await;
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.expect(200)["result"]["isError"], false);
    }
}

#[tokio::test]
async fn disconnecting_from_a_progress_stream_cancels_the_run() {
    let host = Host::start().await;
    let says = ("says", "core.openwop.mcp.expose-tool", json!({"name": "steps"}));
    let slow = ("wait", "core.delay", json!({"delayMs": 60_000}));
    host.register(&workflow("steps", &[says, slow], &json!([]))).await;
    host.register(&noop()).await;
    let calling = call(&host, "text/event-stream", json!({"progressToken": 1}));
    let seen = async {
        loop {
            let listed = host.get("/v1/runs?workflowId=steps&status=running").await.expect(200);
            if let Some(run) = listed["runs"].as_array().unwrap().first() {
                break run["runId"].as_str().unwrap().to_owned();
            }
            tokio::task::yield_now().await;
        }
    };
    let run_id = tokio::select! {
        answer = calling => panic!("{answer:?}"),
        run_id = seen => run_id,
    };
    assert_eq!(host.end_of(&run_id).await["status"], "cancelled");
}
