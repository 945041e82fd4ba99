//! Sessions: their states, and what pausing, resuming and recovering need.

use super::{Phase, State, Thread, ThreadState, TurnState, illegal};
use crate::manifest::vocabulary::closed;
use crate::{Code, Error};

closed! {
    /// What a session is doing.
    SessionState {
        /// It was asked for, and has nothing yet.
        Creating => "creating",
        /// A worker is being found and prepared.
        Provisioning => "provisioning",
        /// It can be talked to.
        Active => "active",
        /// It has no worker, and what it had is kept.
        Paused => "paused",
        /// It is getting a worker again.
        Recovering => "recovering",
        /// It is over, as it should be.
        Completed => "completed",
        /// It is over, because something failed.
        Failed => "failed",
        /// It is over and put away.
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
            // Whoever gives up on a launch puts it away.
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
    /// Whether it is over. What is over can still be put away.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Archived => true,
            Self::Creating | Self::Provisioning | Self::Active | Self::Paused | Self::Recovering => false,
        }
    }
}

closed! {
    /// Why a session was paused.
    PauseReason {
        /// Somebody asked for it.
        User => "user",
        /// Nothing happened for long.
        Idle => "idle",
        /// Its worker is gone.
        AllocationLost => "allocation_lost",
    }
}

/// Whether a session that is being launched can be talked to: its launch is ready.
///
/// # Errors
/// `LIFECYCLE_ILLEGAL_TRANSITION` when it is not being launched, or not ready.
pub fn activate(state: SessionState, phase: Phase) -> Result<SessionState, Error> {
    if !state.allowed().contains(&SessionState::Active) {
        return Err(illegal(state, SessionState::Active));
    }
    if !phase.is_ready() {
        let message = format!("a session becomes `active` when its launch is `ready`, and it is `{phase}`");
        return Err(Error::new(Code::LifecycleIllegalTransition, message)
            .detail("from", state.as_str())
            .detail("to", SessionState::Active.as_str())
            .detail("phase", phase.as_str()));
    }
    Ok(SessionState::Active)
}

/// Whether a session can be paused: it is active, and none of its threads is busy. When the worker is lost there is
/// nothing left that could be busy.
///
/// # Errors
/// `LIFECYCLE_ILLEGAL_TRANSITION`, with `error: "session_busy"` in the details when it is only busy.
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

/// Whether the next message resumes the session by itself: nobody asked for it to stop.
pub fn message_resumes(state: SessionState, reason: PauseReason) -> bool {
    state == SessionState::Paused && reason == PauseReason::AllocationLost
}

/// How often a recovery is tried before the session has failed.
pub const MAX_RECOVERY_TRIES: u32 = 3;

/// Why a recovery did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryFailure {
    /// Whether the same could succeed later.
    pub retryable: bool,
    /// Whether the snapshot is still whole.
    pub snapshot_whole: bool,
    /// Whether the environment changed too much.
    pub critical_drift: bool,
}

/// What becomes of a session whose recovery failed for the `tries`-th time: paused while trying again makes sense.
pub const fn after_failed_recovery(failure: RecoveryFailure, tries: u32) -> SessionState {
    if failure.retryable && failure.snapshot_whole && !failure.critical_drift && tries <= MAX_RECOVERY_TRIES {
        SessionState::Paused
    } else {
        SessionState::Failed
    }
}
