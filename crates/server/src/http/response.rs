//! Answers as they go over the wire.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use host::runs::{Refusal, StoredReply};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::Value;

use super::bodies::written;
use super::status::{body, status};

/// Whether an answer was recorded before.
const IDEMPOTENT_REPLAY: HeaderName = HeaderName::from_static("openwop-idempotent-replay");

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// An answer with bytes that are JSON already. They are sent as they are.
pub(super) fn json_bytes(status: u16, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    // What a key opened is for its holder; a handler that knows better says so.
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}

/// A reply with a document.
pub(super) fn json(status: u16, body: &Value) -> Response {
    json_bytes(status, body.to_string())
}

/// A reply with a body.
pub(super) fn body_of(status: u16, body: &impl Serialize) -> Response {
    json_bytes(status, shared(written(status, body).body))
}

/// Bytes of the store, shared and not copied.
pub(super) fn shared(bytes: ports::runs::Bytes) -> Bytes {
    Bytes::from_owner(bytes)
}

/// The answer to something that changes the host. Where the request had a key, it says whether it was answered before.
pub(super) fn reply(reply: StoredReply, keyed: bool) -> Response {
    let mut response = json_bytes(reply.status, shared(reply.body));
    if reply.status == 204 {
        response.headers_mut().remove(CONTENT_TYPE);
    }
    if keyed {
        let value = HeaderValue::from_static(if reply.replayed { "true" } else { "false" });
        response.headers_mut().insert(IDEMPOTENT_REPLAY, value);
    }
    response
}

/// A refusal as it is recorded for the key of its request.
pub(super) fn recorded(refusal: &Refusal) -> StoredReply {
    written(status(refusal.code).as_u16(), &body(refusal))
}

/// A refusal, with the id under which the log has more about a failure of the host.
pub(super) fn refusal(refusal: &Refusal, correlation_id: &str) -> Response {
    let status = status(refusal.code);
    let mut body = body(refusal);
    if refusal.is_host_failure() {
        body["details"]["correlationId"] = correlation_id.into();
    }
    let mut response = json(status.as_u16(), &body);
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = refusal.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
