//! What is wrong with an input, as data.
//!
//! A [`Diagnostic`] is a set of [`Details`] about some [`Subject`]s. Its code, category,
//! severity, decisions and anchor all follow from the details, so they cannot disagree; the
//! message is written only when somebody reads it.

mod code;
mod details;
mod findings;
mod message;
mod subject;

use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

pub use code::{Category, Code, Severity};
pub use details::{
    Details, Expected, PolicyFault, PolicyReason, ReferenceReason, StructureReason, VersionField,
};
pub(crate) use findings::Findings;
pub use subject::{Subject, SubjectOwner};

/// The longest message, in characters.
pub const MAX_MESSAGE_CHARACTERS: usize = 512;

/// One thing that is wrong with the input.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic<'i> {
    details: Details<'i>,
    subjects: Vec<Subject<'i>>,
}

impl<'i> Diagnostic<'i> {
    /// Sorts and dedupes `subjects`, as every diagnostic shows them.
    pub(crate) fn new(details: Details<'i>, mut subjects: Vec<Subject<'i>>) -> Self {
        if subjects.len() > 1 {
            subject::normalise(&mut subjects);
        }
        Self { details, subjects }
    }

    /// The registered code.
    pub const fn code(&self) -> Code {
        self.details.code()
    }

    /// How bad it is; the kernel knows only errors.
    pub const fn severity(&self) -> Severity {
        Severity::Error
    }

    /// The facts, in the shape that the code fixes.
    pub const fn details(&self) -> &Details<'i> {
        &self.details
    }

    /// Whom it is about, sorted; at least one.
    pub fn subjects(&self) -> &[Subject<'i>] {
        &self.subjects
    }

    /// One English sentence or two, at most [`MAX_MESSAGE_CHARACTERS`] long.
    pub fn message(&self) -> String {
        message::of(&self.details)
    }

    /// What to do about it.
    pub const fn advice(&self) -> &'static str {
        self.code().advice()
    }

    /// The decisions that the rule rests on, sorted.
    pub const fn decision_ids(&self) -> &'static [&'static str] {
        self.details.decision_ids()
    }
}

impl Serialize for Diagnostic<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Diagnostic", 8)?;
        object.serialize_field("code", &self.code())?;
        object.serialize_field("severity", &self.severity())?;
        object.serialize_field("category", &self.code().category())?;
        object.serialize_field("message", &self.message())?;
        object.serialize_field("subjects", &self.subjects)?;
        object.serialize_field("details", &self.details)?;
        object.serialize_field("decisionIds", self.decision_ids())?;
        object.serialize_field("docsAnchor", self.code().docs_anchor())?;
        object.end()
    }
}

/// How many subjects are worth a person's time; the JSON has them all.
const SUBJECTS_SHOWN: usize = 8;

/// For a person: the message, whom it is about, and what to do.
impl fmt::Display for Diagnostic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}[{}]: {}", self.severity(), self.code(), self.message())?;
        for subject in self.subjects.iter().take(SUBJECTS_SHOWN) {
            writeln!(f, "  at {subject}")?;
        }
        if let Some(more @ 1..) = self.subjects.len().checked_sub(SUBJECTS_SHOWN) {
            writeln!(f, "  and {more} more")?;
        }
        write!(f, "  help: {}", self.advice())
    }
}
