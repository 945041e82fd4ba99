//! The dedupe key of an event: each key occurs at most once in a session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budgets::DEDUPE_KEY_CHARACTERS;

/// `<kind>:<parts joined by ":">` of lower-case letters, digits, `_`, `:`, `>` and `-`.
///
/// An append whose key is already in the log adds nothing, and the call is answered from the log. Keys are
/// derived from stable ids only: never from a clock, and never from an event id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct DedupeKey(#[schemars(regex(pattern = r"^[a-z0-9_:>-]{1,256}$"))] String);

/// Why a text is not a valid dedupe key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DedupeKeyError {
    /// Empty or too long.
    #[error("a dedupe key must have 1 to {DEDUPE_KEY_CHARACTERS} characters, not {measured}")]
    Length { measured: usize },
    /// A character is not allowed.
    #[error("a dedupe key may contain only a-z, 0-9, `_`, `:`, `>` and `-`, not {character:?}")]
    Character {
        /// The first such character.
        character: char,
    },
}

impl DedupeKey {
    /// Parses a key.
    ///
    /// # Errors
    /// The text is not a valid key.
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
    /// Ids that this program generates always fit. Parts in other forms, which an import can contain, are
    /// replaced together by their digest: the key is less readable but still unique.
    pub fn of(kind: &str, parts: &[&str]) -> Self {
        let joined = parts.join(":");
        Self::parse(&format!("{kind}:{joined}")).unwrap_or_else(|_| {
            let digest = canon::digest::Digest::of_bytes(joined.as_bytes()).to_hex();
            Self(format!("{kind}:{digest}"))
        })
    }

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
