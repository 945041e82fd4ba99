//! `POST /v1/mcp`: workflows as tools, resources and prompts, one message per request.
//!
//! The reply is JSON, or a stream if the client gets notifications or questions before it.

mod newest;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use canon::json::{self, Limits};
use futures_util::stream::{self, Stream};
use http::header::{ACCEPT, CACHE_CONTROL, ORIGIN};
use http::{HeaderName, HeaderValue, StatusCode};
use runs::MAX_NAME_BYTES;
use runs::{ApiCode, Refusal};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::super::exchange::CheckedRequest;
use super::super::route::HandlerResult;
use super::super::{body, response};
use crate::mount::elicitation::ClientChannel;
use crate::mount::pending_requests::{Client, ElicitationResponse};
use crate::mount::surface::AnswerUrls;
use crate::mount::{ASKING, EDITIONS, Message, Mount, ParsedMessage, RpcError, progress};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const EDITION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// How many messages are buffered for a client that reads slowly.
const WAITING_FRAMES: usize = 16;
/// The methods that may wait for a run.
const RUNNING: [&str; 5] =
    ["tools/call", "resources/read", "prompts/get", "elicitation/create", "sampling/createMessage"];

/// The editions of MCP that are served, newest first.
pub(in super::super) fn editions() -> Vec<&'static str> {
    std::iter::once(newest::NEWEST).chain(EDITIONS).collect()
}

pub(in super::super) async fn answer(call: CheckedRequest) -> HandlerResult {
    check_served(&call)?;
    let message = read(&call)?;
    if newest::is_meant(&call, &message) {
        let permit = match &message {
            ParsedMessage::Request(request) if RUNNING.contains(&request.method.as_str()) => {
                Some(permit(&call)?)
            }
            ParsedMessage::Request(_)
            | ParsedMessage::Notification(_)
            | ParsedMessage::Response(..)
            | ParsedMessage::Invalid(..) => None,
        };
        let id = match &message {
            ParsedMessage::Request(request) => request.id.clone(),
            ParsedMessage::Invalid(id, _) => id.clone(),
            ParsedMessage::Notification(_) | ParsedMessage::Response(..) => Value::Null,
        };
        return newest::answer(call, &id, permit).await;
    }
    if !matches!(&message, ParsedMessage::Request(request) if request.method == "initialize") {
        check_edition(&call)?;
    }
    let message = match message {
        ParsedMessage::Request(message) => message,
        ParsedMessage::Notification(message) => {
            mount(&call, Notifications::default()).notified(&message);
            return Ok(accepted());
        }
        ParsedMessage::Response(id, result) => {
            let id = id.as_str().unwrap_or_default();
            if call.state.pending_requests.answer(client(&call), id, ElicitationResponse::read(result)) {
                return Ok(accepted());
            }
            let message = "no request with this id is waiting for an answer from this key in this session";
            return Err(Refusal::new(ApiCode::ValidationError, message).detail("field", "id"));
        }
        ParsedMessage::Invalid(id, error) => return Ok(response::json(200, &error.answer(&id))),
    };
    // Each of these holds a connection for the duration of its run, like a stream.
    let permit = if RUNNING.contains(&message.method.as_str()) { Some(permit(&call)?) } else { None };
    let takes_streams = takes_streams(&call);
    let token = progress::token(&message).filter(|_| takes_streams);
    let can_ask = takes_streams
        && ASKING.contains(&message.method.as_str())
        && call.state.runs.mcp_clients().elicits(&call.caller, session(&call));
    let _permit = match permit {
        Some(permit) if token.is_some() || can_ask => {
            return Ok(streamed_reply(call, message, token, can_ask, permit));
        }
        permit => permit,
    };
    let answered = tokio::select! {
        answered = async { mount(&call, Notifications::default()).answer(&message).await } => answered?,
        refusal = call.key_ended() => return Err(refusal),
    };
    let body = document(&message, answered);
    let mut response = response::json(200, &body);
    if message.method == "initialize" {
        // It distinguishes the calls of clients with the same key, and contains the capabilities of the client.
        response
            .headers_mut()
            .extend(new_session(&call, elicits(&message)).map(|session| (SESSION, session)));
    }
    Ok(response)
}

/// A permit for a call that waits for its run.
fn permit(call: &CheckedRequest) -> Result<OwnedSemaphorePermit, Refusal> {
    let full = |_| Refusal::unavailable("Too many calls are waiting for their runs. Retry later.", 1);
    Arc::clone(&call.state.streams).try_acquire_owned().map_err(full)
}

/// Refuses requests if the mount is not served, and requests from foreign web pages.
pub(super) fn check_served(call: &CheckedRequest) -> Result<(), Refusal> {
    if !call.state.runs.features().capabilities().mcp_mount {
        return Err(Refusal::new(ApiCode::NotFound, "this host does not serve workflows over MCP"));
    }
    if call.headers.contains_key(ORIGIN) {
        call.state.origin_policy.check(&call.headers)?;
    }
    Ok(())
}

/// Refuses editions of MCP that are not supported.
pub(super) fn check_edition(call: &CheckedRequest) -> Result<(), Refusal> {
    match call.headers.get(EDITION) {
        Some(edition) if !EDITIONS.iter().any(|known| edition.as_bytes() == known.as_bytes()) => {
            let message = "the version in `MCP-Protocol-Version` is not supported";
            Err(Refusal::new(ApiCode::ValidationError, message).detail("supported", EDITIONS.to_vec()))
        }
        _ => Ok(()),
    }
}

