//! Requests and replies of both providers, byte by byte.

use ai::provider::http::{BaseUrl, Credential, Endpoint, HttpRequest, SendError};
use ai::provider::{
    Delta, Message, Output, ProviderError, ProviderErrorKind, Refusal, Reply, Request, Role, StopReason,
    ToolCall, Usage, anthropic, openai,
};
use serde_json::{Value, json};

fn endpoint(base: &str) -> Endpoint {
    Endpoint {
        base: BaseUrl::parse(base).unwrap(),
        credential: Some(Credential::new("sk-test-0123456789").unwrap()),
        idempotency_key: Some("bG9naWNhbC1pbnZvY2F0aW9u".to_owned()),
    }
}

fn request(output: Output, stream: bool) -> Request {
    Request {
        temperature: Some(0.5),
        top_p: Some(0.9),
        stop: vec!["END".to_owned()],
        seed: Some(7),
        max_output_tokens: 256,
        stream,
        ..Request::new(
            "model-1",
            vec![
                Message::system("Be brief."),
                Message::user("Hi"),
                Message::new(Role::Assistant, "Hello"),
                Message::user("And?"),
            ],
            output,
        )
    }
}

/// A request for a document, which Anthropic gets as the input of a tool.
fn document() -> Request {
    request(Output::json("answer", schema()), false)
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false})
}

/// A request in readable form, with the secret in plain text.
fn shown(http: &HttpRequest) -> String {
    let mut lines = vec![format!("{} {}", http.method, http.url)];
    lines.extend(http.headers.iter().map(|(name, value)| format!("{name}: {value}")));
    lines.extend(http.secret.as_ref().map(|secret| format!("{}: {}…", secret.name, secret.prefix)));
    lines.push(String::from_utf8(http.body.clone()).unwrap());
    lines.join("\n")
}

#[test]
fn a_request_for_a_text_to_an_openai_server() {
    let http =
        openai::request(&request(Output::Text, false), &endpoint("https://api.openai.com/v1")).unwrap();
    let expected = r#"POST https://api.openai.com/v1/chat/completions
accept: application/json
content-type: application/json
idempotency-key: bG9naWNhbC1pbnZvY2F0aW9u
authorization: Bearer …
{"max_completion_tokens":256,"messages":[{"content":"Be brief.","role":"system"},{"content":"Hi","role":"user"},{"content":"Hello","role":"assistant"},{"content":"And?","role":"user"}],"model":"model-1","seed":7,"stop":["END"],"temperature":0.5,"top_p":0.9}"#;
    assert_eq!(shown(&http), expected);
    assert_eq!(http.secret.as_ref().unwrap().expose(), "Bearer sk-test-0123456789");
    assert!(!format!("{http:?}").contains("sk-test"), "{http:?}");
}

