//! The entry point of requests: trace context, routing and the access log.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use flow::id::{Principal, Tenant};
use http::header::{CONTENT_LENGTH, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method};
use hyper::body::Body as _;
use openwop::Major;
use tracing::{Instrument as _, Level, event};

use super::exchange::{self, AccessLogEntry, Peer};
use super::state::Service;
use super::trace::{MAX_TRACESTATE_BYTES, TRACEPARENT, TRACESTATE, TraceContext};
use super::version::{self, Contract};
use super::{unserved, v2};

/// The origin of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestContext {
    pub(super) peer: Option<Peer>,
    pub(super) trace: TraceContext,
}

/// Answers a request, records its metrics and logs it.
pub(super) async fn enter(state: Service, peer: Option<Peer>, request: Request) -> Response {
    let started = Instant::now();
    let trace = TraceContext::of(request.headers(), &state.span_ids);
    let method = request.method().clone();
    let contract = Contract::of(&method, request.uri().path(), request.headers(), state.pages.is_some());
    let major = contract.major();
    let vendors =
        request.headers().get(TRACESTATE).filter(|value| value.len() <= MAX_TRACESTATE_BYTES).cloned();
    let in_flight = state.metrics.begin();
    // Every log line of this request has the correlation id that the client gets with an error.
    let span = tracing::info_span!("http.request", trace.id = trace.id());
    let (mut response, log_entry) =
        answer(&state, RequestContext { peer, trace }, contract, request).instrument(span).await;
    drop(in_flight);
    let status = response.status().as_u16();
    let elapsed = started.elapsed();
    state.metrics.answered(&method, log_entry.route, status, elapsed);
    log_request(&method, trace, &log_entry, status, elapsed);
    if method == Method::HEAD {
        response = without_body(response);
    }
    let headers = response.headers_mut();
    if let Some(major) = major {
        version::add_version(major, headers);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.extend(trace.header().map(|value| (TRACEPARENT, value)));
    headers.extend(vendors.map(|value| (TRACESTATE, value)));
    response
}

async fn answer(
    state: &Service,
    context: RequestContext,
    contract: Contract,
    mut request: Request,
) -> (Response, AccessLogEntry) {
    match contract {
        Contract::Refused(_, refusal) => {
            let method = request.method().clone();
            return exchange::refuse(state, context, &method, refusal).await;
        }
        Contract::Served(Major::V2) => {
            if let Some(found) = v2::find(request.method(), request.uri().path()) {
                return v2::answer(state, context, found, request).await;
            }
        }
        // A client of version 1 that omits the prefix.
        Contract::Served(Major::V1) => add_prefix(&mut request),
        Contract::Outside => {}
    }
    if let Some(refusal) = unserved::refusal(request.method(), request.uri().path()) {
        return exchange::refuse_path(state, context, request, refusal).await;
    }
    let Ok(found) = state.table.find(request.uri().path()) else {
        return exchange::answer_bad_path(state, context, request).await;
    };
    let Some((template, params)) = found else {
        return exchange::answer_unknown(state, context, request).await;
    };
    match template.route(request.method()) {
        Some(route) => exchange::answer(state, context, route, params, request).await,
        None => exchange::answer_other_method(state, context, template.path, request).await,
    }
}

/// Gives the path of an operation the prefix of version 1.
fn add_prefix(request: &mut Request) {
    let Some(path) = request.uri().path_and_query() else { return };
    if path.path().starts_with("/v1/") || path.path() == version::DISCOVERY {
        return;
    }
    if let Ok(prefixed) = format!("/v1{path}").parse() {
        *request.uri_mut() = prefixed;
    }
}

/// The reply to HEAD: the headers of the reply to GET, without its body.
fn without_body(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        parts.headers.entry(CONTENT_LENGTH).or_insert(HeaderValue::from(length));
    }
    Response::from_parts(parts, Body::empty())
}

/// Logs a request. Most requests are successful reads, which change nothing, so they are logged at `debug`; the metrics count them.
/// A failure of the host is logged as an error with its causes, under the correlation id that the client got. A host that is busy,
/// is stopping or does not serve something has not failed.
fn log_request(
    method: &Method,
    trace: TraceContext,
    log_entry: &AccessLogEntry,
    status: u16,
    elapsed: Duration,
) {
    macro_rules! answered {
        ($level:expr) => {
            event!(
                $level,
                http.method = method.as_str(),
                http.route = log_entry.route,
                http.status = status,
                key.id = log_entry.principal.as_ref().map(Principal::as_str),
                tenant = log_entry.tenant.as_ref().map(Tenant::as_str),
                error.code = log_entry.code,
                cause = log_entry.cause.as_deref(),
                run.id = log_entry.run_id.as_deref(),
                latency_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
                trace.id = trace.id().as_str(),
                "answered",
            )
        };
    }
    match status {
        500 | 507 if log_entry.cause.is_some() => answered!(Level::ERROR),
        // The handler or page that failed has logged the cause.
        500.. => answered!(Level::WARN),
        ..400 if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) => answered!(Level::DEBUG),
        _ => answered!(Level::INFO),
    }
}
