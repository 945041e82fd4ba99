//! HTTP replies.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use runs::{Refusal, StoredReply};
use serde::Serialize;
use serde_json::Value;

use super::bodies::written;
use super::status::{body, status};

/// The header that marks a recorded reply to a repeated request.
const IDEMPOTENT_REPLAY: HeaderName = HeaderName::from_static("openwop-idempotent-replay");

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// A reply with bytes that are already JSON.
pub(super) fn json_bytes(status: u16, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    // Replies to authenticated requests must not be cached; a handler may override this.
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}

/// A reply with a JSON document.
pub(super) fn json(status: u16, body: &Value) -> Response {
    json_bytes(status, body.to_string())
}

/// A reply with a serialized body.
pub(super) fn body_of(status: u16, body: &impl Serialize) -> Response {
    json_bytes(status, shared(written(status, body).body))
}

/// Bytes of the store, shared without copying.
pub(super) fn shared(bytes: ports::runs::Bytes) -> Bytes {
    Bytes::from_owner(bytes)
}

/// The reply to a request that changes the host. If the request had an idempotency key, a header says whether the reply was recorded
/// before.
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

/// An error as it is recorded for the idempotency key of its request.
pub(super) fn recorded(refusal: &Refusal) -> StoredReply {
    written(status(refusal.code).as_u16(), &body(refusal))
}

/// An error reply. For a failure of the host it has the correlation id of the log lines.
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
