//! Archive digests in all accepted spellings.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The SHA-256 of an archive. Written as `sha256-` and 44 characters of base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Integrity([u8; 32]);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid integrity value: `sha256-` and 44 characters of base64 are required")]
pub struct IntegrityError(String);

impl Integrity {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads the lockfile spelling: `sha256-` and base64.
    ///
    /// # Errors
    /// The text is invalid.
    pub fn parse(text: &str) -> Result<Self, IntegrityError> {
        let digest = text.strip_prefix("sha256-").and_then(base64);
        digest.map(Self).ok_or_else(|| IntegrityError(crate::name::shown(text)))
    }

    /// Reads the header `X-Pack-Sha256`: `sha256-` and base64, `sha256-` and 64 hex digits, or the digits alone.
    ///
    /// # Errors
    /// The text is invalid.
    pub fn parse_header(text: &str) -> Result<Self, IntegrityError> {
        let text = text.trim();
        let bare = text.strip_prefix("sha256-").unwrap_or(text);
        let digest = canon::encoding::from_hex(bare)
            .or_else(|| if bare.len() == text.len() { None } else { base64(bare) });
        digest.map(Self).ok_or_else(|| IntegrityError(crate::name::shown(text)))
    }

    /// 64 hexadecimal digits, the storage key of contents.
    pub fn to_hex(self) -> String {
        canon::encoding::hex(&self.0)
    }

    /// Constant-time comparison.
    pub fn is(self, other: Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

fn base64(text: &str) -> Option<[u8; 32]> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

impl fmt::Display for Integrity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sha256-{}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Integrity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl TryFrom<String> for Integrity {
    type Error = IntegrityError;

    fn try_from(text: String) -> Result<Self, IntegrityError> {
        Self::parse(&text)
    }
}

impl From<Integrity> for String {
    fn from(integrity: Integrity) -> Self {
        integrity.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_three_header_spellings_and_one_lockfile_spelling() {
        let integrity = Integrity::of(b"abc");
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(integrity.to_hex(), hex);
        let written = integrity.to_string();
        assert_eq!(written, "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
        for text in
            [written.clone(), hex.to_owned(), format!("sha256-{hex}"), hex.to_uppercase(), format!(" {hex} ")]
        {
            assert_eq!(Integrity::parse_header(&text), Ok(integrity), "{text}");
        }
        assert_eq!(Integrity::parse(&written), Ok(integrity));
        let bare = written.trim_start_matches("sha256-");
        for text in [hex, bare, "sha256-", "sha512-abc", ""] {
            assert!(Integrity::parse(text).is_err(), "{text}");
        }
        for text in [bare, "sha256-", "xyz", "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa"] {
            assert!(Integrity::parse_header(text).is_err(), "{text}");
        }
    }
}
