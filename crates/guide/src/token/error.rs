//! Errors of tokens.

use canon::error::{Envelope, Retry};

use super::{TOKEN_BYTES, TokenKind};
use crate::record::{NodeId, RunId, SessionId, WorkflowHash};

canon::error_codes! {
    pub enum TokenErrorCode {
        /// The text is not a token.
        InvalidFormat => "TOKEN_INVALID_FORMAT",
        /// The version of the token is unknown.
        UnsupportedVersion => "TOKEN_UNSUPPORTED_VERSION",
        /// The token was not signed by a key of this installation.
        BadSignature => "TOKEN_BAD_SIGNATURE",
        /// The tokens of one call belong to different positions, or one has the wrong kind.
        ScopeMismatch => "TOKEN_SCOPE_MISMATCH",
        /// The token is valid, but its node does not exist here.
        UnknownNode => "TOKEN_UNKNOWN_NODE",
        /// The token names a different workflow than the run is pinned to.
        WorkflowHashMismatch => "TOKEN_WORKFLOW_HASH_MISMATCH",
        /// Another process is advancing the session.
        SessionLocked => "TOKEN_SESSION_LOCKED",
    }
}

/// How long to wait before retrying a call to a locked session.
const LOCKED_RETRY_MS: u64 = 250;

/// Why a token is rejected. Messages never repeat the token, because it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the token has {measured} bytes; the limit is {TOKEN_BYTES}")]
    TooLong { measured: usize },
    /// Not in the format of a token.
    #[error("the text is not a token: its format is invalid")]
    Shape,
    /// A short token, but a long one is required.
    #[error("a short token (`ct_`) was sent, but a long one is required")]
    ShortForm,
    /// A short token with missing or additional characters.
    #[error("the short token has {measured} characters; it must have {expected}")]
    ShortLength {
        measured: usize,
        /// The length of tokens of its kind.
        expected: usize,
    },
    /// Invalid characters.
    #[error("a part of the token is not base64url without padding")]
    Encoding,
    /// The signature has the wrong length.
    #[error("the signature of the token has {measured} bytes, not 32")]
    SignatureLength { measured: usize },
    /// The signature is valid, but the payload is not canonical.
    #[error("the payload of the token is not the canonical JSON of its kind")]
    Payload,
    /// The token has the wrong kind for the parameter.
    #[error("a `{}` was sent, but a `{}` is required", .given.parameter(), .wanted.parameter())]
    OtherKind { wanted: TokenKind, given: TokenKind },
    /// The version is unknown.
    #[error("the version of the `{}` is unknown to this program", .kind.parameter())]
    UnsupportedVersion {
        /// The kind that it claims to be.
        kind: TokenKind,
    },
    /// Not signed by a key of this installation.
    #[error("the `{}` was not signed by a key of this installation", .kind.parameter())]
    BadSignature {
        /// The kind that it claims to be.
        kind: TokenKind,
    },
    /// The tokens of one call name different positions. [`super::scope_mismatch`] has more details, if the
    /// runs are known.
    #[error("the tokens belong to different positions: {} of {} and {} of {}", .first.1, .first.0, .second.1, .second.0)]
    ScopeMismatch {
        /// The position of the first token.
        first: (SessionId, RunId),
        /// The position of the second token.
        second: (SessionId, RunId),
    },
    /// A valid token, but not for this use.
    #[error("the token cannot be used here: {reason}")]
    Misused { reason: &'static str },
    /// The position of a short token is not in the store.
    #[error(
        "the token is valid, but its step is not in this data directory: its session was deleted, or \
         acknowledged steps are missing from the log"
    )]
    UnknownPosition,
    /// The session exists, but its log does not have the node. Tokens are issued only for recorded nodes.
    #[error(
        "the token is valid, but the log of session {session} does not have node {node}: acknowledged steps are missing \
         from the end of the log"
    )]
    MissingFromLog { session: SessionId, node: NodeId },
    /// The node is not in the store.
    #[error("node {node} of session {session} is not in this data directory")]
    UnknownNode { session: SessionId, node: NodeId },
    /// The run is pinned to a different workflow.
    #[error("the token names workflow {token}, but the run is pinned to {pinned}")]
    WorkflowHashMismatch {
        /// The workflow in the token.
        token: WorkflowHash,
        /// The workflow that the run is pinned to.
        pinned: WorkflowHash,
    },
    /// Another process is advancing the session.
    #[error("session {session} is being advanced by another process")]
    SessionLocked { session: SessionId },
}

