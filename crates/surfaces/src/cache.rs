//! Values that may be forgotten.

mod embedded;
mod json;

use serde_json::Value;

use crate::call::Scope;
use crate::kv::Entry;
use crate::served::Answer;

pub use self::embedded::EmbeddedCache;
pub(crate) use self::embedded::sweep;
pub use self::json::ServedCache;

/// How long a value is kept where nothing is said: a minute.
pub const TTL_MS: u64 = 60_000;

/// Values of a tenant that may be forgotten before their time, and never after it are there.
///
/// # Contract
/// * Values of one tenant are invisible to every other, and to kv.
/// * What is over at the moment of the call is a miss.
/// * When a tenant has as much as it may have, what would be over first is forgotten first.
pub trait Cache: Send + Sync {
    /// The value of a key.
    fn get<'a>(&'a self, scope: &'a Scope, key: &'a str) -> Answer<'a, Option<Entry>>;
    /// Stores a value for so many milliseconds.
    fn put<'a>(&'a self, scope: &'a Scope, key: String, value: Value, ttl_ms: u64) -> Answer<'a, ()>;
    /// Forgets a key; says whether it was there.
    fn evict<'a>(&'a self, scope: &'a Scope, key: String) -> Answer<'a, bool>;
}
