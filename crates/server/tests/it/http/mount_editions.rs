//! `/v1/mcp` in every edition (finding G1), with structured results, output schemas and completion (finding G8).

use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Value, json};
use server::http::Settings;

use super::mount::{PATH, ask, exposing, request, send, variable};
use super::service::{Host, KEY};

/// A tool that echoes its input, with an output schema.
fn says(id: &str, output_schema: &Value) -> Value {
    let config = json!({"name": id, "description": "Says it.", "outputSchema": output_schema,
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}});
    let mut workflow = exposing(id, "expose-tool", config, &json!({"said": variable("text")}));
    workflow["variables"] = json!([{"name": "text", "type": "string", "required": true}]);
    workflow
}

#[tokio::test]
async fn clients_of_every_edition_list_and_call_tools() {
    let host = Host::start().await;
    host.register(&says("says", &json!({"type": "object"}))).await;
    let transport = || {
        let url = format!("http://{}{PATH}", host.address);
        StreamableHttpClientTransport::from_config(
            StreamableHttpClientTransportConfig::with_uri(url).auth_header(KEY),
        )
    };
    let call = || {
        let arguments = json!({"text": "hi"}).as_object().unwrap().clone();
        CallToolRequestParams::new("says").with_arguments(arguments)
    };
    for version in ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let version: ProtocolVersion = serde_json::from_value(json!(version)).unwrap();
        let client = if version == ProtocolVersion::V_2026_07_28 {
            let lifecycle = ClientLifecycleMode::Discover { preferred_versions: vec![version.clone()] };
            rmcp::model::ClientConfig::default().serve_with_lifecycle(transport(), lifecycle).await.unwrap()
        } else {
            rmcp::model::ClientConfig::default()
                .with_protocol_version(version.clone())
                .serve(transport())
                .await
                .unwrap()
        };
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools.len(), 1, "{version}");
        assert!(tools[0].output_schema.is_some(), "{version}");
        let called = client.call_tool(call()).await.unwrap();
        let called = serde_json::to_value(called).unwrap();
        assert!(called["structuredContent"].to_string().contains("hi"), "{version}: {called}");
        client.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn the_newest_edition_is_discovered_and_its_headers_are_checked() {
    let host = Host::start().await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let discover = request("server/discover", &json!({"_meta": meta}));
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "server/discover")];
    let found = send(&host, KEY, &headers, &discover).await.expect(200);
    let spoken = &found["result"]["supportedVersions"];
    assert!(spoken.as_array().unwrap().contains(&json!("2026-07-28")), "{found}");
    assert!(found["result"]["capabilities"]["completions"].is_object(), "{found}");
    let list = request("tools/list", &json!({"_meta": meta}));
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    let listed = send(&host, KEY, &headers, &list).await.expect(200);
    assert_eq!(listed["result"]["resultType"], "complete", "{listed}");
    let wrong = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    assert!(send(&host, KEY, &wrong, &discover).await.expect(400)["error"]["code"].is_i64());
}

/// Finding G8: tools return structured results, which match their declared schema.
#[tokio::test]
async fn outputs_that_do_not_match_their_schema_are_an_error_of_the_tool() {
    let host = Host::start().await;
    host.register(&says("wrong", &json!({"type": "object", "required": ["never"]}))).await;
    let called = ask(&host, "tools/call", json!({"name": "wrong", "arguments": {"text": "x"}})).await;
    assert_eq!(called["result"]["isError"], true, "{called}");
    assert!(called["result"]["content"][0]["text"].as_str().unwrap().contains("result_invalid"), "{called}");
    assert!(called["result"].get("structuredContent").is_none(), "{called}");
}

/// Finding G8: prompt arguments are completed and inserted into the template.
#[tokio::test]
async fn arguments_of_prompts_are_completed_with_the_values_of_their_author() {
    let host = Host::start().await;
    let config = json!({"name": "greet", "template": "Hello, {{ who }}, {{other}}.",
        "arguments": [{"name": "who", "values": ["Ada", "Alan", "Grace"]}]});
    let mut workflow = exposing("greet", "expose-prompt", config, &json!({}));
    workflow["nodes"].as_array_mut().unwrap().truncate(1);
    workflow["edges"] = json!([]);
    host.register(&workflow).await;
    let listed = ask(&host, "prompts/list", json!({})).await;
    assert_eq!(listed["result"]["prompts"][0]["arguments"], json!([{"name": "who"}]), "{listed}");
    let got = ask(&host, "prompts/get", json!({"name": "greet", "arguments": {"who": "Ada"}})).await;
    assert_eq!(got["result"]["messages"][0]["content"]["text"], "Hello, Ada, {{other}}.", "{got}");
    let complete =
        |of: Value, name: &str, typed: &str| json!({"ref": of, "argument": {"name": name, "value": typed}});
    let prompt = || json!({"type": "ref/prompt", "name": "greet"});
    for (typed, expected) in
        [("a", json!(["Ada", "Alan"])), ("", json!(["Ada", "Alan", "Grace"])), ("x", json!([]))]
    {
        let found = ask(&host, "completion/complete", complete(prompt(), "who", typed)).await;
        assert_eq!(found["result"]["completion"]["values"], expected, "{typed}: {found}");
    }
    for params in [
        complete(json!({"type": "ref/prompt", "name": "none"}), "who", "a"),
        complete(prompt(), "other", "a"),
        complete(json!({"type": "ref/resource", "uri": "mcp://none"}), "who", "a"),
        complete(json!({"type": "else"}), "who", "a"),
        json!({"ref": prompt()}),
    ] {
        let refused = ask(&host, "completion/complete", params.clone()).await;
        assert_eq!(refused["error"]["code"], -32602, "{params}");
    }
}

#[tokio::test]
async fn without_a_key_only_mcp_is_answered_and_only_where_the_operator_allows_it() {
    let list = request("tools/list", &json!({}));
    let body = list.to_string();
    let headers = |host: &'static str| [("content-type", "application/json"), ("host", host)];
    let closed = Host::start().await;
    closed
        .send("POST", PATH, &headers("127.0.0.1"), Some(body.as_bytes()))
        .await
        .refused(401, "unauthenticated");
    let open = Host::start_with(Settings { mcp_without_key: true, ..Settings::default() }).await;
    for path in [PATH, "/mcp"] {
        let answer = open.send("POST", path, &headers("127.0.0.1"), Some(body.as_bytes())).await;
        assert!(answer.expect(200)["result"]["tools"].is_array(), "{path}");
        open.send("POST", path, &headers("evil.example"), Some(body.as_bytes()))
            .await
            .refused(403, "forbidden");
        let page =
            [("content-type", "application/json"), ("host", "127.0.0.1"), ("origin", "https://evil.example")];
        open.send("POST", path, &page, Some(body.as_bytes())).await.refused(403, "forbidden");
        let key =
            [("content-type", "application/json"), ("host", "127.0.0.1"), ("authorization", "Bearer wrong")];
        open.send("POST", path, &key, Some(body.as_bytes())).await.refused(401, "unauthenticated");
    }
    open.send("GET", "/v1/runs", &headers("127.0.0.1"), None).await.refused(401, "unauthenticated");
}
