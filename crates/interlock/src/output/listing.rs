//! Tables that fit the terminal: columns drop out in a fixed order, long texts end in `…`, nothing wraps.
//!
//! If standard output is not a terminal, the rows are tab-separated, with whole values and without a header.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use anstyle::Style;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{HEADING, clean};
use crate::failure::Failure;

/// The width if the terminal does not know its own.
const DEFAULT_WIDTH: usize = 80;
const GAP: usize = 2;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Columns with a higher number drop out first; 0 never does.
    pub(crate) drops: u8,
    /// The fewest cells that a text may be shortened to; `None` is never shortened.
    pub(crate) shortest: Option<usize>,
    pub(crate) right: bool,
}

impl Column {
    pub(crate) const fn fixed(title: &'static str, drops: u8) -> Self {
        Self { title, drops, shortest: None, right: false }
    }

    pub(crate) const fn text(title: &'static str, drops: u8, shortest: usize) -> Self {
        Self { title, drops, shortest: Some(shortest), right: false }
    }

    pub(crate) const fn number(title: &'static str, drops: u8) -> Self {
        Self { title, drops, shortest: None, right: true }
    }
}

/// A value: as people see it, and as programs read it.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    shown: String,
    whole: String,
    style: Style,
}

impl Field {
    pub(crate) fn new(shown: impl AsRef<str>, whole: impl AsRef<str>, style: Style) -> Self {
        let one_line = |text: &str| clean(text).into_owned();
        Self { shown: one_line(shown.as_ref()), whole: one_line(whole.as_ref()), style }
    }
}

impl<T: AsRef<str>> From<T> for Field {
    fn from(text: T) -> Self {
        Self::new(text.as_ref(), text.as_ref(), Style::new())
    }
}

pub(crate) struct Listing<const N: usize> {
    columns: [Column; N],
    rows: Vec<[Field; N]>,
}

impl<const N: usize> Listing<N> {
    pub(crate) const fn new(columns: [Column; N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, row: [Field; N]) {
        self.rows.push(row);
    }

    /// Prints for a person or for a program, depending on standard output. `after` is a note for people.
    pub(crate) fn print(&self, after: &str) -> Result<(), Failure> {
        if std::io::stdout().is_terminal() {
            let width =
                terminal_size::terminal_size().map_or(DEFAULT_WIDTH, |(width, _)| usize::from(width.0));
            return super::text(&format!("{}{after}", self.fitted(width)));
        }
        if self.rows.is_empty() { Ok(()) } else { super::text(&self.separated()) }
    }

    /// Tab-separated rows.
    fn separated(&self) -> String {
        let line = |row: &[Field; N]| {
            let fields: Vec<_> = row.iter().map(|field| field.whole.as_str()).collect();
            fields.join("\t") + "\n"
        };
        self.rows.iter().map(line).collect()
    }

    /// The table in this many cells.
    fn fitted(&self, width: usize) -> String {
        let mut kept: Vec<usize> = (0..N).collect();
        let widths = loop {
            match self.widths(&kept, width) {
                Ok(widths) => break widths,
                Err(narrow) => {
                    let last = kept.iter().copied().max_by_key(|column| self.columns[*column].drops);
                    match last.filter(|column| self.columns[*column].drops > 0) {
                        Some(column) => kept.retain(|kept| *kept != column),
                        // Even the columns that never drop are too wide: cut them.
                        None => break narrow,
                    }
                }
            }
        };
        let mut table = String::new();
        let titles = kept.iter().map(|column| (self.columns[*column].title, HEADING)).collect();
        self.line(&mut table, &kept, &widths, titles, width);
        for row in &self.rows {
            let cells = kept.iter().map(|column| (row[*column].shown.as_str(), row[*column].style)).collect();
            self.line(&mut table, &kept, &widths, cells, width);
        }
        table
    }

    /// The widths of these columns, or the narrowest ones if they do not fit.
    fn widths(&self, kept: &[usize], width: usize) -> Result<Vec<usize>, Vec<usize>> {
        let widest = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].shown.width());
            cells.chain([self.columns[column].title.width()]).max().unwrap_or_default()
        };
        let mut widths: Vec<usize> = kept.iter().map(|column| widest(*column)).collect();
        let room = width.saturating_sub(GAP * kept.len().saturating_sub(1));
        // The last texts are shortened first.
        for (place, column) in kept.iter().enumerate().rev() {
            let over = widths.iter().sum::<usize>().saturating_sub(room);
            if let Some(shortest) = self.columns[*column].shortest
                && over > 0
            {
                widths[place] = widths[place].saturating_sub(over).max(shortest.min(widths[place]));
            }
        }
        if widths.iter().sum::<usize>() <= room { Ok(widths) } else { Err(widths) }
    }

    fn line(
        &self,
        table: &mut String,
        kept: &[usize],
        widths: &[usize],
        cells: Vec<(&str, Style)>,
        width: usize,
    ) {
        let mut used = 0;
        for (place, (text, style)) in cells.into_iter().enumerate() {
            let room = widths[place].min(width.saturating_sub(used));
            let text = shortened_to(text, room);
            let fill = room.saturating_sub(text.width());
            let is_last = place + 1 == kept.len();
            let (before, after) = match (self.columns[kept[place]].right, is_last) {
                (true, _) => (fill, 0),
                (false, true) => (0, 0),
                (false, false) => (0, fill),
            };
            let gap = if is_last { 0 } else { GAP.min(width.saturating_sub(used + room)) };
            let _ = write!(table, "{:before$}{style}{text}{style:#}{:after$}{:gap$}", "", "", "");
            used += room + gap;
        }
        while table.ends_with(' ') {
            table.pop();
        }
        table.push('\n');
    }
}

