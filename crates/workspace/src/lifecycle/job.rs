//! Jobs of a run that an agent executes.

use super::{SessionState, State};
use crate::manifest::vocabulary::closed;

closed! {
    /// The state of a job. A retry is a new job.
    JobState {
        Queued => "queued",
        /// A worker is being found.
        Allocating => "allocating",
        /// The worker is being prepared.
        Provisioning => "provisioning",
        /// The agent works.
        Running => "running",
        /// The agent waits for a person.
        Waiting => "waiting",
        /// The results are being collected.
        Collecting => "collecting",
        /// Ended successfully.
        Succeeded => "succeeded",
        /// Ended with a failure.
        Failed => "failed",
        Cancelled => "cancelled",
        /// Timed out.
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
    pub fn is_terminal(self) -> bool {
        self.allowed().is_empty()
    }

    /// The job state that follows from a session state; `None` if the job is unchanged.
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
