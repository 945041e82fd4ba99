//! `POST /mcp`: MCP messages, one per request.
//!
//! The server is stateless in every edition of the protocol: `initialize` is answered without creating a session, messages need
//! none, and every reply is one JSON document. A client may continue after any pause, with another process or on another connection;
//! the position in a workflow is in its tokens. So there is no stream to open with `GET` and no session to end with `DELETE`; the
//! protocol allows a server to answer both with 405.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body_util::{BodyExt as _, Full};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use runs::{ApiCode, Refusal, Scope};
use serde_json::json;

use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;
use crate::mcp::Mcp;
use crate::scoped::{Authority, Scoped};
use crate::service::GuideService;

/// The media types that the protocol requires every client to accept. The reply is always JSON.
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

pub(in super::super) async fn answer(call: CheckedRequest) -> HandlerResult {
    let authority = match call.session {
        Some(session) => Authority::Session(session),
        None => Authority::Scopes(call.caller.scopes),
    };
    if !authority.opens_anything() {
        return Err(Refusal::scope(Scope::SessionsDrive));
    }
    if call.message.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        let message = "JSON-RPC batches are not supported; send one message per request";
        return Err(Refusal::new(ApiCode::ValidationError, message));
    }
    let place = Arc::clone(&call.state.messages)
        .try_acquire_owned()
        .map_err(|_| Refusal::unavailable("too many agent messages are being processed; retry later", 1))?;
    let limit = call.state.settings.max_message_bytes;
    let service: Arc<dyn GuideService> = Arc::new(Scoped::new(
        Arc::clone(&call.state.tenants),
        call.caller.tenant,
        authority,
        Arc::clone(&call.state.workspace_roots),
        // Held as long as a thread works for this request, even if its client disconnects.
        place,
    ));
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_keep_alive(None)
        .with_sse_retry(None)
        // Both were checked before the key.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(limit);
    let span = tracing::Span::current();
    let handler = move || Ok(Mcp::new(Arc::clone(&service)).within(span.clone()));
    let protocol = StreamableHttpService::new(handler, Arc::new(NeverSessionManager::default()), config);
    let mut request = Request::new(Full::new(call.message));
    *request.method_mut() = Method::POST;
    *request.headers_mut() = accepting(call.headers);
    Ok(ours(protocol.handle(request).await.map(Body::new)).await)
}

/// The headers of a request, with `Accept` extended: a client that accepts JSON is treated as if it accepts both required types.
pub(super) fn accepting(mut headers: HeaderMap) -> HeaderMap {
    let accepted: Vec<_> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let media = accepted.iter().flat_map(|value| value.split(','));
    let mut media = media.map(|media| media.split(';').next().unwrap_or_default().trim());
    if accepted.is_empty() || media.any(|media| matches!(media, "application/json" | "application/*" | "*/*"))
    {
        headers.insert(ACCEPT, BOTH);
    }
    // A body without a media type was already treated as JSON, and one of another type was refused.
    headers.insert(CONTENT_TYPE, JSON);
    headers
}

/// The reply of the MCP library, with its refusals as our error envelope. Protocol errors are already JSON.
pub(super) async fn ours(response: Response) -> Response {
    let status = response.status();
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|media| *media == JSON);
    if !status.is_client_error() && !status.is_server_error() || is_json {
        let mut response = response;
        response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
        return response;
    }
    let (parts, body) = response.into_parts();
    let text_body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let code = match status.as_u16() {
        413 => ApiCode::PayloadTooLarge,
        415 => ApiCode::UnsupportedMediaType,
        500.. => ApiCode::InternalError,
        _ => ApiCode::ValidationError,
    };
    let message = String::from_utf8_lossy(&text_body);
    let body = json!({"error": code.as_str(), "message": flow::redact::text(&message)});
    let mut response = response::json(status.as_u16(), &body);
    for (name, value) in &parts.headers {
        if !matches!(*name, CONTENT_TYPE | CONTENT_LENGTH) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}
