//! What widely used credentials look like, found in one pass.
//!
//! All but private keys are made of letters, digits, `_` and `-`. A text is cut into runs of these. A credential begins where a run does,
//! or behind a `_` or `-` in it, and not in the middle of a word: `task-…` is no `sk-…`. Each run is looked at once from its beginning to
//! its end, and at most twice more as a part of the token before it, so no text takes longer than in proportion to its length.

use std::ops::Range;

/// The letters of a token.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// How many bytes there are from a place on that are as they have to be.
fn length(text: &[u8], from: usize, fits: impl Fn(u8) -> bool) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    rest.iter().position(|byte| !fits(*byte)).unwrap_or(rest.len())
}

/// Finds credentials from left to right.
pub(super) struct Finder<'t> {
    text: &'t [u8],
    /// Whether the text is JSON, where a letter behind a `\` is none of the word that follows it.
    is_json: bool,
    at: usize,
    /// The run that is looked at.
    run: Range<usize>,
    /// Where a token of three parts ends whose first part is the run; nothing where it is none. Worked out when it is needed.
    parts_end: Option<Option<usize>>,
}

impl<'t> Finder<'t> {
    /// In a text as people read it.
    pub(super) fn new(text: &'t str) -> Self {
        Self { text: text.as_bytes(), is_json: false, at: 0, run: 0..0, parts_end: None }
    }

    /// In the JSON text of a document. It may find more than the document holds, and never less.
    pub(super) fn in_json(text: &'t str) -> Self {
        Self { is_json: true, ..Self::new(text) }
    }

    /// Whether a word begins at a place of the run. What begins with a `-` is never in the middle of one.
    fn begins(&self, place: usize) -> bool {
        if place == self.run.start
            || self.text[place] == b'-'
            || !self.text[place - 1].is_ascii_alphanumeric()
        {
            return true;
        }
        let start = self.run.start;
        let is_escaped = self.is_json && start > 0 && self.text[start - 1] == b'\\';
        is_escaped && (place == start + 1 || (self.text[start] == b'u' && place == start + 5))
    }

    /// The end of the credential that begins at a place of the run.
    fn end_at(&mut self, place: usize) -> Option<usize> {
        let text = self.text;
        let rest = &text[place..self.run.end];
        // The most that may follow a beginning, where so much does.
        let followed = |beginning: usize, least: usize, fits: fn(u8) -> bool| {
            let count = length(text, place + beginning, |byte| is_token(byte) && fits(byte));
            (count >= least).then_some(place + beginning + count)
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric();
        match rest {
            [b's', b'k', b'-', ..] => followed(3, 16, is_token),
            [b'e', b'y', b'J', ..] if rest.len() >= 11 => self.end_of_parts(),
            [b'A', b'K' | b'S', b'I', b'A', ..] => {
                let id = rest.get(4..20)?;
                let fits = id.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
                let ends = rest.get(20).is_none_or(|byte| !plain(*byte));
                (fits && ends).then_some(place + 20)
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
            [b'-', ..] => self.end_of_key(place),
            _ => None,
        }
    }

    /// The end of `first.second.third`, where the run is the first.
    fn end_of_parts(&mut self) -> Option<usize> {
        if let Some(known) = self.parts_end {
            return known;
        }
        let dot = |place: usize| self.text.get(place) == Some(&b'.');
        let second = self.run.end + 1;
        let count = if dot(self.run.end) { length(self.text, second, is_token) } else { 0 };
        let third = second + count + 1;
        let found = (count >= 4 && dot(third - 1)).then(|| third + length(self.text, third, is_token));
        self.parts_end = Some(found);
        found
    }

    /// The end of a private key in letters: its last line, or all that follows where it has none.
    fn end_of_key(&self, place: usize) -> Option<usize> {
        const BEGIN: &[u8] = b"-----BEGIN ";
        const END: &[u8] = b"-----END ";
        let words = |from: usize| length(self.text, from, |byte| byte.is_ascii_uppercase() || byte == b' ');
        let line = |from: usize| {
            let to = from + words(from);
            let is_key = self.text[from..to].ends_with(b"PRIVATE KEY");
            (is_key && self.text[to..].starts_with(b"-----")).then_some(to + 5)
        };
        if !self.text[place..].starts_with(BEGIN) {
            return None;
        }
        let mut at = line(place + BEGIN.len())?;
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

impl Iterator for Finder<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.at >= self.run.end {
                self.at += length(self.text, self.at, |byte| !is_token(byte));
                self.run = self.at..self.at + length(self.text, self.at, is_token);
                self.parts_end = None;
                if self.run.is_empty() {
                    return None;
                }
            }
            while self.at < self.run.end {
                let place = self.at;
                if self.begins(place)
                    && let Some(end) = self.end_at(place)
                {
                    self.at = end;
                    return Some(place..end);
                }
                self.at += 1;
            }
        }
    }
}
