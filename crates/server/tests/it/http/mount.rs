//! Workflows over MCP: with raw requests and with the library's client.

use std::time::Duration;

use flow::definition::Capabilities;
use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use runs::rates::RateLimits;
use serde_json::{Value, json};
use server::http::Settings;

use super::client::Answer;
use super::service::{Host, KEY, OTHER, READER, noop, workflow};

pub(super) const PATH: &str = "/v1/mcp";

/// A workflow that exposes one thing and returns `gives`.
pub(super) fn exposing(id: &str, kind: &str, config: Value, gives: &Value) -> Value {
    let type_id = format!("core.openwop.mcp.{kind}");
    let variables = json!([
        {"name": "text", "type": "string"}, {"name": "uri", "type": "string"}, {"name": "arguments", "type": "object"},
    ]);
    let nodes = [("says", type_id.as_str(), config), ("work", "core.identity", json!({}))];
    let mut workflow = workflow(id, &nodes, &variables);
    workflow["nodes"][1]["inputs"] = gives.clone();
    workflow
}

pub(super) fn variable(name: &str) -> Value {
    json!({"type": "variable", "variableName": name})
}

fn echo() -> Value {
    let schema = json!({
        "type": "object", "required": ["text"], "additionalProperties": false,
        "properties": {"text": {"type": "string", "maxLength": 20}, "times": {"type": "integer", "minimum": 1}},
    });
    let config = json!({"name": "echo", "description": "Says it again.", "inputSchema": schema});
    exposing("echo", "expose-tool", config, &json!({"said": variable("text")}))
}

/// A tool whose run takes a while or waits for a person.
fn tool(id: &str, type_id: &str, config: Value) -> Value {
    let says = ("says", "core.openwop.mcp.expose-tool", json!({"name": id}));
    workflow(id, &[says, ("work", type_id, config)], &json!([]))
}

pub(super) async fn send(host: &Host, key: &str, headers: &[(&str, &str)], message: &Value) -> Answer {
    let key = format!("Bearer {key}");
    let mut all = vec![("authorization", key.as_str())];
    all.extend(headers);
    host.post_with(PATH, &all, message).await
}

pub(super) fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

pub(super) async fn ask(host: &Host, method: &str, params: Value) -> Value {
    send(host, KEY, &[], &request(method, &params)).await.expect(200)
}

async fn call(host: &Host, name: &str, arguments: Value) -> Value {
    ask(host, "tools/call", json!({"name": name, "arguments": arguments})).await
}

async fn runs(host: &Host) -> Vec<Value> {
    host.get("/v1/runs?limit=200").await.expect(200)["runs"].as_array().unwrap().clone()
}

