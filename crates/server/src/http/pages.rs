//! Paths outside of the protocol, answered by the mounted router. Adds the peer address, compression and the end of streams at shutdown.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use futures_util::StreamExt as _;
use http::header::CONTENT_TYPE;
use system::CorrelationId;
use tower::ServiceExt as _;

use super::encoding;
use super::entry::RequestContext;
use super::exchange::{AccessLogEntry, Peer};
use super::state::Service;
use super::timed::timed;

/// The route label of all pages in logs and metrics, because their paths are not in the route table.
const ROUTE: &str = "pages";

pub(super) async fn answer(
    state: &Service,
    context: RequestContext,
    pages: Router,
    mut request: Request,
) -> (Response, AccessLogEntry) {
    let encoding = encoding::accepted(request.headers());
    if let Some(Peer(address)) = context.peer {
        request.extensions_mut().insert(address);
    }
    request.extensions_mut().insert(CorrelationId(context.trace.id()));
    let request = request.map(|body| timed(body, state.settings.body_timeout));
    let response = match pages.oneshot(request).await {
        Ok(response) => response,
        Err(impossible) => match impossible {},
    };
    let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    let response =
        if is_stream { until_stopped(state, response) } else { encoding::encoded(response, encoding).await };
    (response, AccessLogEntry { route: ROUTE, ..AccessLogEntry::default() })
}

/// A stream has no natural end and must not delay the shutdown of the service.
fn until_stopped(state: &Service, response: Response) -> Response {
    let mut stopping = state.stopping.subscribe();
    let stopped = async move {
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let (parts, body) = response.into_parts();
    Response::from_parts(parts, Body::from_stream(body.into_data_stream().take_until(Box::pin(stopped))))
}
