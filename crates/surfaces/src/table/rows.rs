//! Tables and rows in the shared database.
//!
//! A row is one JSON document under (tenant, table, id). Its columns are not SQLite columns: tenant-chosen names never
//! become part of a statement.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use super::columns::Columns;
use super::order::{self, Page, RowPosition};
use super::{Kind, MAX_NAME_BYTES, Query, Row, Rows, Upserted, cursor};
use crate::args::{check_name, refuse, shown};
use crate::call::{Scope, Tenant};
use crate::embedded::Refused;
use crate::error::{Code, SurfaceError};
use crate::limits::Limits;
use crate::usage::{Usage, signed};
use crate::value::{bytes_of_object, same, value_of};

const SURFACE: &str = "table";
/// The maximum size of a page besides its first row, in bytes.
const PAGE_BYTES: usize = 8 << 20;

/// A table before a change.
struct Table {
    columns: Columns,
    rows: i64,
}

pub(super) fn create(
    connection: &Connection,
    scope: &Scope,
    limits: &Limits,
    table: &str,
    columns: &[(String, Kind)],
) -> Result<bool, Refused> {
    let found = find(connection, &scope.tenant, table)?;
    let created = found.is_none();
    let mut known = found.unwrap_or(Table { columns: Columns::default(), rows: 0 });
    for (name, kind) in columns {
        check_name("column", name, MAX_NAME_BYTES, Code::TableSchemaViolation)?;
        known.columns.fix(name, *kind, limits.table_columns)?;
    }
    if created {
        admit_table(connection, scope, limits)?;
    }
    keep(connection, &scope.tenant, table, &known)?;
    Ok(created)
}

pub(super) fn insert(
    connection: &Connection,
    scope: &Scope,
    limits: &Limits,
    table: &str,
    row: &Row,
) -> Result<String, Refused> {
    let id = id_of(row)?;
    let old = document(connection, &scope.tenant, table, &id)?;
    if old.is_some() {
        let message = format!("the row `{}` already exists; use upsert to replace it", shown(&id));
        return Err(refuse(message).into());
    }
    write(connection, scope, limits, table, &id, row, None)?;
    Ok(id)
}

pub(super) fn upsert(
    connection: &Connection,
    scope: &Scope,
    limits: &Limits,
    table: &str,
    row: &Row,
) -> Result<Upserted, Refused> {
    let id = id_of(row)?;
    let old = document(connection, &scope.tenant, table, &id)?;
    let created = old.is_none();
    write(connection, scope, limits, table, &id, row, old.map(|old| old.len()))?;
    Ok(Upserted { id, created })
}

pub(super) fn update(
    connection: &Connection,
    scope: &Scope,
    limits: &Limits,
    table: &str,
    id: &str,
    patch: &Row,
) -> Result<bool, Refused> {
    existing(connection, &scope.tenant, table)?;
    if patch.get("id").is_some_and(|new| new.as_str() != Some(id)) {
        return Err(refuse("`patch` cannot change the row's `id`").into());
    }
    let Some(old) = document(connection, &scope.tenant, table, id)? else { return Ok(false) };
    let mut row = row_of(&old)?;
    row.extend(patch.clone());
    write(connection, scope, limits, table, id, &row, Some(old.len()))?;
    Ok(true)
}

pub(super) fn delete(connection: &Connection, scope: &Scope, table: &str, id: &str) -> Result<bool, Refused> {
    let mut known = existing(connection, &scope.tenant, table)?;
    let gone: Option<i64> = connection
        .prepare_cached(
            "DELETE FROM table_rows WHERE tenant = ?1 AND name = ?2 AND id = ?3 RETURNING length(document)",
        )?
        .query_row(params![scope.tenant.as_str(), table, id], |row| row.get(0))
        .optional()?;
    let Some(gone) = gone else { return Ok(false) };
    known.rows -= 1;
    keep(connection, &scope.tenant, table, &known)?;
    Usage::new(0, -(gone + signed(id.len()))).add(connection, &scope.tenant, SURFACE)?;
    Ok(true)
}

pub(super) fn get(
    connection: &Connection,
    tenant: &Tenant,
    table: &str,
    id: &str,
) -> Result<Option<Row>, Refused> {
    existing(connection, tenant, table)?;
    Ok(document(connection, tenant, table, id)?.map(|bytes| row_of(&bytes)).transpose()?)
}

