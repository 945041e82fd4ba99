//! The signing keys of an installation: the current and the previous one.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use super::base64url;
use canon::error::Envelope;

/// The version of the keyring file.
pub const KEYRING_VERSION: u64 = 1;
/// The maximum size of the keyring file in bytes; a file with two keys has 124.
pub const KEYRING_BYTES: usize = 4096;

/// A signing key: 32 bytes that are never shown.
///
/// It has no `Display`, and `Debug` shows the [fingerprint](Key::fingerprint). The bytes are overwritten when
/// the key is dropped, as far as safe code can ensure that.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// A key of these bytes, which must come from a random source.
    pub const fn from_entropy(entropy: [u8; 32]) -> Self {
        Self(entropy)
    }

    /// A name for the key that reveals nothing about it: `key_` and 26 characters.
    pub fn fingerprint(&self) -> String {
        // The MAC of a fixed text instead of a plain hash. No other code signs this text.
        let tag = base64url::encode(&self.sign(b"interlock key fingerprint v1"));
        crate::record::derive_id("key_", &[&tag])
    }

    /// A key for another purpose, derived from this one without revealing it. Rotating this key rotates the
    /// derived one.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        self.sign(format!("interlock derived key v1: {purpose}").as_bytes())
    }

    /// The HMAC-SHA256 of a message. The messages of each purpose start with a unique prefix.
    pub fn sign(&self, message: &[u8]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of every length");
        mac.update(message);
        mac.finalize().into_bytes().into()
    }

    /// Whether `tag` is a prefix of the MAC of `message`. The comparison takes constant time for tags of one
    /// length.
    pub fn verifies(&self, message: &[u8], tag: &[u8]) -> bool {
        let expected = self.sign(message);
        tag.len() <= expected.len() && bool::from(expected[..tag.len()].ct_eq(tag))
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.fill(0);
        // Without a read the compiler may remove the write.
        std::hint::black_box(&self.0);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.fingerprint())
    }
}

/// The key that signs, and the previous one, which still verifies.
///
/// Rotation is explicit. Tokens of the previous key stay valid until the next rotation; two rotations
/// invalidate every token that was issued before the first. No durable data is lost, because tokens only
/// refer to the log and new ones can be issued from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyring {
    /// Signs, and verifies first.
    pub current: Key,
    /// Verifies second.
    pub previous: Option<Key>,
}

impl Keyring {
    /// The keyring of a new installation.
    pub const fn new(entropy: [u8; 32]) -> Self {
        Self { current: Key::from_entropy(entropy), previous: None }
    }

    /// The keyring after a rotation: the current key becomes the previous one.
    #[must_use]
    pub fn rotate(self, entropy: [u8; 32]) -> Self {
        Self { current: Key::from_entropy(entropy), previous: Some(self.current) }
    }

    /// Whether one of the keys signed `message` with a MAC that starts with `tag`.
    pub(super) fn verifies(&self, message: &[u8], tag: &[u8]) -> bool {
        self.current.verifies(message, tag)
            || self.previous.as_ref().is_some_and(|previous| previous.verifies(message, tag))
    }

    /// The content of `keys/keyring.json`, including the line end.
    pub fn encode(&self) -> String {
        let key = |key: &Key| base64url::encode(&key.0);
        let wire = Wire {
            v: KEYRING_VERSION,
            current: key(&self.current),
            previous: self.previous.as_ref().map(key),
        };
        let mut text = serde_json::to_string(&wire).expect("three plain members always serialise");
        text.push('\n');
        text
    }

    /// Decodes the content of `keys/keyring.json`.
    ///
    /// # Errors
    /// The content is not a keyring of a known version. Errors never repeat bytes of the file.
    pub fn decode(bytes: &[u8]) -> Result<Self, KeyringError> {
        let limits = canon::json::Limits::DEFAULT.max_bytes(KEYRING_BYTES).max_depth(4);
        let value = canon::json::read(bytes, &limits).map_err(|_| KeyringError::NotJson)?;
        match value.get("v").and_then(serde_json::Value::as_u64) {
            Some(KEYRING_VERSION) => {}
            Some(version) => return Err(KeyringError::UnsupportedVersion { version }),
            None => return Err(KeyringError::Shape),
        }
        let wire: Wire = serde_json::from_value(value).map_err(|_| KeyringError::Shape)?;
        let key = |text: &String| {
            let bytes = base64url::decode(text).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
            bytes.map(Key).ok_or(KeyringError::Key)
        };
        Ok(Self { current: key(&wire.current)?, previous: wire.previous.as_ref().map(key).transpose()? })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    v: u64,
    current: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<String>,
}

canon::error_codes! {
    /// The error codes of keyrings.
    pub enum KeyringErrorCode {
        /// The file is damaged.
        Invalid => "KEYRING_INVALID",
        /// The file has a newer version.
        UnsupportedVersion => "KEYRING_UNSUPPORTED_VERSION",
    }
}

/// Why bytes are not a valid keyring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// Not JSON, or longer than [`KEYRING_BYTES`].
    #[error("the keyring is not JSON of at most {KEYRING_BYTES} bytes")]
    NotJson,
    /// The members are not `v`, `current` and optionally `previous`.
    #[error("the keyring must have the members `v` and `current`, optionally `previous`, and no others")]
    Shape,
    /// A key that is not 32 bytes.
    #[error("a key of the keyring is not 32 bytes in base64url without padding")]
    Key,
    /// The version is unknown.
    #[error("the keyring has version {version}; this program reads version {KEYRING_VERSION}")]
    UnsupportedVersion { version: u64 },
}

