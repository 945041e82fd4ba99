//! Why a token is refused.

use canon::error::{Envelope, Retry};

use super::{TOKEN_BYTES, TokenKind};
use crate::record::{NodeId, RunId, SessionId, WorkflowHash};

canon::error_codes! {
    /// The reasons for refusing a token that programs can tell apart.
    pub enum TokenErrorCode {
        /// The text is not a token.
        InvalidFormat => "TOKEN_INVALID_FORMAT",
        /// The token is of a version that this program does not know.
        UnsupportedVersion => "TOKEN_UNSUPPORTED_VERSION",
        /// No key of this installation signed it.
        BadSignature => "TOKEN_BAD_SIGNATURE",
        /// The tokens of one call belong to two places, or one is not for this use.
        ScopeMismatch => "TOKEN_SCOPE_MISMATCH",
        /// The token is genuine, and what it names is not here.
        UnknownNode => "TOKEN_UNKNOWN_NODE",
        /// The token names another workflow than the run is pinned to.
        WorkflowHashMismatch => "TOKEN_WORKFLOW_HASH_MISMATCH",
        /// Another process is advancing the session.
        SessionLocked => "TOKEN_SESSION_LOCKED",
    }
}

/// How long to wait before asking again for a session that another process holds.
const LOCKED_RETRY_MS: u64 = 250;

/// Why a token is refused. No message repeats the token: it may be a secret of somebody else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Longer than any token is.
    #[error("the token has {measured} bytes, and no token has more than {TOKEN_BYTES}")]
    TooLong {
        /// How long it is.
        measured: usize,
    },
    /// Not the parts of a token.
    #[error("the text is not a token: it does not have the form of one")]
    Shape,
    /// A short token where a long one is wanted.
    #[error("a short token (`ct_`) was given where a long one is wanted")]
    ShortForm,
    /// A short token that was cut, or has something behind it.
    #[error("the short token has {measured} characters; it must have {expected}")]
    ShortLength {
        measured: usize,
        /// How many tokens of its kind have.
        expected: usize,
    },
    /// Characters that tokens do not have.
    #[error("a part of the token is not base64url without padding")]
    Encoding,
    /// A signature of another length.
    #[error("the signature of the token has {measured} bytes, not 32")]
    SignatureLength { measured: usize },
    /// Signed, but not by this program as it is: the payload is not the canonical one.
    #[error("the payload of the token is not the canonical JSON of its kind")]
    Payload,
    /// A token of another kind than the parameter takes.
    #[error("a `{}` was given where a `{}` is wanted", .given.parameter(), .wanted.parameter())]
    OtherKind { wanted: TokenKind, given: TokenKind },
    /// Of a later version.
    #[error("the `{}` is of a version that this program does not know", .kind.parameter())]
    UnsupportedVersion {
        /// The kind it claims to be.
        kind: TokenKind,
    },
    /// Signed by nobody here.
    #[error("the `{}` was not signed by a key of this installation", .kind.parameter())]
    BadSignature {
        /// The kind it claims to be.
        kind: TokenKind,
    },
    /// The tokens of one call name two places. [`super::scope_mismatch`] says more, where the
    /// runs are known.
    #[error("the tokens belong to two places: {} of {} and {} of {}", .first.1, .first.0, .second.1, .second.0)]
    ScopeMismatch {
        /// What the first token names.
        first: (SessionId, RunId),
        /// What the second one names.
        second: (SessionId, RunId),
    },
    /// A genuine token that cannot be used like this.
    #[error("the token cannot be used like this: {reason}")]
    Misused { reason: &'static str },
    /// A short token whose position is not in the store.
    #[error(
        "the token is genuine, but the step it names is not in this data directory: its session was deleted, or \
         acknowledged steps are missing from the log"
    )]
    UnknownPosition,
    /// The session is there and its log does not have the node: a token is only ever issued for what is recorded.
    #[error(
        "the token is genuine, but the log of session {session} does not have node {node}: acknowledged steps are missing \
         from the end of the log"
    )]
    MissingFromLog { session: SessionId, node: NodeId },
    /// A node that is not in the store.
    #[error("node {node} of session {session} is not in this data directory")]
    UnknownNode { session: SessionId, node: NodeId },
    /// The run is pinned to another workflow.
    #[error("the token names workflow {token}, and the run is pinned to {pinned}")]
    WorkflowHashMismatch {
        /// What the token says.
        token: WorkflowHash,
        /// What the run is pinned to.
        pinned: WorkflowHash,
    },
    /// Another process is at it.
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

    /// The error as a caller is told it.
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
            Self::ShortForm => "Send it as `continueToken`, and leave `stateToken` and `ackToken` out.",
            Self::OtherKind { wanted: TokenKind::Checkpoint | TokenKind::ShortCheckpoint, .. } => {
                "Send the `checkpointToken` (`cp_…`) of the latest reply about this run. Without one, rehydrate: \
                 the reply has it."
            }
            Self::OtherKind { .. } => {
                "Send each token of the last reply under the name it had there. When in doubt send \
                 only the `continueToken`."
            }
            Self::Misused { .. } => {
                "Call `continue_workflow` with the newest `continueToken` of this run and the intent \
                 `rehydrate` to see what it is waiting for."
            }
            Self::MissingFromLog { .. } => {
                "Do not repeat the missing steps. Run `interlock session verify` for the session, and restore the data \
                 directory from a backup that has them."
            }
            _ => match self.code() {
                TokenErrorCode::InvalidFormat => {
                    "Copy the token again from the last reply, whole and unchanged. If it is lost, call \
                     `resume_session` to get a fresh one."
                }
                TokenErrorCode::UnsupportedVersion => {
                    "Use the version of the program that handed the token out, or call `resume_session` \
                     to get a token of this version."
                }
                TokenErrorCode::BadSignature => {
                    "Copy the token again from the last reply: one changed character is enough. A token \
                     of another installation, or from before two key rotations, is never valid here: \
                     call `resume_session` to get a fresh one."
                }
                TokenErrorCode::ScopeMismatch => {
                    "Send only tokens of one reply together. When in doubt send only the `continueToken` \
                     of the run that you want to go on with."
                }
                TokenErrorCode::UnknownNode => {
                    "Call `resume_session` to find the session. If it was deleted, or lives in another \
                     data directory, start the workflow again or import the session there."
                }
                TokenErrorCode::WorkflowHashMismatch => {
                    "Call `resume_session` to get a fresh token for the run; the pinned workflow decides."
                }
                TokenErrorCode::SessionLocked => {
                    "Wait a moment and make the same call again: it happens at most once."
                }
            },
        }
    }
}
