//! Tables of rows.

mod columns;
mod cursor;
mod embedded;
mod json;
mod order;
mod rows;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::call::Scope;
use crate::served::Answer;

pub use self::columns::Kind;
pub use self::embedded::EmbeddedTables;
pub use self::json::ServedTables;
pub use self::order::{MAX_ORDER, OrderBy};

/// How many rows a page has at the most.
pub const MAX_PAGE: usize = 1000;
/// How many bytes the name of a table or a column, or the id of a row may have.
pub const MAX_NAME_BYTES: usize = 256;

/// The members of a row, by column.
pub type Row = Map<String, Value>;

/// Tables of a tenant.
///
/// # Contract
/// * Tables of one tenant are invisible to every other, by every method.
/// * The first row that has a column fixes the type of that column; a later value of another type is refused, and nothing of its row is
///   kept. A column may be absent or null in any row, which fixes nothing. New columns are added.
/// * Rows come in the order of the bytes of their ids, or in the order that a query asks for: by columns, each ascending or descending, and by
///   their ids where those say the same. What is absent comes before everything else. A page begins behind the last row of the page before,
///   so no row that is there and unchanged all the while is seen twice or not at all, whatever is written in between.
/// * A filter has the rows whose columns say the same as its members; a column that is absent is null.
/// * A change is durable when it returns, and happens once for an effect's identity.
pub trait Tables: Send + Sync {
    /// Makes a table with columns of given types; says whether it was not there. More columns of a table that is there are added.
    fn create<'a>(
        &'a self,
        scope: &'a Scope,
        table: String,
        columns: Vec<(String, Kind)>,
    ) -> Answer<'a, bool>;
    /// Adds a row, which makes the table where it is not there; tells its id. A row of that id may not be there.
    fn insert<'a>(&'a self, scope: &'a Scope, table: String, row: Row) -> Answer<'a, String>;
    /// Adds a row or puts it in the place of the one that is there.
    fn upsert<'a>(&'a self, scope: &'a Scope, table: String, row: Row) -> Answer<'a, Upserted>;
    /// The row of that id.
    fn get<'a>(&'a self, scope: &'a Scope, table: String, id: String) -> Answer<'a, Option<Row>>;
    /// Changes some columns of a row; says whether it is there.
    fn update<'a>(&'a self, scope: &'a Scope, table: String, id: String, patch: Row) -> Answer<'a, bool>;
    /// Removes a row; says whether it was there.
    fn delete<'a>(&'a self, scope: &'a Scope, table: String, id: String) -> Answer<'a, bool>;
    /// Some rows.
    fn query<'a>(&'a self, scope: &'a Scope, query: Query) -> Answer<'a, Rows>;
    /// How many rows there are of a filter.
    fn count<'a>(&'a self, scope: &'a Scope, table: String, filter: Row) -> Answer<'a, u64>;
}

/// How an upsert went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upserted {
    /// The id of the row.
    pub id: String,
    /// Whether it was not there before.
    pub created: bool,
}

/// Which rows are wanted.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Of which table.
    pub table: String,
    /// What their columns say; nothing is all rows.
    pub filter: Row,
    /// What they are ordered by; by their ids where nothing is said.
    pub order: Vec<OrderBy>,
    /// How many at the most.
    pub limit: usize,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

/// Some rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// In the order of the query.
    pub rows: Vec<Row>,
    /// Where the next page begins; nothing at the end.
    pub next: Option<String>,
}