pub(super) fn query(
    connection: &Connection,
    tenant: &Tenant,
    query: &Query,
    limit: usize,
) -> Result<Rows, Refused> {
    let after = query.cursor.as_deref().map(|text| cursor::read(tenant, query, text)).transpose()?;
    if !query.order.is_empty() {
        return ordered(connection, tenant, query, limit, after.as_deref());
    }
    let (mut rows, mut bytes, mut next) = (Vec::<Row>::new(), 0, None);
    let mut last = String::new();
    each(connection, tenant, &query.table, &query.filter, after.as_deref(), |id, size, row| {
        if rows.len() == limit || (bytes + size > PAGE_BYTES && !rows.is_empty()) {
            next = Some(cursor::of(tenant, query, &last));
            return false;
        }
        bytes += size;
        rows.push(row);
        id.clone_into(&mut last);
        true
    })?;
    Ok(Rows { rows, next })
}

/// The rows after a position, in query order.
fn ordered(
    connection: &Connection,
    tenant: &Tenant,
    query: &Query,
    limit: usize,
    after: Option<&str>,
) -> Result<Rows, Refused> {
    order::check(&query.order, &existing(connection, tenant, &query.table)?.columns)?;
    let after = after
        .map(|text| {
            RowPosition::read(&query.order, text)
                .ok_or_else(|| refuse("`cursor` does not belong to this query"))
        })
        .transpose()?;
    let mut page = Page::new(limit, PAGE_BYTES);
    each(connection, tenant, &query.table, &query.filter, None, |id, size, row| {
        let place = RowPosition::of(&query.order, &row, id);
        if after.as_ref().is_none_or(|after| place > *after) {
            page.offer(place, size, row);
        }
        true
    })?;
    let next = page.end().map(|last| cursor::of(tenant, query, &last.text()));
    Ok(Rows { rows: page.into_rows(), next })
}

pub(super) fn count(
    connection: &Connection,
    tenant: &Tenant,
    table: &str,
    filter: &Row,
) -> Result<u64, Refused> {
    if filter.is_empty() {
        let known = existing(connection, tenant, table)?;
        return Ok(u64::try_from(known.rows).unwrap_or(0));
    }
    let mut count = 0;
    each(connection, tenant, table, filter, None, |_, _, _| {
        count += 1;
        true
    })?;
    Ok(count)
}

/// Visits the rows that match a filter in id order, until the callback stops.
fn each(
    connection: &Connection,
    tenant: &Tenant,
    table: &str,
    filter: &Row,
    after: Option<&str>,
    mut see: impl FnMut(&str, usize, Row) -> bool,
) -> Result<(), Refused> {
    existing(connection, tenant, table)?;
    // A filter by id matches at most one row, which is looked up directly.
    if let Some(Value::String(id)) = filter.get("id") {
        if after.is_none_or(|after| id.as_str() > after)
            && let Some(document) = document(connection, tenant, table, id)?
        {
            let row = row_of(&document)?;
            if matches(&row, filter) {
                see(id, document.len(), row);
            }
        }
        return Ok(());
    }
    let mut statement = connection.prepare_cached(
        "SELECT id, document FROM table_rows WHERE tenant = ?1 AND name = ?2 AND id > ?3 ORDER BY id",
    )?;
    // Ids are not empty, so every id is greater than the empty string.
    let mut found = statement.query(params![tenant.as_str(), table, after.unwrap_or_default()])?;
    while let Some(row) = found.next()? {
        let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let document = row_of(bytes)?;
        if matches(&document, filter)
            && !see(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?, bytes.len(), document)
        {
            break;
        }
    }
    Ok(())
}

fn matches(row: &Row, filter: &Row) -> bool {
    filter.iter().all(|(column, wanted)| same(row.get(column).unwrap_or(&Value::Null), wanted))
}

