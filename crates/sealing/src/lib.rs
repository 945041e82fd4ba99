//! Envelope encryption: each value has a key of its own, which is encrypted with the master key.
//!
//! ```text
//! "ILS1" | id of the master key (8) | nonce (12) | encrypted value key (32 + 16) | nonce (12) | encrypted value (n + 16)
//! ```
//!
//! Both encryptions are AES-256-GCM with random nonces. The caller names what a value is for, and a value opens only under
//! the same name: a writer to the store cannot exchange two sealed values. A value key encrypts one value,
//! so its nonce cannot repeat; the master key encrypts one value key per sealed value, far fewer than the 2^32 that its
//! random nonces allow.
//!
//! ```
//! use sealing::MasterKey;
//!
//! let key = MasterKey::parse(&"ab".repeat(32))?;
//! let sealed = key.seal("default/keyring", b"secret")?;
//! assert_eq!(key.open("default/keyring", &sealed)?, b"secret");
//! assert!(key.open("acme/keyring", &sealed).is_err());
//! # Ok::<(), sealing::SealError>(())
//! ```
#![forbid(unsafe_code)]

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroize as _;

const MAGIC: &[u8; 4] = b"ILS1";
const KEY: usize = 32;
const TAG: usize = 16;
const ID: usize = 8;
const HEAD: usize = MAGIC.len() + ID;
const WRAPPED: usize = KEY + TAG;
const OVERHEAD: usize = HEAD + NONCE_LEN + WRAPPED + NONCE_LEN + TAG;

/// The largest value that is sealed, in bytes. Larger data is divided by its owner.
pub const MAX_BYTES: usize = 16 << 20;

/// Why a value cannot be sealed or opened. No error contains a key or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error(
        "the master key must be 32 bytes, as 64 hexadecimal digits or in base64; create one with `openssl rand -hex 32`"
    )]
    InvalidKey,
    #[error("the value has {measured} bytes; the limit is {MAX_BYTES}")]
    TooLarge { measured: usize },
    #[error("the value does not have the format of a sealed value")]
    Format,
    #[error("the value was sealed with another master key")]
    OtherKey,
    #[error("the value was changed, or was sealed for another purpose")]
    Rejected,
    #[error("the system has no random bytes")]
    Entropy,
}

/// The key that encrypts the keys of values.
pub struct MasterKey {
    key: LessSafeKey,
    id: [u8; ID],
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MasterKey").finish_non_exhaustive()
    }
}

impl MasterKey {
    /// Reads a key of 32 bytes, in hexadecimal digits or base64. White space around it is ignored.
    ///
    /// # Errors
    /// [`SealError::InvalidKey`].
    pub fn parse(text: &str) -> Result<Self, SealError> {
        let text = text.trim();
        let mut bytes = from_hex(text).or_else(|| STANDARD.decode(text).ok()).ok_or(SealError::InvalidKey)?;
        let made = Self::new(&bytes);
        bytes.zeroize();
        made
    }

    fn new(bytes: &[u8]) -> Result<Self, SealError> {
        if bytes.len() != KEY {
            return Err(SealError::InvalidKey);
        }
        let named = [b"interlock master key id\n", bytes].concat();
        let mut id = [0; ID];
        id.copy_from_slice(&digest::digest(&digest::SHA256, &named).as_ref()[..ID]);
        Ok(Self { key: aead(bytes)?, id })
    }

    /// Encrypts a value for a purpose.
    ///
    /// # Errors
    /// [`SealError::TooLarge`], [`SealError::Entropy`].
    pub fn seal(&self, purpose: &str, value: &[u8]) -> Result<Vec<u8>, SealError> {
        if value.len() > MAX_BYTES {
            return Err(SealError::TooLarge { measured: value.len() });
        }
        let mut sealed = Vec::with_capacity(OVERHEAD + value.len());
        sealed.extend_from_slice(MAGIC);
        sealed.extend_from_slice(&self.id);
        let mut value_key: [u8; KEY] = random()?;
        encrypt(&self.key, &associated(&self.id, purpose), &value_key, &mut sealed)?;
        let encrypted =
            aead(&value_key).and_then(|key| encrypt(&key, purpose.as_bytes(), value, &mut sealed));
        value_key.zeroize();
        encrypted.map(|()| sealed)
    }