impl KeyringError {
    /// The code that programs branch on.
    pub const fn code(&self) -> KeyringErrorCode {
        match self {
            Self::NotJson | Self::Shape | Self::Key => KeyringErrorCode::Invalid,
            Self::UnsupportedVersion { .. } => KeyringErrorCode::UnsupportedVersion,
        }
    }

    /// The error envelope for the caller.
    pub fn envelope(&self) -> Envelope {
        let suggestion = match self.code() {
            KeyringErrorCode::Invalid => {
                "Restore `keys/keyring.json` from a backup, or move it away: a new one is created, the \
                 sessions are kept, and `resume_session` issues fresh tokens."
            }
            KeyringErrorCode::UnsupportedVersion => {
                "Use the newer version of the program that wrote `keys/keyring.json`."
            }
        };
        Envelope::new(self.code(), self.to_string()).suggest(suggestion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyring_is_read_back_and_rotates_twice() {
        let first = Keyring::new([1; 32]);
        assert_eq!(Keyring::decode(first.encode().as_bytes()), Ok(first.clone()));
        let second = first.clone().rotate([2; 32]);
        assert_eq!(second.previous, Some(first.current.clone()));
        assert_eq!(Keyring::decode(second.encode().as_bytes()), Ok(second.clone()));
        let third = second.clone().rotate([3; 32]);
        let tag = first.current.sign(b"x");
        let verifies = [&first, &second, &third].map(|keyring| keyring.verifies(b"x", &tag));
        assert_eq!(verifies, [true, true, false]);
        assert!(!first.verifies(b"x", &[tag.as_slice(), &[0]].concat()), "a tag that is too long is invalid");
    }

    #[test]
    fn hmac_sha256_is_the_one_of_rfc_4231() {
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe"); // HMAC pads a short key with zeros, so this is test case 2
        let tag = Key::from_entropy(key).sign(b"what do ya want for nothing?");
        assert_eq!(base64url::encode(&tag), "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM");
    }

    #[test]
    fn keys_are_never_shown() {
        let keyring = Keyring::new([0xAB; 32]).rotate([0xCD; 32]);
        let shown = format!("{keyring:?}");
        assert!(shown.contains("key_"), "{shown}");
        for secret in
            [base64url::encode(&[0xAB; 32]), base64url::encode(&[0xCD; 32]), "171".into(), "205".into()]
        {
            assert!(!shown.contains(&secret), "{shown}");
        }
    }

    #[test]
    fn invalid_keyrings_are_rejected() {
        let key = base64url::encode(&[1; 32]);
        let cases = [
            ("nothing", String::new(), KeyringError::NotJson),
            ("too long", " ".repeat(KEYRING_BYTES + 1), KeyringError::NotJson),
            ("not an object", "[]".into(), KeyringError::Shape),
            ("no version", format!(r#"{{"current":"{key}"}}"#), KeyringError::Shape),
            ("no key", r#"{"v":1}"#.into(), KeyringError::Shape),
            (
                "an unknown member",
                format!(r#"{{"v":1,"current":"{key}","next":"{key}"}}"#),
                KeyringError::Shape,
            ),
            ("newer", r#"{"v":2}"#.into(), KeyringError::UnsupportedVersion { version: 2 }),
            ("a short key", r#"{"v":1,"current":"AAAA"}"#.into(), KeyringError::Key),
            ("padding", format!(r#"{{"v":1,"current":"{key}="}}"#), KeyringError::Key),
        ];
        for (name, text, expected) in cases {
            assert_eq!(Keyring::decode(text.as_bytes()), Err(expected), "{name}");
            assert!(!expected.envelope().suggestion().is_empty());
        }
    }
}
