//! The ages of runs and replies.

use canon::time::Timestamp;
use flow::id::{RunId, Tenant};
use ports::PortFuture;
use ports::runs::{AgedPage, AgedRun, ListCursor, ReadFuture, Retention};
use rusqlite::{Connection, Result, Row};

use super::lists::{cursor, position};
use crate::sqlite::SqliteRuns;
use crate::sqlite::query::{at_most, id, many, one};

impl Retention for SqliteRuns {
    fn aged_runs(&self, after: Option<&ListCursor>, limit: usize) -> ReadFuture<'_, AgedPage> {
        let after = match after.map(position).transpose() {
            // Row ids start at 1.
            Ok(position) => position.unwrap_or(0),
            Err(error) => return PortFuture::ready(Err(error)),
        };
        self.read(move |connection| aged_runs(connection, after, limit))
    }

    fn aged_run(&self, run_id: &RunId) -> ReadFuture<'_, Option<AgedRun>> {
        let run_id = run_id.clone();
        self.read(move |connection| aged_run(connection, &run_id))
    }

    fn oldest_reply(&self) -> ReadFuture<'_, Option<Timestamp>> {
        self.read(oldest_reply)
    }
}

const AGE: &str =
    "SELECT place, run_id, tenant, parent_run_id IS NOT NULL, open = 0, created_at, updated_at FROM runs";

fn aged(row: &Row<'_>) -> Result<AgedRun> {
    Ok(AgedRun {
        run_id: id(row, 1, RunId::new)?,
        tenant: id(row, 2, Tenant::new)?,
        is_child: row.get(3)?,
        has_ended: row.get(4)?,
        created_at: Timestamp(row.get(5)?),
        updated_at: Timestamp(row.get(6)?),
    })
}

fn aged_runs(connection: &Connection, after: i64, limit: usize) -> Result<AgedPage> {
    let sql = format!("{AGE} WHERE place > ?1 ORDER BY place LIMIT ?2");
    let mut last = None;
    let runs = many(connection, &sql, &[&after, &at_most(limit)], |row| {
        last = Some(row.get(0)?);
        aged(row)
    })?;
    let next = last.filter(|_| runs.len() == limit).map(cursor);
    Ok(AgedPage { runs, next })
}

fn aged_run(connection: &Connection, run_id: &RunId) -> Result<Option<AgedRun>> {
    one(connection, &format!("{AGE} WHERE run_id = ?1"), &[&run_id.as_str()], aged)
}

fn oldest_reply(connection: &Connection) -> Result<Option<Timestamp>> {
    let sql = "SELECT at FROM answers ORDER BY at LIMIT 1";
    one(connection, sql, &[], |row| Ok(Timestamp(row.get(0)?)))
}
