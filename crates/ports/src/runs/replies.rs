//! Replies that are recorded for idempotency keys.

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::Tenant;

use super::{Bytes, ReadFuture};

/// Reads recorded replies.
pub trait Replies {
    /// The reply that was recorded for a key.
    fn reply(&self, key: &ReplyKey) -> ReadFuture<'_, Option<RecordedReply>>;
}

/// What identifies a request that may be repeated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReplyKey {
    pub tenant: Tenant,
    /// Method and path.
    pub endpoint: String,
    /// The digest of the client's idempotency key. The key itself is not stored.
    pub key: Digest,
}

/// A reply, recorded in the commit of its request and repeated for the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedReply {
    /// The digest of the canonical request body, to detect a key that is used for another request.
    pub request: Digest,
    /// The status, as the protocol defines it.
    pub status: u16,
    pub body: Bytes,
    pub at: Timestamp,
}
