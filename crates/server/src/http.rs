//! Runs over HTTP, the protocol of a workflow host, and MCP beside it.
//!
//! ```text
//!  connection ─► entry: trace, path ─► table ─► exchange: key ─ rate ─ scope ─ body ─► handler ─► host
//!                  └── counted and logged on the way out ◄───── refusals become envelopes ◄──┘
//! ```
//!
//! * `routes` is one table. The router, the OpenAPI document, the methods that a 405 lists and the labels of the metrics are all
//!   generated from it, so they cannot contradict each other.
//! * `exchange` runs the same checks on every request, in the same order. A handler cannot forget one, because it
//!   is only called after them.
//! * `handlers` translate and nothing else.
//! * `origin_policy` decides which web pages may send requests.
//!
//! # Invariants
//! * An error is always `{error, message, details?}`: of a handler, a check or the router.
//! * Whether something exists is disclosed only to callers who may know it.
//! * A key is neither logged nor sent back, and no body is logged.
//! * Everything that is read from a connection is limited in size and time.

mod bodies;
mod body;
mod connections;
mod cursor;
mod denial_audit;
mod discovery;
mod encoding;
mod entry;
mod exchange;
mod handlers;
mod metrics;
mod openapi;
mod origin_policy;
mod pack_registries;
mod pages;
mod query;
mod response;
mod route;
mod routes;
mod serve;
mod state;
mod status;
mod table;
mod test_log;
mod timed;
mod trace;
mod unserved;
mod unversioned;
mod v2;
mod version;
mod write_timeout;

pub use self::discovery::{RunFacts, capability_names};
pub use self::pack_registries::{PackRegistries, PackRegistry};
pub use self::serve::{serve, serve_router};
pub use self::state::{Fixtures, Guides, HttpState, Options, Settings};
pub use self::status::status;

/// Answers one request without a network connection.
pub async fn answer_one(
    HttpState(service): HttpState,
    request: http::Request<axum::body::Body>,
) -> axum::response::Response {
    entry::enter(service, None, request).await
}
