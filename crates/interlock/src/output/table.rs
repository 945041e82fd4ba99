//! Aligned text columns.

use std::fmt;

use anstyle::Style;
use unicode_width::UnicodeWidthStr as _;

use super::{HEADING, clean};

#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: clean(text.as_ref()).into_owned(), style }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// Rows under a heading. Each column is as wide as its widest cell; the last one is not padded.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|heading| Cell::styled(heading, HEADING)).collect()] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.text.width())
                .max()
                .unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            for (column, Cell { text, style }) in row.iter().enumerate() {
                write!(formatter, "{style}{text}{style:#}")?;
                if column + 1 < row.len() {
                    let fill = widths[column] - text.width() + 2;
                    write!(formatter, "{:fill$}", "")?;
                }
            }
            writeln!(formatter)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_content() {
        let mut table = Table::new(&["id", "title", "n"]);
        table.row(["a".into(), "日本".into(), "1".into()]);
        table.row(["bcd".into(), "x\ty".into(), "22".into()]);
        let plain = anstream::adapter::strip_str(&table.to_string()).to_string();
        assert_eq!(plain, "id   title  n\na    日本   1\nbcd  x y    22\n");
    }
}
