//! API keys.

use canon::digest::Digest;
use ports::runs::{ApiKeys, Bytes, ReadFuture};
use rusqlite::{Connection, Result};

use crate::sqlite::SqliteRuns;
use crate::sqlite::audit::digest;
use crate::sqlite::query::{bytes, many, one};

impl ApiKeys for SqliteRuns {
    fn api_key(&self, hash: Digest) -> ReadFuture<'_, Option<Bytes>> {
        self.read(move |connection| api_key(connection, hash))
    }

    fn api_keys(&self) -> ReadFuture<'_, Vec<(Digest, Bytes)>> {
        self.read(api_keys)
    }
}

fn api_key(connection: &Connection, hash: Digest) -> Result<Option<Bytes>> {
    let sql = "SELECT document FROM api_keys WHERE hash = ?1";
    one(connection, sql, &[&hash.to_hex().as_bytes()], |row| bytes(row, 0))
}

pub(in crate::sqlite) fn api_keys(connection: &Connection) -> Result<Vec<(Digest, Bytes)>> {
    let sql = "SELECT hash, document FROM api_keys ORDER BY hash";
    many(connection, sql, &[], |row| Ok((digest(&row.get::<_, Vec<u8>>(0)?), bytes(row, 1)?)))
}
