//! Lists of runs and of their ages. Their order is that of run ids, which begin with the time of creation.

use flow::id::{RunId, Tenant};
use flow::run::RunStatus;
use ports::PortFuture;
use ports::runs::{
    AgedPage, AgedRun, ListCursor, ReadError, ReadFuture, Retention, RunFilter, RunLists, RunPage,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::log::SNAPSHOT;
use super::{Values, values};
use crate::error::Failure;
use crate::row::{at_most, bytes, text, time};
use crate::store::PostgresRuns;

/// What every cursor begins with.
const CURSOR: &str = "after:";

/// The cursor after a run. It stays valid when the run is deleted, because lists compare it.
fn cursor(run_id: &str) -> ListCursor {
    ListCursor::new(format!("{CURSOR}{run_id}"))
}

fn position(cursor: &ListCursor) -> Result<String, ReadError> {
    let run_id = cursor.as_str().strip_prefix(CURSOR).filter(|run_id| !run_id.is_empty());
    run_id.map(str::to_owned).ok_or(ReadError::InvalidCursor)
}

impl RunLists for PostgresRuns {
    fn runs(&self, tenant: &Tenant, filter: &RunFilter, limit: usize) -> ReadFuture<'_, RunPage> {
        let after = match filter.after.as_ref().map(position).transpose() {
            Ok(after) => after,
            Err(error) => return PortFuture::ready(Err(error)),
        };
        let (sql, values) = list(tenant, filter, after, limit);
        self.read(sql, values, move |rows| {
            let runs = rows.iter().map(|row| bytes(row, 1)).collect::<Result<Vec<_>, _>>()?;
            Ok(RunPage { next: next(rows, limit)?, runs })
        })
    }
}

/// The query of a list. Statuses are written out, because an index of some statuses is used only for constants.
pub(crate) fn list(
    tenant: &Tenant,
    filter: &RunFilter,
    after: Option<String>,
    limit: usize,
) -> (String, Values) {
    let mut sql = format!("select r.run_id, {SNAPSHOT} from runs r where r.tenant = $1");
    let mut values: Values = values![tenant.as_str().to_owned()];
    let mut with = |sql: &mut String, condition: &str, value: Box<dyn ToSql + Sync + Send>| {
        values.push(value);
        sql.push_str(&condition.replace("$n", &format!("${}", values.len())));
    };
    if let Some(after) = after {
        with(&mut sql, " and r.run_id < $n", Box::new(after));
    }
    if let Some(workflow_id) = &filter.workflow_id {
        with(&mut sql, " and r.workflow_id = $n", Box::new(workflow_id.as_str().to_owned()));
    }
    if let Some(tag) = &filter.tag {
        let condition = " and exists (select 1 from tags t where t.tenant = r.tenant and t.tag = $n and t.run_id = r.run_id)";
        with(&mut sql, condition, Box::new(tag.clone()));
    }
    match filter.status {
        Some(status) if status.is_terminal() => sql.push_str(&format!(" and r.ended = '{status}'")),
        Some(status) => sql.push_str(&format!(" and r.ended is null and r.status = '{status}'")),
        None => {}
    }
    if filter.waiting {
        let waiting: Vec<String> = RunStatus::ALL
            .into_iter()
            .filter(|status| status.is_waiting())
            .map(|status| format!("'{status}'"))
            .collect();
        sql.push_str(&format!(" and r.ended is null and r.status in ({})", waiting.join(", ")));
    }
    values.push(Box::new(at_most(limit)));
    sql.push_str(&format!(" order by r.run_id desc limit ${}", values.len()));
    (sql, values)
}

/// The cursor of the next page, if this one is full.
fn next(rows: &[Row], limit: usize) -> Result<Option<ListCursor>, Failure> {
    let last = rows.last().filter(|_| rows.len() == limit);
    last.map(|row| text(row, 0, cursor)).transpose()
}

impl Retention for PostgresRuns {
    fn aged_runs(&self, after: Option<&ListCursor>, limit: usize) -> ReadFuture<'_, AgedPage> {
        let after = match after.map(position).transpose() {
            // No id is empty, so all of them come after nothing.
            Ok(after) => after.unwrap_or_default(),
            Err(error) => return PortFuture::ready(Err(error)),
        };
        let sql = "select run_id, tenant, parent_run_id is not null, ended is not null, created_at, updated_at from runs
                   where run_id > $1 order by run_id limit $2";
        self.read(sql, values![after, at_most(limit)], move |rows| {
            let runs = rows.iter().map(aged).collect::<Result<Vec<_>, _>>()?;
            Ok(AgedPage { next: next(rows, limit)?, runs })
        })
    }

    fn aged_run(&self, run_id: &RunId) -> ReadFuture<'_, Option<AgedRun>> {
        let sql = "select run_id, tenant, parent_run_id is not null, ended is not null, created_at, updated_at from runs
                   where run_id = $1";
        self.read(sql, values![run_id.as_str().to_owned()], |rows| rows.first().map(aged).transpose())
    }

    fn oldest_reply(&self) -> ReadFuture<'_, Option<canon::time::Timestamp>> {
        self.read("select at from replies order by at limit 1", values![], |rows| {
            rows.first().map(|row| time(row, 0)).transpose()
        })
    }
}

fn aged(row: &Row) -> Result<AgedRun, Failure> {
    Ok(AgedRun {
        run_id: text(row, 0, RunId::new)?,
        tenant: text(row, 1, Tenant::new)?,
        is_child: row.try_get(2).map_err(|_| Failure::Row)?,
        has_ended: row.try_get(3).map_err(|_| Failure::Row)?,
        created_at: time(row, 4)?,
        updated_at: time(row, 5)?,
    })
}
