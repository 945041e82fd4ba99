//! Runs, their events, and checkpoints of their state.

use flow::id::{RunId, Tenant, WorkflowId};
use flow::run::RunStatus;
use ports::PortFuture;
use ports::runs::{Bytes, ReadFuture, RunLog, StoredAppend, StoredRun};
use rusqlite::{Connection, Result, params};

use crate::sqlite::SqliteRuns;
use crate::sqlite::query::{at_most, bytes, id, many, one};

impl RunLog for SqliteRuns {
    fn run(&self, tenant: Option<&Tenant>, run_id: &RunId) -> ReadFuture<'_, Option<StoredRun>> {
        if let Some(known) = self.memory.ended.get(tenant, run_id) {
            return PortFuture::ready(Ok(known));
        }
        let deletions = self.memory.ended.deletions();
        let (memory, tenant, run_id) = (self.memory.clone(), tenant.cloned(), run_id.clone());
        self.read(move |connection| {
            let found = run(connection, tenant.as_ref(), &run_id)?;
            if let Some(found) = &found {
                memory.ended.keep_read(found, deletions);
            }
            Ok(found)
        })
    }

    fn appends(
        &self,
        run_id: &RunId,
        from: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> ReadFuture<'_, Vec<StoredAppend>> {
        let run_id = run_id.clone();
        self.read(move |connection| appends(connection, &run_id, from, max_events, max_bytes))
    }

    fn run_checkpoint(&self, run_id: &RunId) -> ReadFuture<'_, Option<Bytes>> {
        let run_id = run_id.clone();
        self.read(move |connection| run_checkpoint(connection, &run_id))
    }

    fn children(&self, run_id: &RunId) -> ReadFuture<'_, Vec<RunId>> {
        let run_id = run_id.clone();
        self.read(move |connection| children(connection, &run_id))
    }

    fn open_runs(&self, after: Option<&RunId>, limit: usize) -> ReadFuture<'_, Vec<RunId>> {
        let after = after.cloned();
        self.read(move |connection| open_runs(connection, after.as_ref(), limit))
    }
}

fn run(connection: &Connection, tenant: Option<&Tenant>, run_id: &RunId) -> Result<Option<StoredRun>> {
    let sql = "SELECT run_id, tenant, workflow_id, genesis, status, next_sequence, snapshot FROM runs
               WHERE run_id = ?1 AND (?2 IS NULL OR tenant = ?2)";
    one(connection, sql, &[&run_id.as_str(), &tenant.map(Tenant::as_str)], |row| {
        let status = row.get_ref(4)?.as_str()?;
        Ok(StoredRun {
            run_id: id(row, 0, RunId::new)?,
            tenant: id(row, 1, Tenant::new)?,
            workflow_id: id(row, 2, WorkflowId::new)?,
            genesis: bytes(row, 3)?,
            status: RunStatus::parse(status).ok_or(rusqlite::Error::InvalidQuery)?,
            next_sequence: row.get(5)?,
            snapshot: bytes(row, 6)?,
        })
    })
}

fn run_checkpoint(connection: &Connection, run_id: &RunId) -> Result<Option<Bytes>> {
    let sql = "SELECT checkpoint FROM run_checkpoints WHERE run = (SELECT place FROM runs WHERE run_id = ?1)";
    one(connection, sql, &[&run_id.as_str()], |row| bytes(row, 0))
}

fn appends(
    connection: &Connection,
    run_id: &RunId,
    from: u64,
    max_events: usize,
    max_bytes: usize,
) -> Result<Vec<StoredAppend>> {
    let mut statement = connection.prepare_cached(
        "SELECT first, last, events FROM appends
         WHERE run = (SELECT place FROM runs WHERE run_id = ?1) AND last >= ?2 ORDER BY last",
    )?;
    let mut rows = statement.query(params![run_id.as_str(), from])?;
    let (mut found, mut events, mut size) = (Vec::new(), 0, 0);
    while let Some(row) = rows.next()? {
        let (first, last): (u64, u64) = (row.get(0)?, row.get(1)?);
        let text = bytes(row, 2)?;
        events += usize::try_from(last - first.max(from) + 1).unwrap_or(usize::MAX);
        size += text.len();
        found.push(StoredAppend { first, last, events: text });
        if events >= max_events || size >= max_bytes {
            break;
        }
    }
    Ok(found)
}

fn open_runs(connection: &Connection, after: Option<&RunId>, limit: usize) -> Result<Vec<RunId>> {
    let sql = "SELECT run_id FROM runs WHERE open = 1 AND run_id > ?1 ORDER BY run_id LIMIT ?2";
    many(connection, sql, &[&after.map_or("", RunId::as_str), &at_most(limit)], |row| id(row, 0, RunId::new))
}

fn children(connection: &Connection, run_id: &RunId) -> Result<Vec<RunId>> {
    let sql = "SELECT run_id FROM runs WHERE parent_run_id = ?1 ORDER BY place";
    many(connection, sql, &[&run_id.as_str()], |row| id(row, 0, RunId::new))
}
