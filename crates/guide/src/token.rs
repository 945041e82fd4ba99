//! Tokens: signed references to positions in the log.
//!
//! A token contains no state. It names a position in a session (a node and an attempt) and proves that this
//! installation issued it, so a caller can neither invent a position nor change a token. There is no table of
//! tokens: each is computed from the position and the key, and computing it again gives the same bytes. So
//! issuing tokens writes nothing, and a repeated call gets the same reply.
//!
//! | token | form | names |
//! |---|---|---|
//! | `stateToken` | `st.v1.<payload>.<signature>` | a node, and the workflow that its run is pinned to |
//! | `ackToken` | `ack.v1.<payload>.<signature>` | one attempt to advance a node |
//! | `checkpointToken` | `cp_` and 27 characters, or `chk.v1.<payload>.<signature>` | one checkpoint of a node |
//! | `continueToken` | `ct_` and 24 characters | one attempt, in short form; see [`ShortToken`] |
//!
//! A `stateToken` names a node without an attempt, so it stays valid however often the node is advanced.
//!
//! The payload is unpadded base64url of canonical JSON. The signature is the HMAC-SHA256 of the payload's
//! JSON bytes only. The payload contains the kind, so a signature cannot be used with another prefix.
//!
//! ```
//! use guide::{derive, token::{self, AckPayload, Keyring, Token}};
//!
//! let keyring = Keyring::new([7; 32]);
//! let session_id = derive::session_id(&[1; 16]);
//! let run_id = derive::run_id(&session_id, 0);
//! let node_id = derive::root_node_id(&session_id, &run_id);
//! let attempt_id = derive::attempt_id(&session_id, &node_id, 0);
//! let token = Token::Ack(AckPayload { session_id, run_id, node_id, attempt_id });
//!
//! let text = token::mint(&keyring, &token);
//! assert!(text.starts_with("ack.v1."));
//! assert_eq!(token::verify(&keyring, &text)?, token);
//! assert_eq!(token::verify(&Keyring::new([8; 32]), &text).unwrap_err().code().as_str(), "TOKEN_BAD_SIGNATURE");
//! # Ok::<(), token::TokenError>(())
//! ```

mod base64url;
mod error;
mod keyring;
mod scope;
mod short;

use canon::canonical;
use serde::{Deserialize, Serialize};

pub use self::{
    error::{TokenError, TokenErrorCode},
    keyring::{KEYRING_BYTES, KEYRING_VERSION, Key, Keyring, KeyringError, KeyringErrorCode},
    scope::{RunDescription, position_mismatch, scope_mismatch},
    short::{
        Position, SHORT_CHECKPOINT_CHARACTERS, SHORT_TOKEN_CHARACTERS, ShortToken, mint_short,
        mint_short_checkpoint, verify_short, verify_short_checkpoint,
    },
};
use crate::record::{AttemptId, NodeId, RunId, SessionId, WorkflowHash};

/// The version of the long tokens.
pub const TOKEN_VERSION: u64 = 1;
/// The maximum length of a token in bytes. Four ids of maximum length take 880 bytes.
pub const TOKEN_BYTES: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// A position in a run.
    State,
    /// One attempt to advance.
    Ack,
    Checkpoint,
    /// One attempt, in the short form.
    #[serde(skip)]
    Continue,
    /// One checkpoint, in the short form.
    #[serde(skip)]
    ShortCheckpoint,
}

impl TokenKind {
    /// The prefix of tokens of this kind.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::State => "st.",
            Self::Ack => "ack.",
            Self::Checkpoint => "chk.",
            Self::Continue => "ct_",
            Self::ShortCheckpoint => "cp_",
        }
    }

    /// The parameter for tokens of this kind.
    pub const fn parameter(self) -> &'static str {
        match self {
            Self::State => "stateToken",
            Self::Ack => "ackToken",
            Self::Checkpoint | Self::ShortCheckpoint => "checkpointToken",
            Self::Continue => "continueToken",
        }
    }

    /// The kind that a text claims to be, by its prefix. The text may still be invalid.
    pub fn claimed_by(text: &str) -> Option<Self> {
        [Self::State, Self::Ack, Self::Checkpoint, Self::Continue, Self::ShortCheckpoint]
            .into_iter()
            .find(|kind| text.starts_with(kind.prefix()))
    }
}

/// A position in a run, and the workflow that the run is pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePayload {
    pub session_id: SessionId,
    pub run_id: RunId,
    pub node_id: NodeId,
    pub workflow_hash: WorkflowHash,
}

