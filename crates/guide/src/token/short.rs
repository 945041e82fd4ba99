//! The short token: long enough to be safe, short enough for a model to copy.
//!
//! `ct_` and 24 base64url characters: 12 bytes of position digest and 6 bytes of MAC.
//!
//! * The **position digest** is a prefix of the SHA-256 of session, run, node and attempt. It does not depend
//!   on a key. So an index from digest to position stays valid under every key: it can be rebuilt from the
//!   log, and a rotation does not change it. With a keyed digest, each rotation would have to write every
//!   position again.
//! * The **MAC** is a prefix of the HMAC-SHA256 of the digest. Invalid tokens and tokens of other
//!   installations are rejected without an index lookup. Knowing the ids of a position is not enough to
//!   create its token.
//!
//! The 96 bits of the digest make collisions negligible: with a billion positions the probability is about
//! 10⁻¹¹, and the index would detect one. The 48 bits of the MAC would have to be guessed by calls to a local
//! program, and a correct guess would also have to name an existing position.
//!
//! A checkpoint has a short token too: `cp_` and 27 characters. Its digest is that of the first attempt on
//! the node, which the index contains anyway; two more bytes are the number of the checkpoint.

use canon::digest::Digest;

use super::{Keyring, TokenError, TokenKind, base64url};
use crate::record::{AttemptId, NodeId, RunId, SessionId};

/// The length of a short token, including the prefix.
pub const SHORT_TOKEN_CHARACTERS: usize = 27;

/// The length of the short token of a checkpoint, including the prefix.
pub const SHORT_CHECKPOINT_CHARACTERS: usize = 30;

const DIGEST_BYTES: usize = 12;
const NUMBER_BYTES: usize = 2;
const MAC_BYTES: usize = 6;
/// The last byte of the signed message. It distinguishes the kinds of short tokens.
const CONTINUE: u8 = 0x04;
const CHECKPOINT: u8 = 0x05;

/// One attempt on one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub session_id: SessionId,
    pub run_id: RunId,
    pub node_id: NodeId,
    pub attempt_id: AttemptId,
}

/// Namespace for the functions of short tokens.
#[derive(Clone, Copy, Debug)]
pub struct ShortToken;

impl ShortToken {
    /// The key of a position in the index. It does not depend on the signing keys.
    pub fn position_digest(position: &Position) -> [u8; 12] {
        let parts = [
            "interlock.position.v1",
            position.session_id.as_str(),
            position.run_id.as_str(),
            position.node_id.as_str(),
            position.attempt_id.as_str(),
        ];
        let mut message = Vec::with_capacity(192);
        for part in parts {
            message.extend_from_slice(part.as_bytes());
            message.push(0);
        }
        let mut digest = [0; DIGEST_BYTES];
        digest.copy_from_slice(&Digest::of_bytes(&message).as_bytes()[..DIGEST_BYTES]);
        digest
    }
}

/// The short token of a position, signed with the current key.
pub fn mint_short(keyring: &Keyring, position: &Position) -> String {
    let digest = ShortToken::position_digest(position);
    let mac = keyring.current.sign(&message(&digest));
    let bytes = [digest.as_slice(), &mac[..MAC_BYTES]].concat();
    format!("{}{}", TokenKind::Continue.prefix(), base64url::encode(&bytes))
}

/// The position digest of a short token that one of the keys signed.
///
/// # Errors
/// The text is not a valid token. Whether the position exists is not checked here.
pub fn verify_short(keyring: &Keyring, text: &str) -> Result<[u8; 12], TokenError> {
    let Some(body) = text.strip_prefix(TokenKind::Continue.prefix()) else {
        return Err(match TokenKind::claimed_by(text) {
            Some(given) => TokenError::OtherKind { wanted: TokenKind::Continue, given },
            None => TokenError::Shape,
        });
    };
    if text.len() != SHORT_TOKEN_CHARACTERS {
        return Err(TokenError::ShortLength { measured: text.len(), expected: SHORT_TOKEN_CHARACTERS });
    }
    let bytes = base64url::decode(body).ok_or(TokenError::Encoding)?;
    let (digest, mac) = bytes.split_first_chunk::<DIGEST_BYTES>().ok_or(TokenError::Encoding)?;
    if !keyring.verifies(&message(digest), mac) {
        return Err(TokenError::BadSignature { kind: TokenKind::Continue });
    }
    Ok(*digest)
}

/// The short token of the zero-based checkpoint `number` of a node. `first` is the first attempt on the node.
pub fn mint_short_checkpoint(keyring: &Keyring, first: &Position, number: u16) -> String {
    let digest = ShortToken::position_digest(first);
    let number = number.to_be_bytes();
    let mac = keyring.current.sign(&checkpoint_message(&digest, number));
    let bytes = [digest.as_slice(), &number, &mac[..MAC_BYTES]].concat();
    format!("{}{}", TokenKind::ShortCheckpoint.prefix(), base64url::encode(&bytes))
}

/// The content of a short checkpoint token: the digest of the first attempt on its node, and the number of
/// the checkpoint.
///
/// # Errors
/// The text is not a valid token. Whether the position exists is not checked here.
pub fn verify_short_checkpoint(keyring: &Keyring, text: &str) -> Result<([u8; 12], u16), TokenError> {
    let kind = TokenKind::ShortCheckpoint;
    let Some(body) = text.strip_prefix(kind.prefix()) else {
        return Err(match TokenKind::claimed_by(text) {
            Some(given) => TokenError::OtherKind { wanted: kind, given },
            None => TokenError::Shape,
        });
    };
    if text.len() != SHORT_CHECKPOINT_CHARACTERS {
        let expected = SHORT_CHECKPOINT_CHARACTERS;
        return Err(TokenError::ShortLength { measured: text.len(), expected });
    }
    let bytes = base64url::decode(body).ok_or(TokenError::Encoding)?;
    let (digest, rest) = bytes.split_first_chunk::<DIGEST_BYTES>().ok_or(TokenError::Encoding)?;
    let (number, mac) = rest.split_first_chunk::<NUMBER_BYTES>().ok_or(TokenError::Encoding)?;
    if !keyring.verifies(&checkpoint_message(digest, *number), mac) {
        return Err(TokenError::BadSignature { kind });
    }
    Ok((*digest, u16::from_be_bytes(*number)))
}

/// The signed message of a checkpoint: 15 bytes. No other token signs that many.
fn checkpoint_message(
    digest: &[u8; DIGEST_BYTES],
    number: [u8; NUMBER_BYTES],
) -> [u8; DIGEST_BYTES + NUMBER_BYTES + 1] {
    let mut message = [CHECKPOINT; DIGEST_BYTES + NUMBER_BYTES + 1];
    message[..DIGEST_BYTES].copy_from_slice(digest);
    message[DIGEST_BYTES..DIGEST_BYTES + NUMBER_BYTES].copy_from_slice(&number);
    message
}

/// The signed message: 13 bytes. No payload of a long token has that length.
fn message(digest: &[u8; DIGEST_BYTES]) -> [u8; DIGEST_BYTES + 1] {
    let mut message = [CONTINUE; DIGEST_BYTES + 1];
    message[..DIGEST_BYTES].copy_from_slice(digest);
    message
}