    /// Decrypts a value that was sealed for this purpose.
    ///
    /// # Errors
    /// [`SealError::Format`], [`SealError::OtherKey`], [`SealError::Rejected`], [`SealError::TooLarge`].
    pub fn open(&self, purpose: &str, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        if sealed.len() > OVERHEAD + MAX_BYTES {
            return Err(SealError::TooLarge { measured: sealed.len() });
        }
        let rest = sealed.strip_prefix(MAGIC).ok_or(SealError::Format)?;
        let (id, rest) = rest.split_at_checked(ID).ok_or(SealError::Format)?;
        let (wrapped, value) = rest.split_at_checked(NONCE_LEN + WRAPPED).ok_or(SealError::Format)?;
        if id != self.id {
            return Err(SealError::OtherKey);
        }
        let mut value_key = decrypt(&self.key, &associated(&self.id, purpose), wrapped)?;
        let opened = aead(&value_key).and_then(|key| decrypt(&key, purpose.as_bytes(), value));
        value_key.zeroize();
        opened
    }
}

fn aead(key: &[u8]) -> Result<LessSafeKey, SealError> {
    Ok(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).map_err(|_| SealError::InvalidKey)?))
}

fn associated(id: &[u8; ID], purpose: &str) -> Vec<u8> {
    [MAGIC, &id[..], purpose.as_bytes()].concat()
}

fn random<const N: usize>() -> Result<[u8; N], SealError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| SealError::Entropy)?;
    Ok(bytes)
}

/// Appends a nonce and the encrypted value.
fn encrypt(key: &LessSafeKey, associated: &[u8], value: &[u8], into: &mut Vec<u8>) -> Result<(), SealError> {
    let nonce: [u8; NONCE_LEN] = random()?;
    into.extend_from_slice(&nonce);
    let start = into.len();
    into.extend_from_slice(value);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = key
        .seal_in_place_separate_tag(nonce, Aad::from(associated), &mut into[start..])
        .map_err(|_| SealError::Rejected)?;
    into.extend_from_slice(tag.as_ref());
    Ok(())
}

fn decrypt(key: &LessSafeKey, associated: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError> {
    let (nonce, value) = sealed.split_at_checked(NONCE_LEN).ok_or(SealError::Format)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::Format)?;
    let mut bytes = value.to_vec();
    let opened =
        key.open_in_place(nonce, Aad::from(associated), &mut bytes).map_err(|_| SealError::Rejected)?.len();
    bytes.truncate(opened);
    Ok(bytes)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 2 * KEY || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let digit = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..KEY).map(|index| digit(2 * index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digits: &str) -> MasterKey {
        MasterKey::parse(&digits.repeat(32)).unwrap()
    }

    #[test]
    fn a_value_opens_with_its_key_and_purpose_only() {
        let sealed = key("01").seal("a", b"value").unwrap();
        assert_eq!(key("01").open("a", &sealed).unwrap(), b"value");
        assert_eq!(key("01").open("b", &sealed), Err(SealError::Rejected));
        assert_eq!(key("02").open("a", &sealed), Err(SealError::OtherKey));
        assert_ne!(key("01").seal("a", b"value").unwrap(), sealed, "nonces and value keys are random");
        assert_eq!(key("01").open("a", &key("01").seal("a", b"").unwrap()).unwrap(), b"");
    }

    #[test]
    fn every_changed_or_missing_byte_is_rejected() {
        let key = key("01");
        let sealed = key.seal("a", b"value").unwrap();
        assert_eq!(sealed.len(), OVERHEAD + 5);
        for position in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[position] ^= 1;
            assert!(key.open("a", &changed).is_err(), "changed at {position}");
            assert!(key.open("a", &sealed[..position]).is_err(), "cut at {position}");
        }
        assert!(key.open("a", &[&sealed[..], b"x"].concat()).is_err());
    }

    /// Values that were sealed once stay readable.
    #[test]
    fn the_format_is_stable() {
        let sealed = STANDARD.decode(include_str!("golden.txt").trim()).unwrap();
        assert_eq!(key("5a").open("golden", &sealed).unwrap(), b"sealed by an earlier version");
    }

    #[test]
    fn keys_of_other_sizes_are_refused_and_none_is_shown() {
        for text in ["", "abc", &"ab".repeat(31), &"zz".repeat(32), "YWJj"] {
            assert_eq!(MasterKey::parse(text).map(drop), Err(SealError::InvalidKey), "{text}");
        }
        let base64 = STANDARD.encode([1; 32]);
        let sealed = key("01").seal("a", b"value").unwrap();
        assert_eq!(MasterKey::parse(&format!(" {base64}\n")).unwrap().open("a", &sealed).unwrap(), b"value");
        assert_eq!(format!("{:?}", key("01")), "MasterKey { .. }");
        let large = vec![0; MAX_BYTES + 1];
        assert_eq!(key("01").seal("a", &large), Err(SealError::TooLarge { measured: MAX_BYTES + 1 }));
    }
}