/// Waits until a run of the workflow exists and has a status.
async fn run_of(host: &Host, workflow_id: &str, status: &str) -> Value {
    loop {
        let listed =
            host.get(&format!("/v1/runs?workflowId={workflow_id}&status={status}")).await.expect(200);
        if let Some(run) = listed["runs"].as_array().unwrap().first() {
            return run.clone();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_handshake_and_the_small_methods_are_answered() {
    let host = Host::start().await;
    let initialize = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let begun = send(&host, KEY, &[], &request("initialize", &initialize)).await;
    assert!(begun.header("mcp-session-id").is_some_and(|session| session.len() == 32));
    let begun = begun.expect(200);
    assert_eq!(begun["result"]["protocolVersion"], "2025-06-18");
    let capabilities = &begun["result"]["capabilities"];
    for capability in ["tools", "resources", "prompts"] {
        assert_eq!(capabilities[capability]["listChanged"], true, "{capability}");
    }
    assert_eq!(
        (&capabilities["logging"], &capabilities["resources"]["subscribe"]),
        (&json!({}), &json!(false))
    );
    assert_eq!(ask(&host, "ping", json!({})).await["result"], json!({}));
    assert_eq!(ask(&host, "logging/setLevel", json!({"level": "info"})).await["result"], json!({}));
    assert_eq!(ask(&host, "logging/setLevel", json!({"level": "loud"})).await["error"]["code"], -32602);
    for method in ["sampling/createMessage", "resources/subscribe", "elicitation/create", "x"] {
        assert_eq!(ask(&host, method, json!({})).await["error"]["code"], -32601, "{method}");
    }
    let notified = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let answer = send(&host, KEY, &[], &notified).await;
    assert_eq!((answer.status, answer.body.len()), (202, 0));
    let discovered = host.send("GET", "/.well-known/openwop", &[], None).await.expect(200);
    let mount = json!({
        "supported": true, "transports": ["streamable-http"], "samplingBridge": false, "elicitationBridge": true,
    });
    assert_eq!(discovered["mcp"]["serverMount"], mount);
    assert_eq!(discovered["mcp"]["serverUrls"], json!(["http://host.test/v1/mcp"]));
    assert_eq!(discovered["capabilities"]["mcp"], discovered["mcp"]);
}

#[tokio::test]
async fn a_tool_is_a_run_of_its_workflow_and_untrusted() {
    let host = Host::start().await;
    host.register(&echo()).await;
    let listed = ask(&host, "tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "echo");
    assert_eq!(listed["result"]["tools"][0]["description"], "Says it again.");
    assert_eq!(listed["result"]["tools"][0]["inputSchema"], echo()["nodes"][0]["config"]["inputSchema"]);
    let called = call(&host, "echo", json!({"text": "hello"})).await;
    assert_eq!(called["result"]["isError"], false, "{called}");
    let text = called["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), json!({"work": {"said": "hello"}}));
    let run = &runs(&host).await[0];
    assert_eq!(run["metadata"]["trustBoundary"], "untrusted");
    assert_eq!(run["metadata"]["mcp"], json!({"method": "tools/call", "name": "echo"}));
    assert_eq!(run["nodeStates"]["says"]["outputs"], json!({"handle": "tool:echo", "kind": "tool"}));
}

#[tokio::test]
async fn arguments_are_checked_before_a_run_exists() {
    let host = Host::start().await;
    let mut wants = echo();
    wants["id"] = json!("wants");
    wants["nodes"][0]["config"] = json!({"name": "wants"});
    wants["variables"] = json!([{"name": "text", "type": "string", "required": true}]);
    host.register(&echo()).await;
    host.register(&wants).await;
    let mut deep = json!("x");
    for _ in 0..40 {
        deep = json!({"a": deep});
    }
    for (tool, arguments, path) in [
        ("echo", json!({}), ""),
        ("echo", json!({"text": 1}), "/text"),
        ("echo", json!({"text": "x".repeat(21)}), "/text"),
        ("echo", json!({"text": "x", "times": 0}), "/times"),
        ("echo", json!({"text": "x", "__proto__": {}}), ""),
        ("echo", json!({"text": deep}), "/text"),
        ("echo", json!([]), ""),
        ("echo", json!("text"), ""),
        ("wants", json!({}), "/inputs/text"),
        ("wants", json!({"text": ["x"]}), "/inputs/text"),
        ("wants", json!({"text": "x".repeat(2 << 20)}), "/inputs"),
    ] {
        let refused = call(&host, tool, arguments.clone()).await;
        assert_eq!(refused["error"]["code"], -32602, "{tool} {refused}");
        let violations = refused["error"]["data"]["violations"].as_array().unwrap();
        assert_eq!(violations[0]["path"], path, "{tool} {refused}");
        assert!(refused.to_string().len() < 20_000, "what was sent is not sent back");
    }
    assert!(runs(&host).await.is_empty());
    assert_eq!(call(&host, "wants", json!({"text": "x"})).await["result"]["isError"], false);
}

#[tokio::test]
async fn a_tool_of_another_tenant_is_not_found() {
    let host = Host::start().await;
    host.register(&echo()).await;
    let mut theirs = echo();
    theirs["nodes"][0]["config"]["name"] = json!("theirs");
    let key = format!("Bearer {OTHER}");
    host.post_with("/v1/workflows", &[("authorization", &key)], &theirs).await.expect(201);
    let listed = send(&host, OTHER, &[], &request("tools/list", &json!({}))).await.expect(200);
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 1);
    assert_eq!(listed["result"]["tools"][0]["name"], "theirs");
    let mut refusals = Vec::new();
    for (key, name) in [
        (KEY, json!("theirs")),
        (OTHER, json!("echo")),
        (KEY, json!("none")),
        (KEY, json!("")),
        (KEY, json!(1)),
    ] {
        let params = json!({"name": name, "arguments": {"text": "x"}});
        refusals.push(send(&host, key, &[], &request("tools/call", &params)).await.expect(200));
    }
    refusals.dedup();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert_eq!(refusals[0]["error"]["code"], -32602);
    assert!(runs(&host).await.is_empty());
    send(&host, READER, &[], &request("tools/list", &json!({}))).await.refused(403, "forbidden");
    send(&host, "none", &[], &request("tools/list", &json!({}))).await.refused(401, "unauthenticated");
}

#[tokio::test]
async fn of_two_tools_of_one_name_the_first_by_id_is_served() {
    let host = Host::start().await;
    for (id, said) in [("b", "second"), ("a", "first"), ("c", "third")] {
        let config = json!({"name": "same"});
        host.register(&exposing(
            id,
            "expose-tool",
            config,
            &json!({"said": {"type": "static", "value": said}}),
        ))
        .await;
    }
    let called = call(&host, "same", json!({})).await;
    assert!(called["result"]["content"][0]["text"].as_str().unwrap().contains("first"), "{called}");
    assert_eq!(ask(&host, "tools/list", json!({})).await["result"]["tools"].as_array().unwrap().len(), 1);
    host.register(&workflow("a", &[("n", "core.noop", json!({}))], &json!([]))).await;
    let called = call(&host, "same", json!({})).await;
    assert!(called["result"]["content"][0]["text"].as_str().unwrap().contains("second"), "{called}");
}

#[tokio::test]
async fn the_caller_gets_the_result_of_the_run() {
    let settings = Settings { mount_timeout: Duration::from_millis(50), ..Settings::default() };
    let host = Host::start_with(settings).await;
    host.register(&tool("fails", "core.fail", json!({"code": "no_luck", "message": "not today"}))).await;
    host.register(&tool("slow", "core.delay", json!({"delayMs": 600_000}))).await;
    host.register(&tool("asks", "core.approvalGate", json!({}))).await;
    for (name, code) in [("fails", "no_luck"), ("slow", "run_under_way"), ("asks", "run_waiting")] {
        let called = call(&host, name, json!({})).await;
        assert_eq!(called["result"]["isError"], true, "{called}");
        let reply: Value =
            serde_json::from_str(called["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(reply["error"], code, "{reply}");
        let run_id = reply["runId"].as_str().unwrap();
        host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
        if name == "asks" {
            let message = reply["message"].as_str().unwrap();
            assert!(
                message.contains(&format!("http://host.test/v1/runs/{run_id}/interrupts/work")),
                "{message}"
            );
            assert!(!message.contains("/v1/interrupts/"), "no token that would approve it");
            let path = format!("/v1/runs/{run_id}/interrupts/work");
            host.post(&path, &json!({"resumeValue": {"action": "accept"}})).await.expect(200);
            assert_eq!(host.end_of(run_id).await["status"], "completed");
        }
    }
}

#[tokio::test]
async fn a_run_is_cancelled_when_its_client_disconnects_or_cancels_the_call() {
    let host = Host::start().await;
    host.register(&tool("slow", "core.delay", json!({"delayMs": 600_000}))).await;
    let message = request("tools/call", &json!({"name": "slow"}));
    // The client disconnects.
    {
        let calling = send(&host, KEY, &[], &message);
        tokio::pin!(calling);
        tokio::select! {
            answer = &mut calling => panic!("{answer:?}"),
            run = run_of(&host, "slow", "running") => drop(run),
        }
    }
    let run = run_of(&host, "slow", "cancelled").await;
    assert_eq!(host.end_of(run["runId"].as_str().unwrap()).await["status"], "cancelled");
    // Cancels the call, within its session and not from another one.
    let session = [("mcp-session-id", "0123")];
    let calling = send(&host, KEY, &session, &message);
    let cancelled = async {
        run_of(&host, "slow", "running").await;
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        for headers in [&[][..], &[("mcp-session-id", "4567")]] {
            assert_eq!(send(&host, KEY, headers, &cancel).await.status, 202);
            run_of(&host, "slow", "running").await;
        }
        assert_eq!(send(&host, KEY, &session, &cancel).await.status, 202);
    };
    let (answer, ()) = tokio::join!(calling, cancelled);
    let answer = answer.expect(200);
    assert_eq!(answer["result"]["isError"], true);
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("tool_canceled"), "{answer}");
}

#[tokio::test]
async fn resources_are_read_by_exact_address_or_by_template_and_lead_nowhere_else() {
    let host = Host::start().await;
    let note = json!({"uri": "mcp://notes/today", "name": "today", "mimeType": "text/plain"});
    host.register(&exposing("note", "expose-resource", note, &json!({"text": variable("uri")}))).await;
    let template =
        json!({"uriTemplate": "mcp://notes/by-id/{id}", "name": "note", "mimeType": "application/json"});
    host.register(&exposing(
        "notes",
        "expose-resource-template",
        template,
        &json!({"found": variable("arguments")}),
    ))
    .await;
    let listed = ask(&host, "resources/list", json!({})).await;
    let shown = json!([{"uri": "mcp://notes/today", "name": "today", "mimeType": "text/plain"}]);
    assert_eq!(listed["result"]["resources"], shown);
    let listed = ask(&host, "resources/templates/list", json!({})).await;
    assert_eq!(listed["result"]["resourceTemplates"][0]["uriTemplate"], "mcp://notes/by-id/{id}");
    let read = ask(&host, "resources/read", json!({"uri": "mcp://notes/today"})).await;
    let content = json!({"uri": "mcp://notes/today", "text": "mcp://notes/today", "mimeType": "text/plain"});
    assert_eq!(read["result"]["contents"], json!([content]), "{read}");
    let read = ask(&host, "resources/read", json!({"uri": "mcp://notes/by-id/7"})).await;
    assert_eq!(read["result"]["contents"][0]["text"], "{\"work\":{\"found\":{\"id\":\"7\"}}}", "{read}");
    let before = runs(&host).await.len();
    for uri in [
        "mcp://notes/../secrets",
        "mcp://notes/by-id/..",
        "mcp://notes/by-id/%2e%2e",
        "mcp://notes/by-id/%252e%252e",
        "mcp://notes/by-id/a%2fb",
        "mcp://notes/none",
        "file:///etc/passwd",
        "http://127.0.0.1/",
        "",
        "mcp://notes/today ",
    ] {
        let refused = ask(&host, "resources/read", json!({"uri": uri})).await;
        assert_eq!(refused["error"]["code"], -32602, "{uri}: {refused}");
    }
    assert_eq!(runs(&host).await.len(), before);
    let theirs = request("resources/read", &json!({"uri": "mcp://notes/today"}));
    assert_eq!(send(&host, OTHER, &[], &theirs).await.expect(200)["error"]["code"], -32602);
    let bad = json!({"uri": "file:///etc/passwd"});
    host.post("/v1/workflows", &exposing("bad", "expose-resource", bad, &json!({})))
        .await
        .refused(400, "validation_error");
}

#[tokio::test]
async fn a_resource_or_a_prompt_whose_run_fails_is_an_internal_error() {
    let host = Host::start().await;
    for (id, kind, config) in [
        ("resource", "expose-resource", json!({"uri": "mcp://fails"})),
        ("prompt", "expose-prompt", json!({"name": "fails", "template": "t"})),
    ] {
        let mut fails = exposing(id, kind, config, &json!({}));
        fails["nodes"][1]["typeId"] = json!("core.fail");
        fails["nodes"][1]["config"] = json!({"code": "no_luck", "message": "not today"});
        host.register(&fails).await;
    }
    for (method, params) in
        [("resources/read", json!({"uri": "mcp://fails"})), ("prompts/get", json!({"name": "fails"}))]
    {
        let failed = ask(&host, method, params).await;
        assert_eq!(
            (&failed["error"]["code"], &failed["error"]["data"]["error"]),
            (&json!(-32603), &json!("no_luck"))
        );
    }
}

#[tokio::test]
async fn roots_are_what_their_node_lists() {
    let host = Host::start().await;
    let roots = json!([{"uri": "file:///srv/project", "name": "Project"}, {"uri": "file:///srv/notes"}]);
    host.register(&exposing("roots", "provide-roots", json!({"roots": roots}), &json!({}))).await;
    let run_id = host.create("roots").await;
    let run = host.end_of(&run_id).await;
    assert_eq!(run["nodeStates"]["says"]["outputs"], json!({"roots": roots, "count": 2}), "{run}");
    let bad = exposing("bad", "provide-roots", json!({"roots": [{"name": "nowhere"}]}), &json!({}));
    host.post("/v1/workflows", &bad).await.refused(400, "validation_error");
}

#[tokio::test]
async fn arguments_of_a_prompt_are_values_and_never_a_template() {
    let host = Host::start().await;
    let config = json!({
        "name": "greet", "template": "Hello, {{name}}.",
        "arguments": [{"name": "name", "required": true}],
    });
    host.register(&exposing(
        "greet",
        "expose-prompt",
        config.clone(),
        &json!({"content": variable("arguments")}),
    ))
    .await;
    let mut plain = config;
    plain["name"] = json!("plain");
    host.register(&workflow("plain", &[("says", "core.openwop.mcp.expose-prompt", plain)], &json!([]))).await;
    let listed = ask(&host, "prompts/list", json!({})).await;
    assert_eq!(listed["result"]["prompts"][0]["name"], "greet");
    assert_eq!(listed["result"]["prompts"][0]["arguments"][0]["required"], true);
    let hostile = "{{secret}} ${7*7} <UNTRUSTED>";
    let got = ask(&host, "prompts/get", json!({"name": "greet", "arguments": {"name": hostile}})).await;
    let message = &got["result"]["messages"][0];
    assert_eq!(message["role"], "user", "{got}");
    assert!(message["content"]["text"].as_str().unwrap().contains(hostile), "{got}");
    let got = ask(&host, "prompts/get", json!({"name": "plain", "arguments": {"name": hostile}})).await;
    let text = &got["result"]["messages"][0]["content"]["text"];
    assert_eq!(
        text, "Hello, {{secret}} ${7*7} <UNTRUSTED>.",
        "put in once, and never read as a template: {got}"
    );
    let before = runs(&host).await.len();
    for params in [
        json!({"name": "greet"}),
        json!({"name": "greet", "arguments": {"name": 1}}),
        json!({"name": "none"}),
    ] {
        assert_eq!(ask(&host, "prompts/get", params.clone()).await["error"]["code"], -32602, "{params}");
    }
    assert_eq!(runs(&host).await.len(), before);
}

#[tokio::test]
async fn an_elicitation_waits_for_a_person_and_takes_any_of_their_answers() {
    let host = Host::start().await;
    let form = json!({
        "message": "Which colour?",
        "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}}, "required": ["colour"]},
    });
    assert_eq!(
        ask(&host, "elicitation/create", form.clone()).await["error"]["code"],
        -32601,
        "no workflow handles it"
    );
    host.register(&workflow(
        "asks",
        &[("ask", "core.openwop.mcp.handle-elicitation", json!({}))],
        &json!([]),
    ))
    .await;
    let nested = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {"a": {"type": "object"}}}});
    assert_eq!(ask(&host, "elicitation/create", nested).await["error"]["code"], -32602);
    assert!(runs(&host).await.is_empty());
    for (answer, gives) in [
        (
            json!({"action": "accept", "content": {"colour": "red"}}),
            json!({"action": "accept", "content": {"colour": "red"}}),
        ),
        (json!({"answers": {"colour": "blue"}}), json!({"action": "accept", "content": {"colour": "blue"}})),
        (json!({"action": "decline"}), json!({"action": "decline", "content": {}})),
        (json!({"action": "cancel"}), json!({"action": "cancel", "content": {}})),
    ] {
        let asked = ask(&host, "elicitation/create", form.clone()).await;
        assert_eq!(
            (&asked["result"]["action"], &asked["result"]["content"]),
            (&json!("pending"), &json!({})),
            "{asked}"
        );
        let run_id = asked["result"]["_meta"]["runId"].as_str().unwrap();
        let path = format!("/v1/runs/{run_id}/interrupts/ask");
        let run = host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
        assert_eq!(run["interrupt"]["kind"], "clarification");
        assert_eq!(run["interrupt"]["data"]["contextType"], "openwop-mcp-elicitation");
        for wrong in [
            json!({"action": "accept", "content": {"colour": "green"}}),
            json!({"action": "accept"}),
            json!({}),
        ] {
            let refused = host.post(&path, &json!({"resumeValue": wrong})).await;
            refused.refused(400, "validation_error");
        }
        host.post(&path, &json!({"resumeValue": answer})).await.expect(200);
        let run = host.end_of(run_id).await;
        assert_eq!(run["nodeStates"]["ask"]["outputs"], gives, "{run}");
    }
}

#[tokio::test]
async fn invalid_messages_are_rejected() {
    let host = Host::start_with(Settings { max_message_bytes: 4000, ..Settings::default() }).await;
    let ping = request("ping", &json!({}));
    let authorized = format!("Bearer {KEY}");
    let headers = [("authorization", authorized.as_str()), ("content-type", "application/json")];
    let deep = format!("{}{}", "[".repeat(1900), "]".repeat(1900));
    for body in ["", "{", "[]", "[1]", "{\"a\":1,\"a\":2}", deep.as_str()] {
        host.send("POST", PATH, &headers, Some(body.as_bytes())).await.refused(400, "validation_error");
    }
    let large = request("ping", &json!({"x": "x".repeat(5000)}));
    send(&host, KEY, &[], &large).await.refused(413, "payload_too_large");
    let old = [("mcp-protocol-version", "1999-01-01")];
    let refused = send(&host, KEY, &old, &ping).await.expect(400);
    assert_eq!(refused["jsonrpc"], "2.0", "finding G1: {refused}");
    assert!(refused["error"]["code"].is_i64(), "{refused}");
    send(&host, KEY, &[("mcp-protocol-version", "2025-06-18")], &ping).await.expect(200);
    for (message, code) in [
        (json!({"id": 1, "method": "ping"}), -32600),
        (json!({"jsonrpc": "1.0", "id": 1, "method": "ping"}), -32600),
        (json!({"jsonrpc": "2.0", "id": 1, "method": 5}), -32600),
        (json!({"jsonrpc": "2.0", "id": {}, "method": "ping"}), -32600),
        (json!({"jsonrpc": "2.0", "id": null, "method": "ping"}), -32600),
        (json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}), -32602),
        (json!(1), -32600),
    ] {
        let answer = send(&host, KEY, &[], &message).await.expect(200);
        assert_eq!(answer["error"]["code"], code, "{message}");
    }
    host.send("DELETE", PATH, &headers, None).await.refused(405, "method_not_allowed");
    host.send("GET", PATH, &headers, None).await.refused(400, "validation_error");
    send(&host, KEY, &[("origin", "https://elsewhere.example")], &ping).await.refused(403, "forbidden");
    send(&host, KEY, &[("origin", "http://host.test")], &ping).await.expect(200);
}

