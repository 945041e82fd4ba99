//! Helpers for queries.

use std::sync::Arc;

use flow::id::{Tenant, WorkflowId};
use ports::runs::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Result, Row, ToSql};

/// A blob, copied only once.
pub(super) fn bytes(row: &Row<'_>, column: usize) -> Result<Bytes> {
    Ok(Arc::from(row.get_ref(column)?.as_blob()?))
}

/// An id, copied only once.
pub(super) fn id<'r, T>(row: &'r Row<'_>, column: usize, new: impl FnOnce(&'r str) -> T) -> Result<T> {
    Ok(new(row.get_ref(column)?.as_str()?))
}

/// The first row of a query.
pub(super) fn one<T>(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
    read: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    connection.prepare_cached(sql)?.query_row(values, read).optional()
}

/// All rows of a query.
pub(super) fn many<T>(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
    read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    connection.prepare_cached(sql)?.query_map(values, read)?.collect()
}

/// A limit as an SQLite integer.
pub(super) fn at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A row of a tenant and a workflow id.
pub(super) fn tenant_and_workflow(row: &Row<'_>) -> Result<(Tenant, WorkflowId)> {
    Ok((id(row, 0, Tenant::new)?, id(row, 1, WorkflowId::new)?))
}
