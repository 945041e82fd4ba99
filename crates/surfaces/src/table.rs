//! Tables.

mod columns;
mod cursor;
mod embedded;
mod json;
mod order;
mod rows;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::call::Scope;
use crate::served::PortFuture;

pub use self::columns::Kind;
pub use self::embedded::EmbeddedTables;
pub use self::json::ServedTables;
pub use self::order::{MAX_ORDER, OrderBy};

/// The maximum number of rows per page.
pub const MAX_PAGE: usize = 1000;
/// The maximum length of a table name, column name or row id, in bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// A row: values by column.
pub type Row = Map<String, Value>;

/// The tables of a tenant.
///
/// # Contract
///
/// * Tables are visible only to their tenant.
/// * The first value of a column fixes its type; a later value of another type is an error, and its row is not stored.
///   A column may be missing or null in any row, which fixes nothing. New columns are added.
/// * Rows are ordered by the bytes of their ids, or by the columns of the query, each ascending or descending, then by
///   id. Missing values come first. A page starts after the last row of the previous page, so no unchanged row is
///   skipped or repeated, whatever is written in between.
/// * A filter matches rows whose columns equal its members; a missing column is null.
/// * A change is durable when the call returns, and is applied once per effect id.
pub trait Tables: Send + Sync {
    /// Creates a table with typed columns; returns whether it is new. New columns are added to an existing table.
    fn create<'a>(
        &'a self,
        scope: &'a Scope,
        table: String,
        columns: Vec<(String, Kind)>,
    ) -> PortFuture<'a, bool>;
    /// Inserts a row and returns its id; creates the table if needed. The id must be new.
    fn insert<'a>(&'a self, scope: &'a Scope, table: String, row: Row) -> PortFuture<'a, String>;
    /// Inserts or replaces a row.
    fn upsert<'a>(&'a self, scope: &'a Scope, table: String, row: Row) -> PortFuture<'a, Upserted>;
    fn get<'a>(&'a self, scope: &'a Scope, table: String, id: String) -> PortFuture<'a, Option<Row>>;
    /// Changes some columns of a row; returns whether it exists.
    fn update<'a>(&'a self, scope: &'a Scope, table: String, id: String, patch: Row) -> PortFuture<'a, bool>;
    /// Removes a row; returns whether it existed.
    fn delete<'a>(&'a self, scope: &'a Scope, table: String, id: String) -> PortFuture<'a, bool>;
    fn query<'a>(&'a self, scope: &'a Scope, query: Query) -> PortFuture<'a, Rows>;
    /// The number of rows that match a filter.
    fn count<'a>(&'a self, scope: &'a Scope, table: String, filter: Row) -> PortFuture<'a, u64>;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upserted {
    pub id: String,
    /// Whether the row is new.
    pub created: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Query {
    pub table: String,
    /// Required column values; empty matches all rows.
    pub filter: Row,
    /// The order; by id if empty.
    pub order: Vec<OrderBy>,
    /// The maximum number of rows.
    pub limit: usize,
    /// The cursor of the previous page.
    pub cursor: Option<String>,
}

/// A page of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// In query order.
    pub rows: Vec<Row>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<String>,
}
