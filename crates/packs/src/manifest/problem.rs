//! What is wrong with a document, and where.

use std::fmt;

canon::error_codes! {
    /// What can be wrong with a manifest.
    pub enum ManifestErrorCode {
        /// The pack mixes kinds, is of an unknown kind, or has a runtime that its kind may not have.
        KindInvalid => "pack_kind_invalid",
        /// A member is missing, unknown, of another type or beyond a bound.
        Invalid => "invalid_manifest",
        /// `engines.openwop` is no range of versions.
        EnginesRange => "invalid_engines_range",
        /// An action or trigger of a connector is no node of the pack.
        ConnectorActionUnresolved => "connector_action_unresolved",
        /// A template of prompts breaks a rule.
        PromptTemplateInvalid => "prompt_template_invalid",
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which rule is broken.
    pub code: ManifestErrorCode,
    /// Where, as a JSON pointer.
    pub pointer: String,
    /// What is wrong, for people.
    pub message: String,
}

/// The most problems that are kept; the others are counted.
pub const MAX_PROBLEMS: usize = 32;

/// Everything that is wrong with a manifest; at least one thing.
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

    /// Takes over a problem that was found elsewhere, as one of another rule.
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

    /// The first of them, at most [`MAX_PROBLEMS`].
    pub fn list(&self) -> &[Problem] {
        &self.kept
    }

    /// How many more there are.
    pub fn more(&self) -> usize {
        self.more
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The one that a reader is told first: a wrong kind explains the others.
    pub fn first(&self) -> Option<&Problem> {
        self.kept.iter().min_by_key(|problem| problem.code)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.first() else { return formatter.write_str("nothing is wrong") };
        let place = if first.pointer.is_empty() { "the manifest" } else { &first.pointer };
        write!(formatter, "{place}: {}", first.message)?;
        match self.kept.len() + self.more - 1 {
            0 => Ok(()),
            others => write!(formatter, " (and {others} more)"),
        }
    }
}

impl std::error::Error for Problems {}

/// A place in a document. It lives on the stack and is written only when something is wrong there.
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
