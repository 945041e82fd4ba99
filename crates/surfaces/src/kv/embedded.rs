//! Keys and values in the shared database.

use std::sync::Arc;

use futures_util::FutureExt as _;
use rusqlite::{Connection, params};
use serde_json::Value;

use super::{Entry, KeyPage, Keys, Kv, Swap, Swapped};
use crate::args::{check_name, refuse};
use crate::call::{Scope, Tenant};
use crate::embedded::{Database, Refused};
use crate::error::{Code, SurfaceError};
use crate::keyed::{Keyed, keyed};
use crate::limits::Limits;
use crate::prefix;
use crate::served::PortFuture;
use crate::usage::Usage;
use crate::value::{bytes_of, same, value_of};

const TABLE: Keyed = keyed!("kv");
/// The maximum number of keys in one listing.
pub const MAX_LISTED: usize = 1000;
/// The maximum number of expired keys removed to make room for a tenant at its quota.
const ROOM: usize = 1024;

#[derive(Debug)]
pub struct EmbeddedKv {
    database: Arc<Database>,
    limits: Arc<Limits>,
}

impl EmbeddedKv {
    pub const fn new(database: Arc<Database>, limits: Arc<Limits>) -> Self {
        Self { database, limits }
    }

    fn check_key(&self, key: &str) -> Result<(), SurfaceError> {
        check_name("key", key, self.limits.key_bytes, Code::KvKeyTooLarge)
    }

    fn check_ttl(&self, ttl_ms: Option<u64>) -> Result<(), SurfaceError> {
        let most = self.limits.kv_ttl_seconds;
        if ttl_ms.is_some_and(|ttl| ttl > most.saturating_mul(1000)) {
            return Err(SurfaceError::new(
                Code::KvTtlExceedsMax,
                format!("the time to live of a key is limited to {most} seconds"),
            ));
        }
        Ok(())
    }
}

impl Kv for EmbeddedKv {
    fn get<'a>(&'a self, scope: &'a Scope, key: &'a str) -> PortFuture<'a, Option<Entry>> {
        async move {
            self.check_key(key)?;
            let stored = self.database.read(|connection| Ok(TABLE.get(connection, scope, key)?))?;
            stored.map(|stored| Entry::of(scope, &stored)).transpose()
        }
        .boxed()
    }

    fn set<'a>(
        &'a self,
        scope: &'a Scope,
        key: String,
        value: Value,
        ttl_ms: Option<u64>,
    ) -> PortFuture<'a, ()> {
        async move {
            self.check_key(&key)?;
            self.check_ttl(ttl_ms)?;
            let value = checked(&self.limits, &value)?;
            let expires = scope.expiry(ttl_ms);
            let (at, limits) = (scope.clone(), Arc::clone(&self.limits));
            let change = move |connection: &Connection| put(connection, &at, &limits, &key, &value, expires);
            self.database.change(scope, "kv.set", change).await
        }
        .boxed()
    }

    fn delete<'a>(&'a self, scope: &'a Scope, key: String) -> PortFuture<'a, bool> {
        async move {
            self.check_key(&key)?;
            let at = scope.clone();
            let change = move |connection: &Connection| Ok(TABLE.remove(connection, &at, &key)?);
            self.database.change(scope, "kv.delete", change).await
        }
        .boxed()
    }

    fn list<'a>(&'a self, scope: &'a Scope, page: KeyPage) -> PortFuture<'a, Keys> {
        let at = scope.clone();
        self.database.read_blocking(move |connection| Ok(list(connection, &at, &page)?)).boxed()
    }

    fn increment<'a>(&'a self, scope: &'a Scope, key: String, delta: i64) -> PortFuture<'a, i64> {
        async move {
            self.check_key(&key)?;
            let (at, limits) = (scope.clone(), Arc::clone(&self.limits));
            let change = move |connection: &Connection| {
                let stored = TABLE.get(connection, &at, &key)?;
                let expires = stored.as_ref().and_then(|stored| stored.expires);
                let before = stored.map_or(Ok(Value::from(0)), |stored| value_of(&stored.value))?;
                let Some(before) = before.as_i64() else {
                    return Err(refuse("the value of `key` is not a 64-bit integer").into());
                };
                let Some(after) = before.checked_add(delta) else {
                    return Err(refuse("the sum exceeds 64 bits; the value was not changed").into());
                };
                put(connection, &at, &limits, &key, &bytes_of(&after.into()), expires)?;
                Ok(after)
            };
            self.database.change(scope, "kv.atomicIncrement", change).await
        }
        .boxed()
    }

    fn compare_and_swap<'a>(&'a self, scope: &'a Scope, key: String, swap: Swap) -> PortFuture<'a, Swapped> {
        async move {
            self.check_key(&key)?;
            self.check_ttl(swap.ttl_ms)?;
            let value = checked(&self.limits, &swap.set)?;
            let expires = scope.expiry(swap.ttl_ms);
            let (at, limits) = (scope.clone(), Arc::clone(&self.limits));
            let change = move |connection: &Connection| {
                let stored = TABLE.get(connection, &at, &key)?;
                let actual = stored.map_or(Ok(Value::Null), |stored| value_of(&stored.value))?;
                if !same(&actual, &swap.expect) {
                    return Ok(Swapped { swapped: false, actual });
                }
                put(connection, &at, &limits, &key, &value, expires)?;
                Ok(Swapped { swapped: true, actual: swap.set.clone() })
            };
            self.database.change(scope, "kv.cas", change).await
        }
        .boxed()
    }
}

