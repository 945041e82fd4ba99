//! Writing results to standard output.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::failure::Failure;

/// How JSON is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One line, for programs.
    Compact,
    /// Indented, for people.
    Indented,
}

/// Prints one JSON document.
pub(crate) fn json(document: &impl Serialize, layout: Layout) -> Result<(), Failure> {
    print(|out| match layout {
        Layout::Compact => serde_json::to_writer(&mut *out, document).map_err(io::Error::from),
        Layout::Indented => serde_json::to_writer_pretty(&mut *out, document).map_err(io::Error::from),
    })
}

/// Prints text for people.
pub(crate) fn text(text: &impl Display) -> Result<(), Failure> {
    print(|out| write!(out, "{text}"))
}

/// Prints and ends the line. A reader that stops listening, such as `head`, has what it wanted.
fn print(
    write: impl FnOnce(&mut BufWriter<io::StdoutLock<'static>>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(64 * 1024, io::stdout().lock());
    match write(&mut out).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Unwritable { cause }),
        _ => Ok(()),
    }
}
