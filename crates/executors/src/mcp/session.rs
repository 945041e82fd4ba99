//! A session with another MCP server: JSON-RPC over streamable HTTP, with replies as JSON or as an event stream.

use std::time::Duration;

use crate::failure::ExecutorErrorCode;
use canon::json::{self, Limits};
use flow::state::RunError;
use http::Method;
use http::header::CONTENT_TYPE;
use outbound::{Call, CallError, Client, Limits as CallLimits, Reply, Target};
use serde_json::{Value, json};

const PROTOCOL_VERSION: &str = "2025-06-18";
/// The maximum size of a reply, in bytes, including preceding messages.
const MAX_BYTES: usize = 4 << 20;
/// The maximum wait for the head of a reply. The caller limits the whole session to less.
const MAX_WAIT: Duration = Duration::from_millis(super::MAX_TIMEOUT_MS);
/// The maximum nesting of a reply. It is stored inside records, which are limited to 128 levels.
const MAX_DEPTH: usize = 64;
/// The maximum length of a session id.
const MAX_SESSION_BYTES: usize = 256;
/// The maximum length of a server's message in an error, in characters.
const MAX_SHOWN: usize = 300;

/// An initialized session.
pub(super) struct Session<'s> {
    client: &'s Client,
    target: &'s Target,
    bearer: Option<String>,
    id: Option<String>,
    next: u64,
}

impl<'s> Session<'s> {
    pub(super) async fn open(
        client: &'s Client,
        target: &'s Target,
        bearer: Option<String>,
    ) -> Result<Self, RunError> {
        let mut session = Self { client, target, bearer, id: None, next: 0 };
        let initialize = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "interlock", "version": env!("CARGO_PKG_VERSION")},
        });
        session.ask("initialize", initialize).await?;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        session.send(Method::POST, initialized.to_string().into_bytes()).await?.discard();
        Ok(session)
    }

    /// Sends a request and waits for the reply. The caller limits the time.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Result<Value, RunError> {
        let id = self.next;
        self.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let mut answer = self.send(Method::POST, request.to_string().into_bytes()).await?;
        if method == "initialize" {
            let named = answer.headers.get("mcp-session-id").and_then(|id| id.to_str().ok());
            self.id = named.filter(|id| (1..=MAX_SESSION_BYTES).contains(&id.len())).map(str::to_owned);
        }
        let media =
            answer.headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
        let is_stream =
            media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream");
        let message =
            if is_stream { from_stream(&mut answer, id).await? } else { whole(&mut answer).await? };
        outcome(message, id)
    }

    /// Ends the session. Failures are ignored.
    pub(super) async fn close(self) {
        if self.id.is_some() {
            let _ = self.send(Method::DELETE, Vec::new()).await;
        }
    }

    async fn send(&self, method: Method, body: Vec<u8>) -> Result<Reply, RunError> {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", PROTOCOL_VERSION),
        ];
        headers.extend(self.bearer.as_deref().map(|bearer| ("authorization", bearer)));
        headers.extend(self.id.as_deref().map(|id| ("mcp-session-id", id)));
        let limits = CallLimits { head: MAX_WAIT, whole: None, body: MAX_BYTES };
        let call = Call { method, target: self.target, headers: &headers, body: body.into(), limits };
        let answer = self.client.send(call).await.map_err(|error| unreachable(&error))?;
        match answer.status {
            200..=299 => Ok(answer),
            401 | 403 => Err(RunError::of(
                ExecutorErrorCode::McpUnauthorized,
                "the MCP server does not accept the credential",
            )),
            status => Err(RunError::of(
                ExecutorErrorCode::McpUnreachable,
                format!("the MCP server replied with status {status}"),
            )),
        }
    }
}

fn unreachable(error: &CallError) -> RunError {
    RunError::of(ExecutorErrorCode::McpUnreachable, format!("the MCP server cannot be reached: {error}"))
}

/// The error of a reply that is incomplete or too large.
fn broken(error: &CallError) -> RunError {
    if matches!(error, CallError::TooLarge(_)) { malformed() } else { unreachable(error) }
}

fn malformed() -> RunError {
    let message =
        format!("the MCP server replied with an invalid message, or with more than {MAX_BYTES} bytes");
    RunError::of(ExecutorErrorCode::McpBadAnswer, message)
}