/// What a client gets before the reply.
#[derive(Default)]
struct Notifications {
    progress: Option<(Value, mpsc::Sender<Value>)>,
    client_channel: Option<ClientChannel>,
}

/// Whether the client can ask its user with forms. In later editions a client may only support opening pages.
fn elicits(initialize: &Message) -> bool {
    let capabilities = initialize.params.get("capabilities");
    let elicitation = capabilities.and_then(|all| all.get("elicitation")).and_then(Value::as_object);
    elicitation.is_some_and(|ways| ways.contains_key("form") || !ways.contains_key("url"))
}

/// The session id of a request. An id that is longer than ours is ignored.
fn session(call: &CheckedRequest) -> &str {
    let session = call.headers.get(SESSION).and_then(|session| session.to_str().ok());
    session.filter(|session| session.len() <= MAX_NAME_BYTES).unwrap_or_default()
}

/// The client that sent a request.
fn client(call: &CheckedRequest) -> Client {
    Client {
        tenant: call.caller.tenant.clone(),
        principal: call.caller.principal.clone(),
        session: session(call).to_owned(),
    }
}

fn mount(call: &CheckedRequest, notifications: Notifications) -> Mount<'_> {
    Mount {
        runs: &call.state.runs,
        caller: &call.caller,
        timeout: call.state.settings.mount_timeout,
        stopping: call.state.stopping.subscribe(),
        pending: &call.state.pending,
        client: Arc::new(client(call)),
        urls: AnswerUrls {
            public_url: call.state.runs.public_url().to_owned(),
            console: call.state.pages.is_some(),
        },
        progress: notifications.progress,
        progress_interval: call.state.settings.keep_alive,
        client_channel: notifications.client_channel,
    }
}

fn document(message: &Message, answered: Result<Value, RpcError>) -> Value {
    match answered {
        Ok(result) => json!({"jsonrpc": "2.0", "id": message.id, "result": result}),
        Err(error) => error.answer(&message.id),
    }
}

/// Whether the client accepts event streams.
pub(super) fn takes_streams(call: &CheckedRequest) -> bool {
    let accepted = call.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut media = accepted.flat_map(|value| value.split(','));
    media.any(|media| {
        media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
    })
}

/// The reply as the last message of a stream of progress and questions. If the client disconnects, the call is dropped and its run
/// is cancelled, unless the run waits for a person.
fn streamed_reply(
    call: CheckedRequest,
    message: Message,
    token: Option<Value>,
    can_ask: bool,
    permit: OwnedSemaphorePermit,
) -> Response {
    let (to, frames) = mpsc::channel(WAITING_FRAMES);
    let every = call.state.settings.keep_alive;
    let client_channel = can_ask.then(|| ClientChannel {
        pending_requests: call.state.pending_requests.clone(),
        client: Arc::new(client(&call)),
        entropy: Arc::clone(&call.state.entropy),
        to: to.clone(),
    });
    let notifications = Notifications { progress: token.map(|token| (token, to.clone())), client_channel };
    tokio::spawn(async move {
        let _permit = permit;
        let answered = tokio::select! {
            biased;
            () = to.closed() => return,
            answered = async { mount(&call, notifications).answer(&message).await } => answered,
        };
        // The headers were already sent, so an error of the host is sent as a JSON-RPC error.
        let answered = answered.unwrap_or_else(|refusal| {
            let data = json!({"error": refusal.code.as_str(), "retryAfterSeconds": refusal.retry_after});
            Err(RpcError::failed("the host refused the call; see `error`", data))
        });
        drop(to.send(document(&message, answered)).await);
    });
    let frames = stream::unfold(frames, |mut frames| async move {
        let frame = frames.recv().await?;
        Some((Ok::<_, Infallible>(Frame::default().data(frame.to_string())), frames))
    });
    streamed(frames, every)
}

/// A reply that is a stream of messages.
pub(super) fn streamed(
    frames: impl Stream<Item = Result<Frame, Infallible>> + Send + 'static,
    every: Duration,
) -> Response {
    let mut response = Sse::new(frames).keep_alive(KeepAlive::new().interval(every)).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

fn read(call: &CheckedRequest) -> Result<ParsedMessage, Refusal> {
    let limits =
        Limits::default().max_bytes(call.state.settings.max_message_bytes).max_depth(body::MAX_DEPTH);
    let read: Value = json::read(&call.message, &limits).map_err(|error| body::refusal(&error))?;
    if read.is_array() {
        let message = "JSON-RPC batches are not supported; send one message per request";
        return Err(Refusal::new(ApiCode::ValidationError, message));
    }
    Ok(Message::read(read))
}

fn new_session(call: &CheckedRequest, elicits: bool) -> Option<HeaderValue> {
    let mut random = [0_u8; 16];
    call.state.entropy.fill(&mut random).ok()?;
    let name = call.state.runs.mcp_clients().name(&call.caller, random, elicits);
    HeaderValue::from_maybe_shared(Bytes::from(name)).ok()
}

fn accepted() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}
