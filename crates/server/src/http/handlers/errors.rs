//! Error replies for parts of the host that have their own codes.

use axum::response::Response;
use packs::PackError;
use packs::publish::PublishError;
use packs::registry::{PublishRefusal, RegistryError};
use ports::Cause;
use runs::{ApiCode, Refusal};
use serde_json::{Map, Value, json};

use super::super::response;

/// An error reply in the flat form of the protocol.
pub(super) fn flat(status: u16, code: &str, message: &str, details: Map<String, Value>) -> Response {
    let mut body = json!({"error": code, "message": message});
    if !details.is_empty() {
        body["details"] = Value::Object(details);
    }
    response::json(status, &body)
}

/// An error reply in the nested form of the test seams.
pub(super) fn nested(status: u16, code: &str, message: &str) -> Response {
    response::json(status, &json!({"error": {"code": code, "message": message}}))
}

/// The error reply for invalid arguments of a seam.
pub(super) fn invalid_argument(message: &str) -> Response {
    nested(400, "invalid_argument", message)
}

pub(super) fn publish(error: &PublishError) -> Response {
    flat(error.code.http_status(), error.code.as_str(), &error.message, error.details.clone())
}

pub(super) fn registry(error: &RegistryError) -> Response {
    // Disk errors are logged and not sent to callers.
    let status = error.code.http_status();
    if status >= 500 {
        tracing::error!(code = error.code.as_str(), message = error.message, "the registry failed");
        return flat(
            status,
            error.code.as_str(),
            "the registry could not read or write its folder; retry",
            Map::new(),
        );
    }
    flat(status, error.code.as_str(), &error.message, Map::new())
}

pub(super) fn refusal(refusal: &PublishRefusal) -> Response {
    match refusal {
        PublishRefusal::Publish(error) => publish(error),
        PublishRefusal::Registry(error) => registry(error),
    }
}

pub(super) fn pack(error: &PackError) -> Response {
    let status = error.http_status();
    if status >= 500 {
        tracing::error!(code = error.code().as_str(), message = error.message(), "a pack could not be read");
    }
    flat(status, error.code().as_str(), error.message(), error.details().clone())
}

/// Runs blocking work on its own thread: disk access or compression.
pub(super) async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let failed = |error| {
        Refusal::new(ApiCode::InternalError, "the host could not complete the request; retry")
            .because(Cause::new(error))
    };
    tokio::task::spawn_blocking(work).await.map_err(failed)
}
