//! `POST /v1/mcp`: workflows as tools, resources and prompts, a message for each request.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use canon::json::{self, Limits};
use host::runs::{ApiCode, Refusal};
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::super::exchange::Call;
use super::super::route::Answered;
use super::super::{answer, body};
use crate::mount::{EDITIONS, Message, Mount, Read};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const EDITION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The longest name of a session that is looked at. Ours have 32 characters.
const MAX_SESSION_BYTES: usize = 128;
/// The methods that may wait for a run.
const RUNNING: [&str; 4] = ["tools/call", "resources/read", "prompts/get", "elicitation/create"];

pub(in super::super) async fn answer(call: Call) -> Answered {
    if !call.state.runs.capabilities().mcp_mount {
        return Err(Refusal::new(ApiCode::NotFound, "workflows are not served over MCP here"));
    }
    let message = read(&call)?;
    if let Some(edition) = call.headers.get(EDITION)
        && !EDITIONS.iter().any(|known| edition.as_bytes() == known.as_bytes())
        && !matches!(&message, Read::Request(request) if request.method == "initialize")
    {
        let message = "the edition of the protocol in MCP-Protocol-Version is not spoken here";
        return Err(Refusal::new(ApiCode::ValidationError, message).detail("supported", EDITIONS.to_vec()));
    }
    let session = call.headers.get(SESSION).and_then(|session| session.to_str().ok()).unwrap_or_default();
    let session = if session.len() <= MAX_SESSION_BYTES { session } else { "" };
    let mount = Mount {
        runs: &call.state.runs,
        caller: &call.caller,
        patience: call.state.settings.mount_patience,
        stopping: call.state.stopping.subscribe(),
        pending: &call.state.pending,
        session,
    };
    let message = match message {
        Read::Request(message) => message,
        Read::Notification(message) => {
            mount.notified(&message);
            return Ok(accepted());
        }
        Read::Response => return Ok(accepted()),
        Read::Wrong(id, error) => return Ok(answer::json(200, &error.answer(&id))),
    };
    // Each of these holds a connection for as long as its run takes, as a stream does.
    let _place = if RUNNING.contains(&message.method.as_str()) {
        let full = |_| Refusal::unavailable("as many calls wait for their runs as this host takes", 1);
        Some(Arc::clone(&call.state.streams).try_acquire_owned().map_err(full)?)
    } else {
        None
    };
    let body = match mount.answer(&message).await? {
        Ok(result) => json!({"jsonrpc": "2.0", "id": message.id, "result": result}),
        Err(error) => error.answer(&message.id),
    };
    let mut response = answer::json(200, &body);
    if message.method == "initialize" {
        // A name and nothing else: it tells the calls of this client from those of another with the same key.
        response.headers_mut().extend(new_session(&call).map(|session| (SESSION, session)));
    }
    Ok(response)
}

fn read(call: &Call) -> Result<Read, Refusal> {
    let limits =
        Limits::default().max_bytes(call.state.settings.max_message_bytes).max_depth(body::MAX_DEPTH);
    let read: Value = json::read(&call.message, &limits).map_err(|error| body::refusal(&error))?;
    if read.is_array() {
        let message = "a request carries one message of MCP, and no list of them; send each by itself";
        return Err(Refusal::new(ApiCode::ValidationError, message));
    }
    Ok(Message::read(read))
}

fn new_session(call: &Call) -> Option<HeaderValue> {
    let mut random = [0_u8; 16];
    call.state.entropy.fill(&mut random).ok()?;
    let name = random.iter().fold(String::new(), |name, byte| name + &format!("{byte:02x}"));
    HeaderValue::from_maybe_shared(Bytes::from(name)).ok()
}

fn accepted() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}
