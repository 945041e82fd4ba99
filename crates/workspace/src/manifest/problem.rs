//! Problems of a manifest, with their locations.

use std::fmt;
use std::sync::Arc;

use super::node::Position;
use crate::{Code, Error};

/// How many problems are listed.
pub(super) const MAX_PROBLEMS: usize = 100;

/// The longest quoted piece of a file, in bytes.
const MAX_QUOTED: usize = 80;

/// A location: file, path and position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file name as given.
    pub file: Arc<str>,
    /// The path of the value, such as `$.spec.env[0].name`.
    pub path: String,
    /// Line and column, if the value is in a file.
    pub position: Option<Position>,
}

/// A warning: allowed, but probably not intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub place: Location,
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.message)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.file)?;
        if let Some(Position { line, column }) = self.position {
            write!(formatter, ":{line}:{column}")?;
        }
        write!(formatter, ": {}", self.path)
    }
}

impl Location {
    pub(super) fn refuse(&self, code: Code, message: impl fmt::Display) -> Error {
        let error = Error::new(code, format!("{self}: {message}"))
            .detail("file", &*self.file)
            .detail("path", self.path.as_str());
        match self.position {
            Some(Position { line, column }) => error.detail("line", line).detail("column", column),
            None => error,
        }
    }
}

/// The path from the root to a value, kept on the stack: it is formatted only if there is a
/// problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Member(&'a str),
    Item(usize),
}

impl<'a> At<'a> {
    pub(super) const ROOT: At<'static> = At { parent: None, step: Step::Root };

    pub(super) const fn member(&'a self, key: &'a str) -> At<'a> {
        At { parent: Some(self), step: Step::Member(key) }
    }

    pub(super) const fn item(&'a self, index: usize) -> At<'a> {
        At { parent: Some(self), step: Step::Item(index) }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(formatter)?;
        }
        match self.step {
            Step::Root => formatter.write_str("$"),
            Step::Item(index) => write!(formatter, "[{index}]"),
            Step::Member(key) => {
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
                if !key.is_empty() && key.len() <= MAX_QUOTED && key.chars().all(plain) {
                    write!(formatter, ".{key}")
                } else {
                    write!(formatter, "[{:?}]", canon::budget::truncate(key, MAX_QUOTED))
                }
            }
        }
    }
}

/// The problems of one file.
#[derive(Debug)]
pub(super) struct Problems {
    file: Arc<str>,
    errors: Vec<Error>,
}

impl Problems {
    pub(super) fn new(file: &str) -> Self {
        Self { file: file.into(), errors: Vec::new() }
    }

    pub(super) fn place(&self, at: &At<'_>, position: Position) -> Location {
        Location { file: Arc::clone(&self.file), path: at.to_string(), position: Some(position) }
    }

    /// Records a problem, up to the limit.
    pub(super) fn add(&mut self, at: &At<'_>, position: Position, message: impl fmt::Display) {
        self.add_as(Code::ValidationError, at, position, message);
    }

    /// Records a problem with a specific code.
    pub(super) fn add_as(&mut self, code: Code, at: &At<'_>, position: Position, message: impl fmt::Display) {
        if self.errors.len() < MAX_PROBLEMS {
            let place = self.place(at, position);
            self.errors.push(place.refuse(code, message));
        }
    }

    pub(super) fn into_errors(self) -> Vec<Error> {
        self.errors
    }
}

/// A text of a file, quoted and truncated for a message.
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", canon::budget::truncate(text, MAX_QUOTED).escape_debug())
}
