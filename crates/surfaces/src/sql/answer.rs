//! What a statement brought, within bounds.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::SqlLimits;
use crate::args::{refuse, shown};
use crate::error::SurfaceError;

/// A row: columns by name.
pub type Row = Map<String, Value>;

/// What a statement brought.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outcome {
    /// The rows, where the statement has columns.
    pub rows: Option<Vec<Row>>,
    /// How many rows were changed.
    pub changes: u64,
    /// The number of the last row that was added, where the database numbers rows.
    pub last_insert_rowid: Option<i64>,
}

/// Rows that are gathered until a bound is met.
pub(super) struct Gathered<'a> {
    limits: &'a SqlLimits,
    names: Vec<String>,
    rows: Vec<Row>,
    bytes: usize,
}

impl<'a> Gathered<'a> {
    /// Rows of those columns.
    pub(super) fn new(limits: &'a SqlLimits, names: Vec<String>) -> Result<Self, SurfaceError> {
        for (place, name) in names.iter().enumerate() {
            if names[..place].contains(name) {
                let shown = shown(name);
                return Err(refuse(format!("two columns are called `{shown}`; give one of them an alias")));
            }
        }
        Ok(Self { limits, names, rows: Vec::new(), bytes: 0 })
    }

    /// Refuses a row of so many bytes where it is beyond the bound: before a copy of it is made.
    pub(super) fn admit(&self, row_bytes: usize) -> Result<(), SurfaceError> {
        let most = self.limits.bytes;
        if self.bytes.saturating_add(row_bytes) > most { Err(too_many_bytes(most)) } else { Ok(()) }
    }

    /// Adds a row, whose values are in the order of the columns.
    pub(super) fn push(&mut self, values: impl IntoIterator<Item = Value>) -> Result<(), SurfaceError> {
        let SqlLimits { rows, bytes, .. } = *self.limits;
        if self.rows.len() == rows {
            return Err(refuse(format!("the answer has more than {rows} rows; ask for a page with LIMIT")));
        }
        let mut row = Row::new();
        for (name, value) in self.names.iter().zip(values) {
            self.bytes = self.bytes.saturating_add(name.len() + size_of(&value));
            row.insert(name.clone(), value);
        }
        if self.bytes > bytes {
            return Err(too_many_bytes(bytes));
        }
        self.rows.push(row);
        Ok(())
    }

    pub(super) fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}

/// The bytes of a transaction's answer, about, with one more outcome. Statements are bounded one by one, and a transaction may have hundreds.
pub(super) fn together(bytes: usize, more: &Outcome, limits: &SqlLimits) -> Result<usize, SurfaceError> {
    let members = more.rows.iter().flatten().flatten();
    let bytes = members.fold(bytes, |sum, (name, value)| sum.saturating_add(name.len() + size_of(value)));
    if bytes > limits.bytes {
        return Err(refuse(format!(
            "the answers of the transaction have more than {} bytes together, and none of it happened; ask for fewer rows or columns",
            limits.bytes
        )));
    }
    Ok(bytes)
}

fn too_many_bytes(most: usize) -> SurfaceError {
    refuse(format!("the answer has more than {most} bytes; ask for fewer rows or columns"))
}

/// The bytes of a value, about.
fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(size_of).sum::<usize>() + 2,
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + size_of(value)).sum::<usize>() + 2
        }
    }
}
