//! Annotations of runs.

use flow::id::RunId;
use ports::runs::{Annotations, Bytes, ReadFuture};
use rusqlite::{Connection, Result};

use crate::sqlite::SqliteRuns;
use crate::sqlite::query::{bytes, many};

impl Annotations for SqliteRuns {
    fn annotations(&self, run_id: &RunId) -> ReadFuture<'_, Vec<Bytes>> {
        let run_id = run_id.clone();
        self.read(move |connection| annotations(connection, &run_id))
    }
}

fn annotations(connection: &Connection, run_id: &RunId) -> Result<Vec<Bytes>> {
    let sql = "SELECT document FROM annotations WHERE run_id = ?1 ORDER BY place";
    many(connection, sql, &[&run_id.as_str()], |row| bytes(row, 0))
}
