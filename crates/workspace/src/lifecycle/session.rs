//! Sessions: their states, and the requirements of pausing, resuming and recovering.

use super::{Phase, State, Thread, ThreadState, TurnState, illegal};
use crate::manifest::vocabulary::closed;
use crate::{Code, Error};

closed! {
    SessionState {
        /// Requested.
        Creating => "creating",
        /// A worker is being found and prepared.
        Provisioning => "provisioning",
        Active => "active",
        /// It has no worker; its data is kept.
        Paused => "paused",
        /// It is getting a worker again.
        Recovering => "recovering",
        /// Ended successfully.
        Completed => "completed",
        /// Ended with a failure.
        Failed => "failed",
        /// Ended and archived.
        Archived => "archived",
    }
}

impl State for SessionState {
    const WHAT: &'static str = "session";

    fn name(self) -> &'static str {
        self.as_str()
    }

    fn allowed(self) -> &'static [Self] {
        match self {
            // An abandoned launch is archived.
            Self::Creating => &[Self::Provisioning, Self::Failed, Self::Archived],
            Self::Provisioning => &[Self::Active, Self::Failed, Self::Archived],
            Self::Active => &[Self::Paused, Self::Completed, Self::Failed],
            Self::Paused => &[Self::Recovering, Self::Completed, Self::Archived],
            Self::Recovering => &[Self::Active, Self::Paused, Self::Failed],
            Self::Completed | Self::Failed => &[Self::Archived],
            Self::Archived => &[],
        }
    }
}

impl SessionState {
    /// Whether it has ended. An ended session can still be archived.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Archived => true,
            Self::Creating | Self::Provisioning | Self::Active | Self::Paused | Self::Recovering => false,
        }
    }
}

closed! {
    PauseReason {
        /// A user requested it.
        User => "user",
        /// Inactivity.
        Idle => "idle",
        /// The worker is gone.
        AllocationLost => "allocation_lost",
    }
}

/// Whether a launching session can become active: its launch is ready.
///
/// # Errors
/// `LIFECYCLE_ILLEGAL_TRANSITION` if it is not being launched, or not ready.
pub fn activate(state: SessionState, phase: Phase) -> Result<SessionState, Error> {
    if !state.allowed().contains(&SessionState::Active) {
        return Err(illegal(state, SessionState::Active));
    }
    if !phase.is_ready() {
        let message = format!("a session becomes `active` when its launch is `ready`, but it is `{phase}`");
        return Err(Error::new(Code::LifecycleIllegalTransition, message)
            .detail("from", state.as_str())
            .detail("to", SessionState::Active.as_str())
            .detail("phase", phase.as_str()));
    }
    Ok(SessionState::Active)
}

/// Whether a session can be paused: it is active and none of its threads is busy. If the worker is
/// lost, no thread can be busy.
///
/// # Errors
/// `LIFECYCLE_ILLEGAL_TRANSITION`, with `error: "session_busy"` in the details if it is only busy.
pub fn pause(state: SessionState, threads: &[Thread], reason: PauseReason) -> Result<SessionState, Error> {
    if state != SessionState::Active {
        return Err(illegal(state, SessionState::Paused));
    }
    let busy = |thread: &&Thread| thread.state == ThreadState::Active && thread.turn != TurnState::Idle;
    let busy = threads.iter().filter(busy).count();
    if busy > 0 && reason != PauseReason::AllocationLost {
        let message = format!("the session is busy: {busy} of its threads are not idle");
        return Err(Error::new(Code::LifecycleIllegalTransition, message)
            .detail("error", "session_busy")
            .detail("from", state.as_str())
            .detail("to", SessionState::Paused.as_str())
            .detail("busyThreads", busy));
    }
    Ok(SessionState::Paused)
}

/// Whether a session can be resumed: it is paused.
///
/// # Errors
/// `LIFECYCLE_ILLEGAL_TRANSITION` for every other state.
pub fn resume(state: SessionState) -> Result<SessionState, Error> {
    if state == SessionState::Paused {
        Ok(SessionState::Recovering)
    } else {
        Err(illegal(state, SessionState::Recovering))
    }
}

/// Whether the next message resumes the session automatically: not if a user paused it.
pub fn message_resumes(state: SessionState, reason: PauseReason) -> bool {
    state == SessionState::Paused && reason == PauseReason::AllocationLost
}

/// How often a recovery is tried before the session fails.
pub const MAX_RECOVERY_TRIES: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryFailure {
    /// Whether a retry could succeed.
    pub retryable: bool,
    /// Whether the snapshot is still valid.
    pub snapshot_whole: bool,
    /// Whether the environment changed too much.
    pub critical_drift: bool,
}

/// The state after the `tries`-th failed recovery: paused while a retry makes sense.
pub const fn after_failed_recovery(failure: RecoveryFailure, tries: u32) -> SessionState {
    if failure.retryable && failure.snapshot_whole && !failure.critical_drift && tries <= MAX_RECOVERY_TRIES {
        SessionState::Paused
    } else {
        SessionState::Failed
    }
}
