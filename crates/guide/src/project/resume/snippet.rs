//! The preview of a candidate: its title, and the part of its notes that matches the query.

use canon::budget::{TRUNCATION_MARKER, truncate};

use super::query::{ResumeQuery, Words};
use crate::project::summary::TITLE_BYTES;
use crate::record::budgets::SNIPPET_BYTES;

/// The maximum bytes of notes.
const RECAP_BYTES: usize = 1600;
/// The maximum bytes of notes before the matched word.
const LEAD_BYTES: usize = RECAP_BYTES / 2;
/// Marks that the beginning of the notes was omitted.
const LEFT_OUT: &str = "… ";

/// The preview for a query, within [`SNIPPET_BYTES`]. For callers that loaded the session and so have all of
/// its notes; the index has only the newest.
pub fn snippet(title: Option<&str>, recap: &str, query: &ResumeQuery) -> String {
    snippet_for(title, recap, &Words::new(query))
}

pub(super) fn snippet_for(title: Option<&str>, recap: &str, words: &Words) -> String {
    let mut preview = String::new();
    if let Some(title) = title {
        preview.push_str(&truncate(title, TITLE_BYTES));
    }
    let excerpt = excerpt(recap, words);
    if !preview.is_empty() && !excerpt.is_empty() {
        preview.push_str("\n\n");
    }
    preview.push_str(&excerpt);
    truncate(&preview, SNIPPET_BYTES).into_owned()
}

/// At most [`RECAP_BYTES`] of the notes, around the first matched word.
fn excerpt(recap: &str, words: &Words) -> String {
    if recap.len() <= RECAP_BYTES {
        return recap.to_owned();
    }
    // Only ASCII is lower-cased, so that positions in the copy are positions in the text.
    let lower = recap.to_ascii_lowercase();
    let at = words.texts().filter_map(|word| lower.find(word)).min().unwrap_or_default();
    let last = recap.len() - (RECAP_BYTES - LEFT_OUT.len());
    let mut start = at.saturating_sub(LEAD_BYTES).min(last);
    // Forward, so that the end stays within the limit. A word is ASCII, so it is never skipped.
    while !recap.is_char_boundary(start) {
        start += 1;
    }
    if start == 0 {
        return truncate(recap, RECAP_BYTES).into_owned();
    }
    let rest = truncate(&recap[start..], RECAP_BYTES - LEFT_OUT.len());
    debug_assert!(rest.len() == recap.len() - start || rest.ends_with(TRUNCATION_MARKER));
    format!("{LEFT_OUT}{rest}")
}