/// One attempt to advance a node, which happens at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckPayload {
    pub session_id: SessionId,
    pub run_id: RunId,
    pub node_id: NodeId,
    pub attempt_id: AttemptId,
}

/// One checkpoint of a node, which is created at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointPayload {
    pub session_id: SessionId,
    pub run_id: RunId,
    pub node_id: NodeId,
    pub attempt_id: AttemptId,
}

/// The content of a long token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// `st.v1`
    State(StatePayload),
    /// `ack.v1`
    Ack(AckPayload),
    /// `chk.v1`
    Checkpoint(CheckpointPayload),
}

impl Token {
    pub const fn kind(&self) -> TokenKind {
        match self {
            Self::State(_) => TokenKind::State,
            Self::Ack(_) => TokenKind::Ack,
            Self::Checkpoint(_) => TokenKind::Checkpoint,
        }
    }

    /// The session, run and node of the token.
    pub const fn place(&self) -> (&SessionId, &RunId, &NodeId) {
        match self {
            Self::State(token) => (&token.session_id, &token.run_id, &token.node_id),
            Self::Ack(token) => (&token.session_id, &token.run_id, &token.node_id),
            Self::Checkpoint(token) => (&token.session_id, &token.run_id, &token.node_id),
        }
    }

    /// The payload of a `stateToken`.
    ///
    /// # Errors
    /// The token has a different kind.
    pub fn into_state(self) -> Result<StatePayload, TokenError> {
        match self {
            Self::State(token) => Ok(token),
            other => Err(TokenError::OtherKind { wanted: TokenKind::State, given: other.kind() }),
        }
    }

    /// The payload of an `ackToken`.
    ///
    /// # Errors
    /// The token has a different kind.
    pub fn into_ack(self) -> Result<AckPayload, TokenError> {
        match self {
            Self::Ack(token) => Ok(token),
            other => Err(TokenError::OtherKind { wanted: TokenKind::Ack, given: other.kind() }),
        }
    }

    /// The payload of a `checkpointToken`.
    ///
    /// # Errors
    /// The token has a different kind.
    pub fn into_checkpoint(self) -> Result<CheckpointPayload, TokenError> {
        match self {
            Self::Checkpoint(token) => Ok(token),
            other => Err(TokenError::OtherKind { wanted: TokenKind::Checkpoint, given: other.kind() }),
        }
    }
}

/// The text of a token, signed with the current key.
pub fn mint(keyring: &Keyring, token: &Token) -> String {
    let payload = canonical::to_vec(&Wire::from(token)).expect("a token's payload is texts and the number 1");
    let signature = keyring.current.sign(&payload);
    let prefix = token.kind().prefix();
    let (payload, signature) = (base64url::encode(&payload), base64url::encode(&signature));
    format!("{prefix}v{TOKEN_VERSION}.{payload}.{signature}")
}

/// Verifies a long `checkpointToken`; [`verify_short_checkpoint`] verifies a short one.
///
/// # Errors
/// The errors of [`verify`], and tokens of any other kind, including short ones.
pub fn verify_checkpoint(keyring: &Keyring, text: &str) -> Result<CheckpointPayload, TokenError> {
    if TokenKind::claimed_by(text) == Some(TokenKind::Continue) {
        return Err(TokenError::OtherKind { wanted: TokenKind::Checkpoint, given: TokenKind::Continue });
    }
    verify(keyring, text)?.into_checkpoint()
}

/// Verifies a token that one of the keys signed.
///
/// The signature is checked before the payload is parsed, so untrusted payloads are never parsed. Then the
/// payload must be canonical: a token has exactly one spelling.
///
/// # Errors
/// The text is not a valid token. Errors that need the log, such as [`TokenError::UnknownNode`], are not
/// returned.
pub fn verify(keyring: &Keyring, text: &str) -> Result<Token, TokenError> {
    if text.len() > TOKEN_BYTES {
        return Err(TokenError::TooLong { measured: text.len() });
    }
    let (kind, version, payload, signature) = split(text)?;
    match version.strip_prefix('v') {
        Some("1") => {}
        Some(digits) if is_version(digits) => return Err(TokenError::UnsupportedVersion { kind }),
        _ => return Err(TokenError::Shape),
    }
    let payload = base64url::decode(payload).ok_or(TokenError::Encoding)?;
    let signature = base64url::decode(signature).ok_or(TokenError::Encoding)?;
    if signature.len() != 32 {
        return Err(TokenError::SignatureLength { measured: signature.len() });
    }
    if !keyring.verifies(&payload, &signature) {
        return Err(TokenError::BadSignature { kind });
    }
    let wire: Wire = serde_json::from_slice(&payload).map_err(|_| TokenError::Payload)?;
    if wire.token_version != TOKEN_VERSION {
        return Err(TokenError::UnsupportedVersion { kind });
    }
    if wire.token_kind != kind {
        return Err(TokenError::OtherKind { wanted: kind, given: wire.token_kind });
    }
    let token = Token::try_from(wire)?;
    let spelling = canonical::to_vec(&Wire::from(&token)).map_err(|_| TokenError::Payload)?;
    if spelling == payload { Ok(token) } else { Err(TokenError::Payload) }
}

