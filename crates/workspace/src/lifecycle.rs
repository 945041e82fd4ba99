//! The lives of sessions and jobs, as tables.
//!
//! A state is one of a closed set, and each says which may follow it: [`SessionState`], [`Phase`] of a launch,
//! [`TurnState`] of a thread, [`JobState`]. Nothing here stores anything: [`transition`] decides, from what is stored
//! and what the caller had read, whether a change is made and what is then written down.
//!
//! ```
//! use workspace::lifecycle::{SessionState, Versioned, transition};
//!
//! let stored = Versioned { state: SessionState::Active, version: 7 };
//! let paused = transition(stored, stored, SessionState::Paused, "user")?;
//! assert_eq!(paused.next, Versioned { state: SessionState::Paused, version: 8 });
//!
//! let refused = transition(stored, stored, SessionState::Creating, "user").unwrap_err();
//! assert_eq!(refused.code().to_string(), "LIFECYCLE_ILLEGAL_TRANSITION");
//! # Ok::<(), workspace::Error>(())
//! ```

mod job;
mod launch_failure;
mod phase;
mod session;
mod thread;

use serde::Serialize;

pub use self::job::JobState;
pub use self::launch_failure::LaunchFailureKind;
pub use self::phase::Phase;
pub use self::session::{
    MAX_RECOVERY_TRIES, PauseReason, RecoveryFailure, SessionState, activate, after_failed_recovery,
    message_resumes, pause, resume,
};
pub use self::thread::{Thread, ThreadState, TurnState, archive};
use crate::{Code, Error};

/// One of a closed set of states.
pub trait State: Copy + Eq + Serialize + 'static {
    /// What has these states, for messages.
    const WHAT: &'static str;

    /// The spelling on the wire.
    fn name(self) -> &'static str;

    /// The states that may follow, in the order of the table.
    fn allowed(self) -> &'static [Self];
}

/// A state as it is stored. Each change raises the version, so a change that was decided on an older
/// state is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Versioned<S> {
    /// The state.
    pub state: S,
    /// How many changes there were.
    pub version: u64,
}

/// What a request for a state comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Transition<S> {
    /// Whether there is anything to write.
    pub changed: bool,
    /// What is stored afterwards.
    pub next: Versioned<S>,
    /// What is appended to the history; nothing where nothing changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<StatusChanged<S>>,
}

/// The event `status_changed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatusChanged<S> {
    /// The state before.
    pub from: S,
    /// The state after.
    pub to: S,
    /// Why.
    pub reason: String,
    /// Its place in the history: the version that it made.
    pub seq: u64,
}

/// Decides a change of state, as compare-and-set: `stored` is what is there now, `read` what the caller decided on.
///
/// Asking for the state that is stored is right whatever the caller had read, and changes nothing.
///
/// # Errors
/// `LIFECYCLE_CONFLICT` when the state was changed since it was read, `LIFECYCLE_ILLEGAL_TRANSITION` when the table
/// does not have the change. Nothing is to be written then.
pub fn transition<S: State>(
    stored: Versioned<S>,
    read: Versioned<S>,
    to: S,
    reason: &str,
) -> Result<Transition<S>, Error> {
    if stored.state == to {
        return Ok(Transition { changed: false, next: stored, event: None });
    }
    if stored != read {
        let message = format!(
            "the {} was `{}` at version {} when it was read, and is `{}` at version {} now",
            S::WHAT,
            read.state.name(),
            read.version,
            stored.state.name(),
            stored.version
        );
        let conflict = Error::new(Code::LifecycleConflict, message);
        return Err(conflict.detail("state", stored.state.name()).detail("version", stored.version));
    }
    if !stored.state.allowed().contains(&to) {
        return Err(illegal(stored.state, to));
    }
    let next = Versioned { state: to, version: stored.version.saturating_add(1) };
    let event = StatusChanged { from: stored.state, to, reason: reason.to_owned(), seq: next.version };
    Ok(Transition { changed: true, next, event: Some(event) })
}

/// A change that the table does not have.
fn illegal<S: State>(from: S, to: S) -> Error {
    let allowed: Vec<&str> = from.allowed().iter().map(|state| state.name()).collect();
    let (what, from, to) = (S::WHAT, from.name(), to.name());
    let listed = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
    let message = format!("a {what} that is `{from}` cannot become `{to}`; what can follow is {listed}");
    Error::new(Code::LifecycleIllegalTransition, message)
        .detail("from", from)
        .detail("to", to)
        .detail("allowed", allowed)
}
