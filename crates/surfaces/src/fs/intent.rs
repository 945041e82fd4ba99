//! Exactly-once effects on files.
//!
//! A file is not part of a transaction, so a file change with an effect id takes these steps, each durable before the
//! next:
//!
//! ```text
//!   write    1 stage the bytes   2 record the start (row)   3 rename staged ─► path   4 store the result, remove the row
//!   delete                       1 record the start (row)   2 rename path ─► staged   3 store the result, remove the row
//! ```
//!
//! A rename is atomic, and the staged file shows whether it happened: after a crash, a started write is done if nothing
//! is staged, and a started delete is done if something is. The effect therefore resumes where it stopped and is
//! applied once.

use rusqlite::{Connection, OptionalExtension as _, params};
use sha2::{Digest as _, Sha256};

use crate::call::Scope;
use crate::embedded::{RETENTION_MS, Refused};

/// The staged file name of an effect.
pub(super) fn staged_name(scope: &Scope, op: &str, effect: &str) -> String {
    let mut hash = Sha256::new();
    for part in [scope.tenant.as_str(), op, effect] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    canon::encoding::hex(&hash.finalize())
}

/// Whether the effect was started.
pub(super) fn is_begun(connection: &Connection, scope: &Scope, staged: &str) -> Result<bool, Refused> {
    let found: Option<String> = connection
        .prepare_cached("SELECT staged FROM fs_begun WHERE tenant = ?1 AND effect = ?2")?
        .query_row(params![scope.tenant.as_str(), scope.effect], |row| row.get(0))
        .optional()?;
    Ok(found.as_deref() == Some(staged))
}

/// Records the start of the effect.
pub(super) fn begin(connection: &Connection, scope: &Scope, staged: &str) -> Result<(), Refused> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO fs_begun (tenant, effect, staged, at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![scope.tenant.as_str(), scope.effect, staged, scope.at()])?;
    Ok(())
}

/// Removes the start record; the result is stored in the same commit.
pub(super) fn end(connection: &Connection, scope: &Scope) -> Result<(), Refused> {
    if scope.effect.is_some() {
        connection
            .prepare_cached("DELETE FROM fs_begun WHERE tenant = ?1 AND effect = ?2")?
            .execute(params![scope.tenant.as_str(), scope.effect])?;
    }
    Ok(())
}

/// The staged names of all unfinished effects.
pub(super) fn all_begun(connection: &Connection) -> Result<std::collections::BTreeSet<String>, Refused> {
    let mut statement = connection.prepare("SELECT staged FROM fs_begun")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Removes some start records that are too old to be resumed; returns whether more may be left.
pub(crate) fn sweep(connection: &Connection, now: i64, most: usize) -> rusqlite::Result<bool> {
    let before = now.saturating_sub(i64::try_from(RETENTION_MS).unwrap_or(i64::MAX));
    let removed = connection
        .prepare_cached(
            "DELETE FROM fs_begun WHERE (tenant, effect) IN
                 (SELECT tenant, effect FROM fs_begun WHERE at < ?1 ORDER BY at LIMIT ?2)",
        )?
        .execute(params![before, most])?;
    Ok(removed == most)
}
