//! Statement results, within limits.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::SqlLimits;
use crate::args::{refuse, shown};
use crate::error::SurfaceError;

/// A row: values by column name.
pub type Row = Map<String, Value>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatementResult {
    /// The rows, if the statement returns columns.
    pub rows: Option<Vec<Row>>,
    /// The number of changed rows.
    pub changes: u64,
    /// The rowid of the last inserted row, if the database has rowids.
    pub last_insert_rowid: Option<i64>,
}

/// Collects rows until a limit is reached.
pub(super) struct RowCollector<'a> {
    limits: &'a SqlLimits,
    names: Vec<String>,
    rows: Vec<Row>,
    bytes: usize,
}

impl<'a> RowCollector<'a> {
    pub(super) fn new(limits: &'a SqlLimits, names: Vec<String>) -> Result<Self, SurfaceError> {
        for (place, name) in names.iter().enumerate() {
            if names[..place].contains(name) {
                let shown = shown(name);
                return Err(refuse(format!("two columns are named `{shown}`; use an alias")));
            }
        }
        Ok(Self { limits, names, rows: Vec::new(), bytes: 0 })
    }

    /// Checks the size of a row before it is copied.
    pub(super) fn admit(&self, row_bytes: usize) -> Result<(), SurfaceError> {
        let most = self.limits.bytes;
        if self.bytes.saturating_add(row_bytes) > most { Err(too_many_bytes(most)) } else { Ok(()) }
    }

    /// Adds a row with values in column order.
    pub(super) fn push(&mut self, values: impl IntoIterator<Item = Value>) -> Result<(), SurfaceError> {
        let SqlLimits { rows, bytes, .. } = *self.limits;
        if self.rows.len() == rows {
            return Err(refuse(format!("the result has more than {rows} rows; use LIMIT to read pages")));
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

/// The approximate size of a transaction's results with one more. Each statement is limited, but a transaction may have
/// hundreds.
pub(super) fn together(
    bytes: usize,
    more: &StatementResult,
    limits: &SqlLimits,
) -> Result<usize, SurfaceError> {
    let members = more.rows.iter().flatten().flatten();
    let bytes = members.fold(bytes, |sum, (name, value)| sum.saturating_add(name.len() + size_of(value)));
    if bytes > limits.bytes {
        return Err(refuse(format!(
            "the results of the transaction exceed {} bytes in total; it was rolled back; select fewer \
                rows or columns",
            limits.bytes
        )));
    }
    Ok(bytes)
}

fn too_many_bytes(most: usize) -> SurfaceError {
    refuse(format!("the result exceeds {most} bytes; select fewer rows or columns"))
}

/// The approximate size of a value.
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