/// At most this many cells of a text.
fn shortened_to(text: &str, cells: usize) -> String {
    if text.width() <= cells {
        return text.to_owned();
    }
    let mut shortened = String::new();
    let mut used = 0;
    for character in text.chars() {
        let width = character.width().unwrap_or_default();
        if used + width + 1 > cells {
            break;
        }
        used += width;
        shortened.push(character);
    }
    if cells > 0 {
        shortened.truncate(shortened.trim_end().len());
        shortened.push('…');
    }
    shortened
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing() -> Listing<4> {
        let mut listing = Listing::new([
            Column::fixed("STATUS", 0),
            Column::text("WORKFLOW", 1, 8),
            Column::number("TOOK", 2),
            Column::text("WHY", 3, 10),
        ]);
        let why = "page: upstream_timeout, the pager did not answer within ten seconds";
        listing.row(["Failed".into(), "incident".into(), "4 min 50 s".into(), why.into()]);
        listing.row([
            "Completed".into(),
            Field::new("日本語の仕事", "日本語の仕事", Style::new()),
            "52.0 s".into(),
            "a\tb".into(),
        ]);
        listing
    }

    fn plain(width: usize) -> String {
        anstream::adapter::strip_str(&listing().fitted(width)).to_string()
    }

    #[test]
    fn columns_drop_and_texts_shorten_until_the_table_fits() {
        let wide = "\
STATUS     WORKFLOW            TOOK  WHY
Failed     incident      4 min 50 s  page: upstream_timeout, the pager did…
Completed  日本語の仕事      52.0 s  a b
";
        assert_eq!(plain(76), wide);
        assert_eq!(
            plain(40),
            "STATUS     WORKFLOW            TOOK\nFailed     incident      4 min 50 s\nCompleted  日本語の仕事      52.0 s\n"
        );
        assert_eq!(plain(20), "STATUS     WORKFLOW\nFailed     incident\nCompleted  日本語の…\n");
        assert_eq!(plain(7), "STATUS\nFailed\nComple…\n");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in 1..200 {
            for line in plain(width).lines() {
                assert!(line.width() <= width, "{width}: {line:?}");
            }
        }
    }

    #[test]
    fn programs_get_tabs_and_whole_values() {
        assert_eq!(
            listing().separated().lines().nth(1),
            Some("Completed\t日本語の仕事\t52.0 s\ta b"),
            "a tab inside a value would be a column"
        );
    }
}
