//! Discovery, the OpenAPI document, health checks and metrics.

use axum::body::Body;
use axum::response::Response;
use canon::digest::Digest;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, VARY};
use http::{HeaderName, HeaderValue, StatusCode};
use runs::{RecoveryProgress, Refusal};
use serde_json::json;

use super::super::exchange::CheckedRequest;
use super::super::route::HandlerResult;
use super::super::{discovery, encoding, openapi, response};

/// For documents that change only with the program.
const FIVE_MINUTES: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// The entity tag of the advertised capabilities.
const CAPABILITIES_ETAG: HeaderName = HeaderName::from_static("capabilities-etag");

/// `GET /.well-known/openwop`
pub(in super::super) async fn discovery(call: CheckedRequest) -> HandlerResult {
    let document = discovery::document(&call.state).to_string();
    // Clients that cache the document compare this tag to detect a change.
    let tag = format!("\"{}\"", &Digest::of_bytes(document.as_bytes()).to_hex()[..32]);
    let mut response = match encoding::matches(&call.headers, &tag) {
        Some(_) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        None => response::json_bytes(200, document),
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag.clone());
        response.headers_mut().insert(CAPABILITIES_ETAG, tag);
    }
    response.headers_mut().insert(CACHE_CONTROL, FIVE_MINUTES);
    // The same address has another document in version 2.
    response.headers_mut().insert(VARY, HeaderValue::from_static("OpenWOP-Version"));
    Ok(response)
}

/// `GET /v1/openapi.json`
pub(in super::super) async fn openapi(call: CheckedRequest) -> HandlerResult {
    let document = openapi::document(call.state.runs.public_url(), call.state.gates());
    let mut response = response::json(200, &document);
    response.headers_mut().insert(CACHE_CONTROL, FIVE_MINUTES);
    Ok(response)
}

/// `GET /healthz`: whether the process responds.
pub(in super::super) async fn health(_: CheckedRequest) -> HandlerResult {
    Ok(response::json(200, &json!({"status": "ok"})))
}

/// `GET /readyz`: whether requests can be served.
pub(in super::super) async fn readiness(call: CheckedRequest) -> HandlerResult {
    if let Some(RecoveryProgress { recovered, total }) = call.state.runs.engine().recovering() {
        let message = format!("the host is starting: {recovered} of {total} runs recovered; retry later");
        let refusal = Refusal::unavailable(&message, 1).detail("status", "recovering");
        return Err(refusal.detail("recovered", recovered).detail("total", total));
    }
    if let Some(trouble) = call.state.runs.records().store_trouble() {
        return Err(Refusal::unavailable(trouble.as_str(), 30));
    }
    call.state.runs.records().check_store().await?;
    if call.state.runs.is_ready().await {
        Ok(response::json(200, &json!({"status": "ready"})))
    } else {
        Err(Refusal::unavailable("the host is shutting down", 5))
    }
}

/// `GET /metrics`
pub(in super::super) async fn metrics(call: CheckedRequest) -> HandlerResult {
    let mut response = Response::new(Body::from(call.state.metrics.text(&call.state.runs.engine().counts())));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