/// Stores a row over an existing one of that many bytes.
fn write(
    connection: &Connection,
    scope: &Scope,
    limits: &Limits,
    table: &str,
    id: &str,
    row: &Row,
    old: Option<usize>,
) -> Result<(), Refused> {
    let found = find(connection, &scope.tenant, table)?;
    let is_new_table = found.is_none();
    let mut known = found.unwrap_or(Table { columns: Columns::default(), rows: 0 });
    if is_new_table {
        admit_table(connection, scope, limits)?;
    }
    let grew = known.columns.admit(row, limits.table_columns)?;
    let document = bytes_of_object(row);
    if document.len() > limits.row_bytes {
        let (size, most) = (document.len(), limits.row_bytes);
        let message = format!("the row is {size} bytes as JSON; the limit is {most}");
        return Err(SurfaceError::new(Code::TableSchemaViolation, message).into());
    }
    if old.is_none() {
        known.rows += 1;
        if u64::try_from(known.rows).unwrap_or(u64::MAX) > limits.table_rows {
            let message =
                format!("the table reached its limit of {} rows; delete some rows first", limits.table_rows);
            return Err(SurfaceError::new(Code::TableRowLimitReached, message).into());
        }
    }
    connection
        .prepare_cached(
            "INSERT INTO table_rows (tenant, name, id, document) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (tenant, name, id) DO UPDATE SET document = excluded.document",
        )?
        .execute(params![scope.tenant.as_str(), table, id, document])?;
    if grew || old.is_none() || is_new_table {
        keep(connection, &scope.tenant, table, &known)?;
    }
    let before = old.map_or(0, |old| signed(old + id.len()));
    let growth = Usage::new(0, signed(document.len() + id.len()) - before);
    let usage = growth.add(connection, &scope.tenant, SURFACE)?;
    if growth.bytes > 0 && !usage.within(u64::MAX, limits.table_bytes) {
        let message =
            format!("the tenant's quota is {} bytes of rows; delete some rows first", limits.table_bytes);
        return Err(SurfaceError::new(Code::TableRowLimitReached, message).into());
    }
    Ok(())
}

fn admit_table(connection: &Connection, scope: &Scope, limits: &Limits) -> Result<(), Refused> {
    let usage = Usage::new(1, 0).add(connection, &scope.tenant, SURFACE)?;
    if usage.within(limits.tables, u64::MAX) {
        return Ok(());
    }
    let message = format!("the tenant's quota of {} tables is reached", limits.tables);
    Err(SurfaceError::new(Code::TableRowLimitReached, message).into())
}

fn id_of(row: &Row) -> Result<String, SurfaceError> {
    let Some(Value::String(id)) = row.get("id") else {
        return Err(SurfaceError::new(Code::TableSchemaViolation, "`row` must have a string `id`"));
    };
    check_name("id", id, MAX_NAME_BYTES, Code::TableSchemaViolation)?;
    Ok(id.clone())
}

fn find(connection: &Connection, tenant: &Tenant, table: &str) -> Result<Option<Table>, Refused> {
    let found: Option<(Vec<u8>, i64)> = connection
        .prepare_cached("SELECT columns, rows FROM tables WHERE tenant = ?1 AND name = ?2")?
        .query_row(params![tenant.as_str(), table], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((columns, rows)) = found else { return Ok(None) };
    let columns = serde_json::from_slice(&columns).map_err(|_| {
        SurfaceError::new(Code::SurfaceUnavailable, "the stored columns of the table are unreadable")
    })?;
    Ok(Some(Table { columns, rows }))
}

fn existing(connection: &Connection, tenant: &Tenant, table: &str) -> Result<Table, Refused> {
    find(connection, tenant, table)?.ok_or_else(|| {
        let message = format!("unknown table `{}`; the first insert creates a table", shown(table));
        SurfaceError::new(Code::TableNotFound, message).into()
    })
}

fn keep(connection: &Connection, tenant: &Tenant, table: &str, known: &Table) -> rusqlite::Result<()> {
    let columns = serde_json::to_vec(&known.columns).expect("names and types always serialize");
    connection
        .prepare_cached(
            "INSERT INTO tables (tenant, name, columns, rows) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (tenant, name) DO UPDATE SET columns = excluded.columns, rows = excluded.rows",
        )?
        .execute(params![tenant.as_str(), table, columns, known.rows])?;
    Ok(())
}

fn document(
    connection: &Connection,
    tenant: &Tenant,
    table: &str,
    id: &str,
) -> rusqlite::Result<Option<Vec<u8>>> {
    connection
        .prepare_cached("SELECT document FROM table_rows WHERE tenant = ?1 AND name = ?2 AND id = ?3")?
        .query_row(params![tenant.as_str(), table, id], |row| row.get(0))
        .optional()
}

fn row_of(bytes: &[u8]) -> Result<Row, SurfaceError> {
    match value_of(bytes)? {
        Value::Object(row) => Ok(row),
        _ => Err(SurfaceError::new(Code::SurfaceUnavailable, "a stored row of the table is unreadable")),
    }
}
