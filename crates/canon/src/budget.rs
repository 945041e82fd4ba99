//! UTF-8 byte budgets and the truncation marker.
//!
//! Every size limit on text counts UTF-8 bytes, not characters or tokens. Bytes are what is stored and sent, and all
//! implementations count them alike.

use std::borrow::Cow;

use serde::Serialize;

/// Appended to a text that was truncated to fit its budget.
pub const TRUNCATION_MARKER: &str = "\n\n[TRUNCATED]";

/// Truncates `text` so that the result, including the marker, has at most `max_bytes`.
///
/// A text that fits is returned unchanged without allocation. Otherwise the longest prefix that ends at a character
/// boundary and leaves room for [`TRUNCATION_MARKER`] is kept, followed by the marker. If `max_bytes` has no room for
/// the marker, the result is the longest prefix that fits, without it: the limit always holds.
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

/// A maximum number of UTF-8 bytes.
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
    /// The counting method as named in reports.
    pub const METHOD: &'static str = "utf8-bytes";

    pub const fn new(max_bytes: usize) -> Self {
        Self { max_bytes }
    }

    pub const fn max_bytes(self) -> usize {
        self.max_bytes
    }

    pub const fn measure(text: &str) -> usize {
        text.len()
    }

    /// Returns an error with both sizes if the text is over budget.
    pub const fn check(self, text: &str) -> Result<(), OverBudget> {
        let measured = Self::measure(text);
        if measured <= self.max_bytes {
            return Ok(());
        }
        Err(OverBudget { measured, maximum: self.max_bytes, method: Self::METHOD })
    }

    /// Truncates a text that is over budget; see [`truncate`].
    pub fn truncate(self, text: &str) -> Cow<'_, str> {
        truncate(text, self.max_bytes)
    }
}

/// A text is longer than its [`Budget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("the text is {measured} UTF-8 bytes; the limit is {maximum}")]
pub struct OverBudget {
    pub measured: usize,
    pub maximum: usize,
    /// Always [`Budget::METHOD`].
    pub method: &'static str,
}

fn prefix(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncates_at_every_boundary() {
        let marker = TRUNCATION_MARKER.len();
        let cases = [
            ("empty text, no budget", "", 0, String::new()),
            ("an exact fit", "abcd", 4, "abcd".into()),
            ("no budget", "abcd", 0, String::new()),
            ("a budget smaller than the marker", "a text of some length", 5, "a tex".into()),
            ("a budget of the marker only", "a text of some length", marker, TRUNCATION_MARKER.into()),
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
    fn over_budget_errors_have_both_sizes() {
        let over = Budget::new(3).check("four").unwrap_err();
        assert_eq!(over, OverBudget { measured: 4, maximum: 3, method: "utf8-bytes" });
        assert_eq!(over.to_string(), "the text is 4 UTF-8 bytes; the limit is 3");
        assert_eq!(Budget::new(4).check("four"), Ok(()));
    }
}
