//! The keys that tokens are signed with.

use std::fmt::Debug;

use guide::token::Keyring;

use super::StoreFuture;

/// The keyring of a store. Every call reads it, so a rotation by another process takes effect at once.
pub trait SessionKeys: Debug + Send + Sync {
    /// The keys; `None` before the first session.
    fn keyring(&self) -> StoreFuture<'_, Option<Keyring>>;

    /// The keys, created from `entropy` if there are none. Of several callers at once, all get the same keys or `Busy`.
    fn keyring_or_create(&self, entropy: [u8; 32]) -> StoreFuture<'_, Keyring>;

    /// Makes a key from `entropy` the current one, and the current one the previous one. Tokens signed with the former
    /// previous key are no longer accepted.
    fn rotate_keys(&self, entropy: [u8; 32]) -> StoreFuture<'_, Keyring>;
}
