//! The formats of widely used credentials, found in one pass.
//!
//! All credentials except private keys consist of letters, digits, `_` and `-`. The finder splits a text into runs of these characters. A
//! credential starts at the start of a run, or after a `_` or `-` in it, but not inside a word: `task-…` does not contain `sk-…`. Each run is
//! scanned once from start to end, and at most twice more as a part of the preceding token, so the search takes linear time.

use std::ops::Range;

/// Whether a byte can be part of a token.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// The number of consecutive bytes from `from` on that fulfil `fits`.
fn prefix_length(text: &[u8], from: usize, fits: impl Fn(u8) -> bool) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    rest.iter().position(|byte| !fits(*byte)).unwrap_or(rest.len())
}

/// Finds credentials from left to right.
pub(super) struct CredentialFinder<'t> {
    text: &'t [u8],
    /// Whether the text is JSON. Then the letter after a `\` belongs to the escape sequence and not to the following word.
    is_json: bool,
    at: usize,
    /// The current run of token characters.
    run: Range<usize>,
    /// The end of a three-part token whose first part is the current run; `Some(None)` if the run does not start one. Computed on demand.
    parts_end: Option<Option<usize>>,
}

impl<'t> CredentialFinder<'t> {
    /// Searches plain text.
    pub(super) fn new(text: &'t str) -> Self {
        Self { text: text.as_bytes(), is_json: false, at: 0, run: 0..0, parts_end: None }
    }

    /// Searches the JSON text of a document. It can find more than the document contains, but never less.
    pub(super) fn in_json(text: &'t str) -> Self {
        Self { is_json: true, ..Self::new(text) }
    }

    /// Whether a word starts at `position`. A credential that starts with `-` is never inside a word.
    fn starts_word(&self, position: usize) -> bool {
        if position == self.run.start
            || self.text[position] == b'-'
            || !self.text[position - 1].is_ascii_alphanumeric()
        {
            return true;
        }
        let start = self.run.start;
        let is_escaped = self.is_json && start > 0 && self.text[start - 1] == b'\\';
        is_escaped && (position == start + 1 || (self.text[start] == b'u' && position == start + 5))
    }

    /// The end of the credential that starts at `position`.
    fn end_at(&mut self, position: usize) -> Option<usize> {
        let text = self.text;
        let rest = &text[position..self.run.end];
        // The end of the longest continuation after a prefix of length `beginning`, if it has at least `least` bytes.
        let followed = |beginning: usize, least: usize, fits: fn(u8) -> bool| {
            let count = prefix_length(text, position + beginning, |byte| is_token(byte) && fits(byte));
            (count >= least).then_some(position + beginning + count)
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric();
        match rest {
            [b's', b'k', b'-', ..] => followed(3, 16, is_token),
            [b'e', b'y', b'J', ..] if rest.len() >= 11 => self.end_of_parts(),
            [b'A', b'K' | b'S', b'I', b'A', ..] => {
                let id = rest.get(4..20)?;
                let fits = id.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
                let ends = rest.get(20).is_none_or(|byte| !plain(*byte));
                (fits && ends).then_some(position + 20)
            }
            [b'A', b'I', b'z', b'a', ..] => followed(4, 30, is_token),
            [b'g', b'h', b'p' | b'o' | b'u' | b's' | b'r', b'_', ..] => followed(4, 20, plain),
            [b'g', ..] if rest.starts_with(b"github_pat_") => followed(11, 20, |byte| byte != b'-'),
            [b'x', b'o', b'x', b'a' | b'b' | b'p' | b'r' | b's', b'-', ..] => {
                followed(5, 10, |byte| byte != b'_')
            }
            [b'i', ..] if rest.starts_with(b"ilk_live_") || rest.starts_with(b"ilk_test_") => {
                followed(9, 16, plain)
            }
            [b'-', ..] => self.end_of_key(position),
            _ => None,
        }
    }

    /// The end of `first.second.third`, where the current run is `first`.
    fn end_of_parts(&mut self) -> Option<usize> {
        if let Some(known) = self.parts_end {
            return known;
        }
        let dot = |position: usize| self.text.get(position) == Some(&b'.');
        let second = self.run.end + 1;
        let count = if dot(self.run.end) { prefix_length(self.text, second, is_token) } else { 0 };
        let third = second + count + 1;
        let found = (count >= 4 && dot(third - 1)).then(|| third + prefix_length(self.text, third, is_token));
        self.parts_end = Some(found);
        found
    }

    /// The end of a PEM private key: the end of its last line, or of the text if that line is missing.
    fn end_of_key(&self, position: usize) -> Option<usize> {
        const BEGIN: &[u8] = b"-----BEGIN ";
        const END: &[u8] = b"-----END ";
        let words =
            |from: usize| prefix_length(self.text, from, |byte| byte.is_ascii_uppercase() || byte == b' ');
        let line = |from: usize| {
            let to = from + words(from);
            let is_key = self.text[from..to].ends_with(b"PRIVATE KEY");
            (is_key && self.text[to..].starts_with(b"-----")).then_some(to + 5)
        };
        if !self.text[position..].starts_with(BEGIN) {
            return None;
        }
        let mut at = line(position + BEGIN.len())?;
        while at < self.text.len() {
            if self.text[at..].starts_with(END) {
                at += END.len();
                if let Some(end) = line(at) {
                    return Some(end);
                }
            } else {
                at += 1;
            }
        }
        Some(at)
    }
}

impl Iterator for CredentialFinder<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.at >= self.run.end {
                self.at += prefix_length(self.text, self.at, |byte| !is_token(byte));
                self.run = self.at..self.at + prefix_length(self.text, self.at, is_token);
                self.parts_end = None;
                if self.run.is_empty() {
                    return None;
                }
            }
            while self.at < self.run.end {
                let position = self.at;
                if self.starts_word(position)
                    && let Some(end) = self.end_at(position)
                {
                    self.at = end;
                    return Some(position..end);
                }
                self.at += 1;
            }
        }
    }
}
