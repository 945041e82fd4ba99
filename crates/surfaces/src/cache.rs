//! Cached values.

mod embedded;
mod json;

use serde_json::Value;

use crate::call::Scope;
use crate::kv::Entry;
use crate::served::PortFuture;

pub use self::embedded::EmbeddedCache;
pub(crate) use self::embedded::sweep;
pub use self::json::ServedCache;

/// The default time to live: one minute.
pub const TTL_MS: u64 = 60_000;

/// The cache of a tenant.
///
/// # Contract
///
/// * Values are visible only to their tenant, and not to kv.
/// * Expired values are misses. Values may be evicted earlier.
/// * When the quota is reached, values that expire first are evicted first.
pub trait Cache: Send + Sync {
    fn get<'a>(&'a self, scope: &'a Scope, key: &'a str) -> PortFuture<'a, Option<Entry>>;
    /// Stores a value for some milliseconds.
    fn put<'a>(&'a self, scope: &'a Scope, key: String, value: Value, ttl_ms: u64) -> PortFuture<'a, ()>;
    /// Removes a key; returns whether it existed.
    fn evict<'a>(&'a self, scope: &'a Scope, key: String) -> PortFuture<'a, bool>;
}
