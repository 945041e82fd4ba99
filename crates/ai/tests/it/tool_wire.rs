//! Tools on the wire of both providers, in both directions, compared with golden files.

use ai::cache_key::cache_key;
use ai::provider::http::{BaseUrl, Endpoint};
use ai::provider::{
    Delta, Message, Output, Reply, Request, StopReason, Tool, ToolCall, Usage, anthropic, openai,
};
use serde_json::{Value, json};

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

/// A conversation in its second round: two tools were called at once, and one failed.
fn request() -> Request {
    let tool = |name: &str, description: &str, schema: Value| Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        schema,
    };
    let city = json!({"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}});
    let calls = vec![
        call("call_1", "mcp_weather_forecast", r#"{"city":"Ulm"}"#),
        call("call_2", "mcp_weather_forecast", r#"{"city":"#),
    ];
    Request {
        tools: vec![
            tool("mcp_weather_forecast", "Tells the weather.", city),
            tool("openwop_core_storage_kv-get", "Reads the value of a key.", json!({"type": "object"})),
        ],
        max_output_tokens: 256,
        ..Request::new(
            "model-1",
            vec![
                Message::system("Be brief."),
                Message::user("Is it raining in Ulm?"),
                Message::calls("I will look.", calls),
                Message::result("call_1", "<UNTRUSTED tool=\"mcp:weather:forecast\">rain</UNTRUSTED>", false),
                Message::result("call_2", r#"{"error":"invalid_arguments"}"#, true),
            ],
            Output::Text,
        )
    }
}

fn body(http: &ai::provider::http::HttpRequest) -> String {
    let body: Value = serde_json::from_slice(&http.body).unwrap();
    format!("{}\n", serde_json::to_string_pretty(&body).unwrap())
}

fn endpoint() -> Endpoint {
    Endpoint { base: BaseUrl::parse("http://127.0.0.1:1").unwrap(), credential: None, idempotency_key: None }
}

#[test]
fn encodes_tools_for_each_provider() {
    let cases = [
        (
            "openai",
            openai::request(&request(), &endpoint()),
            include_str!("../golden/tools_openai_request.json"),
        ),
        (
            "anthropic",
            anthropic::request(&request(), &endpoint()),
            include_str!("../golden/tools_anthropic_request.json"),
        ),
    ];
    for (name, http, expected) in cases {
        assert_eq!(body(&http.unwrap()), expected, "{name}");
    }
}

fn wanted(stop: StopReason, usage: Usage, model: &str) -> Reply {
    Reply {
        stop,
        tool_calls: vec![
            call("call_1", "mcp_weather_forecast", r#"{"city":"Ulm"}"#),
            call("call_2", "openwop_core_storage_kv-get", r#"{"key":"a"}"#),
        ],
        usage,
        model: Some(model.to_owned()),
        ..Reply::text("I will look.")
    }
}

#[test]
fn decodes_tool_calls() {
    let usage = Usage { input_tokens: 9, output_tokens: 4, ..Usage::default() };
    let none = |_: &str| None;
    let read = openai::reply(200, &none, include_bytes!("../golden/tools_openai_reply.json"));
    assert_eq!(read, Ok(wanted(StopReason::ToolUse, usage, "model-1-x")));
    let read =
        anthropic::reply(&request(), 200, &none, include_bytes!("../golden/tools_anthropic_reply.json"));
    assert_eq!(read, Ok(wanted(StopReason::ToolUse, usage, "claude-x")));
}

#[test]
fn decodes_streamed_tool_calls_at_any_split() {
    let usage = Usage { input_tokens: 9, output_tokens: 4, ..Usage::default() };
    let text = vec![Delta::Text("I will look.".to_owned())];
    let stream = include_bytes!("../golden/tools_openai_stream.txt");
    for cut in 0..=stream.len() {
        let mut read = openai::Stream::new();
        let mut deltas = read.feed(&stream[..cut]).unwrap();
        deltas.extend(read.feed(&stream[cut..]).unwrap());
        assert_eq!(deltas, text, "arguments are not emitted as text, split at {cut}");
        assert_eq!(read.finish(), Ok(wanted(StopReason::ToolUse, usage, "model-1-x")), "split at {cut}");
    }
    let stream = include_bytes!("../golden/tools_anthropic_stream.txt");
    for cut in 0..=stream.len() {
        let mut read = anthropic::Stream::new(&request());
        let mut deltas = read.feed(&stream[..cut]).unwrap();
        deltas.extend(read.feed(&stream[cut..]).unwrap());
        assert_eq!(deltas, text, "split at {cut}");
        assert_eq!(read.finish(), Ok(wanted(StopReason::ToolUse, usage, "claude-x")), "split at {cut}");
    }
}

#[test]
fn rejects_too_many_streamed_calls() {
    let piece = |index: u64| {
        let call = json!({"index": index, "id": "c", "function": {"name": "f", "arguments": ""}});
        format!("data: {}\n\n", json!({"choices": [{"delta": {"tool_calls": [call]}}]}))
    };
    assert!(openai::Stream::new().feed(piece(127).as_bytes()).is_ok());
    assert!(openai::Stream::new().feed(piece(128).as_bytes()).is_err());
    assert!(openai::Stream::new().feed(piece(u64::MAX).as_bytes()).is_err());
    let block = "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\"}}\n\n";
    assert!(anthropic::Stream::new(&request()).feed(block.repeat(128).as_bytes()).is_ok());
    assert!(anthropic::Stream::new(&request()).feed(block.repeat(129).as_bytes()).is_err());
}

#[test]
fn stored_replies_round_trip() {
    let reply = wanted(StopReason::ToolUse, Usage::default(), "m");
    assert_eq!(Reply::from_record(&reply.to_record()), Some(reply));
    // An older record, in which arguments can be a document.
    let record = json!({
        "text": "", "stop": "tool_use", "usage": {"inputTokens": 1, "outputTokens": 1},
        "toolCalls": [{"id": "c", "name": "f", "arguments": {"a": 1}}, {"id": null, "name": null, "arguments": null}],
    });
    let read = Reply::from_record(&record).unwrap();
    assert_eq!(read.tool_calls, [call("c", "f", r#"{"a":1}"#), call("", "", "")]);
}

#[test]
fn cache_key_covers_tools_but_not_their_order() {
    let key = |request: &Request| cache_key(&request.semantic("local")).unwrap();
    let mut other = request();
    other.tools.reverse();
    assert_eq!(key(&other), key(&request()));
    other.tools.pop();
    assert_ne!(key(&other), key(&request()));
    let mut other = request();
    other.messages[3] = Message::result("call_1", "sun", false);
    assert_ne!(key(&other), key(&request()));
    let mut other = request();
    other.messages[2] = Message::calls("I will look.", Vec::new());
    assert_ne!(key(&other), key(&request()));
}

#[test]
fn document_is_requested_in_the_prompt_if_tools_are_offered() {
    let asked = Request { output: Output::json("answer", json!({"type": "object"})), ..request() };
    let http = anthropic::request(&asked, &endpoint()).unwrap();
    let body: Value = serde_json::from_slice(&http.body).unwrap();
    assert_eq!((body["tools"].as_array().unwrap().len(), body.get("tool_choice")), (2, None));
    assert!(body["system"].as_str().unwrap().contains("{\"type\":\"object\"}"));
}