impl TokenError {
    /// The code that programs branch on.
    pub const fn code(&self) -> TokenErrorCode {
        match self {
            Self::TooLong { .. }
            | Self::Shape
            | Self::ShortForm
            | Self::ShortLength { .. }
            | Self::Encoding
            | Self::SignatureLength { .. }
            | Self::Payload
            | Self::OtherKind { .. } => TokenErrorCode::InvalidFormat,
            Self::UnsupportedVersion { .. } => TokenErrorCode::UnsupportedVersion,
            Self::BadSignature { .. } => TokenErrorCode::BadSignature,
            Self::ScopeMismatch { .. } | Self::Misused { .. } => TokenErrorCode::ScopeMismatch,
            Self::UnknownPosition | Self::UnknownNode { .. } | Self::MissingFromLog { .. } => {
                TokenErrorCode::UnknownNode
            }
            Self::WorkflowHashMismatch { .. } => TokenErrorCode::WorkflowHashMismatch,
            Self::SessionLocked { .. } => TokenErrorCode::SessionLocked,
        }
    }

    /// The error envelope for the caller.
    pub fn envelope(&self) -> Envelope {
        let envelope = Envelope::new(self.code(), self.to_string()).suggest(self.suggestion());
        match self {
            Self::TooLong { measured } => {
                envelope.detail("measuredBytes", *measured).detail("maximumBytes", TOKEN_BYTES)
            }
            Self::ShortLength { measured, expected } => {
                envelope.detail("measuredCharacters", *measured).detail("expectedCharacters", *expected)
            }
            Self::OtherKind { wanted, given } => {
                envelope.detail("wanted", wanted.parameter()).detail("given", given.parameter())
            }
            Self::ScopeMismatch { first, second } => {
                envelope.detail("firstRunId", first.1.as_str()).detail("secondRunId", second.1.as_str())
            }
            Self::UnknownNode { session, node } | Self::MissingFromLog { session, node } => {
                envelope.detail("sessionId", session.as_str()).detail("nodeId", node.as_str())
            }
            Self::WorkflowHashMismatch { token, pinned } => {
                envelope.detail("tokenHash", token.to_string()).detail("pinnedHash", pinned.to_string())
            }
            Self::SessionLocked { session } => {
                envelope.detail("sessionId", session.as_str()).retry(Retry::AfterMs(LOCKED_RETRY_MS))
            }
            Self::Shape
            | Self::ShortForm
            | Self::Encoding
            | Self::SignatureLength { .. }
            | Self::Payload
            | Self::UnsupportedVersion { .. }
            | Self::BadSignature { .. }
            | Self::Misused { .. }
            | Self::UnknownPosition => envelope,
        }
    }

    const fn suggestion(&self) -> &'static str {
        match self {
            Self::ShortForm => "Send it as `continueToken`, and omit `stateToken` and `ackToken`.",
            Self::OtherKind { wanted: TokenKind::Checkpoint | TokenKind::ShortCheckpoint, .. } => {
                "Send the `checkpointToken` (`cp_…`) of the latest reply about this run. If you have none, rehydrate: \
                 the reply has it."
            }
            Self::OtherKind { .. } => {
                "Send each token of the last reply under its own name. When in doubt, send \
                 only the `continueToken`."
            }
            Self::Misused { .. } => {
                "Call `continue_workflow` with the newest `continueToken` of this run and the intent \
                 `rehydrate` to see the pending step."
            }
            Self::MissingFromLog { .. } => {
                "Do not repeat the missing steps. Run `interlock session verify` for the session, and restore the data \
                 directory from a backup that has them."
            }
            _ => match self.code() {
                TokenErrorCode::InvalidFormat => {
                    "Copy the token again from the last reply, complete and unchanged. If it is lost, call \
                     `resume_session` to get a fresh one."
                }
                TokenErrorCode::UnsupportedVersion => {
                    "Use the version of the program that issued the token, or call `resume_session` \
                     to get a token of this version."
                }
                TokenErrorCode::BadSignature => {
                    "Copy the token again from the last reply: a single changed character makes it invalid. A token \
                     of another installation, or from before two key rotations, is never valid here: \
                     call `resume_session` to get a fresh one."
                }
                TokenErrorCode::ScopeMismatch => {
                    "Send only tokens of one reply together. When in doubt, send only the `continueToken` \
                     of the run that you want to continue."
                }
                TokenErrorCode::UnknownNode => {
                    "Call `resume_session` to find the session. If it was deleted or is in another \
                     data directory, start the workflow again or import the session there."
                }
                TokenErrorCode::WorkflowHashMismatch => {
                    "Call `resume_session` to get a fresh token for the run. The workflow that the run is pinned to applies."
                }
                TokenErrorCode::SessionLocked => {
                    "Wait a moment and retry the same call. It is applied at most once."
                }
            },
        }
    }
}
