//! A request with a key is answered once, and the same again.

use canon::digest::Digest;
use flow::id::Shard;
use flow::store::{Answer, AnswerKey, Bytes, Change, CommitError};
use serde::Serialize;
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
    pub fn new(status: u16, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("names are texts, so nothing can be refused");
        Self { status, body: body.into(), replayed: false }
    }

    /// An answer without a body.
    pub fn empty(status: u16) -> Self {
        Self { status, body: Bytes::from([]), replayed: false }
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

    /// The shard of a run that is created under the key.
    pub(super) fn shard(&self) -> Shard {
        Shard::of_key(&self.key.tenant, self.key.key)
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

    /// Ends a request with a key that was refused. A refusal that the same request would always meet is recorded, and given again;
    /// one that may be mended is not. `reply` writes the answer in the caller's protocol. Where another request with the key was quicker,
    /// its answer is ours.
    ///
    /// # Errors
    /// The refusal itself, always: only the answer of somebody quicker is none.
    pub async fn conclude(
        &self,
        keyed: &Keyed,
        refusal: Refusal,
        reply: impl FnOnce(&Refusal) -> Reply,
    ) -> Result<Reply, Refusal> {
        if !refusal.is_final() {
            return Err(refusal);
        }
        let reply = reply(&refusal);
        let Some(answer) = self.record(Some(keyed), &reply) else { return Err(refusal) };
        match self.commit(vec![answer]).await {
            Err(CommitError::KeyTaken) => match self.replay(Some(keyed)) {
                Ok(Some(recorded)) => Ok(recorded),
                Ok(None) | Err(_) => Err(refusal),
            },
            // What could not be recorded is found out again by whoever asks again.
            Ok(()) | Err(_) => Err(refusal),
        }
    }

    /// What records the answer, in the commit of what was asked for.
    pub(super) fn record(&self, keyed: Option<&Keyed>, reply: &Reply) -> Option<Change> {
        let keyed = keyed?;
        let answer =
            Answer { request: keyed.request, status: reply.status, body: reply.body.clone(), at: self.now() };
        Some(Change::PutAnswer { key: keyed.key.clone(), answer })
    }
}
