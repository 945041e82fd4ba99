//! Keys and values.

mod embedded;
mod json;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::Scope;
use crate::error::SurfaceError;
use crate::keyed::Stored;
use crate::served::Answer;
use crate::value::value_of;

pub(crate) use self::embedded::sweep;
pub use self::embedded::{EmbeddedKv, MAX_LISTED};
pub use self::json::ServedKv;

/// Keys and values of a tenant.
///
/// # Contract
/// * Keys of one tenant are invisible to every other, by every method.
/// * A change is durable when it returns, and happens once for an effect's identity.
/// * Whatever is over at the moment of the call is as absent as what never was.
/// * `increment` and `compare_and_swap` are atomic: no other change comes between the reading and the writing.
/// * Keys are listed in the order of their bytes.
pub trait Kv: Send + Sync {
    /// The value of a key.
    fn get<'a>(&'a self, scope: &'a Scope, key: &'a str) -> Answer<'a, Option<Entry>>;
    /// Stores a value, for so many milliseconds or for good.
    fn set<'a>(&'a self, scope: &'a Scope, key: String, value: Value, ttl_ms: Option<u64>) -> Answer<'a, ()>;
    /// Removes a key; says whether it was there.
    fn delete<'a>(&'a self, scope: &'a Scope, key: String) -> Answer<'a, bool>;
    /// Keys that begin with a prefix, behind a key where one is given.
    fn list<'a>(&'a self, scope: &'a Scope, page: KeyPage) -> Answer<'a, Keys>;
    /// Adds to an integer; what is absent is 0. The lifetime stays as it was.
    fn increment<'a>(&'a self, scope: &'a Scope, key: String, delta: i64) -> Answer<'a, i64>;
    /// Stores a value if the present one says the same as what is expected; what is absent is null.
    fn compare_and_swap<'a>(&'a self, scope: &'a Scope, key: String, swap: Swap) -> Answer<'a, Swapped>;
}

/// A value and how long it will be there.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The value.
    pub value: Value,
    /// For how many milliseconds; for good where it is nothing.
    pub ttl_remaining_ms: Option<u64>,
}

impl Entry {
    pub(crate) fn of(scope: &Scope, stored: &Stored) -> Result<Self, SurfaceError> {
        let left = stored.expires.map(|expires| expires.saturating_sub(scope.at()));
        let ttl_remaining_ms = left.map(|left| u64::try_from(left).unwrap_or(0));
        Ok(Self { value: value_of(&stored.value)?, ttl_remaining_ms })
    }
}

/// Which keys are listed.
#[derive(Clone, Debug, Default)]
pub struct KeyPage {
    /// What they begin with.
    pub prefix: String,
    /// The last key of the page before.
    pub after: Option<String>,
    /// How many at the most; the port may give fewer.
    pub limit: usize,
}

/// Some keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// In the order of their bytes.
    pub keys: Vec<String>,
    /// Whether there are more behind the last one.
    pub more: bool,
}

/// What is expected, and what takes its place.
#[derive(Clone, Debug)]
pub struct Swap {
    /// The value that has to be there.
    pub expect: Value,
    /// The new one.
    pub set: Value,
    /// For how many milliseconds; for good where it is nothing.
    pub ttl_ms: Option<u64>,
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Swapped {
    /// Whether the new value is there.
    pub swapped: bool,
    /// The value that is there now.
    pub actual: Value,
}
