//! Errors of calls that record nothing.

use canon::error::{Envelope, Retry};

use crate::record::GapId;
use crate::workflow::context_keys::ContextFault;

canon::error_codes! {
    /// The error codes of the engine, besides those of tokens.
    pub enum EngineErrorCode {
        /// A parameter is missing, unknown, too large or invalid.
        Validation => "VALIDATION_ERROR",
        /// The call is valid but not possible in the current state.
        Precondition => "PRECONDITION_FAILED",
        /// An invariant is violated. The input is not the cause.
        Internal => "INTERNAL_ERROR",
    }
}

/// Why a call is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    #[error("the context has {measured} bytes of canonical JSON; the limit is {maximum}")]
    ContextTooLarge { measured: usize, maximum: usize },
    #[error("the context is nested too deeply; the limit is {maximum} levels")]
    ContextTooDeep { maximum: usize },
    #[error("the context cannot be stored exactly: {reason}")]
    ContextNotCanonical { reason: String },
    #[error("the context key {key:?} is reserved")]
    ReservedContextKey { key: String },
    /// An artifact is not an object with a `kind`, is too large, or exceeds the number of artifacts.
    #[error("artifact {index}: {reason}")]
    Artifact {
        /// The zero-based index.
        index: usize,
        reason: String,
    },
    /// An artifact should close a gap or correct notes, but cannot.
    #[error("artifact {index}: {reason}")]
    InvalidAmendment {
        /// The zero-based index.
        index: usize,
        reason: String,
        /// A valid example of its kind.
        example: &'static str,
    },
    /// The gap to close does not belong to the run.
    #[error("the run has no gap with the id {gap_id:?}")]
    UnknownGap {
        /// The id that was sent.
        gap_id: String,
        /// The newest open gaps of the run, up to a limit.
        open: Vec<GapId>,
    },
    /// The call replaces a list whose items were already delegated.
    #[error("The items of the context key `{key}` were already delegated; this step cannot change the list")]
    HandedOutList { key: String },
    /// The step was blocked too often in a row.
    #[error("this step was blocked {count} times in a row")]
    TooManyBlocks { count: u32 },
    /// No further attempt can succeed.
    #[error("this step is blocked permanently")]
    TerminalBlock,
    /// The workflow cannot start.
    #[error("the workflow cannot start: {reason}")]
    CannotBegin { reason: String },
    /// The first step requires context keys that are missing or have the wrong type.
    #[error("the workflow cannot start: {}", .faults.iter().map(ContextFault::to_string).collect::<Vec<_>>().join("; "))]
    MissingInputs {
        /// The keys; at least one.
        faults: Vec<ContextFault>,
    },
    /// No step is pending.
    #[error("the run is complete at this node")]
    Complete,
    /// An invariant is violated.
    #[error("the recorded session is inconsistent: {reason}")]
    Inconsistent { reason: &'static str },
}

impl EngineError {
    pub const fn code(&self) -> EngineErrorCode {
        match self {
            Self::ContextTooLarge { .. }
            | Self::ContextTooDeep { .. }
            | Self::ContextNotCanonical { .. }
            | Self::ReservedContextKey { .. }
            | Self::Artifact { .. }
            | Self::InvalidAmendment { .. }
            | Self::HandedOutList { .. }
            | Self::MissingInputs { .. }
            | Self::UnknownGap { .. } => EngineErrorCode::Validation,
            Self::TooManyBlocks { .. } | Self::TerminalBlock | Self::CannotBegin { .. } | Self::Complete => {
                EngineErrorCode::Precondition
            }
            Self::Inconsistent { .. } => EngineErrorCode::Internal,
        }
    }

    /// The error envelope for the caller.
    pub fn envelope(&self) -> Envelope {
        let envelope = Envelope::new(self.code(), self.to_string()).retry(Retry::NotRetryable);
        match self {
            Self::ContextTooLarge { measured, maximum } => envelope
                .suggest("Move documents and binary data out of the context and pass references to them.")
                .detail("measuredBytes", *measured)
                .detail("maximumBytes", *maximum)
                .detail("method", "UTF-8 bytes of RFC 8785 (JCS) canonical JSON"),
            Self::ContextTooDeep { maximum } => {
                envelope.suggest("Flatten the context.").detail("maximumDepth", *maximum)
            }
            Self::ContextNotCanonical { .. } => {
                envelope.suggest("Send large integers as strings, and only values that JSON can represent.")
            }
            Self::ReservedContextKey { key } => {
                envelope.suggest("Use a different key.").detail("key", key.as_str())
            }
            Self::Artifact { index, .. } => envelope
                .suggest("Send each artifact as a JSON object with a `kind`, and large documents by reference.")
                .detail("index", *index),
            Self::InvalidAmendment { index, example, .. } => envelope
                .suggest(format!("Nothing was recorded. Send the artifact in this form or omit it: {example}"))
                .detail("index", *index),
            Self::UnknownGap { open, .. } => {
                let open: Vec<&str> = open.iter().map(GapId::as_str).collect();
                let suggestion = if open.is_empty() {
                    "The run has no open gaps. Omit the `wr.gap_resolution` artifact.".to_owned()
                } else {
                    format!("Copy the `gapId` from a reply. Open gaps: {}.", open.join(", "))
                };
                envelope.suggest(suggestion)
            }
            Self::HandedOutList { key } => envelope
                .suggest(format!(
                    "Nothing was recorded. Finish the runs under DELEGATED RUNS, and advance without `{key}` in `context`. To \
                     delegate another list, rehydrate the step that sent the list, and advance it with the other one."
                ))
                .detail("key", key.as_str()),
            Self::TooManyBlocks { count } => envelope
                .suggest(
                    "Nothing was recorded, including `context` and `preferences`. Do not repeat the same \
                     attempt. Report the blockers to the user. To try the step again with different output, make the call \
                     in `details.nextCall`: it returns the node before the first block, with a token that starts a new branch.",
                )
                .detail("blockedAttempts", *count),
            Self::TerminalBlock => envelope.suggest(
                "Report the blockers to the user. Once they are fixed, make the call in `details.nextCall`: it returns the \
                 previous node, with a token to advance from there.",
            ),
            Self::CannotBegin { .. } => {
                envelope.suggest("Pass the missing input in `context`, or report the problem to the author of the workflow.")
            }
            Self::MissingInputs { faults } => {
                let wanted: serde_json::Map<String, serde_json::Value> =
                    faults.iter().map(|fault| (fault.key.clone(), fault.placeholder.clone().into())).collect();
                let wanted = serde_json::Value::Object(wanted);
                envelope
                    .suggest(format!(
                        "Nothing was started. Call `start_workflow` again with these keys in `context`, each with its \
                         actual value in place of the placeholder: {wanted}. If only the user knows a value, ask."
                    ))
                    .detail("context", wanted)
            }
            Self::Complete => envelope.suggest("Start a new run, or rehydrate an earlier node to create another branch."),
            Self::Inconsistent { .. } => envelope.suggest(
                "Your input is not the cause. Run `interlock session verify` and show its output to the user.",
            ),
        }
    }
}
