//! The order that a query asks for.
//!
//! Rows have no other order than that of their ids on the disk. A query that wants another goes through the table once and keeps the
//! first rows of its page only, so what it holds in memory is one page, however large the table is.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;

use super::columns::Columns;
use super::{Kind, Row};
use crate::args::{refuse, shown};
use crate::error::SurfaceError;
use crate::value::compare_numbers;

/// How many columns rows are ordered by at the most.
pub const MAX_ORDER: usize = 8;
/// How many bytes of a text count: they are in the cursor of the next page, and a cursor is no place for long texts.
const COMPARED_BYTES: usize = 256;

/// A column that rows are ordered by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderBy {
    /// Which one.
    pub column: String,
    /// Whether the largest comes first.
    pub descending: bool,
}

impl OrderBy {
    /// `column`, or `-column` for the largest first.
    pub fn parse(text: &str) -> Self {
        let (column, descending) = text.strip_prefix('-').map_or((text, false), |column| (column, true));
        Self { column: column.to_owned(), descending }
    }
}

/// Refuses an order by columns that have none.
pub(super) fn check(order: &[OrderBy], columns: &Columns) -> Result<(), SurfaceError> {
    match order.iter().find(|by| columns.kind(&by.column) == Some(Kind::Json)) {
        Some(by) => Err(refuse(format!(
            "the column `{}` has objects or lists, and rows are ordered by texts, numbers or yes and no",
            shown(&by.column)
        ))),
        None => Ok(()),
    }
}

/// Where a row is among the others: what it says in the columns of the order, and then its id, so that no two rows are in one place.
#[derive(Clone, Debug)]
pub(super) struct Place {
    parts: Vec<(Value, bool)>,
    id: String,
}

impl Place {
    pub(super) fn of(order: &[OrderBy], row: &Row, id: &str) -> Self {
        let part = |by: &OrderBy| (compared(row.get(&by.column)), by.descending);
        Self { parts: order.iter().map(part).collect(), id: id.to_owned() }
    }

    /// As a cursor holds it.
    pub(super) fn text(&self) -> String {
        let parts: Vec<&Value> = self.parts.iter().map(|(value, _)| value).collect();
        serde_json::json!([parts, self.id]).to_string()
    }

    /// The place that a cursor of this order holds.
    pub(super) fn read(order: &[OrderBy], text: &str) -> Option<Self> {
        let (values, id): (Vec<Value>, String) = serde_json::from_str(text).ok()?;
        if values.len() != order.len() {
            return None;
        }
        Some(Self { parts: values.into_iter().zip(order.iter().map(|by| by.descending)).collect(), id })
    }
}

impl Ord for Place {
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

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Place {}

/// As much of a value as counts.
fn compared(value: Option<&Value>) -> Value {
    match value {
        Some(Value::String(text)) => text[..text.floor_char_boundary(COMPARED_BYTES)].into(),
        Some(Value::Bool(_) | Value::Number(_)) => value.cloned().unwrap_or_default(),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => Value::Null,
    }
}

/// Nothing comes first; the values of one column are of one type otherwise.
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

/// The first rows of an order, within a count and a size. The first one is always among them.
pub(super) struct Page {
    limit: usize,
    most_bytes: usize,
    bytes: usize,
    rows: BTreeMap<Place, (usize, Row)>,
    /// The first row that had no room. What comes behind it has none either, or the page would have a gap.
    beyond: Option<Place>,
}

impl Page {
    pub(super) const fn new(limit: usize, most_bytes: usize) -> Self {
        Self { limit, most_bytes, bytes: 0, rows: BTreeMap::new(), beyond: None }
    }

    pub(super) fn offer(&mut self, place: Place, size: usize, row: Row) {
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

    /// The last place of the page, where there are rows behind it.
    pub(super) fn end(&self) -> Option<&Place> {
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
    fn a_page_has_no_gap_whatever_the_order_of_arrival() {
        let order = [OrderBy::parse("n")];
        // The second is large: what arrives behind it would fit, and is left for the next page.
        let rows = [("d", 4, 10), ("b", 2, 90), ("a", 1, 20), ("c", 3, 10)];
        for first in 0..rows.len() {
            let mut page = Page::new(10, 100);
            for place in 0..rows.len() {
                let (id, n, size) = rows[(first + place) % rows.len()];
                let row = row(&json!({"id": id, "n": n}));
                page.offer(Place::of(&order, &row, id), size, row);
            }
            assert_eq!(page.end().unwrap().id, "a", "{first}");
            assert_eq!(page.into_rows().len(), 1, "{first}");
        }
    }

    #[test]
    fn a_place_survives_its_cursor() {
        let order = [OrderBy::parse("-s"), OrderBy::parse("n"), OrderBy::parse("none")];
        let long = "ü".repeat(400);
        let place = Place::of(&order, &row(&json!({"s": long, "n": 1.5})), "a");
        let text = place.text();
        assert!(text.len() < 400, "{}", text.len());
        assert_eq!(Place::read(&order, &text), Some(place));
        assert_eq!(Place::read(&order[..1], &text), None);
        for wrong in ["", "[]", "[[],\"a\"]", "a"] {
            assert_eq!(Place::read(&order, wrong), None, "{wrong}");
        }
    }
}
