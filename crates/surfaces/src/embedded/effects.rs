//! Effect ids and their results.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Refused;
use crate::call::Tenant;
use crate::error::{Code, SurfaceError};

/// How long effect ids are kept, by call time: 14 days. No retry of the host happens later.
pub const RETENTION_MS: u64 = 14 * 24 * 60 * 60 * 1000;

/// The maximum length of an effect id, in bytes.
pub const MAX_EFFECT_BYTES: usize = 512;

/// The maximum number of ids removed by one sweep step.
const SWEPT_AT_ONCE: usize = 256;

pub(super) const STEP: &str = "
    CREATE TABLE effects (
        tenant TEXT NOT NULL,
        id TEXT NOT NULL,
        op TEXT NOT NULL,
        at INTEGER NOT NULL,
        answer BLOB NOT NULL,
        PRIMARY KEY (tenant, id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX effects_by_moment ON effects (at);
";

pub(super) fn check(effect: &str) -> Result<(), SurfaceError> {
    if effect.is_empty() || effect.len() > MAX_EFFECT_BYTES || effect.contains('\0') {
        let message = format!("an effect id must be 1 to {MAX_EFFECT_BYTES} bytes without NUL");
        return Err(SurfaceError::new(Code::InvalidArgument, message));
    }
    Ok(())
}

/// The result for that id.
pub(super) fn find<T: DeserializeOwned>(
    connection: &Connection,
    tenant: &Tenant,
    effect: &str,
    op: &str,
) -> Result<Option<T>, Refused> {
    let found: Option<(String, Vec<u8>)> = connection
        .prepare_cached("SELECT op, answer FROM effects WHERE tenant = ?1 AND id = ?2")?
        .query_row(params![tenant.as_str(), effect], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((by, answer)) = found else { return Ok(None) };
    if by != op {
        let message = format!("effect id `{effect}` was already used by {by}; use a different id for {op}");
        return Err(SurfaceError::new(Code::InvalidArgument, message).into());
    }
    serde_json::from_slice(&answer).map(Some).map_err(|_| {
        let message = format!("the stored result of effect `{effect}` is unreadable");
        SurfaceError::new(Code::SurfaceUnavailable, message).into()
    })
}

pub(super) fn store<T: Serialize>(
    connection: &Connection,
    tenant: &Tenant,
    effect: &str,
    op: &str,
    at: i64,
    answer: &T,
) -> Result<(), Refused> {
    let answer = serde_json::to_vec(answer).map_err(|_| {
        let message = "the result cannot be serialized and stored with its effect id";
        SurfaceError::new(Code::SurfaceUnavailable, message)
    })?;
    connection
        .prepare_cached("INSERT INTO effects (tenant, id, op, at, answer) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![tenant.as_str(), effect, op, at, answer])?;
    Ok(())
}

/// Removes some expired ids; returns whether more may be left.
pub(super) fn sweep(connection: &Connection, now: i64) -> rusqlite::Result<bool> {
    let before = now.saturating_sub(i64::try_from(RETENTION_MS).unwrap_or(i64::MAX));
    let removed = connection
        .prepare_cached(
            "DELETE FROM effects WHERE (tenant, id) IN
                 (SELECT tenant, id FROM effects WHERE at < ?1 ORDER BY at LIMIT ?2)",
        )?
        .execute(params![before, SWEPT_AT_ONCE])?;
    Ok(removed == SWEPT_AT_ONCE)
}
