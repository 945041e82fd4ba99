//! Why a call is refused without anything being recorded.

use canon::error::{Envelope, Retry};

use crate::record::GapId;
use crate::workflow::context_keys::ContextFault;

canon::error_codes! {
    /// What a caller can get wrong, besides tokens.
    pub enum EngineErrorCode {
        /// A parameter is missing, misspelt, too large or of the wrong form.
        Validation => "VALIDATION_ERROR",
        /// The call is well-formed, and cannot be made now.
        Precondition => "PRECONDITION_FAILED",
        /// Something that must hold does not. The input is not at fault.
        Internal => "INTERNAL_ERROR",
    }
}

/// Why a call is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The context is too large.
    #[error("the context has {measured} bytes of canonical JSON, and at most {maximum} are allowed")]
    ContextTooLarge {
        /// How large it is.
        measured: usize,
        /// How large it may be.
        maximum: usize,
    },
    /// The context nests too deep.
    #[error("the context nests deeper than {maximum} levels")]
    ContextTooDeep {
        /// How deep it may nest.
        maximum: usize,
    },
    /// The context has no canonical form.
    #[error("the context cannot be kept exactly: {reason}")]
    ContextNotCanonical { reason: String },
    /// A key that no context may have.
    #[error("the context key {key:?} is reserved")]
    ReservedContextKey { key: String },
    /// An artifact that is no object with a `kind`, or too large, or one too many.
    #[error("artifact {index}: {reason}")]
    Artifact {
        /// Which one, from 0.
        index: usize,
        /// What is wrong.
        reason: String,
    },
    /// An artifact that would mend what is recorded, and cannot.
    #[error("artifact {index}: {reason}")]
    CannotMend {
        /// Which one, from 0.
        index: usize,
        reason: String,
        /// One of its kind that can.
        example: &'static str,
    },
    /// A gap that is to be closed and is none of the run's.
    #[error("no gap of this run is called {gap_id:?}")]
    UnknownGap {
        /// What it was called.
        gap_id: String,
        /// The open gaps of the run, the newest first, as many as are worth naming.
        open: Vec<GapId>,
    },
    /// The step was blocked too often in a row.
    #[error("this step was blocked {count} times in a row")]
    TooManyBlocks {
        /// How often.
        count: u32,
    },
    /// No attempt can help.
    #[error("this step is blocked for good")]
    TerminalBlock,
    /// The run cannot begin.
    #[error("the workflow cannot begin: {reason}")]
    CannotBegin { reason: String },
    /// The context of a start lacks what the first step requires, or has a value of another type.
    #[error("the workflow cannot begin: {}", .faults.iter().map(ContextFault::to_string).collect::<Vec<_>>().join("; "))]
    MissingInputs {
        /// The keys; at least one.
        faults: Vec<ContextFault>,
    },
    /// Nothing is pending.
    #[error("the run is complete at this node")]
    Complete,
    /// Something that must hold does not.
    #[error("the recorded facts do not fit together: {reason}")]
    Inconsistent { reason: &'static str },
}

impl EngineError {
    /// The closed code.
    pub const fn code(&self) -> EngineErrorCode {
        match self {
            Self::ContextTooLarge { .. }
            | Self::ContextTooDeep { .. }
            | Self::ContextNotCanonical { .. }
            | Self::ReservedContextKey { .. }
            | Self::Artifact { .. }
            | Self::CannotMend { .. }
            | Self::MissingInputs { .. }
            | Self::UnknownGap { .. } => EngineErrorCode::Validation,
            Self::TooManyBlocks { .. } | Self::TerminalBlock | Self::CannotBegin { .. } | Self::Complete => {
                EngineErrorCode::Precondition
            }
            Self::Inconsistent { .. } => EngineErrorCode::Internal,
        }
    }

    /// The error as a caller gets it.
    pub fn envelope(&self) -> Envelope {
        let envelope = Envelope::new(self.code(), self.to_string()).retry(Retry::NotRetryable);
        match self {
            Self::ContextTooLarge { measured, maximum } => envelope
                .suggest("Take documents and blobs out of the context and pass references to them instead.")
                .detail("measuredBytes", *measured)
                .detail("maximumBytes", *maximum)
                .detail("method", "UTF-8 bytes of RFC 8785 (JCS) canonical JSON"),
            Self::ContextTooDeep { maximum } => {
                envelope.suggest("Flatten the context.").detail("maximumDepth", *maximum)
            }
            Self::ContextNotCanonical { .. } => {
                envelope.suggest("Send large integers as text, and only values that JSON has.")
            }
            Self::ReservedContextKey { key } => {
                envelope.suggest("Use another name for this key.").detail("key", key.as_str())
            }
            Self::Artifact { index, .. } => envelope
                .suggest("Send each artifact as a JSON object with a `kind`, and large documents by reference.")
                .detail("index", *index),
            Self::CannotMend { index, example, .. } => envelope
                .suggest(format!("Nothing was recorded. Send it like this, or leave it out: {example}"))
                .detail("index", *index),
            Self::UnknownGap { open, .. } => {
                let open: Vec<&str> = open.iter().map(GapId::as_str).collect();
                let suggestion = if open.is_empty() {
                    "Nothing is open: leave the wr.gap_resolution out.".to_owned()
                } else {
                    format!("Copy the gapId from a reply. Open are: {}.", open.join(", "))
                };
                envelope.suggest(suggestion)
            }
            Self::TooManyBlocks { count } => envelope
                .suggest(
                    "Nothing of this call was recorded, `context` and `preferences` included. Stop repeating the same \
                     attempt: tell the user what the blockers say. To try the step again with other output, make the call \
                     in `details.nextCall`: it shows the place before the first block, with a token that starts a new branch.",
                )
                .detail("blockedAttempts", *count),
            Self::TerminalBlock => envelope.suggest(
                "Tell the user what the blockers say. Once that is fixed, make the call in `details.nextCall`: it shows the \
                 place before this one, with a token to advance from there.",
            ),
            Self::CannotBegin { .. } => {
                envelope.suggest("Pass the missing input in `context`, or tell the author of the workflow.")
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
            Self::Complete => envelope.suggest("Start another run, or rehydrate an earlier node to go another way."),
            Self::Inconsistent { .. } => envelope.suggest(
                "Your input is not at fault. Run `interlock session verify`, and show the user what it says.",
            ),
        }
    }
}
