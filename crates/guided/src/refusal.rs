//! Converts every error into the error envelope.

use canon::error::{Envelope, Retry};
use guide::engine::EngineError;
use guide::plan::PlanError;
use guide::record::{SessionId, WorkflowHash};
use guide::state::FoldError;
use guide::token::TokenError;
use guide::workflow::compiled::COMPILED_VERSION;
use ports::sessions::{Ended, StoreError, StoreErrorCode};

use super::tenants::MAX_TENANT;

canon::error_codes! {
    /// Errors of the service itself.
    pub enum GuidedErrorCode {
        /// An invariant is violated. The request is not the cause.
        Internal => "INTERNAL_ERROR",
        /// The run that waited for the session no longer waits.
        SessionEnded => "SESSION_ENDED",
        /// A person's answer that cannot be recorded.
        AnswerInvalid => "ANSWER_INVALID",
        /// The run does not wait for this answer.
        QuestionClosed => "QUESTION_CLOSED",
        /// An invalid tenant name.
        TenantInvalid => "TENANT_INVALID",
    }
}

/// Why a call was refused, as the envelope for the caller.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal(Box<Envelope>);

impl Refusal {
    pub fn envelope(&self) -> &Envelope {
        &self.0
    }

    /// Converts into the envelope.
    pub fn into_envelope(self) -> Box<Envelope> {
        self.0
    }
}

/// Whether an envelope reports a failure of the host, as opposed to an error of the caller. Temporary conditions, such as
/// a session that another process is writing, are not failures.
pub fn is_failure(envelope: &Envelope) -> bool {
    if let Some(code) = envelope.code_in::<StoreErrorCode>() {
        return match code {
            StoreErrorCode::SessionNotHealthy
            | StoreErrorCode::StoreIo
            | StoreErrorCode::StoreFull
            | StoreErrorCode::StoreReadOnly
            | StoreErrorCode::StoreNewerVersion
            | StoreErrorCode::StoreDamaged
            | StoreErrorCode::StoreObjectMissing
            | StoreErrorCode::StoreObjectDamaged => true,
            StoreErrorCode::SessionLocked
            | StoreErrorCode::SessionUnknown
            | StoreErrorCode::SessionExists
            | StoreErrorCode::SessionMoved
            | StoreErrorCode::StoreBusy
            | StoreErrorCode::StoreTooLarge => false,
        };
    }
    envelope.has_code(GuidedErrorCode::Internal)
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Refusal {}

impl From<Envelope> for Refusal {
    fn from(envelope: Envelope) -> Self {
        Self(Box::new(envelope))
    }
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        error.envelope().into()
    }
}

impl From<TokenError> for Refusal {
    fn from(error: TokenError) -> Self {
        error.envelope().into()
    }
}

impl From<FoldError> for Refusal {
    fn from(error: FoldError) -> Self {
        error.envelope().into()
    }
}

impl From<PlanError> for Refusal {
    fn from(error: PlanError) -> Self {
        error.envelope().into()
    }
}

impl From<StoreError> for Refusal {
    /// A conflict with another writer is reported as a token error, because the caller can retry with the same token.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Locked { session } | StoreError::Moved { session, .. } => {
                TokenError::SessionLocked { session }.into()
            }
            other => other.envelope().into(),
        }
    }
}

pub(super) fn random_failed(cause: &std::io::Error) -> Refusal {
    internal(
        &format!("The system's random number generator failed: {cause}."),
        "Retry. If it fails again, restart the machine.",
    )
}

pub(super) fn unreadable_workflow(hash: WorkflowHash, cause: &serde_json::Error) -> Refusal {
    internal(
        &format!("The pinned workflow {hash} cannot be read: {cause}."),
        "Your input is not the cause. Run `interlock session verify` and show the user its output.",
    )
}

pub(super) fn newer_workflow(hash: WorkflowHash, found: u64) -> Refusal {
    let known = COMPILED_VERSION;
    let message = format!(
        "The pinned workflow {hash} has version {found}; this program supports versions up to {known}."
    );
    Envelope::new(StoreErrorCode::StoreNewerVersion, message)
        .suggest("Use the version of interlock that started the run. Nothing was changed.")
        .retry(Retry::NotRetryable)
        .detail("found", found)
        .detail("known", u64::from(known))
        .into()
}

/// Instructs the agent to stop, and names the run that it worked for.
pub(super) fn session_ended(session: &SessionId, ended: &Ended) -> Refusal {
    let what = match ended.run_status.as_str() {
        "cancelled" => "was cancelled",
        "failed" => "failed",
        _ => "no longer waits for it",
    };
    let message = format!("The run {} that session {session} belongs to {what}.", ended.run_id);
    Envelope::new(GuidedErrorCode::SessionEnded, message)
        .suggest(
            "Stop working on this session and tell the user. Nothing that was recorded is lost; a new \
                  run starts a new session.",
        )
        .retry(Retry::NotRetryable)
        .detail("sessionId", session.as_str())
        .detail("runId", ended.run_id.as_str())
        .detail("nodeId", ended.node_id.as_str())
        .detail("runStatus", ended.run_status.as_str())
        .into()
}

pub(super) fn unknown_parent(parent: &SessionId) -> Refusal {
    Envelope::new(
        StoreErrorCode::SessionUnknown,
        format!("`parentSessionId` is {parent}, but this data directory has no such session."),
    )
    .suggest(
        "Nothing was started. Copy `parentSessionId` from the reply of the delegating run, or call \
         start_workflow again \
         without it.",
    )
    .retry(Retry::NotRetryable)
    .detail("sessionId", parent.as_str())
    .into()
}

pub(super) fn not_a_tenant(tenant: &str) -> Refusal {
    let shown: String = tenant.chars().take(MAX_TENANT).collect();
    Envelope::new(GuidedErrorCode::TenantInvalid, format!("{shown:?} is not a valid tenant name."))
        .suggest(format!("Use 1 to {MAX_TENANT} lower-case letters, digits, `-` and `_`."))
        .retry(Retry::NotRetryable)
        .into()
}

pub(super) fn inconsistent(what: &str) -> Refusal {
    internal(
        what,
        "Your input is not the cause. Run `interlock session verify` and show the user its output.",
    )
}

fn internal(message: &str, suggestion: &str) -> Refusal {
    Envelope::new(GuidedErrorCode::Internal, message).suggest(suggestion).retry(Retry::NotRetryable).into()
}
