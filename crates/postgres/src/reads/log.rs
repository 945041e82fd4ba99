//! Runs, their events, checkpoints and timers.

use canon::time::Timestamp;
use flow::id::{RunId, Tenant, WorkflowId};
use flow::run::RunStatus;
use ports::runs::{Bytes, ReadFuture, RunLog, StoredAppend, StoredRun, Timer, Timers};
use tokio_postgres::Row;

use super::values;
use crate::error::Failure;
use crate::row::{at_most, bytes, number, text, time, unsigned};
use crate::store::PostgresRuns;

/// The snapshot of the run `r`: in its row, or beside its last events if it is long.
pub(super) const SNAPSHOT: &str = "coalesce(r.snapshot, (select a.snapshot from appends a where a.run_id = r.run_id order by a.first desc limit 1), ''::bytea)";

impl RunLog for PostgresRuns {
    fn run(&self, tenant: Option<&Tenant>, run_id: &RunId) -> ReadFuture<'_, Option<StoredRun>> {
        let sql = format!(
            "select r.run_id, r.tenant, r.workflow_id, b.genesis, r.status, r.next_sequence, {SNAPSHOT}
             from runs r join births b on b.run_id = r.run_id
             where r.run_id = $1 and ($2::text is null or r.tenant = $2)"
        );
        let tenant = tenant.map(|tenant| tenant.as_str().to_owned());
        self.read(sql, values![run_id.as_str().to_owned(), tenant], |rows| rows.first().map(run).transpose())
    }

    fn appends(
        &self,
        run_id: &RunId,
        from: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> ReadFuture<'_, Vec<StoredAppend>> {
        // Sequences are dense, so the number of events before an append follows from its first sequence. `size` is the number
        // of bytes before it.
        let sql = "select first, last, events from (
                       select first, last, events,
                           sum(octet_length(events)) over (order by first) - octet_length(events) as size
                       from appends
                       where run_id = $1 and first < $3 and first >= coalesce(
                           (select max(first) from appends where run_id = $1 and first <= $2), 0)
                   ) as found
                   where last >= $2 and size < $4 order by first";
        let from = number(from);
        let before = from.saturating_add(at_most(max_events.max(1)));
        let values = values![run_id.as_str().to_owned(), from, before, at_most(max_bytes.max(1))];
        self.read(sql, values, |rows| {
            rows.iter()
                .map(|row| {
                    Ok(StoredAppend {
                        first: unsigned(row, 0)?,
                        last: unsigned(row, 1)?,
                        events: bytes(row, 2)?,
                    })
                })
                .collect()
        })
    }

    fn run_checkpoint(&self, run_id: &RunId) -> ReadFuture<'_, Option<Bytes>> {
        let sql = "select state from folds where run_id = $1";
        self.read(sql, values![run_id.as_str().to_owned()], |rows| {
            rows.first().map(|row| bytes(row, 0)).transpose()
        })
    }

    fn children(&self, run_id: &RunId) -> ReadFuture<'_, Vec<RunId>> {
        // Ids begin with the time of creation.
        let sql = "select run_id from runs where parent_run_id = $1 order by run_id";
        self.read(sql, values![run_id.as_str().to_owned()], run_ids)
    }

    fn open_runs(&self, after: Option<&RunId>, limit: usize) -> ReadFuture<'_, Vec<RunId>> {
        let sql = "select run_id from runs where ended is null and run_id > $1 order by run_id limit $2";
        // No id is empty, so all of them come after nothing.
        let after = after.map_or("", RunId::as_str).to_owned();
        self.read(sql, values![after, at_most(limit)], run_ids)
    }
}

fn run(row: &Row) -> Result<StoredRun, Failure> {
    Ok(StoredRun {
        run_id: text(row, 0, RunId::new)?,
        tenant: text(row, 1, Tenant::new)?,
        workflow_id: text(row, 2, WorkflowId::new)?,
        genesis: bytes(row, 3)?,
        status: text(row, 4, RunStatus::parse)?.ok_or(Failure::Row)?,
        next_sequence: unsigned(row, 5)?,
        snapshot: bytes(row, 6)?,
    })
}

fn run_ids(rows: &[Row]) -> Result<Vec<RunId>, Failure> {
    rows.iter().map(|row| text(row, 0, RunId::new)).collect()
}

impl Timers for PostgresRuns {
    fn due_timers(&self, at: Timestamp, limit: usize) -> ReadFuture<'_, Vec<Timer>> {
        let sql = "select run_id, key, at from timers where at <= $1 order by at, run_id, key limit $2";
        self.read(sql, values![number(at.0), at_most(limit)], |rows| rows.iter().map(timer).collect())
    }

    fn next_timer(&self) -> ReadFuture<'_, Option<Timer>> {
        let sql = "select run_id, key, at from timers order by at, run_id, key limit 1";
        self.read(sql, values![], |rows| rows.first().map(timer).transpose())
    }
}

fn timer(row: &Row) -> Result<Timer, Failure> {
    Ok(Timer { run_id: text(row, 0, RunId::new)?, key: text(row, 1, str::to_owned)?, at: time(row, 2)? })
}
