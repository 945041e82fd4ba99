//! A request with a key is answered once, and the same again.

use canon::digest::Digest;
use flow::store::{Answer, AnswerKey, Bytes, Change};
use serde_json::Value;

use super::{ApiCode, Caller, Refusal, Runs};

/// The longest key of a caller, in characters.
pub const MAX_KEY_CHARACTERS: usize = 255;

/// A request that has a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    key: AnswerKey,
    request: Digest,
}

/// What a caller is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The body, as JSON.
    pub body: Bytes,
    /// Whether it was recorded before.
    pub replayed: bool,
}

impl Reply {
    /// An answer that was just made.
    pub fn new(status: u16, body: &Value) -> Self {
        Self { status, body: body.to_string().into_bytes().into(), replayed: false }
    }
}

impl Keyed {
    /// A request under a caller's key. The body is taken canonically, so that white space and the order of members do not count.
    ///
    /// # Errors
    /// When the key is too long, or empty.
    pub fn new(caller: &Caller, endpoint: &str, key: &str, body: &Value) -> Result<Self, Refusal> {
        if key.is_empty() || key.chars().count() > MAX_KEY_CHARACTERS {
            let message = format!("an Idempotency-Key has 1 to {MAX_KEY_CHARACTERS} characters");
            return Err(Refusal::new(ApiCode::ValidationError, message));
        }
        let request =
            Digest::of_canonical(body).unwrap_or_else(|_| Digest::of_bytes(body.to_string().as_bytes()));
        let key = AnswerKey {
            tenant: caller.tenant.clone(),
            endpoint: endpoint.to_owned(),
            key: Digest::of_bytes(key.as_bytes()),
        };
        Ok(Self { key, request })
    }
}

impl Runs {
    /// The answer that was recorded for the key, where there is one.
    pub(super) fn replay(&self, keyed: Option<&Keyed>) -> Result<Option<Reply>, Refusal> {
        let Some(keyed) = keyed else { return Ok(None) };
        let Some(answer) = self.store().answer(&keyed.key)? else { return Ok(None) };
        if answer.request != keyed.request {
            let message = "the Idempotency-Key was used for another request; use a new one";
            return Err(Refusal::new(ApiCode::IdempotencyKeyMismatch, message));
        }
        Ok(Some(Reply { status: answer.status, body: answer.body, replayed: true }))
    }

    /// What records the answer, in the commit of what was asked for.
    pub(super) fn record(&self, keyed: Option<&Keyed>, reply: &Reply) -> Option<Change> {
        let keyed = keyed?;
        let answer =
            Answer { request: keyed.request, status: reply.status, body: reply.body.clone(), at: self.now() };
        Some(Change::PutAnswer { key: keyed.key.clone(), answer })
    }
}
