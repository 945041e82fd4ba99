//! Cached values in a table of the shared database.

use std::sync::Arc;

use futures_util::FutureExt as _;
use rusqlite::Connection;
use serde_json::Value;

use super::Cache;
use crate::args::check_name;
use crate::call::Scope;
use crate::embedded::{Database, Refused};
use crate::error::{Code, SurfaceError};
use crate::keyed::{Keyed, keyed};
use crate::kv::Entry;
use crate::limits::Limits;
use crate::served::PortFuture;
use crate::usage::Usage;
use crate::value::bytes_of;

const TABLE: Keyed = keyed!("cache");
/// The maximum number of evictions per put. All surfaces share the writer thread on which this runs.
const ROOM: usize = 256;

#[derive(Debug)]
pub struct EmbeddedCache {
    database: Arc<Database>,
    limits: Arc<Limits>,
}

impl EmbeddedCache {
    pub const fn new(database: Arc<Database>, limits: Arc<Limits>) -> Self {
        Self { database, limits }
    }

    fn check_key(&self, key: &str) -> Result<(), SurfaceError> {
        check_name("key", key, self.limits.key_bytes, Code::InvalidArgument)
    }
}

impl Cache for EmbeddedCache {
    fn get<'a>(&'a self, scope: &'a Scope, key: &'a str) -> PortFuture<'a, Option<Entry>> {
        async move {
            self.check_key(key)?;
            let stored = self.database.read(|connection| Ok(TABLE.get(connection, scope, key)?))?;
            stored.map(|stored| Entry::of(scope, &stored)).transpose()
        }
        .boxed()
    }

    fn put<'a>(&'a self, scope: &'a Scope, key: String, value: Value, ttl_ms: u64) -> PortFuture<'a, ()> {
        async move {
            self.check_key(&key)?;
            let (value, most) = (bytes_of(&value), self.limits.value_bytes);
            if value.len() > most {
                let size = value.len();
                let message = format!("the value is {size} bytes as JSON; the limit is {most}");
                return Err(SurfaceError::new(Code::CacheValueTooLarge, message));
            }
            let most = self.limits.cache_ttl_seconds;
            if ttl_ms > most.saturating_mul(1000) {
                let message = format!("the time to live of a cached value is limited to {most} seconds");
                return Err(SurfaceError::new(Code::CacheTtlExceedsMax, message));
            }
            let (at, limits) = (scope.clone(), Arc::clone(&self.limits));
            let expires = scope.expiry(Some(ttl_ms));
            let change = move |connection: &Connection| put(connection, &at, &limits, &key, &value, expires);
            self.database.change(scope, "cache.put", change).await
        }
        .boxed()
    }

    fn evict<'a>(&'a self, scope: &'a Scope, key: String) -> PortFuture<'a, bool> {
        async move {
            self.check_key(&key)?;
            let at = scope.clone();
            let change = move |connection: &Connection| Ok(TABLE.remove(connection, &at, &key)?);
            self.database.change(scope, "cache.evict", change).await
        }
        .boxed()
    }
}

fn put(
    connection: &Connection,
    scope: &Scope,
    limits: &Limits,
    key: &str,
    value: &[u8],
    expires: Option<i64>,
) -> Result<(), Refused> {
    let mut usage = TABLE.put(connection, &scope.tenant, key, value, expires)?.unwrap_or_default();
    for _ in 0..ROOM {
        if usage.within(limits.cache_keys, limits.cache_bytes) {
            return Ok(());
        }
        if TABLE.evict(connection, &scope.tenant, i64::MAX, 1)? == 0 {
            return Ok(());
        }
        usage = Usage::of(connection, scope.tenant.as_str(), TABLE.surface)?;
    }
    if !usage.within(limits.cache_keys, limits.cache_bytes) {
        // Many small values fill the quota. A cache may drop values, so the new value is not stored; the next put
        // evicts more.
        TABLE.remove(connection, scope, key)?;
    }
    Ok(())
}

/// Removes some expired values; returns whether more may be left.
pub(crate) fn sweep(connection: &Connection, now: i64, most: usize) -> rusqlite::Result<bool> {
    TABLE.sweep(connection, now, most)
}
