//! Notes as they are kept: what is checked is what is stored.

use std::borrow::Cow;

use canon::budget;

use super::reasons::Reason;
use crate::placeholder::is_placeholder;
use crate::record::budgets::{BLOCKER_MESSAGE_BYTES, NOTES_BYTES};
use crate::record::{BlockReason, OutputPayload};

/// Notes within their budget.
pub(super) struct KeptNotes<'a> {
    text: Cow<'a, str>,
    /// How many bytes were sent.
    sent: usize,
}

impl<'a> KeptNotes<'a> {
    /// Cuts notes to what is kept of them. Blank ones, and a placeholder that was sent as it is, are none.
    pub(super) fn of(sent: &'a str) -> Option<Self> {
        let blank = sent.trim().is_empty() || is_placeholder(sent);
        (!blank).then(|| Self { text: budget::truncate(sent, NOTES_BYTES), sent: sent.len() })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn payload(&self) -> OutputPayload {
        OutputPayload::Notes {
            notes_markdown: self.text.clone().into_owned(),
            sent_bytes: self.was_cut().then_some(self.sent as u64),
        }
    }

    const fn was_cut(&self) -> bool {
        self.sent > NOTES_BYTES
    }

    /// Says in a blocker that only a part was looked at: in that of the criteria, or else in the first.
    pub(super) fn mention_cut(&self, reasons: &mut [Reason]) {
        if !self.was_cut() {
            return;
        }
        let about_notes =
            |reason: &Reason| matches!(&reason.reason, BlockReason::InvalidRequiredOutput { .. });
        let place = reasons.iter().position(about_notes).unwrap_or_default();
        if let Some(reason) = reasons.get_mut(place) {
            let words = format!(" {}", cut_words(self.sent as u64));
            let message = budget::truncate(&reason.blocker.message, BLOCKER_MESSAGE_BYTES - words.len());
            reason.blocker.message = format!("{message}{words}");
        }
    }
}

/// The warning for a caller whose notes were cut.
pub fn cut_words(sent: u64) -> String {
    format!(
        "Notes are {} bytes; the limit is {}. Only the beginning is kept and checked: shorten the notes, or put \
         details into artifacts.",
        grouped(sent),
        grouped(NOTES_BYTES as u64)
    )
}

/// A number with its thousands apart.
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
    fn thousands_are_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (4096, "4,096"), (1_048_576, "1,048,576")] {
            assert_eq!(grouped(number), text);
        }
    }
}
