//! `POST /v1/mcp`: workflows as tools, resources and prompts, a message for each request.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use canon::json::{self, Limits};
use futures_util::stream;
use host::runs::{ApiCode, Refusal};
use http::header::{ACCEPT, CACHE_CONTROL};
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::super::exchange::Call;
use super::super::route::Answered;
use super::super::{answer, body};
use crate::mount::{EDITIONS, Message, Mount, Read, RpcError, progress};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const EDITION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// How many messages wait for a client that reads slowly.
const WAITING_FRAMES: usize = 16;
/// The longest name of a session that is looked at. Ours have 32 characters.
const MAX_SESSION_BYTES: usize = 128;
/// The methods that may wait for a run.
const RUNNING: [&str; 5] =
    ["tools/call", "resources/read", "prompts/get", "elicitation/create", "sampling/createMessage"];

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
    let message = match message {
        Read::Request(message) => message,
        Read::Notification(message) => {
            mount(&call, None).notified(&message);
            return Ok(accepted());
        }
        Read::Response => return Ok(accepted()),
        Read::Wrong(id, error) => return Ok(answer::json(200, &error.answer(&id))),
    };
    // Each of these holds a connection for as long as its run takes, as a stream does.
    let place = if RUNNING.contains(&message.method.as_str()) {
        let full = |_| Refusal::unavailable("as many calls wait for their runs as this host takes", 1);
        Some(Arc::clone(&call.state.streams).try_acquire_owned().map_err(full)?)
    } else {
        None
    };
    let _place = match (place, progress::token(&message).filter(|_| takes_streams(&call))) {
        (Some(place), Some(token)) => return Ok(told(call, message, token, place)),
        (place, _) => place,
    };
    let body = document(&message, mount(&call, None).answer(&message).await?);
    let mut response = answer::json(200, &body);
    if message.method == "initialize" {
        // A name and nothing else: it tells the calls of this client from those of another with the same key.
        response.headers_mut().extend(new_session(&call).map(|session| (SESSION, session)));
    }
    Ok(response)
}

fn mount(call: &Call, progress: Option<(Value, mpsc::Sender<Value>)>) -> Mount<'_> {
    let session = call.headers.get(SESSION).and_then(|session| session.to_str().ok()).unwrap_or_default();
    Mount {
        runs: &call.state.runs,
        caller: &call.caller,
        patience: call.state.settings.mount_patience,
        stopping: call.state.stopping.subscribe(),
        pending: &call.state.pending,
        session: if session.len() <= MAX_SESSION_BYTES { session } else { "" },
        progress,
    }
}

fn document(message: &Message, answered: Result<Value, RpcError>) -> Value {
    match answered {
        Ok(result) => json!({"jsonrpc": "2.0", "id": message.id, "result": result}),
        Err(error) => error.answer(&message.id),
    }
}

/// Whether the client reads streams of events.
fn takes_streams(call: &Call) -> bool {
    let accepted = call.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut media = accepted.flat_map(|value| value.split(','));
    media.any(|media| {
        media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
    })
}

/// The answer at the end of a stream of progress. A client that hangs up drops the stream, and with it the call and its run.
fn told(call: Call, message: Message, token: Value, place: OwnedSemaphorePermit) -> Response {
    let (to, frames) = mpsc::channel(WAITING_FRAMES);
    let every = call.state.settings.keep_alive;
    tokio::spawn(async move {
        let _place = place;
        let answered = tokio::select! {
            biased;
            () = to.closed() => return,
            answered = async { mount(&call, Some((token, to.clone()))).answer(&message).await } => answered,
        };
        // The head of the answer is with the client already: a refusal of the host as a whole is told as an error.
        let answered = answered.unwrap_or_else(|refusal| {
            Err(RpcError::failed("the host refuses the call", json!({"error": refusal.code.as_str()})))
        });
        drop(to.send(document(&message, answered)).await);
    });
    let frames = stream::unfold(frames, |mut frames| async move {
        let frame = frames.recv().await?;
        Some((Ok::<_, Infallible>(Frame::default().data(frame.to_string())), frames))
    });
    let mut response = Sse::new(frames).keep_alive(KeepAlive::new().interval(every)).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
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
