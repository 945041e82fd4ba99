//! A resume query, prepared once and compared with every session.

use std::collections::BTreeSet;

use crate::record::{RunId, SessionId};

use super::tokens::{TOKEN_BYTES, TokenText, normalise, tokens};

/// The maximum length of the query text, in characters. The rest is ignored.
pub const QUERY_CHARACTERS: usize = 256;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumeQuery {
    /// Words to search for.
    pub text: Option<String>,
    pub run_id: Option<RunId>,
    pub session_id: Option<SessionId>,
    /// The caller's branch.
    pub git_branch: Option<String>,
    /// The caller's commit.
    pub git_head_sha: Option<String>,
    /// The digest of the caller's repository root.
    pub repo_root_hash: Option<String>,
    /// Whether to exclude sessions of other repositories.
    pub same_workspace_only: bool,
}

/// Words that nearly every session contains; they have a low weight.
const COMMON: [&str; 12] = [
    "task",
    "dev",
    "work",
    "workflow",
    "coding",
    "feature",
    "phase",
    "implement",
    "implementation",
    "review",
    "fix",
    "bug",
];

/// The unit of shares: millionths. Integers, so that every machine agrees on every tie.
pub(super) const WHOLE: u64 = 1_000_000;

/// The minimum length of a token for partial matches.
const FUZZY_BYTES: usize = 3;

/// The words of a query with their weights.
#[derive(Debug)]
pub(super) struct Words {
    words: Vec<Word>,
    total: u64,
    /// A bit set of the three-byte prefixes that a token must have to be contained in one of the words. It
    /// filters out nearly all other tokens; false positives are possible.
    beginnings: [u64; 64],
}

#[derive(Debug)]
struct Word {
    text: String,
    /// The word with a space before and after it.
    padded: String,
    weight: u64,
}

/// How well a text matches the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueryMatch {
    /// Whether every word is one of the text's tokens.
    pub(super) whole: bool,
    /// The matched share of the words' weight, including partial matches.
    pub(super) share: u64,
}

impl Words {
    pub(super) fn new(query: &ResumeQuery) -> Self {
        let text: String = query.text.as_deref().unwrap_or_default().chars().take(QUERY_CHARACTERS).collect();
        let normal = normalise(&text);
        let distinct: BTreeSet<&str> = tokens(&normal).filter(|token| token.len() <= TOKEN_BYTES).collect();
        let words: Vec<Word> = distinct
            .into_iter()
            .map(|text| Word { text: text.to_owned(), padded: format!(" {text} "), weight: weight(text) })
            .collect();
        let mut beginnings = [0; 64];
        for three in words.iter().flat_map(|word| word.text.as_bytes().windows(FUZZY_BYTES)) {
            let (cell, bit) = sieve(three);
            beginnings[cell] |= bit;
        }
        Self { total: words.iter().map(|word| word.weight).sum(), words, beginnings }
    }

    /// Whether there is no word to compare. Then nothing matches, instead of everything.
    pub(super) const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The words, to find them in a text.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(|word| word.text.as_str())
    }

    /// Compares the words with a text, in time proportional to its length.
    pub(super) fn compare(&self, text: &TokenText) -> QueryMatch {
        if self.is_empty() || text.as_str().is_empty() {
            return QueryMatch::default();
        }
        let text = text.padded();
        let mut whole = true;
        let mut matched = 0;
        let mut open: Vec<&Word> = Vec::new();
        for word in &self.words {
            // Two substring searches, which the standard library does sixteen bytes at a time, are faster
            // than splitting the text into tokens.
            let fuzzy = word.text.len() >= FUZZY_BYTES;
            let inside = fuzzy && text.contains(&word.text);
            let exact = (inside || !fuzzy) && text.contains(&word.padded);
            whole &= exact;
            if exact || inside {
                matched += word.weight;
            } else if word.text.len() > FUZZY_BYTES {
                open.push(word);
            }
        }
        if !open.is_empty() {
            matched += self.weight_around_tokens(open, text);
        }
        QueryMatch { whole, share: matched * WHOLE / self.total }
    }

    /// The weight of the words that contain a token of the text.
    fn weight_around_tokens(&self, mut open: Vec<&Word>, text: &str) -> u64 {
        let mut matched = 0;
        for at in spaces(text.as_bytes()) {
            let Some(three) = text.as_bytes().get(at + 1..at + 1 + FUZZY_BYTES) else { break };
            let (cell, bit) = sieve(three);
            if self.beginnings[cell] & bit == 0 {
                continue;
            }
            let rest = &text[at + 1..];
            let token = &rest[..rest.find(' ').unwrap_or(rest.len())];
            open.retain(|word| {
                let found = token.len() >= FUZZY_BYTES && word.text.contains(token);
                matched += if found { word.weight } else { 0 };
                !found
            });
            if open.is_empty() {
                break;
            }
        }
        matched
    }
}

/// The positions of the spaces. It reads eight bytes at a time, because ranking spends most of its time here:
/// a byte of the exclusive or with eight spaces is zero exactly where a space is. (The usual trick for
/// finding zero bytes may also report a byte of one above a zero. That would be a `!`, which no token
/// contains.)
fn spaces(text: &[u8]) -> impl Iterator<Item = usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (chunks, rest) = text.as_chunks::<8>();
    let whole = chunks.iter().enumerate().flat_map(|(chunk, bytes)| {
        let zeroes = u64::from_le_bytes(*bytes) ^ (ONES * 0x20);
        let mut found = zeroes.wrapping_sub(ONES) & !zeroes & (ONES * 0x80);
        std::iter::from_fn(move || {
            let at = (found != 0).then(|| chunk * 8 + found.trailing_zeros() as usize / 8)?;
            found &= found - 1;
            Some(at)
        })
    });
    let start = text.len() - rest.len();
    whole.chain((start..).zip(rest).filter(|(_, byte)| **byte == b' ').map(|(at, _)| at))
}

/// The position of three bytes in the set of 64 times 64 bits.
fn sieve(three: &[u8]) -> (usize, u64) {
    let mixed = three.iter().fold(0_u32, |mixed, byte| mixed * 37 + u32::from(*byte)) % 4096;
    ((mixed / 64) as usize, 1 << (mixed % 64))
}

/// The weight of a word in hundredths: longer words weigh more, common ones little.
fn weight(word: &str) -> u64 {
    match word.len() {
        0..=2 => 20,
        _ if COMMON.contains(&word) => 35,
        length => (100 + 18 * (length as u64).saturating_sub(4)).min(250),
    }
}
