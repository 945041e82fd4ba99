//! Splits text into tokens, for queries and for the texts they are compared with.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

/// The maximum length of a token: enough for a hexadecimal digest. Longer tokens are encoded data, which
/// would displace words that callers search for.
pub const TOKEN_BYTES: usize = 64;

/// The distinct tokens of a text, sorted and joined by spaces: one allocation, and fast to scan. In memory
/// there is also a space before the first and after the last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenText(String);

/// Why a text is not a valid [`TokenText`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tokens are lower-case words of a-z, 0-9, `_` and `-`, sorted, distinct and joined by one space")]
pub struct TokenTextError;

impl TokenText {
    /// The tokens of several texts, the most important first. Tokens that exceed `max_bytes` are dropped.
    pub fn of<'t>(texts: impl IntoIterator<Item = &'t str>, max_bytes: usize) -> Self {
        let mut distinct = BTreeSet::new();
        let mut bytes = 0;
        'full: for text in texts {
            let normal = normalise(text);
            for token in tokens(&normal).filter(|token| token.len() <= TOKEN_BYTES) {
                if distinct.contains(token) {
                    continue;
                }
                if bytes + token.len() + 1 > max_bytes {
                    break 'full;
                }
                bytes += token.len() + 1;
                distinct.insert(token.to_owned());
            }
        }
        let mut padded = String::with_capacity(bytes + 1);
        for token in &distinct {
            padded.push(' ');
            padded.push_str(token);
        }
        if !padded.is_empty() {
            padded.push(' ');
        }
        Self(padded)
    }

    /// The tokens, joined by spaces.
    pub fn as_str(&self) -> &str {
        self.0.trim_ascii()
    }

    /// The tokens with a space before and after each, so that a search for ` token ` finds whole tokens.
    pub(super) fn padded(&self) -> &str {
        &self.0
    }

    /// The tokens, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split(' ').filter(|token| !token.is_empty())
    }
}

impl TryFrom<String> for TokenText {
    type Error = TokenTextError;

    fn try_from(text: String) -> Result<Self, TokenTextError> {
        let mut last = "";
        let sorted = text.split(' ').all(|token| {
            let ascends = last < token;
            last = token;
            ascends && token.bytes().all(is_token_byte)
        });
        match text.as_str() {
            "" => Ok(Self(text)),
            text if sorted => Ok(Self(format!(" {text} "))),
            _ => Err(TokenTextError),
        }
    }
}

impl From<TokenText> for String {
    fn from(tokens: TokenText) -> Self {
        tokens.as_str().to_owned()
    }
}

/// NFKC, then lower case.
pub(super) fn normalise(text: &str) -> Cow<'_, str> {
    // Nearly all notes are ASCII, which is already normalized.
    if text.is_ascii() {
        return match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(text.to_ascii_lowercase()),
            false => Cow::Borrowed(text),
        };
    }
    if is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        return Cow::Owned(text.to_lowercase());
    }
    Cow::Owned(text.nfkc().collect::<String>().to_lowercase())
}

/// The tokens of a normalized text, in order.
pub(super) fn tokens(normal: &str) -> impl Iterator<Item = &str> {
    // Splitting at bytes is safe: a byte that does not belong to a token is ASCII, or part of a character
    // that is dropped completely.
    normal
        .split(|character: char| !u8::try_from(character).is_ok_and(is_token_byte))
        .filter(|token| !token.is_empty())
}

const fn is_token_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-')
}
