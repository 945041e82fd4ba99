//! Version 2 of the protocol.
//!
//! Version 2 is another form of the same operations: the routes of `v2/routes.rs` call the handlers of version 1 and translate
//! requests and replies with the tables of the crate `openwop`. So there is one set of checks and one engine.
//!
//! * `paths` finds the operation of a path. Ids may contain an encoded slash there, so paths are split before they are decoded.
//! * `operations` has a function for each operation whose body or reply differs.
//! * `events` translates events for streams, polls and comparisons.
//! * `reply` translates bodies and errors.
//! * `discovery` and `openapi` are the documents.
//! * `effects` and `seams` exist in version 2 only: what runs do outside of themselves, and where they can.

pub(super) mod discovery;
mod effects;
pub(super) mod events;
mod openapi;
mod operations;
mod paths;
pub(super) mod reply;
mod routes;
mod seams;

use axum::extract::Request;
use axum::response::Response;
use flow::id::RunId;
use http::header::{ACCEPT, AUTHORIZATION};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use openwop::id::{self, IdError};
use runs::{ApiCode, Caller, Refusal};
use serde_json::Map;

use super::entry::RequestContext;
use super::exchange::{self, AccessLogEntry};
use super::route::Route;
use super::state::Service;
use super::table::Params;

pub(super) use self::paths::{PathMatch, find};

/// Whether a request for a path of version 2 comes from a browser that wants a page: pages had these paths before the console got its own.
pub(super) fn wants_page(method: &Method, headers: &HeaderMap) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
        && !headers.contains_key(AUTHORIZATION)
        && prefers_html(headers)
}

/// Whether `Accept` names HTML before anything that the protocol sends.
fn prefers_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let media = accepted.flat_map(|value| value.split(',')).map(|media| {
        let mut parts = media.split(';');
        let kind = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let weight =
            parts.find_map(|part| part.trim().strip_prefix("q=")?.parse::<f32>().ok()).unwrap_or(1.0);
        (kind, weight)
    });
    let media: Vec<_> = media.collect();
    let weight = |kinds: &[&str]| {
        let found =
            media.iter().filter(|(kind, _)| kinds.contains(&kind.as_str())).map(|(_, weight)| *weight);
        found.fold(0.0, f32::max)
    };
    let html = weight(&["text/html", "application/xhtml+xml"]);
    html > 0.0 && html >= weight(&["application/json", "text/event-stream", "application/*"])
}

/// Answers a request for an operation.
pub(super) async fn answer(
    state: &Service,
    context: RequestContext,
    found: PathMatch,
    request: Request,
) -> (Response, AccessLogEntry) {
    match found {
        PathMatch::Operation(route, params) => {
            let run_id = params.iter().find(|(name, _)| *name == "runId").map(|(_, id)| id.clone());
            let (response, log_entry) = exchange::answer(state, context, route, params, request).await;
            let situation = reply::Refused { operation: route.operation, run_id };
            (reply::translated(state, &log_entry, response, &situation).await, log_entry)
        }
        PathMatch::OtherMethod(allowed) => {
            let refusal = Refusal::new(ApiCode::NotFound, "Method not allowed. See the `Allow` header.");
            let (mut response, log_entry) = exchange::refuse_path(state, context, request, refusal).await;
            if let Ok(allow) = HeaderValue::from_str(&allowed.join(", ")) {
                response.headers_mut().insert(http::header::ALLOW, allow);
            }
            (reply::translated(state, &log_entry, response, &reply::Refused::default()).await, log_entry)
        }
        PathMatch::NotServed => {
            let refusal = Refusal::new(
                ApiCode::NotFound,
                "This host does not serve the operation. See GET /.well-known/openwop for what it serves.",
            );
            let (response, log_entry) = exchange::refuse_path(state, context, request, refusal).await;
            (reply::translated(state, &log_entry, response, &reply::Refused::default()).await, log_entry)
        }
        PathMatch::Malformed => {
            let refusal = Refusal::new(
                ApiCode::ValidationError,
                "The path is malformed. In an id, write `~2F` or `%2F` for the slash.",
            );
            let (response, log_entry) = exchange::refuse_path(state, context, request, refusal).await;
            (reply::translated(state, &log_entry, response, &reply::Refused::default()).await, log_entry)
        }
    }
}

/// The parameters that are ids with a tenant.
const BOUND: [&str; 2] = ["runId", "webhookId"];

/// Checks what version 2 requires of every request, once the caller is known, and replaces bound ids by the ids within the tenant of
/// the caller.
///
/// # Errors
/// The reply that refuses the request.
pub(super) fn prepare(
    route: &Route,
    caller: &Caller,
    params: &mut Params,
    parts: &Parts,
) -> Result<(), Box<Response>> {
    for (name, value) in params.iter_mut().filter(|(name, _)| BOUND.contains(name)) {
        let own = id::unbind(caller.tenant.as_str(), value).map_err(|error| {
            let code = match error {
                IdError::OtherTenant => "id_tenant_mismatch",
                IdError::Malformed => "validation_error",
            };
            let details = Map::from_iter([("field".to_owned(), (*name).into())]);
            Box::new(reply::refused(code, &error.to_string(), details))
        })?;
        *value = own.to_owned();
    }
    let key = parts.headers.get("idempotency-key").filter(|_| route.method != super::route::Method::Get);
    if key.is_some_and(|key| !key.to_str().is_ok_and(id::is_idempotency_key)) {
        let message =
            "The `Idempotency-Key` must have 22 to 128 characters: letters, digits, `.`, `_`, `~` and `-`.";
        return Err(Box::new(reply::refused("idempotency_key_invalid", message, Map::new())));
    }
    Ok(())
}

/// The run of an id that a request body or query names.
pub(super) fn run_id(caller: &Caller, text: &str) -> Result<RunId, IdError> {
    id::unbind(caller.tenant.as_str(), text).map(RunId::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_redirected_and_every_other_client_gets_the_operation() {
        let cases = [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("text/html", true),
            ("application/json, text/html;q=0.5", false),
            ("application/json", false),
            ("text/event-stream", false),
            ("*/*", false),
            ("", false),
        ];
        for (accept, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(wants_page(&Method::GET, &headers), expected, "{accept}");
            assert!(!wants_page(&Method::POST, &headers), "{accept}");
            headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer k"));
            assert!(!wants_page(&Method::GET, &headers), "{accept}");
        }
        assert!(!wants_page(&Method::GET, &HeaderMap::new()));
    }
}
