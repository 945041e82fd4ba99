//! Distinguishes a repeated request from a different one.

use canon::canonical;
use canon::digest::Digest;
use serde_json::Value;

use super::DispatchRequest;
use crate::{Code, Error};

/// The relation of a dispatch to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The key is new: execute the dispatch.
    New,
    /// The same request was made before: return its first response.
    Repeated,
}

/// Compares a dispatch with the record of its key: the [digest](DispatchRequest::digest) of the
/// first request, if any.
///
/// # Errors
/// `DISPATCH_IDEMPOTENCY_CONFLICT` if the key was used for a different request.
pub fn settle(recorded: Option<&str>, request: &DispatchRequest) -> Result<Settled, Error> {
    match recorded {
        None => Ok(Settled::New),
        Some(digest) if digest == request.digest() => Ok(Settled::Repeated),
        Some(digest) => {
            let message = format!(
                "the idempotency key `{}` was already used for a different dispatch",
                request.idempotency_key()
            );
            let conflict = Error::new(Code::DispatchIdempotencyConflict, message);
            Err(conflict.detail("recorded", digest).detail("given", request.digest()))
        }
    }
}

/// The digest of the canonical body.
pub(super) fn digest_of(body: &Value) -> String {
    Digest::of_bytes(canonical::string_of(body).as_bytes()).to_hex()
}
