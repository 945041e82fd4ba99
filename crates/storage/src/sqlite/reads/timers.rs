//! Timers of runs.

use canon::time::Timestamp;
use flow::id::RunId;
use ports::runs::{ReadFuture, Timer, Timers};
use rusqlite::{Connection, Result, Row};

use crate::sqlite::SqliteRuns;
use crate::sqlite::query::{at_most, id, many, one};

impl Timers for SqliteRuns {
    fn due_timers(&self, at: Timestamp, limit: usize) -> ReadFuture<'_, Vec<Timer>> {
        self.read(move |connection| due_timers(connection, at, limit))
    }

    fn next_timer(&self) -> ReadFuture<'_, Option<Timer>> {
        self.read(next_timer)
    }
}

fn timer(row: &Row<'_>) -> Result<Timer> {
    Ok(Timer { run_id: id(row, 0, RunId::new)?, key: row.get(1)?, at: Timestamp(row.get(2)?) })
}

fn due_timers(connection: &Connection, at: Timestamp, limit: usize) -> Result<Vec<Timer>> {
    let sql = "SELECT run_id, key, at FROM timers WHERE at <= ?1 ORDER BY at, run_id, key LIMIT ?2";
    many(connection, sql, &[&at.0, &at_most(limit)], timer)
}

fn next_timer(connection: &Connection) -> Result<Option<Timer>> {
    one(connection, "SELECT run_id, key, at FROM timers ORDER BY at LIMIT 1", &[], timer)
}
