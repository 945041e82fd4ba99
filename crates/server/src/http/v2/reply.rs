//! Replies of version 1 as replies of version 2.

use axum::body::{Body, to_bytes};
use axum::response::Response;
use flow::id::RunId;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use openwop::error::{self, Situation};
use openwop::id;
use runs::{Caller, Refusal};
use serde_json::{Map, Value, json};

use super::super::exchange::AccessLogEntry;
use super::super::response;
use super::super::route::HandlerResult;
use super::super::state::Service;

/// Marks a reply that is already one of version 2.
#[derive(Clone, Copy)]
struct Final;

/// A refused request.
#[derive(Clone, Debug, Default)]
pub(in crate::http) struct Refused {
    pub(in crate::http) operation: &'static str,
    /// The run that the path names.
    pub(in crate::http) run_id: Option<String>,
}

/// A refusal with a code of version 2.
pub(in crate::http) fn refused(code: &str, message: &str, details: Map<String, Value>) -> Response {
    let mut body = json!({"error": code, "message": flow::redact::text(message)});
    if !details.is_empty() {
        body["details"] = details.into();
    }
    let status = error::status(code).unwrap_or(500);
    let mut response = response::json(status, &body);
    if status == 401 {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response.extensions_mut().insert(Final);
    response
}

/// A reply with its errors in version 2.
pub(in crate::http) async fn translated(
    state: &Service,
    log_entry: &AccessLogEntry,
    response: Response,
    refused: &Refused,
) -> Response {
    let v1_status = response.status();
    if !(v1_status.is_client_error() || v1_status.is_server_error())
        || response.extensions().get::<Final>().is_some()
        || response.headers().get(CONTENT_TYPE).is_none_or(|media| *media != response::JSON)
    {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let mut document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let mut details = match document.get_mut("details").map(Value::take) {
        Some(Value::Object(details)) => details,
        _ => Map::new(),
    };
    let code = document["error"].as_str().unwrap_or_default().to_owned();
    let run_status = match (code.as_str(), details.get("runStatus").and_then(Value::as_str)) {
        ("conflict", None) => run_status(state, log_entry, refused).await,
        (_, known) => known.map(str::to_owned),
    };
    let situation = Situation {
        run_status: run_status.as_deref(),
        is_fork: refused.operation == "forkRun",
        has_token: matches!(refused.operation, "inspectInterruptByToken" | "resolveInterruptByToken"),
    };
    let code = error::response(&code, v1_status.as_u16(), &mut details, situation);
    if code == "run_terminal" {
        details.remove("runStatus");
    }
    if let Some(Value::String(run_id)) = details.get_mut("runId")
        && let Some(tenant) = &log_entry.tenant
    {
        *run_id = id::bind(tenant.as_str(), run_id);
    }
    // Retry timing is in the header only.
    details.remove("retryAfterMs");
    details.remove("retryAfterSeconds");
    let message = document["message"].as_str().unwrap_or_default();
    let mut body = json!({"error": code, "message": message});
    if !details.is_empty() {
        body["details"] = details.into();
    }
    let status = error::status(code).and_then(|status| StatusCode::from_u16(status).ok());
    parts.status = status.unwrap_or(v1_status);
    if matches!(code, "service_unavailable" | "rate_limited" | "run_already_active" | "idempotency_in_flight")
    {
        parts.headers.entry(RETRY_AFTER).or_insert(HeaderValue::from(1));
    }
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(body.to_string()))
}

/// The status of the run that a refused request names.
async fn run_status(state: &Service, log_entry: &AccessLogEntry, refused: &Refused) -> Option<String> {
    let tenant = log_entry.tenant.clone()?;
    let own = id::unbind(tenant.as_str(), refused.run_id.as_deref()?).ok()?;
    // The caller was admitted to the operation; this only reads a run of the same tenant.
    let caller = Caller { tenant, principal: log_entry.principal.clone()?, scopes: Vec::new(), test: false };
    let (status, _) = state.runs.queries().status(&caller, &RunId::new(own)).await.ok()?;
    Some(status.as_str().to_owned())
}

/// The reply with another body. Replies without a body stay as they are.
pub(in crate::http) async fn mapped(
    response: Response,
    map: impl FnOnce(Value) -> Result<Value, Refusal>,
) -> HandlerResult {
    if matches!(response.status(), StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT)
        || !response.status().is_success()
    {
        return Ok(response);
    }
    let (mut parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let document = map(document)?;
    parts.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(parts, Body::from(document.to_string())))
}

/// Binds a member that is an id of the tenant.
pub(in crate::http) fn bind(tenant: &str, document: &mut Value, member: &str) {
    if let Some(Value::String(own)) = document.get_mut(member)
        && id::split(own).is_none()
    {
        *own = id::bind(tenant, own);
    }
}
