//! Deletes expired runs and replies.

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{RunId, Tenant};
use ports::runs::ReplyKey;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::audit::digest;
use super::query::{at_most, id, many};
use super::reads::replies::key_hash;

type Result<T> = rusqlite::Result<T>;

/// Deletes a run that has ended, with everything that belongs to it.
pub(super) fn delete_run(connection: &Connection, run_id: &RunId) -> Result<()> {
    let mut find = connection.prepare_cached("SELECT place FROM runs WHERE run_id = ?1 AND open = 0")?;
    let Some(place) = find.query_row([run_id.as_str()], |row| row.get::<_, i64>(0)).optional()? else {
        return Ok(());
    };
    for sql in [
        "DELETE FROM tags WHERE run = ?1",
        "DELETE FROM appends WHERE run = ?1",
        "DELETE FROM run_checkpoints WHERE run = ?1",
        "DELETE FROM runs WHERE place = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([place])?;
    }
    for sql in [
        "DELETE FROM timers WHERE run_id = ?1",
        "DELETE FROM activities WHERE run_id = ?1",
        "DELETE FROM artifacts WHERE run_id = ?1",
        "DELETE FROM annotations WHERE run_id = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([run_id.as_str()])?;
    }
    Ok(())
}

/// Deletes the oldest replies that were recorded before a time, and their index entries.
pub(super) fn delete_replies(connection: &Connection, before: Timestamp, limit: usize) -> Result<()> {
    let sql = "SELECT place, tenant, endpoint, key FROM answers WHERE at < ?1 ORDER BY at LIMIT ?2";
    let old: Vec<(i64, ReplyKey)> = many(connection, sql, &[&before.0, &at_most(limit)], |row| {
        let key: Digest = digest(&row.get::<_, Vec<u8>>(3)?);
        Ok((row.get(0)?, ReplyKey { tenant: id(row, 1, Tenant::new)?, endpoint: row.get(2)?, key }))
    })?;
    for (place, key) in old {
        let hash = key_hash(&key);
        let sql = "DELETE FROM answer_keys WHERE stretch = ?2 >> 16 AND hash = ?1 AND place = ?2";
        connection.prepare_cached(sql)?.execute(params![hash, place])?;
        connection.prepare_cached("DELETE FROM answers WHERE place = ?1")?.execute([place])?;
    }
    Ok(())
}
