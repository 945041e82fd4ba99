//! What is outside of the protocol, answered by whoever was mounted: who asks, in fewer bytes, and until the service stops.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use futures_util::StreamExt as _;
use http::header::CONTENT_TYPE;
use tower::ServiceExt as _;

use super::encoding;
use super::exchange::{Answering, Peer};
use super::state::Service;

/// What the log and the metrics call all of it: paths of pages are not ours to list.
const ROUTE: &str = "pages";

pub(super) async fn answer(state: &Service, pages: Router, mut request: Request) -> Response {
    let encoding = encoding::accepted(request.headers());
    if let Some(Peer(address)) = request.extensions().get::<Peer>().copied() {
        request.extensions_mut().insert(address);
    }
    let response = match pages.oneshot(request).await {
        Ok(response) => response,
        Err(impossible) => match impossible {},
    };
    let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    let mut response =
        if is_stream { until_stopped(state, response) } else { encoding::encoded(response, encoding).await };
    response.extensions_mut().insert(Answering { route: ROUTE, ..Answering::default() });
    response
}

/// A stream has no end of its own; it must not hold up the end of the service.
fn until_stopped(state: &Service, response: Response) -> Response {
    let mut stopping = state.stopping.subscribe();
    let stopped = async move {
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let (parts, body) = response.into_parts();
    Response::from_parts(parts, Body::from_stream(body.into_data_stream().take_until(Box::pin(stopped))))
}
