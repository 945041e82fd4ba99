//! Keys and values.

mod embedded;
mod json;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::Scope;
use crate::error::SurfaceError;
use crate::keyed::Stored;
use crate::served::PortFuture;
use crate::value::value_of;

pub(crate) use self::embedded::sweep;
pub use self::embedded::{EmbeddedKv, MAX_LISTED};
pub use self::json::ServedKv;

/// The key-value store of a tenant.
///
/// # Contract
///
/// * Keys are visible only to their tenant.
/// * A change is durable when the call returns, and is applied once per effect id.
/// * Expired keys do not exist.
/// * `increment` and `compare_and_swap` are atomic.
/// * Keys are listed in byte order.
pub trait Kv: Send + Sync {
    fn get<'a>(&'a self, scope: &'a Scope, key: &'a str) -> PortFuture<'a, Option<Entry>>;
    /// Stores a value, with an optional time to live in milliseconds.
    fn set<'a>(
        &'a self,
        scope: &'a Scope,
        key: String,
        value: Value,
        ttl_ms: Option<u64>,
    ) -> PortFuture<'a, ()>;
    /// Removes a key; returns whether it existed.
    fn delete<'a>(&'a self, scope: &'a Scope, key: String) -> PortFuture<'a, bool>;
    /// Keys with a prefix, after an optional key.
    fn list<'a>(&'a self, scope: &'a Scope, page: KeyPage) -> PortFuture<'a, Keys>;
    /// Adds to an integer; a missing key counts as 0. The time to live does not change.
    fn increment<'a>(&'a self, scope: &'a Scope, key: String, delta: i64) -> PortFuture<'a, i64>;
    /// Stores a value if the current one equals `expect`; a missing key counts as null.
    fn compare_and_swap<'a>(&'a self, scope: &'a Scope, key: String, swap: Swap) -> PortFuture<'a, Swapped>;
}

/// A value and its remaining time to live.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub value: Value,
    /// In milliseconds; `None` if it does not expire.
    pub ttl_remaining_ms: Option<u64>,
}

impl Entry {
    pub(crate) fn of(scope: &Scope, stored: &Stored) -> Result<Self, SurfaceError> {
        let left = stored.expires.map(|expires| expires.saturating_sub(scope.at()));
        let ttl_remaining_ms = left.map(|left| u64::try_from(left).unwrap_or(0));
        Ok(Self { value: value_of(&stored.value)?, ttl_remaining_ms })
    }
}

/// A listing request.
#[derive(Clone, Debug, Default)]
pub struct KeyPage {
    pub prefix: String,
    /// The last key of the previous page.
    pub after: Option<String>,
    /// The maximum number of keys; the port may return fewer.
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// In byte order.
    pub keys: Vec<String>,
    /// Whether more keys follow.
    pub more: bool,
}

/// A compare-and-swap request.
#[derive(Clone, Debug)]
pub struct Swap {
    /// The expected current value.
    pub expect: Value,
    pub set: Value,
    /// Time to live in milliseconds; `None` means no expiry.
    pub ttl_ms: Option<u64>,
}

/// The result of a compare-and-swap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Swapped {
    pub swapped: bool,
    /// The value after the call.
    pub actual: Value,
}
