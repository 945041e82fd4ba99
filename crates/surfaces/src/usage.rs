//! Usage of a surface by a tenant, counted in the same commit as the change.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::call::Tenant;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) items: i64,
    pub(crate) bytes: i64,
}

impl Usage {
    pub(crate) const fn new(items: i64, bytes: i64) -> Self {
        Self { items, bytes }
    }

    pub(crate) fn of(connection: &Connection, tenant: &str, surface: &str) -> rusqlite::Result<Self> {
        let found = connection
            .prepare_cached("SELECT items, bytes FROM usage WHERE tenant = ?1 AND surface = ?2")?
            .query_row(params![tenant, surface], |row| Ok(Self { items: row.get(0)?, bytes: row.get(1)? }))
            .optional()?;
        Ok(found.unwrap_or_default())
    }

    /// Adds to the usage and returns the new total.
    pub(crate) fn add(
        self,
        connection: &Connection,
        tenant: &Tenant,
        surface: &str,
    ) -> rusqlite::Result<Self> {
        self.add_to(connection, tenant.as_str(), surface)
    }

    pub(crate) fn add_to(
        self,
        connection: &Connection,
        tenant: &str,
        surface: &str,
    ) -> rusqlite::Result<Self> {
        connection
            .prepare_cached(
                "INSERT INTO usage (tenant, surface, items, bytes) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (tenant, surface) DO UPDATE SET items = items + ?3, bytes = bytes + ?4
                 RETURNING items, bytes",
            )?
            .query_row(params![tenant, surface, self.items, self.bytes], |row| {
                Ok(Self { items: row.get(0)?, bytes: row.get(1)? })
            })
    }

    /// Whether both limits are met.
    pub(crate) fn within(self, items: u64, bytes: u64) -> bool {
        let fits = |count: i64, most: u64| u64::try_from(count).is_ok_and(|count| count <= most);
        fits(self.items, items) && fits(self.bytes, bytes)
    }
}

/// A length as a database integer.
pub(crate) fn signed(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
