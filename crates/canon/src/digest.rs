//! Content digests: `sha256:` and 64 lowercase hexadecimal digits.
//!
//! There is one spelling, so digests can be compared as text.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::canonical::{self, CanonicalError};
use crate::encoding;

/// A SHA-256 digest.
///
/// ```
/// use canon::digest::Digest;
///
/// let digest = Digest::of_bytes(b"");
/// let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// assert_eq!(digest.to_string(), text);
/// assert_eq!(Digest::parse(text), Ok(digest));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    pub const PREFIX: &'static str = "sha256:";

    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of the [canonical] bytes of `value`.
    ///
    /// # Errors
    /// As [`canonical::to_vec`]: a value without a canonical form has no digest.
    pub fn of_canonical<T: Serialize + ?Sized>(value: &T) -> Result<Self, CanonicalError> {
        canonical::to_vec(value).map(|bytes| Self::of_bytes(&bytes))
    }

    /// Wraps an existing SHA-256 digest.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 digits without the prefix, for file names in content-addressed folders.
    pub fn to_hex(self) -> String {
        encoding::hex(&self.0)
    }

    /// Parses the prefix and 64 digits of `0-9a-f`.
    ///
    /// # Errors
    /// Anything else, including uppercase digits and surrounding spaces.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let digits = text.strip_prefix(Self::PREFIX).ok_or(DigestError::Prefix)?;
        match encoding::from_lower_hex(digits) {
            Ok(bytes) => Ok(Self(bytes)),
            Err(None) => Err(DigestError::Length { measured: digits.len() }),
            Err(Some(position)) => Err(DigestError::Digit { offset: Self::PREFIX.len() + position }),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(Self::PREFIX.len() + 64);
        text.push_str(Self::PREFIX);
        encoding::push_hex(&mut text, &self.0);
        formatter.pad(&text)
    }
}

/// `Debug` prints the text form.
impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        Self::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// Why a text is not a [`Digest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    #[error("a digest must start with `sha256:`")]
    Prefix,
    #[error("a digest must have 64 hexadecimal digits after `sha256:`, not {measured} bytes")]
    Length {
        /// Bytes after the prefix.
        measured: usize,
    },
    #[error("byte {offset} of the digest is not one of `0-9` and `a-f`")]
    Digit {
        /// The byte offset in the text.
        offset: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_digests() {
        let good = Digest::of_bytes(b"abc").to_string();
        let cases = [
            ("nothing", String::new(), DigestError::Prefix),
            ("another hash", good.replace("sha256", "sha512"), DigestError::Prefix),
            ("no prefix", good["sha256:".len()..].to_owned(), DigestError::Prefix),
            ("an upper-case prefix", good.replace("sha", "SHA"), DigestError::Prefix),
            ("a space in front", format!(" {good}"), DigestError::Prefix),
            ("no digits", "sha256:".into(), DigestError::Length { measured: 0 }),
            ("a digit less", good[..70].to_owned(), DigestError::Length { measured: 63 }),
            ("a line end", format!("{good}\n"), DigestError::Length { measured: 65 }),
            ("upper case", good.replace('b', "B"), DigestError::Digit { offset: 7 }),
            ("not a digit", format!("{}g", &good[..70]), DigestError::Digit { offset: 70 }),
            ("wide text", format!("{}é", &good[..69]), DigestError::Digit { offset: 69 }),
        ];
        for (name, text, expected) in cases {
            assert_eq!(Digest::parse(&text), Err(expected), "{name}: {text}");
            assert!(serde_json::from_value::<Digest>(text.into()).is_err(), "{name} by serde");
        }
    }

    #[test]
    fn known_digest_in_every_form() {
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest = Digest::of_bytes(b"abc");
        assert_eq!(digest.to_string(), text);
        assert_eq!(format!("{digest:?}"), text);
        assert_eq!(digest.to_hex(), text[7..]);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(serde_json::to_value(digest).unwrap(), text);
        assert_eq!(serde_json::from_value::<Digest>(text.into()).unwrap(), digest);
        assert_eq!(Digest::from_bytes(*digest.as_bytes()), digest);
    }
}
