//! A request with a key is answered once, and the same again.
//!
//! Operations return domain types. How a result is written is the business of a protocol, and so is the reply that is kept for a key. But
//! the reply has to be in the commit of the operation, or a crash between the two would make the operation happen twice. So a
//! protocol passes the function that writes its reply ([`Written`]), and callers inside the process take the result as it is ([`Direct`]).

use canon::digest::Digest;
use flow::id::Shard;
use ports::runs::{Bytes, Change, CommitError, RecordedReply, ReplyKey};
use serde_json::Value;

use super::{ApiCode, Caller, Refusal, RefusalKind, Runs};

/// The longest key of a caller, in characters.
pub const MAX_KEY_CHARACTERS: usize = 255;

/// A request that has a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    key: ReplyKey,
    request: Digest,
}

/// A reply as a protocol wrote it. The host keeps it for the key of its request and never looks into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReply {
    pub status: u16,
    pub body: Bytes,
    /// Whether it was recorded before.
    pub replayed: bool,
}

/// How the result of an operation gets to its caller.
pub trait Respond<T>: Send + Sync {
    type Response: Send;

    /// The key of the request, where it has one.
    fn keyed(&self) -> Option<&Keyed>;

    /// The response that was recorded for the key.
    ///
    /// # Errors
    /// When the key was used for another request, or the store cannot be read.
    fn replayed(&self, runs: &Runs) -> impl Future<Output = Result<Option<Self::Response>, Refusal>> + Send;

    /// The response to a result, and the change that records it in the commit of the operation.
    fn respond(&self, runs: &Runs, result: T) -> (Self::Response, Option<Change>);
}

/// The result as it is, for callers inside the process.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

impl<T: Send> Respond<T> for Direct {
    type Response = T;

    fn keyed(&self) -> Option<&Keyed> {
        None
    }

    async fn replayed(&self, _: &Runs) -> Result<Option<T>, Refusal> {
        Ok(None)
    }

    fn respond(&self, _: &Runs, result: T) -> (T, Option<Change>) {
        (result, None)
    }
}

/// The result as a reply of a protocol, recorded where the request has a key.
#[derive(Clone, Copy, Debug)]
pub struct Written<'k, W> {
    pub keyed: Option<&'k Keyed>,
    /// Writes the reply to a result.
    pub write: W,
}

impl<T, W: Fn(T) -> StoredReply + Send + Sync> Respond<T> for Written<'_, W> {
    type Response = StoredReply;

    fn keyed(&self) -> Option<&Keyed> {
        self.keyed
    }

    async fn replayed(&self, runs: &Runs) -> Result<Option<StoredReply>, Refusal> {
        runs.replay(self.keyed).await
    }

    fn respond(&self, runs: &Runs, result: T) -> (StoredReply, Option<Change>) {
        let reply = (self.write)(result);
        let recorded = self.keyed.map(|keyed| runs.record(keyed, &reply));
        (reply, recorded)
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
        let key = ReplyKey {
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
    /// The reply that was recorded for the key, where there is one.
    async fn replay(&self, keyed: Option<&Keyed>) -> Result<Option<StoredReply>, Refusal> {
        let Some(keyed) = keyed else { return Ok(None) };
        let Some(recorded) = self.store().reply(&keyed.key).await? else { return Ok(None) };
        if recorded.request != keyed.request {
            let message = "the Idempotency-Key was used for another request; use a new one";
            return Err(Refusal::new(ApiCode::IdempotencyKeyMismatch, message));
        }
        Ok(Some(StoredReply { status: recorded.status, body: recorded.body, replayed: true }))
    }

    /// The response to a request whose commit failed. If the key has a reply by now, that is the response: another request with the
    /// key was faster, or the commit did take effect although its outcome was unknown.
    pub(super) async fn settle<T, R: Respond<T>>(
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
    pub(super) async fn commit_response<T, R: Respond<T>>(
        &self,
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

    /// Ends a request with a key that was refused. A refusal that the same request would always get is recorded, and given again;
    /// one that the caller can correct is not. `reply` writes the refusal in the caller's protocol. Where another request with the key was
    /// quicker, its reply is the response.
    ///
    /// # Errors
    /// The refusal itself, unless a reply was recorded for the key, or the key was used for another request.
    pub async fn conclude(
        &self,
        keyed: &Keyed,
        refusal: Refusal,
        reply: impl FnOnce(&Refusal) -> StoredReply,
    ) -> Result<StoredReply, Refusal> {
        if !refusal.is_final() {
            // A body is read before its key is looked up. That the key belongs to another request matters more than what is wrong with the body.
            let is_invalid = refusal.code.kind() == RefusalKind::Invalid;
            let recorded = if is_invalid { self.replay(Some(keyed)).await? } else { None };
            return recorded.ok_or(refusal);
        }
        match self.commit(vec![self.record(keyed, &reply(&refusal))]).await {
            Err(CommitError::KeyTaken) => match self.replay(Some(keyed)).await {
                Ok(Some(recorded)) => Ok(recorded),
                Ok(None) | Err(_) => Err(refusal),
            },
            // What could not be recorded is found out again when the request is repeated.
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
