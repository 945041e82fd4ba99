//! The entry point of requests: trace context, routing and the access log.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use flow::id::{Principal, Tenant};
use http::header::{CONTENT_LENGTH, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method};
use hyper::body::Body as _;
use tracing::{Instrument as _, Level, event};

use super::exchange::{self, Answering, Peer};
use super::state::Service;
use super::trace::{MAX_TRACESTATE_BYTES, TRACEPARENT, TRACESTATE, TraceContext};
use super::{unserved, version};

/// The origin of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) peer: Option<Peer>,
    pub(super) trace: TraceContext,
}

/// Answers a request, records its metrics and logs it.
pub(super) async fn enter(state: Service, peer: Option<Peer>, request: Request) -> Response {
    let started = Instant::now();
    let trace = TraceContext::of(request.headers(), &state.span_ids);
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let vendors =
        request.headers().get(TRACESTATE).filter(|value| value.len() <= MAX_TRACESTATE_BYTES).cloned();
    let in_flight = state.metrics.begin();
    // Every log line of this request has the correlation id that the client gets with an error.
    let span = tracing::info_span!("http.request", trace.id = trace.id());
    let (mut response, answering) = answer(&state, Arrived { peer, trace }, request).instrument(span).await;
    drop(in_flight);
    let status = response.status().as_u16();
    let elapsed = started.elapsed();
    state.metrics.answered(&method, answering.route, status, elapsed);
    tell(&method, trace, &answering, status, elapsed);
    if method == Method::HEAD {
        response = without_body(response);
    }
    let headers = response.headers_mut();
    version::add_version(&path, headers);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.extend(trace.header().map(|value| (TRACEPARENT, value)));
    headers.extend(vendors.map(|value| (TRACESTATE, value)));
    response
}

async fn answer(state: &Service, came: Arrived, request: Request) -> (Response, Answering) {
    if let Some(refusal) = version::mismatch(request.uri().path(), request.headers()) {
        let method = request.method().clone();
        return exchange::refuse(state, came, &method, refusal).await;
    }
    if let Some(refusal) = unserved::refusal(request.method(), request.uri().path()) {
        return exchange::refuse_path(state, came, request, refusal).await;
    }
    let Ok(found) = state.table.find(request.uri().path()) else {
        return exchange::answer_bad_path(state, came, request).await;
    };
    let Some((template, params)) = found else {
        return exchange::answer_unknown(state, came, request).await;
    };
    match template.route(request.method()) {
        Some(route) => exchange::answer(state, came, route, params, request).await,
        None => exchange::answer_other_method(state, came, template.path, request).await,
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
fn tell(method: &Method, trace: TraceContext, answering: &Answering, status: u16, elapsed: Duration) {
    macro_rules! answered {
        ($level:expr) => {
            event!(
                $level,
                http.method = method.as_str(),
                http.route = answering.route,
                http.status = status,
                key.id = answering.principal.as_ref().map(Principal::as_str),
                tenant = answering.tenant.as_ref().map(Tenant::as_str),
                error.code = answering.code,
                cause = answering.cause.as_deref(),
                run.id = answering.run_id.as_deref(),
                latency_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
                trace.id = trace.id().as_str(),
                "answered",
            )
        };
    }
    match status {
        500 | 507 if answering.cause.is_some() => answered!(Level::ERROR),
        // The handler or page that failed has logged the cause.
        500.. => answered!(Level::WARN),
        ..400 if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) => answered!(Level::DEBUG),
        _ => answered!(Level::INFO),
    }
}
