//! What is deleted when its time is over.

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{RunId, Tenant};
use flow::store::{AgedRun, AnswerKey};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::audit::digest;
use super::reads::{answer_hash, at_most, id, many, one};

type Result<T> = rusqlite::Result<T>;

const AGE: &str =
    "SELECT place, run_id, tenant, parent_run_id IS NOT NULL, open = 0, created_at, updated_at FROM runs";

fn aged(row: &Row<'_>) -> Result<AgedRun> {
    Ok(AgedRun {
        place: row.get(0)?,
        run_id: id(row, 1, RunId::new)?,
        tenant: id(row, 2, Tenant::new)?,
        is_child: row.get(3)?,
        has_ended: row.get(4)?,
        created_at: Timestamp(row.get(5)?),
        updated_at: Timestamp(row.get(6)?),
    })
}

pub(super) fn aged_runs(connection: &Connection, after: u64, limit: usize) -> Result<Vec<AgedRun>> {
    let sql = format!("{AGE} WHERE place > ?1 ORDER BY place LIMIT ?2");
    many(connection, &sql, &[&after, &at_most(limit)], aged)
}

pub(super) fn aged_run(connection: &Connection, run_id: &RunId) -> Result<Option<AgedRun>> {
    one(connection, &format!("{AGE} WHERE run_id = ?1"), &[&run_id.as_str()], aged)
}

pub(super) fn oldest_answer(connection: &Connection) -> Result<Option<Timestamp>> {
    let sql = "SELECT at FROM answers ORDER BY at LIMIT 1";
    one(connection, sql, &[], |row| Ok(Timestamp(row.get(0)?)))
}

/// Deletes a run that has ended, and everything that is kept for it.
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

/// Deletes the oldest answers that were given before a moment, with what they are looked up by.
pub(super) fn delete_answers(connection: &Connection, before: Timestamp, limit: usize) -> Result<()> {
    let sql = "SELECT place, tenant, endpoint, key FROM answers WHERE at < ?1 ORDER BY at LIMIT ?2";
    let old: Vec<(i64, AnswerKey)> = many(connection, sql, &[&before.0, &at_most(limit)], |row| {
        let key: Digest = digest(&row.get::<_, Vec<u8>>(3)?);
        Ok((row.get(0)?, AnswerKey { tenant: id(row, 1, Tenant::new)?, endpoint: row.get(2)?, key }))
    })?;
    for (place, key) in old {
        let hash = answer_hash(&key);
        let sql = "DELETE FROM answer_keys WHERE stretch = ?2 >> 16 AND hash = ?1 AND place = ?2";
        connection.prepare_cached(sql)?.execute(params![hash, place])?;
        connection.prepare_cached("DELETE FROM answers WHERE place = ?1")?.execute([place])?;
    }
    Ok(())
}
