//! Effects that are made of files.
//!
//! A file is no part of a transaction, so a change of one under an effect's identity takes these steps, each of them durable before the next:
//!
//! ```text
//!   write    1 the bytes are staged   2 it is begun (row)   3 staged ──rename──► path   4 the answer is stored, begun is forgotten
//!   delete                            1 it is begun (row)   2 path ──rename──► staged   3 the answer is stored, begun is forgotten
//! ```
//!
//! A rename happens or does not, and the staged file says which: after a crash, a write that was begun is done exactly when nothing is staged
//! any more, and a delete exactly when something is. So it is carried on where it stopped, and made once.

use rusqlite::{Connection, OptionalExtension as _, params};
use sha2::{Digest as _, Sha256};

use crate::call::Scope;
use crate::embedded::{RETENTION_MS, Refused};

/// The name under which the file of an effect is staged.
pub(super) fn staged_name(scope: &Scope, op: &str, effect: &str) -> String {
    let mut hash = Sha256::new();
    for part in [scope.tenant.as_str(), op, effect] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    canon::encoding::hex(&hash.finalize())
}

/// Whether the effect was begun.
pub(super) fn is_begun(connection: &Connection, scope: &Scope, staged: &str) -> Result<bool, Refused> {
    let found: Option<String> = connection
        .prepare_cached("SELECT staged FROM fs_begun WHERE tenant = ?1 AND effect = ?2")?
        .query_row(params![scope.tenant.as_str(), scope.effect], |row| row.get(0))
        .optional()?;
    Ok(found.as_deref() == Some(staged))
}

/// Notes that the effect is begun.
pub(super) fn begin(connection: &Connection, scope: &Scope, staged: &str) -> Result<(), Refused> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO fs_begun (tenant, effect, staged, at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![scope.tenant.as_str(), scope.effect, staged, scope.at()])?;
    Ok(())
}

/// Forgets that the effect was begun; its answer is stored in the same commit.
pub(super) fn end(connection: &Connection, scope: &Scope) -> Result<(), Refused> {
    if scope.effect.is_some() {
        connection
            .prepare_cached("DELETE FROM fs_begun WHERE tenant = ?1 AND effect = ?2")?
            .execute(params![scope.tenant.as_str(), scope.effect])?;
    }
    Ok(())
}

/// The staged names of all effects that were begun and not ended.
pub(super) fn all_begun(connection: &Connection) -> Result<std::collections::BTreeSet<String>, Refused> {
    let mut statement = connection.prepare("SELECT staged FROM fs_begun")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Forgets some that were begun so long ago that nobody comes back to them; says whether there may be more.
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
