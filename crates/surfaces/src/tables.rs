//! The schema of `surfaces.sqlite3`.
//!
//! The tenant is the first column of every primary key. Indexes that start with a time are only used by the sweep.

use rusqlite::Connection;

use crate::embedded::Schema;

pub const FILE: &str = "surfaces.sqlite3";

/// The maximum number of expired rows of a table that one sweep step removes.
const SWEPT_AT_ONCE: usize = 256;

pub static SCHEMA: Schema = Schema { name: "surfaces", steps: STEPS, prepare: |_| Ok(()), sweep };

const STEPS: &[&str] = &["
    CREATE TABLE usage (
        tenant TEXT NOT NULL,
        surface TEXT NOT NULL,
        items INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (tenant, surface)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE kv (
        tenant TEXT NOT NULL,
        key TEXT NOT NULL,
        value BLOB NOT NULL,
        expires INTEGER,
        PRIMARY KEY (tenant, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX kv_by_expiry ON kv (expires) WHERE expires IS NOT NULL;
    CREATE INDEX kv_of_tenant_by_expiry ON kv (tenant, expires) WHERE expires IS NOT NULL;

    CREATE TABLE cache (
        tenant TEXT NOT NULL,
        key TEXT NOT NULL,
        value BLOB NOT NULL,
        expires INTEGER,
        PRIMARY KEY (tenant, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX cache_by_expiry ON cache (expires) WHERE expires IS NOT NULL;
    CREATE INDEX cache_of_tenant_by_expiry ON cache (tenant, expires) WHERE expires IS NOT NULL;

    CREATE TABLE counters (
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        next INTEGER NOT NULL,
        salt TEXT NOT NULL,
        PRIMARY KEY (tenant, name)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE messages (
        tenant TEXT NOT NULL,
        place INTEGER NOT NULL,
        id TEXT NOT NULL,
        subject TEXT NOT NULL,
        published_at INTEGER NOT NULL,
        deliveries INTEGER NOT NULL,
        lease_until INTEGER,
        consumer TEXT,
        payload BLOB NOT NULL,
        PRIMARY KEY (tenant, place)
    ) STRICT, WITHOUT ROWID;
    -- A message is in one of the two: each of them begins with the next one.
    CREATE INDEX messages_ready ON messages (tenant, subject, place) WHERE lease_until IS NULL;
    CREATE INDEX messages_leased ON messages (tenant, subject, lease_until, place) WHERE lease_until IS NOT NULL;
    CREATE INDEX messages_by_consumer ON messages (tenant, consumer) WHERE consumer IS NOT NULL;

    CREATE TABLE streams (
        tenant TEXT NOT NULL,
        stream TEXT NOT NULL,
        next INTEGER NOT NULL,
        oldest INTEGER NOT NULL,
        salt TEXT NOT NULL,
        PRIMARY KEY (tenant, stream)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE records (
        tenant TEXT NOT NULL,
        stream TEXT NOT NULL,
        place INTEGER NOT NULL,
        published_at INTEGER NOT NULL,
        payload BLOB NOT NULL,
        PRIMARY KEY (tenant, stream, place)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE tables (
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        columns BLOB NOT NULL,
        rows INTEGER NOT NULL,
        PRIMARY KEY (tenant, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE table_rows (
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        id TEXT NOT NULL,
        document BLOB NOT NULL,
        PRIMARY KEY (tenant, name, id)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE objects (
        tenant TEXT NOT NULL,
        bucket TEXT NOT NULL,
        key TEXT NOT NULL,
        digest BLOB NOT NULL,
        size INTEGER NOT NULL,
        content_type TEXT NOT NULL,
        put_at INTEGER NOT NULL,
        PRIMARY KEY (tenant, bucket, key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE contents (
        tenant TEXT NOT NULL,
        digest BLOB NOT NULL,
        size INTEGER NOT NULL,
        objects INTEGER NOT NULL,
        PRIMARY KEY (tenant, digest)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX contents_unused ON contents (tenant, digest) WHERE objects = 0;

    CREATE TABLE fs_begun (
        tenant TEXT NOT NULL,
        effect TEXT NOT NULL,
        staged TEXT NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (tenant, effect)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX fs_begun_by_moment ON fs_begun (at);
"];

fn sweep(connection: &Connection, now: i64) -> rusqlite::Result<bool> {
    let keys = crate::kv::sweep(connection, now, SWEPT_AT_ONCE)?;
    let cached = crate::cache::sweep(connection, now, SWEPT_AT_ONCE)?;
    let begun = crate::fs::sweep(connection, now, SWEPT_AT_ONCE)?;
    Ok(keys || cached || begun)
}
