//! Placeholders for the caller's text in an offered call.
//!
//! A caller might send an offered call unchanged. Its placeholders must not be recorded as if the caller had
//! written them, so each of them is rejected as input.

/// For the notes of a step.
pub const NOTES: &str = "<what you did, found and decided in this step>";
/// For the answer of the user or the coordinator.
pub const ANSWER: &str = "<what was said, in a sentence>";
/// For how a gap was closed.
pub const CLOSED: &str = "<how the gap was closed>";
/// For corrected notes of the previous step.
pub const CORRECTION: &str = "<the notes of the step before, corrected>";

/// Placeholders of earlier versions.
const EARLIER: [&str; 3] =
    ["what was said, in a sentence", "how it was closed", "the notes of the step before, as they should be"];

/// Whether a text is an unchanged placeholder.
pub fn is_placeholder(text: &str) -> bool {
    let text = text.trim();
    [NOTES, ANSWER, CLOSED, CORRECTION].contains(&text) || EARLIER.contains(&text)
}
