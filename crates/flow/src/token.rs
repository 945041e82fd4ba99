//! Signed references to an interrupt, for people without a key.
//!
//! A [`signed`] document that says what it permits and when it expires. The state of the run decides whether the interrupt is still open.

use canon::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{InterruptId, NodeId, Principal, RunId};
use crate::signed::{self, Domain};

/// The lifetime of a token, in milliseconds.
pub const LIFETIME_MS: u64 = 30 * 60 * 1000;
/// The maximum length of a token, in bytes.
pub const MAX_BYTES: usize = signed::MAX_BYTES;

/// What a token may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intent {
    /// Read the interrupt and answer it.
    Resolve,
    /// Read the interrupt.
    Inspect,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterruptToken {
    pub run_id: RunId,
    /// The node that waits.
    pub node_id: NodeId,
    pub interrupt_id: InterruptId,
    /// When the token expires, in milliseconds since the epoch.
    pub expires_at: u64,
    pub intent: Intent,
    /// The principal that the token was issued to. An answer with the token is recorded as an answer of this principal. Tokens of
    /// earlier versions have no holder; the person who answers with one is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Principal>,
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token is malformed, or was not signed by this host.
    #[error("the token is invalid or was not issued by this host")]
    Unknown,
    #[error("the token has expired")]
    Expired,
}

impl InterruptToken {
    /// Signs the token and returns its text.
    pub fn sign(&self, secret: &[u8; 32]) -> String {
        signed::seal(Domain::INTERRUPT, self, secret)
    }

    /// Signs the token in the form of version 2 of the protocol.
    pub fn sign_named(&self, secret: &[u8; 32]) -> String {
        signed::seal_named(Domain::INTERRUPT, self, secret)
    }

    /// Reads a token that was signed with one of the secrets: the current one, or a rotated one that is still accepted.
    ///
    /// # Errors
    /// The token is invalid or has expired.
    pub fn verify(text: &str, secrets: &[[u8; 32]], now: Timestamp) -> Result<Self, TokenError> {
        let token: Self = signed::open(Domain::INTERRUPT, text, secrets)
            .or_else(|| signed::open_named(Domain::INTERRUPT, text, secrets))
            .ok_or(TokenError::Unknown)?;
        if token.expires_at <= now.0 {
            return Err(TokenError::Expired);
        }
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> InterruptToken {
        InterruptToken {
            run_id: RunId::new("run_1"),
            node_id: NodeId::new("gate"),
            interrupt_id: InterruptId::new("run_1:gate:0"),
            expires_at: 1000,
            intent: Intent::Resolve,
            holder: Some(Principal::new("key_1")),
        }
    }

    #[test]
    fn a_token_of_an_earlier_version_is_read_and_has_no_holder() {
        let old = serde_json::json!({
            "runId": "run_1", "nodeId": "gate", "interruptId": "run_1:gate:0", "expiresAt": 1000, "intent": "resolve",
        });
        let text = signed::seal(Domain::INTERRUPT, &old, &[1; 32]);
        let expected = InterruptToken { holder: None, ..token() };
        assert_eq!(
            expected.sign(&[1; 32]),
            text,
            "a token without a holder has the same bytes as in earlier versions"
        );
        assert_eq!(InterruptToken::verify(&text, &[[1; 32]], Timestamp(0)), Ok(expected));
    }

    #[test]
    fn a_token_is_valid_with_any_accepted_secret_until_it_expires() {
        let (old, new) = ([1; 32], [2; 32]);
        let text = token().sign(&old);
        assert_eq!(InterruptToken::verify(&text, &[new, old], Timestamp(999)), Ok(token()));
        assert_eq!(InterruptToken::verify(&text, &[new], Timestamp(999)), Err(TokenError::Unknown));
        assert_eq!(InterruptToken::verify(&text, &[old], Timestamp(1000)), Err(TokenError::Expired));
    }

    #[test]
    fn a_token_with_any_changed_character_is_rejected() {
        let text = token().sign(&[1; 32]);
        for index in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(
                InterruptToken::verify(&changed, &[[1; 32]], Timestamp(0)),
                Err(TokenError::Unknown),
                "{index}"
            );
        }
        for text in ["", ".", "a", "a.b", "a.b.c", &"a".repeat(9000)] {
            assert_eq!(InterruptToken::verify(text, &[[1; 32]], Timestamp(0)), Err(TokenError::Unknown));
        }
    }
}
