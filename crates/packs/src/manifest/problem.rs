//! Problems of a document and their positions.

use std::fmt;

canon::error_codes! {
    pub enum ManifestErrorCode {
        /// The pack mixes kinds, has an unknown kind, or a runtime that its kind does not allow.
        KindInvalid => "pack_kind_invalid",
        /// A member is missing, unknown, has the wrong type or exceeds a limit.
        Invalid => "invalid_manifest",
        /// `engines.openwop` is not a version range.
        EnginesRange => "invalid_engines_range",
        /// A connector action or trigger is not a node of the pack.
        ConnectorActionUnresolved => "connector_action_unresolved",
        PromptTemplateInvalid => "prompt_template_invalid",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The violated rule.
    pub code: ManifestErrorCode,
    /// A JSON Pointer.
    pub pointer: String,
    pub message: String,
}

/// The maximum number of reported problems; others are counted.
pub const MAX_PROBLEMS: usize = 32;

/// All problems of a manifest; at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    kept: Vec<Problem>,
    more: usize,
}

impl Problems {
    pub(crate) fn add(&mut self, code: ManifestErrorCode, at: &Pointer<'_>, message: impl Into<String>) {
        if self.kept.len() < MAX_PROBLEMS {
            self.kept.push(Problem { code, pointer: at.to_string(), message: message.into() });
        } else {
            self.more += 1;
        }
    }

    /// Adds a problem found elsewhere under another code.
    pub(crate) fn keep(&mut self, code: ManifestErrorCode, problem: &Problem) {
        if self.kept.len() < MAX_PROBLEMS {
            self.kept.push(Problem { code, ..problem.clone() });
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn invalid(&mut self, at: &Pointer<'_>, message: impl Into<String>) {
        self.add(ManifestErrorCode::Invalid, at, message);
    }

    /// The first problems, at most [`MAX_PROBLEMS`].
    pub fn list(&self) -> &[Problem] {
        &self.kept
    }

    /// The number of further problems.
    pub fn more(&self) -> usize {
        self.more
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The most relevant problem: a wrong kind explains the others.
    pub fn first(&self) -> Option<&Problem> {
        self.kept.iter().min_by_key(|problem| problem.code)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.first() else { return formatter.write_str("no problems") };
        let place = if first.pointer.is_empty() { "the manifest" } else { &first.pointer };
        write!(formatter, "{place}: {}", first.message)?;
        match self.kept.len() + self.more - 1 {
            0 => Ok(()),
            others => write!(formatter, " (and {others} more)"),
        }
    }
}

impl std::error::Error for Problems {}

/// A position in a document, on the stack. It is formatted only for an error.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pointer<'a> {
    Root,
    Member(&'a Pointer<'a>, &'a str),
    Item(&'a Pointer<'a>, usize),
}

impl<'a> Pointer<'a> {
    pub(crate) fn member(&'a self, name: &'a str) -> Self {
        Self::Member(self, name)
    }

    pub(crate) fn item(&'a self, place: usize) -> Self {
        Self::Item(self, place)
    }
}

impl fmt::Display for Pointer<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(above, name) => {
                let name = crate::name::shown(name).replace('~', "~0").replace('/', "~1");
                write!(formatter, "{above}/{name}")
            }
            Self::Item(above, place) => write!(formatter, "{above}/{place}"),
        }
    }
}
