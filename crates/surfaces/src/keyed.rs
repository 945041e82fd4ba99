//! Values by key with an expiry: the storage of kv and cache.
//!
//! Each has its own table, so neither can see keys of the other.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::call::{Scope, Tenant};
use crate::embedded::Refused;
use crate::usage::{Usage, signed};

/// A value and its expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) value: Vec<u8>,
    pub(crate) expires: Option<i64>,
}

/// The statements of one table.
pub(crate) struct Keyed {
    pub(crate) surface: &'static str,
    get: &'static str,
    size: &'static str,
    put: &'static str,
    remove: &'static str,
    expired: &'static str,
    oldest: &'static str,
    oldest_of: &'static str,
}

macro_rules! keyed {
    ($table:literal) => {
        $crate::keyed::Keyed::new(
            $table,
            concat!("SELECT value, expires FROM ", $table, " WHERE tenant = ?1 AND key = ?2"),
            concat!("SELECT length(value) FROM ", $table, " WHERE tenant = ?1 AND key = ?2"),
            concat!(
                "INSERT INTO ", $table, " (tenant, key, value, expires) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (tenant, key) DO UPDATE SET value = excluded.value, expires = excluded.expires"
            ),
            concat!("DELETE FROM ", $table, " WHERE tenant = ?1 AND key = ?2"),
            concat!(
                "SELECT expires IS NOT NULL AND expires <= ?3 FROM ", $table, " WHERE tenant = ?1 AND key = ?2"
            ),
            concat!("SELECT tenant, key FROM ", $table, " WHERE expires <= ?1 ORDER BY expires LIMIT ?2"),
            concat!(
                "SELECT key FROM ", $table,
                " WHERE tenant = ?1 AND expires IS NOT NULL AND expires <= ?2 ORDER BY expires LIMIT ?3"
            ),
        )
    };
}
pub(crate) use keyed;

impl Keyed {
    #[expect(clippy::too_many_arguments, reason = "called by one macro that names the arguments")]
    pub(crate) const fn new(
        surface: &'static str,
        get: &'static str,
        size: &'static str,
        put: &'static str,
        remove: &'static str,
        expired: &'static str,
        oldest: &'static str,
        oldest_of: &'static str,
    ) -> Self {
        Self { surface, get, size, put, remove, expired, oldest, oldest_of }
    }

    /// The value, unless it is expired.
    pub(crate) fn get(
        &self,
        connection: &Connection,
        scope: &Scope,
        key: &str,
    ) -> rusqlite::Result<Option<Stored>> {
        let found = connection
            .prepare_cached(self.get)?
            .query_row(params![scope.tenant.as_str(), key], |row| {
                Ok(Stored { value: row.get(0)?, expires: row.get(1)? })
            })
            .optional()?;
        Ok(found.filter(|stored| stored.expires.is_none_or(|expires| expires > scope.at())))
    }

    /// Stores a value and returns the tenant's usage afterwards; `None` if it did not grow.
    pub(crate) fn put(
        &self,
        connection: &Connection,
        tenant: &Tenant,
        key: &str,
        value: &[u8],
        expires: Option<i64>,
    ) -> rusqlite::Result<Option<Usage>> {
        let before = self.size(connection, tenant.as_str(), key)?;
        connection.prepare_cached(self.put)?.execute(params![tenant.as_str(), key, value, expires])?;
        let growth = match before {
            None => Usage::new(1, signed(key.len() + value.len())),
            Some(size) => Usage::new(0, signed(value.len()) - size),
        };
        if growth == Usage::default() {
            return Ok(None);
        }
        let now = growth.add(connection, tenant, self.surface)?;
        Ok((growth.items > 0 || growth.bytes > 0).then_some(now))
    }

    /// Removes a key and returns whether it existed and was not expired.
    pub(crate) fn remove(&self, connection: &Connection, scope: &Scope, key: &str) -> rusqlite::Result<bool> {
        let over: Option<bool> = connection
            .prepare_cached(self.expired)?
            .query_row(params![scope.tenant.as_str(), key, scope.at()], |row| row.get(0))
            .optional()?;
        let Some(over) = over else { return Ok(false) };
        self.forget(connection, scope.tenant.as_str(), key)?;
        Ok(!over)
    }

    /// Removes some expired values; returns whether more may be left.
    pub(crate) fn sweep(&self, connection: &Connection, now: i64, most: usize) -> rusqlite::Result<bool> {
        let mut statement = connection.prepare_cached(self.oldest)?;
        let rows = statement.query_map(params![now, most], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let keys: Vec<(String, String)> = rows.collect::<rusqlite::Result<_>>()?;
        for (tenant, key) in &keys {
            self.forget(connection, tenant, key)?;
        }
        Ok(keys.len() == most)
    }

    /// Removes some expired keys of a tenant, the earliest first. Returns how many.
    pub(crate) fn evict(
        &self,
        connection: &Connection,
        tenant: &Tenant,
        until: i64,
        most: usize,
    ) -> Result<usize, Refused> {
        let mut statement = connection.prepare_cached(self.oldest_of)?;
        let rows = statement.query_map(params![tenant.as_str(), until, most], |row| row.get(0))?;
        let keys: Vec<String> = rows.collect::<rusqlite::Result<_>>()?;
        for key in &keys {
            self.forget(connection, tenant.as_str(), key)?;
        }
        Ok(keys.len())
    }

    fn size(&self, connection: &Connection, tenant: &str, key: &str) -> rusqlite::Result<Option<i64>> {
        connection.prepare_cached(self.size)?.query_row(params![tenant, key], |row| row.get(0)).optional()
    }

    fn forget(&self, connection: &Connection, tenant: &str, key: &str) -> rusqlite::Result<()> {
        let Some(size) = self.size(connection, tenant, key)? else { return Ok(()) };
        connection.prepare_cached(self.remove)?.execute(params![tenant, key])?;
        Usage::new(-1, -(signed(key.len()) + size)).add_to(connection, tenant, self.surface)?;
        Ok(())
    }
}
