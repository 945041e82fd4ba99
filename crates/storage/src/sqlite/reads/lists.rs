//! Lists of runs.

use flow::id::{Tenant, WorkflowId};
use flow::run::RunStatus;
use ports::PortFuture;
use ports::runs::{ListCursor, ReadError, ReadFuture, RunFilter, RunLists, RunPage};
use rusqlite::{Connection, Result, ToSql};

use crate::sqlite::SqliteRuns;
use crate::sqlite::query::{at_most, bytes, many};

impl RunLists for SqliteRuns {
    fn runs(&self, tenant: &Tenant, filter: &RunFilter, limit: usize) -> ReadFuture<'_, RunPage> {
        let before = match filter.after.as_ref().map(position).transpose() {
            Ok(position) => position.unwrap_or(i64::MAX),
            Err(error) => return PortFuture::ready(Err(error)),
        };
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read(move |connection| runs(connection, &tenant, &filter, before, limit))
    }
}

/// The cursor of a run: the decimal digits of its row id. It stays valid after the run is deleted, because lists only
/// compare it.
pub(super) fn cursor(place: i64) -> ListCursor {
    ListCursor::new(place.to_string())
}

pub(super) fn position(cursor: &ListCursor) -> std::result::Result<i64, ReadError> {
    // Other spellings of the number, such as `+1`, were never issued.
    let position = cursor.as_str().parse().ok().filter(|place: &i64| *place >= 0);
    position.filter(|place| place.to_string() == cursor.as_str()).ok_or(ReadError::InvalidCursor)
}

pub(in crate::sqlite) fn runs(
    connection: &Connection,
    tenant: &Tenant,
    filter: &RunFilter,
    before: i64,
    limit: usize,
) -> Result<RunPage> {
    // One statement per combination of conditions, so that each uses the index that fits.
    let is_waiting = filter.waiting || filter.status.is_some_and(RunStatus::is_waiting);
    let from = if is_waiting { "waiting_runs CROSS JOIN runs USING (place)" } else { "runs" };
    let key = if is_waiting { "waiting_runs" } else { "runs" };
    let mut sql = String::with_capacity(256);
    for part in
        ["SELECT runs.place, snapshot FROM ", from, " WHERE ", key, ".tenant = ?1 AND ", key, ".place < ?2"]
    {
        sql.push_str(part);
    }
    let max = at_most(limit);
    let (tenant, workflow_id) = (tenant.as_str(), filter.workflow_id.as_ref().map(WorkflowId::as_str));
    let mut values: Vec<&dyn ToSql> = vec![&tenant, &before, &max];
    if let Some(status) = filter.status {
        // A literal, because SQLite uses a partial index only if the status is not a parameter.
        sql.push_str(&format!(" AND status = '{status}'"));
        if !status.is_terminal() {
            sql.push_str(" AND open = 1");
        }
    }
    if let Some(workflow_id) = &workflow_id {
        values.push(workflow_id);
        sql.push_str(&format!(" AND workflow_id = ?{}", values.len()));
    }
    if let Some(tag) = &filter.tag {
        values.push(tag);
        sql.push_str(&format!(
            " AND runs.place IN (SELECT run FROM tags WHERE tenant = ?1 AND tag = ?{})",
            values.len()
        ));
    }
    for part in [" ORDER BY ", key, ".place DESC LIMIT ?3"] {
        sql.push_str(part);
    }
    let mut last = None;
    let runs = many(connection, &sql, &values, |row| {
        last = Some(row.get(0)?);
        bytes(row, 1)
    })?;
    let next = last.filter(|_| runs.len() == limit).map(cursor);
    Ok(RunPage { runs, next })
}
