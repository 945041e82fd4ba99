//! API keys.

use canon::digest::Digest;

use super::{Bytes, ReadFuture};

/// Reads API keys. Only their hashes are stored.
pub trait ApiKeys {
    /// A key, as JSON.
    fn api_key(&self, hash: Digest) -> ReadFuture<'_, Option<Bytes>>;

    /// All keys, in the order of their hashes.
    fn api_keys(&self) -> ReadFuture<'_, Vec<(Digest, Bytes)>>;
}
