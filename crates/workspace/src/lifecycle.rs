//! The life cycles of sessions and jobs, as tables.
//!
//! Each state is one of a closed set with its possible successors: [`SessionState`], [`Phase`] of a
//! launch, [`TurnState`] of a thread, [`JobState`]. Nothing is stored here: [`transition`] decides,
//! from the stored state and the state that the caller had read, whether a change is made and what
//! is recorded.
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

/// A closed set of states.
pub trait State: Copy + Eq + Serialize + 'static {
    /// The entity with these states, for messages.
    const WHAT: &'static str;

    /// The wire name.
    fn name(self) -> &'static str;

    /// The possible next states, in table order.
    fn allowed(self) -> &'static [Self];
}

/// A stored state. Each change increments the version, so that a change based on an older state is
/// detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Versioned<S> {
    pub state: S,
    /// The number of changes.
    pub version: u64,
}

/// The result of a transition request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Transition<S> {
    /// Whether there is anything to write.
    pub changed: bool,
    /// The state to store.
    pub next: Versioned<S>,
    /// The event to append; `None` if nothing changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<StatusChanged<S>>,
}

/// The event `status_changed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatusChanged<S> {
    pub from: S,
    pub to: S,
    pub reason: String,
    /// Its position in the history: the new version.
    pub seq: u64,
}

/// Decides a state change as compare-and-set: `stored` is the current state, `read` the one that
/// the caller based its decision on.
///
/// Requesting the stored state always succeeds and changes nothing.
///
/// # Errors
/// `LIFECYCLE_CONFLICT` if the state has changed since it was read, `LIFECYCLE_ILLEGAL_TRANSITION`
/// if the table does not allow the change. Then nothing must be written.
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
            "the {} was `{}` at version {} when it was read, but is now `{}` at version {}",
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

/// A transition that is not in the table.
fn illegal<S: State>(from: S, to: S) -> Error {
    let allowed: Vec<&str> = from.allowed().iter().map(|state| state.name()).collect();
    let (what, from, to) = (S::WHAT, from.name(), to.name());
    let listed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
    let message = format!("a {what} cannot change from `{from}` to `{to}`; allowed next states: {listed}");
    Error::new(Code::LifecycleIllegalTransition, message)
        .detail("from", from)
        .detail("to", to)
        .detail("allowed", allowed)
}
