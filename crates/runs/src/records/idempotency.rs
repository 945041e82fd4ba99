//! Idempotency keys: a request with a key takes effect once, and a repeated request gets the recorded reply.
//!
//! Operations return domain types. A protocol decides how a result is encoded, and so the reply that is recorded for a key. But
//! the reply must be in the commit of the operation; otherwise a crash between the two would repeat the operation. So a
//! protocol passes the function that encodes its reply ([`Written`]). Callers in the same process take the result itself ([`Direct`]).

use std::sync::Arc;

use canon::digest::Digest;
use flow::id::Shard;
use ports::runs::{Bytes, Change, CommitError, RecordedReply, ReplyKey};
use serde_json::Value;

use super::Records;
use crate::{ApiCode, Caller, Refusal, RefusalKind};

/// The maximum length of an idempotency key, in characters.
pub const MAX_KEY_CHARACTERS: usize = 255;

/// A request with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    key: ReplyKey,
    request: Digest,
}

/// An encoded reply of a protocol. The host records it for the idempotency key and does not interpret it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReply {
    pub status: u16,
    pub body: Bytes,
    /// Whether this is a recorded reply.
    pub replayed: bool,
}

/// How the result of an operation is returned to its caller.
pub trait Respond<T>: Send + Sync {
    type Response: Send;

    /// The idempotency key of the request, if it has one.
    fn keyed(&self) -> Option<&Keyed>;

    /// The response that was recorded for the key.
    ///
    /// # Errors
    /// If the key was used for another request, or the store cannot be read.
    fn replayed(
        &self,
        records: &Records,
    ) -> impl Future<Output = Result<Option<Self::Response>, Refusal>> + Send;

    /// The response to a result, and the change that records it in the commit of the operation.
    fn respond(&self, records: &Records, result: T) -> (Self::Response, Option<Change>);
}

/// Returns the result itself, for callers in the same process.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

impl<T: Send> Respond<T> for Direct {
    type Response = T;

    fn keyed(&self) -> Option<&Keyed> {
        None
    }

    async fn replayed(&self, _: &Records) -> Result<Option<T>, Refusal> {
        Ok(None)
    }

    fn respond(&self, _: &Records, result: T) -> (T, Option<Change>) {
        (result, None)
    }
}

/// Returns the result as an encoded reply, which is recorded if the request has an idempotency key.
#[derive(Clone, Copy, Debug)]
pub struct Written<'k, W> {
    pub keyed: Option<&'k Keyed>,
    /// Encodes the reply.
    pub write: W,
}

impl<T, W: Fn(T) -> StoredReply + Send + Sync> Respond<T> for Written<'_, W> {
    type Response = StoredReply;

    fn keyed(&self) -> Option<&Keyed> {
        self.keyed
    }

    async fn replayed(&self, records: &Records) -> Result<Option<StoredReply>, Refusal> {
        records.replay(self.keyed).await
    }

    fn respond(&self, records: &Records, result: T) -> (StoredReply, Option<Change>) {
        let reply = (self.write)(result);
        let recorded = self.keyed.map(|keyed| records.record(keyed, &reply));
        (reply, recorded)
    }
}

impl Keyed {
    /// Creates the key of a request. The body is compared in canonical form: whitespace and the order of members do not matter.
    ///
    /// # Errors
    /// If the key is empty or too long.
    pub fn new(caller: &Caller, endpoint: &str, key: &str, body: &Value) -> Result<Self, Refusal> {
        if key.is_empty() || key.chars().count() > MAX_KEY_CHARACTERS {
            let message = format!("an Idempotency-Key must have 1 to {MAX_KEY_CHARACTERS} characters");
            return Err(Refusal::new(ApiCode::ValidationError, message));
        }
        let request =
            Digest::of_canonical(body).unwrap_or_else(|_| Digest::of_bytes(body.to_string().as_bytes()));
        let key = ReplyKey {
            tenant: caller.tenant.clone(),
            endpoint: endpoint.to_owned(),
            key: Digest::of_bytes(key.as_bytes()),
        };
        Ok(Self { key, request })
    }