/// Parses a message strictly.
fn read(bytes: &[u8]) -> Result<Value, RunError> {
    json::read(bytes, &Limits::default().max_bytes(MAX_BYTES).max_depth(MAX_DEPTH)).map_err(|_| malformed())
}

async fn whole(answer: &mut Reply) -> Result<Value, RunError> {
    read(&answer.bytes().await.map_err(|error| broken(&error))?)
}

/// The reply from an event stream. Notifications and requests of the server are skipped.
async fn from_stream(answer: &mut Reply, id: u64) -> Result<Value, RunError> {
    let mut events = Events::default();
    while let Some(part) = answer.next().await.map_err(|error| broken(&error))? {
        for data in events.feed(&part) {
            let message = read(&data)?;
            if message["id"] == id && message.get("method").is_none() {
                return Ok(message);
            }
        }
    }
    Err(malformed())
}

/// Combines the lines of an event stream into the data of events.
#[derive(Default)]
struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    after_return: bool,
}

impl Events {
    fn feed(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut events = Vec::new();
        for byte in bytes {
            let ends = match byte {
                // The second byte of a CRLF.
                b'\n' if self.after_return => {
                    self.after_return = false;
                    continue;
                }
                b'\n' | b'\r' => true,
                _ => false,
            };
            self.after_return = *byte == b'\r';
            if ends {
                events.extend(self.end_line());
            } else {
                self.line.push(*byte);
            }
        }
        events
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return Some(std::mem::take(&mut self.data)).filter(|data| !data.is_empty());
        }
        if let Some(data) = line.strip_prefix(b"data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        }
        None
    }
}

fn outcome(mut message: Value, id: u64) -> Result<Value, RunError> {
    if message["id"] != id || message["jsonrpc"] != "2.0" {
        return Err(malformed());
    }
    let error = &message["error"];
    if error.is_null() {
        return match message["result"].take() {
            result @ Value::Object(_) => Ok(result),
            _ => Err(malformed()),
        };
    }
    let code = error["code"].as_i64().unwrap_or_default();
    let text: String = error["message"].as_str().unwrap_or_default().chars().take(MAX_SHOWN).collect();
    let named = match code {
        -32602 => ExecutorErrorCode::McpToolInvalidArgs,
        -32601 => ExecutorErrorCode::McpMethodNotFound,
        _ => ExecutorErrorCode::McpError,
    };
    let message = format!("the MCP server returned an error: {text}");
    Err(RunError::of(named, message).with(json!({"code": code, "contentTrust": "untrusted"})))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn events_are_combined_however_their_bytes_are_split() {
        let text = b": hello\r\nevent: message\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\n\n\ndata:x\n\nid: 5\n\ndata: never ended";
        let expected = vec![b"{\"a\":\n1}".to_vec(), b"x".to_vec()];
        for size in 1..text.len() {
            let mut events = Events::default();
            let data: Vec<_> = text.chunks(size).flat_map(|part| events.feed(part)).collect();
            assert_eq!(data, expected, "in parts of {size}");
        }
    }

    #[test]
    fn a_reply_must_match_the_request() {
        for (message, code) in [
            (json!({"jsonrpc": "2.0", "id": 7, "result": {}}), None),
            (json!({"jsonrpc": "2.0", "id": 8, "result": {}}), Some("mcp_bad_answer")),
            (json!({"jsonrpc": "2.0", "id": 7, "result": []}), Some("mcp_bad_answer")),
            (json!({"jsonrpc": "2.0", "id": 7}), Some("mcp_bad_answer")),
            (json!({"id": 7, "result": {}}), Some("mcp_bad_answer")),
            (json!([]), Some("mcp_bad_answer")),
            (json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -32602}}), Some("mcp_tool_invalid_args")),
            (json!({"jsonrpc": "2.0", "id": 7, "error": {"code": -1, "message": "x"}}), Some("mcp_error")),
        ] {
            assert_eq!(
                outcome(message.clone(), 7).err().map(|error| error.code).as_deref(),
                code,
                "{message}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_stream_panics(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
            let mut events = Events::default();
            for part in parts {
                let _ = events.feed(&part);
            }
        }
    }
}
