//! Telling a repetition from another request.

use canon::canonical;
use canon::digest::Digest;
use serde_json::Value;

use super::DispatchRequest;
use crate::{Code, Error};

/// What a dispatch is, with regard to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The key was never used: it is to be done.
    New,
    /// The same request came before: its first answer is the answer.
    Repeated,
}

/// Compares a dispatch with what is recorded under its key: the [digest](DispatchRequest::digest) of the first request,
/// or nothing.
///
/// # Errors
/// `DISPATCH_IDEMPOTENCY_CONFLICT` when the key was used for another request.
pub fn settle(recorded: Option<&str>, request: &DispatchRequest) -> Result<Settled, Error> {
    match recorded {
        None => Ok(Settled::New),
        Some(digest) if digest == request.digest() => Ok(Settled::Repeated),
        Some(digest) => {
            let message = format!("the key `{}` was used for another dispatch", request.idempotency_key());
            let conflict = Error::new(Code::DispatchIdempotencyConflict, message);
            Err(conflict.detail("recorded", digest).detail("given", request.digest()))
        }
    }
}

/// The digest of the canonical form of a body that is not nested too deeply.
pub(super) fn digest_of(body: &Value) -> String {
    Digest::of_bytes(canonical::string_of(body).as_bytes()).to_hex()
}
