//! Threads of a session, and their turns.

use super::{State, illegal};
use crate::manifest::vocabulary::closed;
use crate::{Code, Error};

closed! {
    ThreadState {
        Active => "active",
        Archived => "archived",
    }
}

impl State for ThreadState {
    const WHAT: &'static str = "thread";

    fn name(self) -> &'static str {
        self.as_str()
    }

    fn allowed(self) -> &'static [Self] {
        match self {
            Self::Active => &[Self::Archived],
            Self::Archived => &[],
        }
    }
}

closed! {
    TurnState {
        /// Waiting for a message.
        Idle => "idle",
        /// Answering a message.
        Executing => "executing",
        /// Being stopped.
        Interrupting => "interrupting",
    }
}

impl State for TurnState {
    const WHAT: &'static str = "turn";

    fn name(self) -> &'static str {
        self.as_str()
    }

    fn allowed(self) -> &'static [Self] {
        match self {
            Self::Idle => &[Self::Executing],
            Self::Executing => &[Self::Interrupting, Self::Idle],
            Self::Interrupting => &[Self::Idle],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    pub state: ThreadState,
    pub turn: TurnState,
}

/// Whether the thread at `index` can be archived: it is active and idle, and not the last active
/// one.
///
/// # Errors
/// `LIFECYCLE_ILLEGAL_TRANSITION`; the message gives the reason.
pub fn archive(threads: &[Thread], index: usize) -> Result<ThreadState, Error> {
    let refusal =
        |message: String| Error::new(Code::LifecycleIllegalTransition, message).detail("thread", index);
    let Some(thread) = threads.get(index) else {
        return Err(refusal(format!("thread {index} not found; there are {} threads", threads.len())));
    };
    if thread.state != ThreadState::Active {
        return Err(illegal(thread.state, ThreadState::Archived));
    }
    if thread.turn != TurnState::Idle {
        return Err(refusal(format!(
            "thread {index} is `{}`; only an idle thread can be archived",
            thread.turn
        )));
    }
    if threads.iter().filter(|thread| thread.state == ThreadState::Active).count() == 1 {
        return Err(refusal("the last active thread of a session cannot be archived".into()));
    }
    Ok(ThreadState::Archived)
}
