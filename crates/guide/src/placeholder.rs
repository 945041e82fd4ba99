//! What stands for a caller's own words in a call that is offered.
//!
//! An example must not be able to speak for the caller: sent verbatim, it would put words into the
//! record that nobody said. So each of these is refused where real words are wanted.

/// For notes.
pub const NOTES: &str = "<what you did, found and decided in this step>";
/// For what the user, or the coordinator, answered.
pub const ANSWER: &str = "<what was said, in a sentence>";
/// For how a gap was closed.
pub const CLOSED: &str = "<how the gap was closed>";
/// For notes that stand for earlier ones.
pub const CORRECTION: &str = "<the notes of the step before, corrected>";

/// Placeholders that earlier versions offered for an answer and for how a gap was closed.
const EARLIER: [&str; 3] =
    ["what was said, in a sentence", "how it was closed", "the notes of the step before, as they should be"];

/// Whether a text is a placeholder that was sent as it is.
pub fn is_placeholder(text: &str) -> bool {
    let text = text.trim();
    [NOTES, ANSWER, CLOSED, CORRECTION].contains(&text) || EARLIER.contains(&text)
}
