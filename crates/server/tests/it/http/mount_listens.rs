//! MCP clients that listen for list changes, and what discovery says about them.

use std::time::Duration;

use flow::definition::Capabilities;
use runs::rates::RateLimits;
use serde_json::{Value, json};
use server::http::Settings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::client;
use super::service::{Host, KEY, OTHER, READER, noop, workflow};

/// A client that listens.
struct Listening {
    socket: TcpStream,
    received: Vec<u8>,
    given: usize,
}

impl Listening {
    /// Starts to listen, and waits for the host to confirm.
    async fn to(host: &Host, key: &str) -> Self {
        let key = format!("Bearer {key}");
        let headers = [("authorization", key.as_str()), ("accept", "text/event-stream")];
        let mut socket = TcpStream::connect(host.address).await.unwrap();
        socket.write_all(&client::request("GET", "/v1/mcp", &headers, None)).await.unwrap();
        let mut listening = Self { socket, received: Vec::new(), given: 0 };
        while client::parse(&listening.received).is_none() {
            assert!(listening.read().await, "there is a stream");
        }
        let head = client::parse(&listening.received).unwrap();
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        listening
    }

    async fn read(&mut self) -> bool {
        let mut part = [0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(60), self.socket.read(&mut part));
        let count = read.await.unwrap().unwrap();
        self.received.extend_from_slice(&part[..count]);
        count > 0
    }

    /// The next notification; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            let text = String::from_utf8(client::parse(&self.received).unwrap().body).unwrap();
            let mut data_lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
            if let Some(message) = data_lines.nth(self.given) {
                self.given += 1;
                let message: Value = serde_json::from_str(message).unwrap();
                assert_eq!(message.as_object().unwrap().len(), 2, "nothing but that it changed: {message}");
                return Some(message["method"].as_str().unwrap().to_owned());
            }
            if !self.read().await {
                return None;
            }
        }
    }
}

fn exposing(id: &str, kind: &str, config: Value) -> Value {
    workflow(id, &[("says", &format!("core.openwop.mcp.{kind}"), config)], &json!([]))
}

#[tokio::test]
async fn a_listener_is_notified_of_changes_of_its_own_tenant_only() {
    let mut host = Host::start().await;
    let mut ours = Listening::to(&host, KEY).await;
    let mut theirs = Listening::to(&host, OTHER).await;
    let tool = exposing("t", "expose-tool", json!({"name": "t"}));
    host.register(&tool).await;
    assert_eq!(ours.next().await.as_deref(), Some("notifications/tools/list_changed"));
    // A registration that changes no list sends no notification.
    host.register(&tool).await;
    host.register(&noop()).await;
    for (kind, config, list) in [
        ("expose-resource", json!({"uri": "mcp://r"}), "resources"),
        ("expose-resource-template", json!({"uriTemplate": "mcp://r/{id}"}), "resources"),
        ("expose-prompt", json!({"name": "p", "template": "t"}), "prompts"),
    ] {
        host.register(&exposing(kind, kind, config)).await;
        assert_eq!(ours.next().await, Some(format!("notifications/{list}/list_changed")));
    }
    let described = exposing("t", "expose-tool", json!({"name": "t", "description": "Another text."}));
    host.register(&described).await;
    assert_eq!(ours.next().await.as_deref(), Some("notifications/tools/list_changed"));
    // A workflow that exposes something else changes two lists.
    host.register(&exposing("t", "expose-prompt", json!({"name": "q", "template": "t"}))).await;
    assert_eq!(ours.next().await.as_deref(), Some("notifications/tools/list_changed"));
    assert_eq!(ours.next().await.as_deref(), Some("notifications/prompts/list_changed"));
    host.stop().await;
    assert_eq!((ours.next().await, theirs.next().await), (None, None));
}

#[tokio::test]
async fn listening_requires_a_key_a_free_stream_and_the_mount() {
    let host = Host::start_with(Settings { max_streams: 1, ..Settings::default() }).await;
    let stream = ("accept", "text/event-stream");
    host.send("GET", "/v1/mcp", &[stream], None).await.refused(401, "unauthenticated");
    let reader = format!("Bearer {READER}");
    host.send("GET", "/v1/mcp", &[stream, ("authorization", &reader)], None).await.refused(403, "forbidden");
    let key = format!("Bearer {KEY}");
    let authorized = ("authorization", key.as_str());
    host.send("GET", "/v1/mcp", &[authorized], None).await.refused(400, "validation_error");
    let old = ("mcp-protocol-version", "1999-01-01");
    host.send("GET", "/v1/mcp", &[stream, authorized, old], None).await.refused(400, "validation_error");
    let listening = Listening::to(&host, KEY).await;
    host.send("GET", "/v1/mcp", &[stream, authorized], None).await.refused(429, "rate_limited");
    drop(listening);
    let without = Capabilities { mcp_mount: false, ..Capabilities::OURS };
    let host = Host::start_capable(Settings::default(), RateLimits::default(), without).await;
    host.send("GET", "/v1/mcp", &[stream, authorized], None).await.refused(404, "not_found");
}

#[tokio::test]
async fn the_document_says_that_answers_may_be_streams() {
    let host = Host::start_with(Settings { test_seams: true, ..Settings::default() }).await;
    let document = host.send("GET", "/v1/openapi.json", &[], None).await.expect(200);
    for path in ["/v1/mcp", "/v1/host/sample/mcp"] {
        let responses = &document["paths"][path]["post"]["responses"];
        let content = responses["200"]["content"].as_object().unwrap();
        assert_eq!(content.keys().collect::<Vec<_>>(), ["application/json", "text/event-stream"], "{path}");
        assert_eq!(responses["202"]["content"], Value::Null, "{path}: there is nothing to say");
    }
    let content = document["paths"]["/v1/mcp"]["get"]["responses"]["200"]["content"].as_object().unwrap();
    assert_eq!(content.keys().collect::<Vec<_>>(), ["text/event-stream"]);
    assert_eq!(document["paths"]["/v1/mcp"]["delete"], Value::Null, "a session has nothing to end");
}