    /// The shard of a run that is created with the key.
    pub(crate) fn shard(&self) -> Shard {
        Shard::of_key(&self.key.tenant, self.key.key)
    }
}

impl Records {
    /// The reply that was recorded for the key, if there is one.
    async fn replay(&self, keyed: Option<&Keyed>) -> Result<Option<StoredReply>, Refusal> {
        let Some(keyed) = keyed else { return Ok(None) };
        let Some(recorded) = self.store().reply(&keyed.key).await? else { return Ok(None) };
        if recorded.request != keyed.request {
            let message = "the Idempotency-Key was used for another request; use a new one";
            return Err(Refusal::new(ApiCode::IdempotencyKeyMismatch, message));
        }
        Ok(Some(StoredReply { status: recorded.status, body: recorded.body, replayed: true }))
    }

    /// Whether a reply is recorded for the key.
    ///
    /// # Errors
    /// If the key was used for another request, or the store cannot be read.
    pub async fn has_reply(&self, keyed: &Keyed) -> Result<bool, Refusal> {
        Ok(self.replay(Some(keyed)).await?.is_some())
    }

    /// The response to a request whose commit failed. If a reply is recorded for the key by now, it is the response: another request
    /// with the key was faster, or the commit took effect although its outcome was unknown.
    pub(crate) async fn settle<T, R: Respond<T>>(
        &self,
        error: CommitError,
        respond: &R,
    ) -> Result<R::Response, Refusal> {
        if matches!(error, CommitError::KeyTaken | CommitError::OutcomeUnknown(_))
            && let Some(response) = respond.replayed(self).await?
        {
            return Ok(response);
        }
        Err(error.into())
    }

    /// Commits changes together with the reply for the key of their request.
    pub(crate) async fn commit_response<T, R: Respond<T>>(
        self: &Arc<Self>,
        mut changes: Vec<Change>,
        respond: &R,
        result: T,
    ) -> Result<R::Response, Refusal> {
        let (response, recorded) = respond.respond(self, result);
        changes.extend(recorded);
        if changes.is_empty() {
            return Ok(response);
        }
        match self.commit(changes).await {
            Ok(()) => Ok(response),
            Err(error) => self.settle(error, respond).await,
        }
    }

    /// Concludes a refused request with a key. A refusal that the same request would always get is recorded and returned again.
    /// One that the caller can fix is not. `reply` encodes the refusal in the caller's protocol. If another request with the key was
    /// faster, its reply is the response.
    ///
    /// # Errors
    /// The refusal itself, unless a reply was recorded for the key. Also if the key was used for another request.
    pub async fn conclude(
        self: &Arc<Self>,
        keyed: &Keyed,
        refusal: Refusal,
        reply: impl FnOnce(&Refusal) -> StoredReply,
    ) -> Result<StoredReply, Refusal> {
        if !refusal.is_final() {
            // A body is parsed before its key is looked up. A mismatched key takes precedence over an invalid body.
            let is_invalid = refusal.code.kind() == RefusalKind::Invalid;
            let recorded = if is_invalid { self.replay(Some(keyed)).await? } else { None };
            return recorded.ok_or(refusal);
        }
        match self.commit(vec![self.record(keyed, &reply(&refusal))]).await {
            Err(CommitError::KeyTaken) => match self.replay(Some(keyed)).await {
                Ok(Some(recorded)) => Ok(recorded),
                Ok(None) | Err(_) => Err(refusal),
            },
            // If the refusal could not be recorded, a repeated request is evaluated again.
            Ok(()) | Err(_) => Err(refusal),
        }
    }

    /// The change that records a reply for a key.
    fn record(&self, keyed: &Keyed, reply: &StoredReply) -> Change {
        let (request, status, body) = (keyed.request, reply.status, reply.body.clone());
        let reply = RecordedReply { request, status, body, at: self.now() };
        Change::RecordReply { key: keyed.key.clone(), reply }
    }
}