#[test]
fn a_request_for_a_document_to_a_server_on_this_machine() {
    let http =
        openai::request(&request(Output::json("a b", schema()), true), &endpoint("http://127.0.0.1:11434"))
            .unwrap();
    let expected = r#"POST http://127.0.0.1:11434/v1/chat/completions
accept: text/event-stream
content-type: application/json
idempotency-key: bG9naWNhbC1pbnZvY2F0aW9u
authorization: Bearer …
{"max_tokens":256,"messages":[{"content":"Be brief.","role":"system"},{"content":"Hi","role":"user"},{"content":"Hello","role":"assistant"},{"content":"And?","role":"user"}],"model":"model-1","response_format":{"json_schema":{"name":"a_b","schema":{"additionalProperties":false,"properties":{"ok":{"type":"boolean"}},"required":["ok"],"type":"object"},"strict":true},"type":"json_schema"},"seed":7,"stop":["END"],"stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"top_p":0.9}"#;
    assert_eq!(shown(&http), expected);
    let loose = openai::request(
        &request(Output::json("x", json!({"type": "object", "properties": {"a": {}}})), false),
        &endpoint("https://h"),
    )
    .unwrap();
    assert!(String::from_utf8(loose.body).unwrap().contains("\"strict\":false"));
}

#[test]
fn a_request_for_a_text_to_anthropic() {
    let http =
        anthropic::request(&request(Output::Text, true), &endpoint("https://api.anthropic.com")).unwrap();
    let expected = r#"POST https://api.anthropic.com/v1/messages
accept: text/event-stream
content-type: application/json
idempotency-key: bG9naWNhbC1pbnZvY2F0aW9u
anthropic-version: 2023-06-01
x-api-key: …
{"max_tokens":256,"messages":[{"content":"Hi","role":"user"},{"content":"Hello","role":"assistant"},{"content":"And?","role":"user"}],"model":"model-1","stop_sequences":["END"],"stream":true,"system":"Be brief.","temperature":0.5,"top_p":0.9}"#;
    assert_eq!(shown(&http), expected);
}

#[test]
fn a_request_for_a_document_to_anthropic() {
    let http = anthropic::request(
        &request(Output::json("answer", schema()), false),
        &endpoint("https://api.anthropic.com/v1/"),
    )
    .unwrap();
    let expected = r#"POST https://api.anthropic.com/v1/messages
accept: application/json
content-type: application/json
idempotency-key: bG9naWNhbC1pbnZvY2F0aW9u
anthropic-version: 2023-06-01
x-api-key: …
{"max_tokens":256,"messages":[{"content":"Hi","role":"user"},{"content":"Hello","role":"assistant"},{"content":"And?","role":"user"}],"model":"model-1","stop_sequences":["END"],"system":"Be brief.","temperature":0.5,"tool_choice":{"name":"answer","type":"tool"},"tools":[{"description":"Returns the requested document.","input_schema":{"additionalProperties":false,"properties":{"ok":{"type":"boolean"}},"required":["ok"],"type":"object"},"name":"answer"}],"top_p":0.9}"#;
    assert_eq!(shown(&http), expected);
    let list = anthropic::request(
        &request(Output::json("x", json!({"type": "array"})), false),
        &endpoint("https://h"),
    )
    .unwrap();
    let body: Value = serde_json::from_slice(&list.body).unwrap();
    assert_eq!(body.get("tools"), None, "only an object can be a tool input");
    assert!(body["system"].as_str().unwrap().contains("{\"type\":\"array\"}"));
}

#[test]
fn credentials_require_tls() {
    for build in [openai::request, anthropic::request] {
        let error = build(&request(Output::Text, false), &endpoint("http://models.example")).unwrap_err();
        assert_eq!(error, SendError::InsecureCredential);
        let open = Endpoint { credential: None, ..endpoint("http://models.example") };
        assert!(build(&request(Output::Text, false), &open).unwrap().secret.is_none());
    }
}

fn none(_: &str) -> Option<String> {
    None
}

#[test]
fn replies_of_an_openai_server() {
    let body = |message: Value, reason: &str| {
        let usage = json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}});
        json!({"model": "model-1-x", "choices": [{"message": message, "finish_reason": reason}], "usage": usage}).to_string()
    };
    let usage =
        Usage { input_tokens: 9, output_tokens: 4, cache_read_tokens: Some(5), cache_write_tokens: None };
    let base = Reply { usage, model: Some("model-1-x".to_owned()), ..Reply::text("") };
    let refusal = |text: Option<&str>, category: Option<&str>| {
        Some(Refusal { text: text.map(str::to_owned), category: category.map(str::to_owned) })
    };
    let cases = [
        (json!({"content": "hi"}), "stop", Reply { text: "hi".to_owned(), ..base.clone() }),
        (
            json!({"content": "hi", "reasoning_content": "hm"}),
            "length",
            Reply {
                text: "hi".to_owned(),
                reasoning: Some("hm".to_owned()),
                stop: StopReason::MaxTokens,
                ..base.clone()
            },
        ),
        (
            json!({"content": null, "refusal": "No."}),
            "stop",
            Reply { refusal: refusal(Some("No."), None), ..base.clone() },
        ),
        (
            json!({"content": ""}),
            "content_filter",
            Reply {
                stop: StopReason::Safety,
                refusal: refusal(None, Some("content_filter")),
                ..base.clone()
            },
        ),
        (
            json!({"content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
            "tool_calls",
            Reply { stop: StopReason::ToolUse, tool_calls: vec![call("c", "f", "{}")], ..base.clone() },
        ),
        (
            json!({"content": "x"}),
            "other",
            Reply { text: "x".to_owned(), stop: StopReason::Unknown, ..base.clone() },
        ),
    ];
    for (message, reason, expected) in cases {
        assert_eq!(openai::reply(200, &none, body(message, reason).as_bytes()), Ok(expected));
    }
    for broken in ["", "{}", "{\"choices\":[]}", "{\"choices\":[{}]}", "[1]", "null"] {
        let error = openai::reply(200, &none, broken.as_bytes()).unwrap_err();
        assert_eq!(error.kind, ProviderErrorKind::InvalidReply, "{broken}");
    }
    let failure = br#"{"error":{"message":"Incorrect API key provided: sk-test-0123456789","type":"invalid_request_error","code":"invalid_api_key"}}"#;
    let error = openai::reply(401, &none, failure).unwrap_err();
    assert_eq!(
        (error.kind, error.code.as_deref()),
        (ProviderErrorKind::Unauthorized, Some("invalid_api_key"))
    );
    assert!(!format!("{error} {error:?}").contains("sk-test"));
    let wait = |name: &str| (name == "retry-after").then(|| "2".to_owned());
    assert_eq!(openai::reply(429, &wait, b"<html>").unwrap_err().retry_after_ms, Some(2000));
}

#[test]
fn replies_of_anthropic() {
    let body = |content: Value, reason: &str| {
        let usage = json!({"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 6});
        json!({"model": "claude-x", "content": content, "stop_reason": reason, "usage": usage}).to_string()
    };
    let usage =
        Usage { input_tokens: 9, output_tokens: 4, cache_read_tokens: Some(5), cache_write_tokens: Some(6) };
    let base = Reply { usage, model: Some("claude-x".to_owned()), ..Reply::text("") };
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let cases = [
        (text("hi"), "end_turn", Reply { text: "hi".to_owned(), ..base.clone() }),
        (
            text("hi"),
            "stop_sequence",
            Reply { text: "hi".to_owned(), stop: StopReason::StopSequence, ..base.clone() },
        ),
        (
            text("hi"),
            "max_tokens",
            Reply { text: "hi".to_owned(), stop: StopReason::MaxTokens, ..base.clone() },
        ),
        (
            text("hi"),
            "model_context_window_exceeded",
            Reply { text: "hi".to_owned(), stop: StopReason::Length, ..base.clone() },
        ),
        (
            json!([{"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "name": "answer", "input": {"ok": true}}]),
            "tool_use",
            Reply { text: "{\"ok\":true}".to_owned(), reasoning: Some("hm".to_owned()), ..base.clone() },
        ),
        (
            text("I will not."),
            "refusal",
            Reply {
                text: "I will not.".to_owned(),
                stop: StopReason::Safety,
                refusal: Some(Refusal { text: Some("I will not.".to_owned()), category: None }),
                ..base.clone()
            },
        ),
    ];
    for (content, reason, expected) in cases {
        assert_eq!(
            anthropic::reply(&document(), 200, &none, body(content, reason).as_bytes()),
            Ok(expected),
            "{reason}"
        );
    }
    let overloaded = anthropic::reply(
        &document(),
        529,
        &none,
        br#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#,
    )
    .unwrap_err();
    assert_eq!((overloaded.is_retryable(), overloaded.code.as_deref()), (true, Some("overloaded_error")));
    assert_eq!(
        anthropic::reply(&document(), 200, &none, b"{}").unwrap_err().kind,
        ProviderErrorKind::InvalidReply
    );
}

pub(crate) const OPENAI_STREAM: &str = concat!(
    "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\r\n\r\n",
    ": keep-alive\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"h\u{fc}\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"llo\"},\"finish_reason\":null}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
    "data: [DONE]\n\n",
);

pub(crate) const ANTHROPIC_STREAM: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"c\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"name\":\"a\",\"input\":{}}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"ok\\\":\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"true}\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":9}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

#[test]
fn decodes_streams() {
    let mut stream = openai::Stream::new();
    let deltas = stream.feed(OPENAI_STREAM.as_bytes()).unwrap();
    let text = |text: &str| Delta::Text(text.to_owned());
    assert_eq!(deltas, [Delta::Reasoning("hm".to_owned()), text("hü"), text("llo")]);
    let reply = stream.finish().unwrap();
    let usage = Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() };
    assert_eq!(
        reply,
        Reply {
            reasoning: Some("hm".to_owned()),
            usage,
            model: Some("m".to_owned()),
            ..Reply::text("hüllo")
        }
    );

    let mut stream = anthropic::Stream::new(&document());
    let deltas = stream.feed(ANTHROPIC_STREAM.as_bytes()).unwrap();
    assert_eq!(deltas, [Delta::Reasoning("hm".to_owned()), text("{\"ok\":"), text("true}")]);
    let reply = stream.finish().unwrap();
    let usage = Usage { input_tokens: 3, output_tokens: 9, ..Usage::default() };
    assert_eq!(
        reply,
        Reply {
            reasoning: Some("hm".to_owned()),
            usage,
            model: Some("c".to_owned()),
            ..Reply::text("{\"ok\":true}")
        }
    );
}

#[test]
fn rejects_incomplete_streams() {
    let early = |error: ProviderError| (error.kind, error.is_retryable());
    let mut stream = openai::Stream::new();
    stream.feed(b"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n").unwrap();
    assert_eq!(early(stream.finish().unwrap_err()), (ProviderErrorKind::Unavailable, true));
    assert_eq!(
        early(anthropic::Stream::new(&document()).finish().unwrap_err()),
        (ProviderErrorKind::Unavailable, true)
    );
    let failed = anthropic::Stream::new(&document())
        .feed(b"data: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"sk-test\"}}\n\n")
        .unwrap_err();
    assert_eq!(
        (failed.kind, failed.to_string().contains("sk-test")),
        (ProviderErrorKind::RateLimited, false)
    );
    let failed =
        openai::Stream::new().feed(b"data: {\"error\":{\"code\":\"server_error\"}}\n\n").unwrap_err();
    assert_eq!((failed.kind, failed.code.as_deref()), (ProviderErrorKind::Unavailable, Some("server_error")));
    for broken in [&b"data: {\n\n"[..], b"data: [1]\n\n"] {
        assert_eq!(openai::Stream::new().feed(broken).unwrap_err().kind, ProviderErrorKind::InvalidReply);
        assert_eq!(
            anthropic::Stream::new(&document()).feed(broken).unwrap_err().kind,
            ProviderErrorKind::InvalidReply
        );
    }
}
