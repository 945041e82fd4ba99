//! Where a request comes in: its trace, its path, and its line in the log.
//!
//! The protocol writes actions with a colon, `/v1/runs/{runId}:fork`, which the router cannot match: a parameter takes a whole
//! segment. So the colon of a known action becomes a segment of its own, `/v1/runs/{runId}/:fork`, before the router looks.
//! A client cannot write that path itself, because a segment that begins with a colon is refused here.

use std::borrow::Cow;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{ALLOW, X_CONTENT_TYPE_OPTIONS};
use http::uri::PathAndQuery;
use http::{HeaderValue, Uri};
use tracing::Instrument as _;

use super::exchange::Answering;
use super::routes;
use super::state::Service;
use super::trace::{TRACEPARENT, TraceContext};

/// A path that no route has and none could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadPath;

/// Where requests with a bad path go: nowhere.
const NOWHERE: &str = "/v1/";

/// Takes a request in, and its answer out.
pub(super) async fn enter(State(state): State<Service>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let trace = TraceContext::of(request.headers(), &*state.entropy);
    let method = request.method().clone();
    match routed(request.uri().path()) {
        Ok(None) => {}
        Ok(Some(path)) => replace_path(request.uri_mut(), &path),
        Err(bad) => {
            request.extensions_mut().insert(bad);
            replace_path(request.uri_mut(), NOWHERE);
        }
    }
    request.extensions_mut().insert(trace);
    let in_flight = state.metrics.begin();
    let span = tracing::info_span!("http.request", http.method = %method, trace.id = %trace.id());
    let mut response = next.run(request).instrument(span.clone()).await;
    drop(in_flight);
    let answering = response.extensions_mut().remove::<Answering>().unwrap_or_default();
    let status = response.status().as_u16();
    let elapsed = started.elapsed();
    state.metrics.answered(&method, answering.route, status, elapsed);
    span.in_scope(|| {
        tracing::info!(
            http.route = answering.route,
            http.status = status,
            key.id = answering.principal.as_deref(),
            tenant = answering.tenant.as_deref(),
            error.code = answering.code,
            latency_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            "answered",
        );
    });
    let headers = response.headers_mut();
    // The router adds the methods of a path to every answer of its own; those who have no key are not told.
    if !matches!(status, 204 | 405) {
        headers.remove(ALLOW);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.extend(trace.header().map(|value| (TRACEPARENT, value)));
    response
}

fn replace_path(uri: &mut Uri, path: &str) {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    // A path that came in as part of a URI, with a slash added, is one again.
    parts.path_and_query = PathAndQuery::try_from(format!("{path}{query}")).ok();
    if let Ok(replaced) = Uri::from_parts(parts) {
        *uri = replaced;
    }
}

/// The path as the router knows it.
pub(super) fn inner_path(template: &str) -> String {
    template
        .rsplit_once(':')
        .map_or_else(|| template.to_owned(), |(path, action)| format!("{path}/:{action}"))
}

/// The path that is matched instead of the one that came, where it is another.
fn routed(path: &str) -> Result<Option<String>, BadPath> {
    path.split('/').try_for_each(check)?;
    let Some((rest, action)) = path.rsplit_once(':') else { return Ok(None) };
    let is_action = !action.contains('/') && routes::actions().any(|known| known == action);
    Ok(is_action.then(|| format!("{rest}/:{action}")))
}

/// Refuses segments that mean something else to somebody: the directory above, a hidden slash, a control character.
fn check(segment: &str) -> Result<(), BadPath> {
    let name = decoded(segment).ok_or(BadPath)?;
    let means_more = name.chars().any(|found| found.is_control() || matches!(found, '/' | '\\'));
    if means_more || matches!(&*name, "." | "..") || segment.starts_with(':') { Err(BadPath) } else { Ok(()) }
}

/// A segment without its escapes, where they are escapes and give text.
fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    if !segment.contains('%') {
        return Some(segment.into());
    }
    let mut rest = segment.bytes();
    let mut bytes = Vec::with_capacity(segment.len());
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(if byte == b'%' { u8::try_from(digit()? * 16 + digit()?).ok()? } else { byte });
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_become_segments_and_nothing_else_does() {
        let cases = [
            ("/v1/runs/run_1", None),
            ("/v1/runs/run_1:pause", Some("/v1/runs/run_1/:pause")),
            ("/v1/runs/a:b:diff", Some("/v1/runs/a:b/:diff")),
            ("/v1/runs/run_1:dance", None),
            ("/v1/runs/run_1%3Apause", None),
            ("/v1/runs/a:pause/events", None),
        ];
        for (path, expected) in cases {
            assert_eq!(routed(path), Ok(expected.map(str::to_owned)), "{path}");
        }
    }

    #[test]
    fn paths_that_are_refused() {
        let cases = [
            "/v1/../etc",
            "/v1/runs/.",
            "/v1/runs/%2e%2e",
            "/v1/runs/a%2fb",
            "/v1/runs/a%5Cb",
            "/v1/runs/a\\b",
            "/v1/runs/a%00",
            "/v1/runs/a%0d%0aSet-Cookie",
            "/v1/runs/%ff",
            "/v1/runs/%",
            "/v1/runs/%4",
            "/v1/runs/%zz",
            "/v1/runs/:pause",
            "/v1/runs/a/:pause",
        ];
        for path in cases {
            assert_eq!(routed(path), Err(BadPath), "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_passes_is_made_of_names(path in r"(/[a-z.:%0-9A-Fa-f\\]{0,8}){0,6}") {
            let Ok(routed) = routed(&path) else { return Ok(()) };
            for segment in routed.unwrap_or(path).split('/') {
                // Another reader of escapes than the one above.
                let name: String = form_urlencoded::parse(segment.as_bytes()).map(|(name, _)| name).collect();
                proptest::prop_assert!(!matches!(name.as_str(), "." | ".."), "{}", segment);
                proptest::prop_assert!(!name.contains(['/', '\\', '\0']), "{}", segment);
            }
        }
    }
}
