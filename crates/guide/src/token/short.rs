//! The short token: long enough to be safe, short enough for a model to copy.
//!
//! `ct_` and 24 base64url characters: 12 bytes that say where, and 6 bytes that say who said so.
//!
//! * The **position digest** is the beginning of a SHA-256 of session, run, node and attempt. No
//!   key goes into it. An index from digest to position is therefore the same under every key:
//!   it can be rebuilt from the log by anybody, and a rotation leaves it as it is. Were the
//!   digest keyed, each rotation would have to write every position a second time.
//! * The **MAC** is the beginning of an HMAC-SHA256 of the digest. Junk and the tokens of other
//!   installations fail it, so they are refused without a look into the index; and knowing the
//!   ids of a position is not enough to make its token.
//!
//! 96 bits keep positions apart (a billion of them collide with a chance of about 10⁻¹¹, and the
//! index would notice). 48 bits of MAC have to be guessed by calls to a local program, and a
//! lucky guess also has to name a position that exists.
//!
//! A checkpoint has a short token too: `cp_` and 27 characters. Its digest is that of the first attempt on the
//! node, which the index has in any case; two more bytes count the checkpoints of the node.

use canon::digest::Digest;

use super::{Keyring, TokenError, TokenKind, base64url};
use crate::record::{AttemptId, NodeId, RunId, SessionId};

/// How long a short token is, prefix included.
pub const SHORT_TOKEN_CHARACTERS: usize = 27;

/// How long the short token of a checkpoint is, prefix included.
pub const SHORT_CHECKPOINT_CHARACTERS: usize = 30;

const DIGEST_BYTES: usize = 12;
const NUMBER_BYTES: usize = 2;
const MAC_BYTES: usize = 6;
/// Ends the message of the MAC, so that a later kind of short token cannot be mistaken for this one.
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

/// The short token, as a name for its functions.
#[derive(Clone, Copy, Debug)]
pub struct ShortToken;

impl ShortToken {
    /// The key of a position in the index: the same whatever the keys of the installation are.
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

/// The short token of a position, signed by the current key.
pub fn mint_short(keyring: &Keyring, position: &Position) -> String {
    let digest = ShortToken::position_digest(position);
    let mac = keyring.current.sign(&message(&digest));
    let bytes = [digest.as_slice(), &mac[..MAC_BYTES]].concat();
    format!("{}{}", TokenKind::Continue.prefix(), base64url::encode(&bytes))
}

/// The position digest of a short token that one of the keys signed.
///
/// # Errors
/// Any other text. Whether the position exists is for the index to say.
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

/// The short token of the checkpoint `number` of a node, counted from 0. `first` is the first attempt on the node.
pub fn mint_short_checkpoint(keyring: &Keyring, first: &Position, number: u16) -> String {
    let digest = ShortToken::position_digest(first);
    let number = number.to_be_bytes();
    let mac = keyring.current.sign(&checkpoint_message(&digest, number));
    let bytes = [digest.as_slice(), &number, &mac[..MAC_BYTES]].concat();
    format!("{}{}", TokenKind::ShortCheckpoint.prefix(), base64url::encode(&bytes))
}

/// What a short checkpoint token names: the digest of the first attempt on its node, and which checkpoint.
///
/// # Errors
/// Any other text. Whether the position exists is for the index to say.
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

/// What is signed for a checkpoint: 15 bytes, which no other token has.
fn checkpoint_message(
    digest: &[u8; DIGEST_BYTES],
    number: [u8; NUMBER_BYTES],
) -> [u8; DIGEST_BYTES + NUMBER_BYTES + 1] {
    let mut message = [CHECKPOINT; DIGEST_BYTES + NUMBER_BYTES + 1];
    message[..DIGEST_BYTES].copy_from_slice(digest);
    message[DIGEST_BYTES..DIGEST_BYTES + NUMBER_BYTES].copy_from_slice(&number);
    message
}

/// What is signed: 13 bytes, which the payload of no long token has.
fn message(digest: &[u8; DIGEST_BYTES]) -> [u8; DIGEST_BYTES + 1] {
    let mut message = [CONTINUE; DIGEST_BYTES + 1];
    message[..DIGEST_BYTES].copy_from_slice(digest);
    message
}
