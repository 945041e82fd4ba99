//! The key under which an event happens at most once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budgets::DEDUPE_KEY_CHARACTERS;

/// `<kind>:<parts joined by ":">` of lower-case letters, digits, `_`, `:`, `>` and `-`.
///
/// An append that meets a key which is already in the log adds nothing and answers from the
/// log. It is derived from stable ids only: never from a clock, and never from an event id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct DedupeKey(#[schemars(regex(pattern = r"^[a-z0-9_:>-]{1,256}$"))] String);

/// Why a text is no dedupe key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DedupeKeyError {
    /// Empty, or too long.
    #[error("a dedupe key has 1 to {DEDUPE_KEY_CHARACTERS} characters, not {measured}")]
    Length {
        /// How many it has.
        measured: usize,
    },
    /// A character outside the set.
    #[error("a dedupe key holds only a-z, 0-9, `_`, `:`, `>` and `-`, not {character:?}")]
    Character {
        /// The first such character.
        character: char,
    },
}

impl DedupeKey {
    /// Reads a key.
    ///
    /// # Errors
    /// Any other text.
    pub fn parse(text: &str) -> Result<Self, DedupeKeyError> {
        if text.is_empty() || text.len() > DEDUPE_KEY_CHARACTERS {
            return Err(DedupeKeyError::Length { measured: text.len() });
        }
        let allowed = |c: &char| matches!(c, 'a'..='z' | '0'..='9' | '_' | ':' | '>' | '-');
        match text.chars().find(|c| !allowed(c)) {
            Some(character) => Err(DedupeKeyError::Character { character }),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// The key of an event of `kind`: the parts joined by `:`.
    ///
    /// Our own ids always fit. Parts of a foreign form, which an import can bring, are replaced
    /// together by their digest: the key says less, and still happens only once.
    pub fn of(kind: &str, parts: &[&str]) -> Self {
        let joined = parts.join(":");
        Self::parse(&format!("{kind}:{joined}")).unwrap_or_else(|_| {
            let digest = canon::digest::Digest::of_bytes(joined.as_bytes()).to_hex();
            Self(format!("{kind}:{digest}"))
        })
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for DedupeKey {
    type Error = DedupeKeyError;

    fn try_from(text: String) -> Result<Self, DedupeKeyError> {
        Self::parse(&text)
    }
}

impl From<DedupeKey> for String {
    fn from(key: DedupeKey) -> Self {
        key.0
    }
}