/// Rejects a pair of tokens that do not name the same node.
///
/// # Errors
/// [`TokenError::ScopeMismatch`] with both positions.
pub fn check_pair(state: &StatePayload, ack: &AckPayload) -> Result<(), TokenError> {
    if (&state.session_id, &state.run_id, &state.node_id) == (&ack.session_id, &ack.run_id, &ack.node_id) {
        return Ok(());
    }
    Err(TokenError::ScopeMismatch {
        first: (state.session_id.clone(), state.run_id.clone()),
        second: (ack.session_id.clone(), ack.run_id.clone()),
    })
}

/// The four parts of a long token.
fn split(text: &str) -> Result<(TokenKind, &str, &str, &str), TokenError> {
    let kind = match TokenKind::claimed_by(text) {
        Some(TokenKind::Continue) => return Err(TokenError::ShortForm),
        Some(given @ TokenKind::ShortCheckpoint) => {
            return Err(TokenError::OtherKind { wanted: TokenKind::State, given });
        }
        Some(kind) => kind,
        None => return Err(TokenError::Shape),
    };
    let mut parts = text[kind.prefix().len()..].split('.');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(version), Some(payload), Some(signature), None) => Ok((kind, version, payload, signature)),
        // The format after the version number of a later version is unknown, so it is not checked.
        (Some(version), ..) if version != "v1" && version.strip_prefix('v').is_some_and(is_version) => {
            Err(TokenError::UnsupportedVersion { kind })
        }
        _ => Err(TokenError::Shape),
    }
}

fn is_version(digits: &str) -> bool {
    matches!(digits.len(), 1..=4) && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// The payload: `workflowHash` for a state token, `attemptId` for the others.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    token_version: u64,
    token_kind: TokenKind,
    session_id: SessionId,
    run_id: RunId,
    node_id: NodeId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workflow_hash: Option<WorkflowHash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt_id: Option<AttemptId>,
}

impl From<&Token> for Wire {
    fn from(token: &Token) -> Self {
        let (session_id, run_id, node_id) = token.place();
        let (workflow_hash, attempt_id) = match token {
            Token::State(token) => (Some(token.workflow_hash), None),
            Token::Ack(token) => (None, Some(token.attempt_id.clone())),
            Token::Checkpoint(token) => (None, Some(token.attempt_id.clone())),
        };
        Self {
            token_version: TOKEN_VERSION,
            token_kind: token.kind(),
            session_id: session_id.clone(),
            run_id: run_id.clone(),
            node_id: node_id.clone(),
            workflow_hash,
            attempt_id,
        }
    }
}

impl TryFrom<Wire> for Token {
    type Error = TokenError;

    fn try_from(wire: Wire) -> Result<Self, TokenError> {
        let Wire { token_kind, session_id, run_id, node_id, workflow_hash, attempt_id, .. } = wire;
        match (token_kind, workflow_hash, attempt_id) {
            (TokenKind::State, Some(workflow_hash), None) => {
                Ok(Self::State(StatePayload { session_id, run_id, node_id, workflow_hash }))
            }
            (TokenKind::Ack, None, Some(attempt_id)) => {
                Ok(Self::Ack(AckPayload { session_id, run_id, node_id, attempt_id }))
            }
            (TokenKind::Checkpoint, None, Some(attempt_id)) => {
                Ok(Self::Checkpoint(CheckpointPayload { session_id, run_id, node_id, attempt_id }))
            }
            _ => Err(TokenError::Payload),
        }
    }
}

#[cfg(test)]
mod tests;
