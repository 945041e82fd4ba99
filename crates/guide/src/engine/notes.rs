//! Notes as they are stored: validation reads exactly what is stored.
//!
//! A recap contains the beginning of the notes. Longer notes are also stored completely, as one artifact in
//! the same append, and validation reads that. Notes over that limit are rejected.

use std::borrow::Cow;

use canon::budget;
use canon::digest::Digest;
use serde_json::{Value, json};

use super::EngineError;
use super::evidence::Artifact;
use super::reasons::Reason;
use crate::placeholder::is_placeholder;
use crate::record::budgets::{NOTES_BYTES, WHOLE_NOTES_BYTES};
use crate::record::{Autonomy, BlockReason, OutputPayload, StepName};

/// The `kind` of the artifact with complete notes.
pub const WHOLE_NOTES_KIND: &str = "wr.notes";
/// The contract reference of the size limit of notes in a blocker.
const NOTES_REF: &str = "wr.notesMarkdown";

/// Notes within their budget.
pub(super) struct KeptNotes<'a> {
    sent: &'a str,
    text: Cow<'a, str>,
}

impl<'a> KeptNotes<'a> {
    /// Truncates notes to the size of a recap. `None` for blank notes and unchanged placeholders.
    pub(super) fn of(sent: &'a str) -> Option<Self> {
        let blank = sent.trim().is_empty() || is_placeholder(sent);
        (!blank).then(|| Self { text: budget::truncate(sent, NOTES_BYTES), sent })
    }

    /// The text that is validated: everything that an advance stores of the notes. Notes over the limit block
    /// the attempt, unless the run never stops, so nothing of them is stored: then the caller also learns what
    /// else is wrong with the notes as they were sent.
    pub(super) fn judged(&self, autonomy: Autonomy) -> &str {
        let is_stored_cut = self.is_too_long() && autonomy == Autonomy::FullAutoNeverStop;
        if self.was_cut() && !is_stored_cut { self.sent } else { &self.text }
    }

    pub(super) fn payload(&self) -> OutputPayload {
        OutputPayload::Notes {
            notes_markdown: self.text.clone().into_owned(),
            sent_bytes: self.was_cut().then_some(self.sent.len() as u64),
        }
    }

    /// The text of the recap.
    pub(super) fn recap(&self) -> &str {
        &self.text
    }

    /// The artifact with the complete text, if the recap has only its beginning.
    pub(super) fn whole(&self) -> Result<Option<Artifact>, EngineError> {
        if self.is_stored_whole() { self.artifact().map(Some) } else { Ok(None) }
    }

    /// The artifact of an attempt that a person has to approve. Its step is not done, so it has no recap, but the
    /// person must be able to read what they approve. `None` for notes over the limit, which cannot be accepted.
    pub(super) fn for_approval(&self) -> Result<Option<Artifact>, EngineError> {
        if self.is_too_long() { Ok(None) } else { self.artifact().map(Some) }
    }

    fn artifact(&self) -> Result<Artifact, EngineError> {
        Artifact::measured(0, notes_artifact(self.sent))
    }

    /// The digest that an approval of these notes is bound to: that of their artifact, recorded or not.
    pub(super) fn digest(notes: Option<&Self>) -> Digest {
        let artifact = notes_artifact(notes.map_or("", |notes| notes.sent));
        Digest::of_bytes(canon::canonical::string_of(&artifact).as_bytes())
    }

    /// The reason to reject notes that exceed the limit.
    pub(super) fn too_long(&self, step_id: &StepName) -> Option<Reason> {
        if !self.is_too_long() {
            return None;
        }
        let reason = BlockReason::InvalidRequiredOutput { contract_ref: NOTES_REF.to_owned() };
        let message = format!(
            "The notes are {} bytes; the limit is {}.",
            grouped(self.sent.len() as u64),
            grouped(WHOLE_NOTES_BYTES as u64)
        );
        let fix =
            "Shorten `output.notesMarkdown`, or move details into `output.artifacts`, and advance again.";
        Some(Reason::of(reason, step_id).saying(&message, fix))
    }

    const fn was_cut(&self) -> bool {
        self.sent.len() > NOTES_BYTES
    }

    const fn is_stored_whole(&self) -> bool {
        self.was_cut() && !self.is_too_long()
    }

    const fn is_too_long(&self) -> bool {
        self.sent.len() > WHOLE_NOTES_BYTES
    }
}

fn notes_artifact(notes: &str) -> Value {
    json!({"kind": WHOLE_NOTES_KIND, "notesMarkdown": notes})
}

/// The warning that only the beginning of the notes was stored.
pub fn truncated_notes_warning(sent: u64) -> String {
    format!(
        "Notes are {} bytes; the limit is {}. Only the beginning is stored and validated. Shorten the notes, or move \
         details into artifacts.",
        grouped(sent),
        grouped(NOTES_BYTES as u64)
    )
}

/// The warning that recaps show only the beginning of the notes.
pub fn stored_whole_notes_warning(sent: u64) -> String {
    format!(
        "Notes are {} bytes; recaps show the first {}. The complete text was validated and is stored as an artifact of kind \
         `{WHOLE_NOTES_KIND}`.",
        grouped(sent),
        grouped(NOTES_BYTES as u64)
    )
}

/// A number with thousands separators.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (number, text) in [(0, "0"), (999, "999"), (4096, "4,096"), (1_048_576, "1,048,576")] {
            assert_eq!(grouped(number), text);
        }
    }
}
