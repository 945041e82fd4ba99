//! Runs over HTTP, the protocol of a workflow host, and MCP beside it.
//!
//! ```text
//!  connection ─► door: trace, path, colon ─► router ─► exchange: rate ─ key ─ scope ─ body ─► handler ─► host
//!                  └── counted and logged on the way out ◄──────────── refusals become envelopes ◄──┘
//! ```
//!
//! * `routes` is one table. The router, the OpenAPI document, the methods that a 405 lists and the labels of the metrics all
//!   come from it, so none of them can say something else than another.
//! * `exchange` takes every request through the same checks in the same order. A handler cannot forget one, because it
//!   is only called after them.
//! * `handlers` translate and nothing else.
//! * `visitors` is who may send a browser here.
//!
//! # Invariants
//! * A refusal is `{error, message, details?}`, whoever makes it: handler, check or router.
//! * Whether something exists is said only to those who may know.
//! * A key is neither logged nor sent back, and no body is logged.
//! * Whatever is read from a connection has a limit in size and in time.

mod answer;
mod body;
mod cursor;
mod denials;
mod discovery;
mod door;
mod encoding;
mod exchange;
mod handlers;
mod metrics;
mod openapi;
mod pages;
mod patience;
mod query;
mod route;
mod routes;
mod serve;
mod state;
mod trace;
mod visitors;

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawPathParams, Request, State};
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter};

use self::route::Route;
pub use self::serve::serve;
use self::state::Service;
pub use self::state::{Fixtures, Guides, HttpState, Options, Settings};

/// The service: every route of the table, and an envelope for everything else.
pub fn router(state: HttpState) -> Router {
    let HttpState(service) = state;
    let mut router = Router::new().without_v07_checks();
    let mut paths: Vec<&str> = routes::served(service.settings.test_seams).map(|route| route.path).collect();
    paths.dedup();
    for path in paths {
        let methods = routes::of(path).fold(MethodRouter::new(), |methods, route| {
            let answer = move |State(service): State<Service>, params: RawPathParams, request: Request| {
                exchange::answer(service, route, params, request)
            };
            methods.on(filter(route), answer)
        });
        let others = move |State(service): State<Service>, request: Request| {
            exchange::answer_other_method(service, path, request)
        };
        router = router.route(&door::inner_path(path), methods.fallback(others));
    }
    let inner = router
        .fallback(|State(service): State<Service>, request: Request| {
            exchange::answer_unknown(service, request)
        })
        .with_state(Arc::clone(&service));
    // The door has to come before the router looks at the path, and a layer of the router itself would come after.
    Router::new().fallback_service(inner).layer(from_fn_with_state(service, door::enter))
}

fn filter(route: &Route) -> MethodFilter {
    // `HEAD` comes with `GET`.
    match route.method {
        route::Method::Get => MethodFilter::GET,
        route::Method::Post => MethodFilter::POST,
        route::Method::Delete => MethodFilter::DELETE,
    }
}
