//! UTF-8 byte budgets, and the one mark that says text was cut.
//!
//! Every size limit on text counts UTF-8 bytes: not characters, not tokens. Bytes are
//! what is stored and sent, and two implementations always count them alike.

use std::borrow::Cow;

use serde::Serialize;

/// What stands at the end of a text that was cut to fit its budget.
pub const TRUNCATION_MARKER: &str = "\n\n[TRUNCATED]";

/// Cuts `text` so that the result, marker included, is at most `max_bytes` long.
///
/// A text that fits comes back unchanged and unallocated. Otherwise the longest prefix
/// that ends between two characters and leaves room for [`TRUNCATION_MARKER`] is kept,
/// and the marker follows it. When `max_bytes` has no room even for the marker, the
/// result is the plain prefix that fits, without it: the budget is a promise to whoever
/// stores the text, the marker only a courtesy to whoever reads it.
///
/// ```
/// use canon::budget::truncate;
///
/// assert_eq!(truncate("short", 20), "short");
/// assert_eq!(truncate("a sentence that is too long", 20), "a sente\n\n[TRUNCATED]");
/// assert_eq!(truncate("héllo, wörld", 2), "h", "half of a character is not kept");
/// ```
pub fn truncate(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return Cow::Borrowed(text);
    }
    match max_bytes.checked_sub(TRUNCATION_MARKER.len()) {
        Some(room) => Cow::Owned(format!("{}{TRUNCATION_MARKER}", prefix(text, room))),
        None => Cow::Borrowed(prefix(text, max_bytes)),
    }
}

/// How many UTF-8 bytes a text may have.
///
/// ```
/// use canon::budget::Budget;
///
/// let title = Budget::new(8);
/// assert!(title.check("release").is_ok());
/// let over = title.check("release notes").unwrap_err();
/// assert_eq!((over.measured, over.maximum), (13, 8));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Budget {
    max_bytes: usize,
}

impl Budget {
    /// How every budget counts, as reports name it.
    pub const METHOD: &'static str = "utf8-bytes";

    /// A budget of `max_bytes` UTF-8 bytes.
    pub const fn new(max_bytes: usize) -> Self {
        Self { max_bytes }
    }

    /// The most bytes a text within this budget has.
    pub const fn max_bytes(self) -> usize {
        self.max_bytes
    }

    /// What `text` costs.
    pub const fn measure(text: &str) -> usize {
        text.len()
    }

    /// Refuses a text that is over budget, and says by how much.
    pub const fn check(self, text: &str) -> Result<(), OverBudget> {
        let measured = Self::measure(text);
        if measured <= self.max_bytes {
            return Ok(());
        }
        Err(OverBudget { measured, maximum: self.max_bytes, method: Self::METHOD })
    }

    /// Cuts a text that is over budget, as [`truncate`] does.
    pub fn truncate(self, text: &str) -> Cow<'_, str> {
        truncate(text, self.max_bytes)
    }
}

/// A text was longer than its [`Budget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("the text has {measured} UTF-8 bytes, and at most {maximum} are allowed")]
pub struct OverBudget {
    /// What the text has.
    pub measured: usize,
    /// What it may have.
    pub maximum: usize,
    /// How both were counted: always [`Budget::METHOD`].
    pub method: &'static str,
}

fn prefix(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_at_every_interesting_budget() {
        let marker = TRUNCATION_MARKER.len();
        let cases = [
            ("nothing into nothing", "", 0, String::new()),
            ("an exact fit", "abcd", 4, "abcd".into()),
            ("no room at all", "abcd", 0, String::new()),
            ("room for less than the marker", "a text of some length", 5, "a tex".into()),
            ("room for the marker only", "a text of some length", marker, TRUNCATION_MARKER.into()),
            ("the marker and one byte", "a text of some length", marker + 1, format!("a{TRUNCATION_MARKER}")),
            (
                "a four-byte character does not fit in three",
                "😀 and then some more",
                marker + 3,
                TRUNCATION_MARKER.into(),
            ),
            ("and fits in four", "😀 and then some more", marker + 4, format!("😀{TRUNCATION_MARKER}")),
        ];
        for (name, text, max_bytes, expected) in cases {
            assert_eq!(truncate(text, max_bytes), expected, "{name}");
        }
    }

    #[test]
    fn an_over_budget_report_names_both_numbers_and_the_method() {
        let over = Budget::new(3).check("four").unwrap_err();
        assert_eq!(over, OverBudget { measured: 4, maximum: 3, method: "utf8-bytes" });
        assert_eq!(over.to_string(), "the text has 4 UTF-8 bytes, and at most 3 are allowed");
        assert_eq!(Budget::new(4).check("four"), Ok(()));
    }
}
