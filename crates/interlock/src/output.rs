//! Writes results to standard output, or atomically to a file.

mod file;
mod listing;
mod table;
pub(crate) mod time;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, BufWriter, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::failure::Failure;

pub(crate) use file::{Overwrite, write_file};
pub(crate) use listing::{Column, Field, Listing};
pub(crate) use table::{Cell, Table};

pub(crate) const HEADING: Style = Style::new().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const DIM: Style = Style::new().dimmed();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One line, for programs.
    Compact,
    /// Indented, for people.
    Indented,
}

pub(crate) fn json(document: &impl Serialize, layout: Layout) -> Result<(), Failure> {
    print(|out| match layout {
        Layout::Compact => serde_json::to_writer(&mut *out, document).map_err(io::Error::from),
        Layout::Indented => serde_json::to_writer_pretty(&mut *out, document).map_err(io::Error::from),
    })
}

/// Prints text. Colours are used only on a terminal.
pub(crate) fn text(text: &impl Display) -> Result<(), Failure> {
    let text = text.to_string();
    let text = text.trim_end_matches('\n');
    match anstream::AutoStream::choice(&io::stdout()) {
        anstream::ColorChoice::Never => print(|out| write!(out, "{}", anstream::adapter::strip_str(text))),
        _ => print(|out| out.write_all(text.as_bytes())),
    }
}

pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    print(|out| out.write_all(bytes.strip_suffix(b"\n").unwrap_or(bytes)))
}

/// Prints a note to standard error, because it is not part of the result.
pub(crate) fn note(text: &impl Display) {
    // If standard error is closed, the note is dropped.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Untrusted text on one line, without terminal control characters.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_harmful) {
        text.chars().map(|character| if is_harmful(character) { ' ' } else { character }).collect()
    } else {
        Cow::Borrowed(text)
    }
}

/// Control characters, and characters that change the text direction.
fn is_harmful(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// The beginning of a text on one line, at most `characters` long.
pub(crate) fn shortened(text: &str, characters: usize) -> String {
    let line = clean(text);
    match line.char_indices().nth(characters) {
        None => line.into_owned(),
        Some(_) => line.chars().take(characters.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Prints and ends the line. A closed pipe, as with `head`, is not an error.
fn print(
    write: impl FnOnce(&mut BufWriter<io::StdoutLock<'static>>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(64 * 1024, io::stdout().lock());
    match write(&mut out).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => Err(Failure::unwritable(None, cause)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_removed() {
        for (text, expected) in [
            ("plain – text", "plain – text"),
            ("\u{1b}[2Jgone", " [2Jgone"),
            ("two\nlines", "two lines"),
            ("evil\u{202E}txt", "evil txt"),
        ] {
            assert_eq!(clean(text), expected);
        }
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("abcd", 4), "abcd");
    }
}
