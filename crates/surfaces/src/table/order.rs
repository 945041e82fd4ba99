//! Query order.
//!
//! Rows are stored in id order. A query with another order scans the table once and keeps only the first rows of its
//! page, so memory is bounded by one page.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;

use super::columns::Columns;
use super::{Kind, Row};
use crate::args::{refuse, shown};
use crate::error::SurfaceError;
use crate::value::compare_numbers;

/// The maximum number of order columns.
pub const MAX_ORDER: usize = 8;
/// The compared prefix of a string, in bytes: it is part of the cursor, which must stay short.
const COMPARED_BYTES: usize = 256;

/// An order column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderBy {
    pub column: String,
    pub descending: bool,
}

impl OrderBy {
    /// Parses `column`, or `-column` for descending.
    pub fn parse(text: &str) -> Self {
        let (column, descending) = text.strip_prefix('-').map_or((text, false), |column| (column, true));
        Self { column: column.to_owned(), descending }
    }
}

/// Rejects an order by columns that cannot be compared.
pub(super) fn check(order: &[OrderBy], columns: &Columns) -> Result<(), SurfaceError> {
    match order.iter().find(|by| columns.kind(&by.column) == Some(Kind::Json)) {
        Some(by) => Err(refuse(format!(
            "the column `{}` has objects or lists; rows can be ordered by strings, numbers or booleans",
            shown(&by.column)
        ))),
        None => Ok(()),
    }
}

/// The position of a row in the order: its order values, then its id, so positions are unique.
#[derive(Clone, Debug)]
pub(super) struct RowPosition {
    parts: Vec<(Value, bool)>,
    id: String,
}

impl RowPosition {
    pub(super) fn of(order: &[OrderBy], row: &Row, id: &str) -> Self {
        let part = |by: &OrderBy| (compared(row.get(&by.column)), by.descending);
        Self { parts: order.iter().map(part).collect(), id: id.to_owned() }
    }

    /// The cursor form.
    pub(super) fn text(&self) -> String {
        let parts: Vec<&Value> = self.parts.iter().map(|(value, _)| value).collect();
        serde_json::json!([parts, self.id]).to_string()
    }

    /// Parses the cursor form.
    pub(super) fn read(order: &[OrderBy], text: &str) -> Option<Self> {
        let (values, id): (Vec<Value>, String) = serde_json::from_str(text).ok()?;
        if values.len() != order.len() {
            return None;
        }
        Some(Self { parts: values.into_iter().zip(order.iter().map(|by| by.descending)).collect(), id })
    }
}

impl Ord for RowPosition {
    fn cmp(&self, other: &Self) -> Ordering {
        for ((one, descending), (other, _)) in self.parts.iter().zip(&other.parts) {
            let compared = compare(one, other);
            let compared = if *descending { compared.reverse() } else { compared };
            if compared != Ordering::Equal {
                return compared;
            }
        }
        self.id.cmp(&other.id)
    }
}

impl PartialOrd for RowPosition {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RowPosition {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for RowPosition {}

/// The compared part of a value.
fn compared(value: Option<&Value>) -> Value {
    match value {
        Some(Value::String(text)) => text[..text.floor_char_boundary(COMPARED_BYTES)].into(),
        Some(Value::Bool(_) | Value::Number(_)) => value.cloned().unwrap_or_default(),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => Value::Null,
    }
}

/// Null comes first; other values of one column have the same type.
fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Number(one), Value::Number(other)) => compare_numbers(one, other),
        (Value::String(one), Value::String(other)) => one.cmp(other),
        _ => rank(one).cmp(&rank(other)),
    }
}

const fn rank(value: &Value) -> u8 {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
    }
}

/// The first rows of an order, limited by count and size. It always has at least one row.
pub(super) struct Page {
    limit: usize,
    most_bytes: usize,
    bytes: usize,
    rows: BTreeMap<RowPosition, (usize, Row)>,
    /// The first row that did not fit. Later rows are left out too, otherwise the page would have a gap.
    beyond: Option<RowPosition>,
}

impl Page {
    pub(super) const fn new(limit: usize, most_bytes: usize) -> Self {
        Self { limit, most_bytes, bytes: 0, rows: BTreeMap::new(), beyond: None }
    }

    pub(super) fn offer(&mut self, place: RowPosition, size: usize, row: Row) {
        if self.beyond.as_ref().is_some_and(|beyond| place >= *beyond) {
            return;
        }
        self.bytes += size;
        self.rows.insert(place, (size, row));
        while self.rows.len() > self.limit || (self.bytes > self.most_bytes && self.rows.len() > 1) {
            let Some((place, (size, _))) = self.rows.pop_last() else { break };
            self.bytes -= size;
            self.beyond = Some(place);
        }
    }

    /// The last position of the page, if more rows follow.
    pub(super) fn end(&self) -> Option<&RowPosition> {
        self.beyond.as_ref().and_then(|_| self.rows.last_key_value()).map(|(place, _)| place)
    }

    pub(super) fn into_rows(self) -> Vec<Row> {
        self.rows.into_values().map(|(_, row)| row).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(value: &Value) -> Row {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn pages_have_no_gaps() {
        let order = [OrderBy::parse("n")];
        // The second row is large: later rows would fit, but are left for the next page.
        let rows = [("d", 4, 10), ("b", 2, 90), ("a", 1, 20), ("c", 3, 10)];
        for first in 0..rows.len() {
            let mut page = Page::new(10, 100);
            for place in 0..rows.len() {
                let (id, n, size) = rows[(first + place) % rows.len()];
                let row = row(&json!({"id": id, "n": n}));
                page.offer(RowPosition::of(&order, &row, id), size, row);
            }
            assert_eq!(page.end().unwrap().id, "a", "{first}");
            assert_eq!(page.into_rows().len(), 1, "{first}");
        }
    }

    #[test]
    fn positions_round_trip() {
        let order = [OrderBy::parse("-s"), OrderBy::parse("n"), OrderBy::parse("none")];
        let long = "ü".repeat(400);
        let place = RowPosition::of(&order, &row(&json!({"s": long, "n": 1.5})), "a");
        let text = place.text();
        assert!(text.len() < 400, "{}", text.len());
        assert_eq!(RowPosition::read(&order, &text), Some(place));
        assert_eq!(RowPosition::read(&order[..1], &text), None);
        for wrong in ["", "[]", "[[],\"a\"]", "a"] {
            assert_eq!(RowPosition::read(&order, wrong), None, "{wrong}");
        }
    }
}
