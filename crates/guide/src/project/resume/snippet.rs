//! The preview of a candidate: its title, and the part of its notes that answers the query.

use canon::budget::{TRUNCATION_MARKER, truncate};

use super::query::{ResumeQuery, Words};
use crate::project::summary::TITLE_BYTES;
use crate::record::budgets::SNIPPET_BYTES;

/// The most bytes of notes.
const RECAP_BYTES: usize = 1600;
/// How much of the notes stands before the word that was found.
const LEAD_BYTES: usize = RECAP_BYTES / 2;
/// What stands where the beginning of the notes was left out.
const LEFT_OUT: &str = "… ";

/// The preview for a query, within [`SNIPPET_BYTES`]. For whoever has loaded the session and so
/// has all of its notes; the index keeps only the newest.
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

/// At most [`RECAP_BYTES`] of the notes, around the first place where a word of the query is.
fn excerpt(recap: &str, words: &Words) -> String {
    if recap.len() <= RECAP_BYTES {
        return recap.to_owned();
    }
    // Lower case in ASCII only, so that places in the copy are places in the text.
    let lower = recap.to_ascii_lowercase();
    let place = words.texts().filter_map(|word| lower.find(word)).min().unwrap_or_default();
    let last = recap.len() - (RECAP_BYTES - LEFT_OUT.len());
    let mut start = place.saturating_sub(LEAD_BYTES).min(last);
    // Forward, so that the end stays within; a word is ASCII, and is never stepped over.
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
