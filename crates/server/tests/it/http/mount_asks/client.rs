//! A client that answers questions and reads its stream incrementally.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::super::client::{self, Answer};
use super::super::service::Host;

pub(super) const PATH: &str = "/v1/mcp";

pub(super) const BOTH: &str = "application/json, text/event-stream";

/// A client with its own session.
pub(super) struct Client<'h> {
    pub(super) host: &'h Host,
    pub(super) key: String,
    pub(super) session: String,
}

impl<'h> Client<'h> {
    /// A client that can ask its user.
    pub(super) async fn asking(host: &'h Host, key: &str) -> Self {
        Self::begin(host, key, json!({"elicitation": {}})).await
    }

    pub(super) async fn begin(host: &'h Host, key: &str, capabilities: Value) -> Self {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}});
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let key = format!("Bearer {key}");
        let answer = host.post_with(PATH, &[("authorization", &key)], &message).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let session = answer.header("mcp-session-id").unwrap().to_owned();
        assert!(session.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{session}");
        Self { host, key, session }
    }

    pub(super) async fn send(&self, accept: &str, message: &Value) -> Answer {
        let headers = [
            ("authorization", self.key.as_str()),
            ("mcp-session-id", self.session.as_str()),
            ("accept", accept),
        ];
        self.host.post_with(PATH, &headers, message).await
    }

    /// Calls a tool, and returns its stream.
    pub(super) async fn call(&self, tool: &str) -> Calling {
        self.call_with(tool, json!({})).await
    }

    pub(super) async fn call_with(&self, tool: &str, more: Value) -> Calling {
        let mut params = json!({"name": tool, "arguments": {}});
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        self.request("tools/call", &params).await
    }

    pub(super) async fn request(&self, method: &str, params: &Value) -> Calling {
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
        let headers = [
            ("authorization", self.key.as_str()),
            ("mcp-session-id", &self.session),
            ("content-type", "application/json"),
            ("accept", BOTH),
        ];
        let request = client::request("POST", PATH, &headers, Some(message.as_bytes()));
        let mut socket = TcpStream::connect(self.host.address).await.unwrap();
        socket.write_all(&request).await.unwrap();
        Calling { socket, received: Vec::new(), given: 0 }
    }

    /// Answers a request of the host.
    pub(super) async fn reply(&self, asked: &Value, result: Value) -> Answer {
        self.send(BOTH, &json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).await
    }

    pub(super) async fn accept(&self, asked: &Value, content: Value) {
        let answer = self.reply(asked, json!({"action": "accept", "content": content})).await;
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{}", answer.text());
    }
}

/// A call whose reply is a stream.
pub(super) struct Calling {
    socket: TcpStream,
    received: Vec<u8>,
    given: usize,
}

impl Calling {
    /// The next message; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(answer) = client::parse(&self.received) {
                assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
                let text = String::from_utf8(answer.body).unwrap();
                let whole = text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
                let messages: Vec<&str> =
                    whole.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                if let Some(message) = messages.get(self.given) {
                    self.given += 1;
                    return Some(serde_json::from_str(message).unwrap());
                }
            }
            let mut part = [0; 16 << 10];
            let read = self.socket.read(&mut part);
            match tokio::time::timeout(Duration::from_secs(60), read).await.unwrap().unwrap() {
                0 => return None,
                count => self.received.extend_from_slice(&part[..count]),
            }
        }
    }

    /// The next message, which must be a question.
    pub(super) async fn asked(&mut self) -> Value {
        let message = self.next().await.unwrap();
        assert_eq!(message["method"], "elicitation/create", "{message}");
        assert_eq!(message["jsonrpc"], "2.0");
        let schema = &message["params"]["requestedSchema"];
        assert_eq!(schema["type"], "object", "{message}");
        for (name, field) in schema["properties"].as_object().unwrap() {
            let kind = field["type"].as_str().unwrap();
            assert!(["string", "number", "integer", "boolean"].contains(&kind), "{name}: {field}");
        }
        message
    }

    /// The reply to the call, which must be the next and last message.
    pub(super) async fn answered(&mut self) -> Value {
        let mut message = self.next().await.unwrap();
        // A question may be cancelled at the last moment.
        if message["method"] == "notifications/cancelled" {
            message = self.next().await.unwrap();
        }
        assert_eq!(message["id"], 7, "{message}");
        assert_eq!(self.next().await, None);
        message["result"].clone()
    }

    /// The reply to a call whose run waits: it names the run, and where a person answers.
    pub(super) async fn waits(&mut self, node: &str) -> String {
        let result = self.answered().await;
        assert_eq!(result["isError"], true, "{result}");
        let reply: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(reply["error"], "run_waiting", "{reply}");
        let run_id = reply["runId"].as_str().unwrap().to_owned();
        let place = format!("http://host.test/v1/runs/{run_id}/interrupts/{node}");
        let message = reply["message"].as_str().unwrap();
        assert!(message.contains(&place) && !message.contains("/v1/interrupts/"), "{message}");
        run_id
    }
}

pub(super) fn run_of(asked: &Value) -> String {
    asked["params"]["_meta"]["runId"].as_str().unwrap().to_owned()
}