/// Serializes a value and checks its size.
fn checked(limits: &Limits, value: &Value) -> Result<Vec<u8>, SurfaceError> {
    let bytes = bytes_of(value);
    if bytes.len() > limits.value_bytes {
        let (size, most) = (bytes.len(), limits.value_bytes);
        let message =
            format!("the value is {size} bytes as JSON; the limit is {most}; use blob for larger values");
        return Err(SurfaceError::new(Code::KvValueTooLarge, message));
    }
    Ok(bytes)
}

fn put(
    connection: &Connection,
    scope: &Scope,
    limits: &Limits,
    key: &str,
    value: &[u8],
    expires: Option<i64>,
) -> Result<(), Refused> {
    let Some(usage) = TABLE.put(connection, &scope.tenant, key, value, expires)? else { return Ok(()) };
    let fits = |usage: Usage| usage.within(limits.kv_keys, limits.kv_bytes);
    if fits(usage) {
        return Ok(());
    }
    TABLE.evict(connection, &scope.tenant, scope.at(), ROOM)?;
    if fits(Usage::of(connection, scope.tenant.as_str(), TABLE.surface)?) {
        return Ok(());
    }
    Err(exhausted(&scope.tenant, limits).into())
}

fn exhausted(tenant: &Tenant, limits: &Limits) -> SurfaceError {
    let (keys, bytes) = (limits.kv_keys, limits.kv_bytes);
    let message =
        format!("the quota of {} is {keys} keys and {bytes} bytes; delete some keys first", tenant.as_str());
    SurfaceError::new(Code::KvQuotaExhausted, message)
}

fn list(connection: &Connection, scope: &Scope, page: &KeyPage) -> rusqlite::Result<Keys> {
    let limit = page.limit.clamp(1, MAX_LISTED);
    // Starts after the last key of the previous page, or at the prefix.
    let (from, is_behind) = match &page.after {
        Some(after) if after.as_str() >= page.prefix.as_str() => (after.as_str(), true),
        _ => (page.prefix.as_str(), false),
    };
    let until = prefix::successor(&page.prefix);
    let mut statement = connection.prepare_cached(
        "SELECT key FROM kv WHERE tenant = ?1 AND key >= ?2 AND (?3 IS NULL OR key < ?3)
             AND (NOT ?4 OR key > ?2) AND (expires IS NULL OR expires > ?5) ORDER BY key LIMIT ?6",
    )?;
    let bound = params![scope.tenant.as_str(), from, until, is_behind, scope.at(), limit + 1];
    let mut keys =
        statement.query_map(bound, |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    let more = keys.len() > limit;
    keys.truncate(limit);
    Ok(Keys { keys, more })
}

/// Removes some expired keys; returns whether more may be left.
pub(crate) fn sweep(connection: &Connection, now: i64, most: usize) -> rusqlite::Result<bool> {
    TABLE.sweep(connection, now, most)
}
