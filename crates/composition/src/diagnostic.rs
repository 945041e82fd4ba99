//! Diagnostics as data.
//!
//! A [`Diagnostic`] is a set of [`Details`] about some [`Subject`]s. Its code, category, severity, decisions and anchor
//! follow from the details, so they cannot disagree; the message is formatted on demand.

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

/// The maximum length of a message, in characters.
pub const MAX_MESSAGE_CHARACTERS: usize = 512;

/// A problem of the input.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic<'i> {
    details: Details<'i>,
    subjects: Vec<Subject<'i>>,
}

impl<'i> Diagnostic<'i> {
    /// Sorts and deduplicates `subjects`.
    pub(crate) fn new(details: Details<'i>, mut subjects: Vec<Subject<'i>>) -> Self {
        if subjects.len() > 1 {
            subject::normalise(&mut subjects);
        }
        Self { details, subjects }
    }

    pub const fn code(&self) -> Code {
        self.details.code()
    }

    /// The severity; the kernel only reports errors.
    pub const fn severity(&self) -> Severity {
        Severity::Error
    }

    /// The facts, in the shape of the code.
    pub const fn details(&self) -> &Details<'i> {
        &self.details
    }

    /// The subjects, sorted; at least one.
    pub fn subjects(&self) -> &[Subject<'i>] {
        &self.subjects
    }

    /// One or two English sentences, at most [`MAX_MESSAGE_CHARACTERS`] long.
    pub fn message(&self) -> String {
        message::of(&self.details)
    }

    /// What to do.
    pub const fn advice(&self) -> &'static str {
        self.code().advice()
    }

    /// The decisions behind the rule, sorted.
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

/// The maximum number of subjects in the display form; the JSON has all.
const SUBJECTS_SHOWN: usize = 8;

/// The message, the subjects, and what to do.
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