#[tokio::test]
async fn the_alias_is_there_for_tests_alone_and_the_guided_tools_are_elsewhere() {
    let host = Host::start().await;
    host.register(&echo()).await;
    let message = request("tools/list", &json!({}));
    assert_eq!(host.post("/v1/host/sample/mcp", &message).await.status, 404);
    let names = |answer: &Value| -> Vec<String> {
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let guided = host.post_with("/mcp", &[("accept", "application/json")], &message).await.expect(200);
    assert!(!names(&guided).contains(&"echo".to_owned()));
    assert_eq!(names(&ask(&host, "tools/list", json!({})).await), ["echo"]);
    let host = Host::start_with(Settings { test_seams: true, ..Settings::default() }).await;
    host.register(&echo()).await;
    assert_eq!(names(&host.post("/v1/host/sample/mcp", &message).await.expect(200)), ["echo"]);
}

#[tokio::test]
async fn the_librarys_client_uses_tools_resources_and_prompts() {
    let host = Host::start().await;
    host.register(&echo()).await;
    host.register(&noop()).await;
    let note = json!({"uri": "mcp://notes/today", "name": "today"});
    host.register(&exposing("note", "expose-resource", note, &json!({"text": variable("uri")}))).await;
    let greet = json!({"name": "greet", "template": "Hello."});
    host.register(&exposing(
        "greet",
        "expose-prompt",
        greet,
        &json!({"text": {"type": "static", "value": "Hi."}}),
    ))
    .await;
    let url = format!("http://{}{PATH}", host.address);
    let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(KEY);
    let client = ().serve(StreamableHttpClientTransport::from_config(config)).await.unwrap();
    assert_eq!(client.peer_info().unwrap().protocol_version.as_str(), "2025-11-25");
    assert_eq!(client.list_all_tools().await.unwrap().len(), 1);
    let arguments = json!({"text": "hi"}).as_object().unwrap().clone();
    let called =
        client.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments)).await.unwrap();
    let called = serde_json::to_value(called).unwrap();
    assert_eq!(called["content"][0]["text"], "{\"work\":{\"said\":\"hi\"}}", "{called}");
    assert!(client.call_tool(CallToolRequestParams::new("none")).await.is_err());
    assert_eq!(client.list_all_resources().await.unwrap().len(), 1);
    let read = client.read_resource(ReadResourceRequestParams::new("mcp://notes/today")).await.unwrap();
    assert_eq!(serde_json::to_value(read).unwrap()["contents"][0]["text"], "mcp://notes/today");
    assert_eq!(client.list_all_prompts().await.unwrap().len(), 1);
    let got = client.get_prompt(GetPromptRequestParams::new("greet")).await.unwrap();
    assert_eq!(serde_json::to_value(got).unwrap()["messages"][0]["content"]["text"], "Hi.");
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn without_the_mount_none_of_its_routes_exist() {
    let without = Capabilities { mcp_mount: false, ..Capabilities::OURS };
    let host = Host::start_capable(Settings::default(), RateLimits::default(), without).await;
    for (kind, config) in [
        ("server-trigger", json!({})),
        ("expose-tool", json!({"name": "t"})),
        ("expose-resource", json!({"uri": "mcp://r"})),
        ("expose-resource-template", json!({"uriTemplate": "mcp://r/{id}"})),
        ("expose-prompt", json!({"name": "p", "template": "t"})),
        ("handle-elicitation", json!({})),
        ("provide-roots", json!({"roots": []})),
    ] {
        let exposes = exposing("refused", kind, config, &json!({}));
        let refused = host.post("/v1/workflows", &exposes).await.refused(400, "pack_peer_dependency_missing");
        assert_eq!(refused["details"]["requiredCapability"], "mcp.serverMount.supported", "{kind}");
    }
    send(&host, KEY, &[], &request("ping", &json!({}))).await.refused(404, "not_found");
    let discovered = host.send("GET", "/.well-known/openwop", &[], None).await.expect(200);
    assert_eq!(discovered["mcp"], Value::Null);
    // A node that needs a model is refused on a host without one.
    let host = Host::start().await;
    let sampling = workflow("s", &[("s", "core.openwop.mcp.handle-sampling", json!({}))], &json!([]));
    host.post("/v1/workflows", &sampling).await.refused(400, "pack_peer_dependency_missing");
}
