//! Jobs of a run that an agent does.

use super::{SessionState, State};
use crate::manifest::vocabulary::closed;

closed! {
    /// What a job is doing. To try again is to make a new job.
    JobState {
        /// Waiting for its turn.
        Queued => "queued",
        /// A worker is being found.
        Allocating => "allocating",
        /// The worker is being prepared.
        Provisioning => "provisioning",
        /// The agent works.
        Running => "running",
        /// The agent waits for somebody.
        Waiting => "waiting",
        /// What the agent made is being collected.
        Collecting => "collecting",
        /// It is over, as it should be.
        Succeeded => "succeeded",
        /// It is over, because something failed.
        Failed => "failed",
        /// It is over, because somebody stopped it.
        Cancelled => "cancelled",
        /// It is over, because its time was.
        Expired => "expired",
    }
}

impl State for JobState {
    const WHAT: &'static str = "job";

    fn name(self) -> &'static str {
        self.as_str()
    }

    fn allowed(self) -> &'static [Self] {
        match self {
            Self::Queued => &[Self::Allocating, Self::Failed, Self::Cancelled, Self::Expired],
            Self::Allocating => &[Self::Provisioning, Self::Failed, Self::Cancelled, Self::Expired],
            Self::Running => &[Self::Collecting, Self::Waiting, Self::Failed, Self::Cancelled, Self::Expired],
            Self::Provisioning | Self::Waiting => {
                &[Self::Running, Self::Failed, Self::Cancelled, Self::Expired]
            }
            Self::Collecting => &[Self::Succeeded, Self::Failed, Self::Cancelled, Self::Expired],
            Self::Succeeded | Self::Failed | Self::Cancelled | Self::Expired => &[],
        }
    }
}

impl JobState {
    /// Whether it is over.
    pub fn is_terminal(self) -> bool {
        self.allowed().is_empty()
    }

    /// What a job becomes when the session that does it reaches a state; nothing where the job goes on as it is.
    pub const fn after_session(session: SessionState) -> Option<Self> {
        match session {
            SessionState::Completed => Some(Self::Collecting),
            SessionState::Failed => Some(Self::Failed),
            SessionState::Archived => Some(Self::Cancelled),
            SessionState::Paused => Some(Self::Waiting),
            SessionState::Creating
            | SessionState::Provisioning
            | SessionState::Active
            | SessionState::Recovering => None,
        }
    }
}
