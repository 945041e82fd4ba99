//! Errors of guided nodes: permanent ones fail the node, temporary ones are retried.

use canon::error::{Envelope, Retry};
use flow::engine::GuideFailure;
use flow::failure::FailureCode;
use flow::state::RunError;
use guide::token::TokenErrorCode;
use guided::Refusal;
use ports::Cause;
use ports::sessions::StoreErrorCode;
use serde_json::{Map, Value, json};

/// Why a step was not completed.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// Permanent: the node fails.
    Failed(GuideFailure),
    /// Temporary: another process holds the session, or the disk failed. This host retries, because no other component
    /// does.
    Later(Cause),
}

pub(super) fn failed(code: FailureCode, message: impl Into<String>, details: Value) -> Trouble {
    Trouble::Failed(GuideFailure::lasting(RunError::of(code, message).with(details)))
}

/// An error of composing or applying a workspace.
pub(super) fn of_workspace(error: &workspace::Error) -> Trouble {
    let mut details = Map::from_iter(error.details().clone());
    details.insert("code".to_owned(), error.code().as_str().into());
    if !error.causes().is_empty() {
        let causes = error.causes().iter().take(10).map(|cause| Value::from(cause.to_string()));
        details.insert("causes".to_owned(), causes.collect());
    }
    let message = canon::budget::truncate(error.message(), 1024).into_owned();
    let run_error = RunError::of(FailureCode::WorkspaceFailed, message).with(Value::Object(details));
    Trouble::Failed(GuideFailure { error: run_error, is_retryable: error.code().is_retryable() })
}

/// An error of starting a session.
pub(super) fn of_start(refusal: &Refusal) -> Trouble {
    refused(FailureCode::GuidedStartFailed, refusal, json!({}))
}

/// An error of reading a session.
pub(super) fn of_session(session: &str, refusal: &Refusal) -> Trouble {
    refused(FailureCode::GuidedSessionLost, refusal, json!({"sessionId": session}))
}

fn refused(code: FailureCode, refusal: &Refusal, mut details: Value) -> Trouble {
    let envelope = refusal.envelope();
    if passes(envelope) {
        return Trouble::Later(Cause::new(refusal.clone()));
    }
    details["code"] = envelope.code().into();
    let error = RunError::of(code, envelope.message()).with(details);
    Trouble::Failed(GuideFailure { error, is_retryable: envelope.retry_hint() != Retry::NotRetryable })
}

/// Whether an error is temporary, so that the step is retried: the session is locked, or the disk is unavailable.
fn passes(envelope: &Envelope) -> bool {
    match envelope.code_in::<StoreErrorCode>() {
        Some(
            StoreErrorCode::SessionLocked
            | StoreErrorCode::StoreBusy
            | StoreErrorCode::StoreIo
            | StoreErrorCode::StoreFull
            | StoreErrorCode::StoreReadOnly,
        ) => true,
        Some(
            StoreErrorCode::SessionNotHealthy
            | StoreErrorCode::SessionUnknown
            | StoreErrorCode::SessionExists
            | StoreErrorCode::SessionMoved
            | StoreErrorCode::StoreNewerVersion
            | StoreErrorCode::StoreDamaged
            | StoreErrorCode::StoreObjectMissing
            | StoreErrorCode::StoreObjectDamaged
            | StoreErrorCode::StoreTooLarge,
        ) => false,
        None => envelope.has_code(TokenErrorCode::SessionLocked),
    }
}
