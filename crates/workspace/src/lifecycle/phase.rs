//! The phases of a launch.

use super::{SessionState, State, illegal};
use crate::manifest::vocabulary::closed;
use crate::{Code, Error};

closed! {
    /// How far the launch of a worker is.
    Phase {
        /// Nothing was done yet.
        Queued => "queued",
        /// A worker is being started.
        WorkerLaunching => "worker_launching",
        /// It was started, and has not answered.
        WorkerWaitingReady => "worker_waiting_ready",
        /// It gets its credentials.
        CredentialsInjecting => "credentials_injecting",
        /// Its workspace is being applied.
        WorkspacePreparing => "workspace_preparing",
        /// Its configuration is being written.
        ConfigWriting => "config_writing",
        /// It reads its configuration again.
        ConfigReloading => "config_reloading",
        /// A model is asked whether it answers.
        ModelVerifying => "model_verifying",
        /// Its tools are asked whether they answer.
        ToolsVerifying => "tools_verifying",
        /// The session can be active.
        Ready => "ready",
        /// It will not become ready.
        Failed => "failed",
    }
}

impl State for Phase {
    const WHAT: &'static str = "launch";

    fn name(self) -> &'static str {
        self.as_str()
    }

    /// Phases only go forwards, and may be passed over; whatever is not over may fail.
    fn allowed(self) -> &'static [Self] {
        let after = match self {
            Self::Queued => 1,
            Self::WorkerLaunching => 2,
            Self::WorkerWaitingReady => 3,
            Self::CredentialsInjecting => 4,
            Self::WorkspacePreparing => 5,
            Self::ConfigWriting => 6,
            Self::ConfigReloading => 7,
            Self::ModelVerifying => 8,
            Self::ToolsVerifying => 9,
            Self::Ready | Self::Failed => Self::ALL.len(),
        };
        &Self::ALL[after..]
    }
}

impl Phase {
    /// Goes to another phase of the launch of a session; the same phase again is right, and changes nothing.
    ///
    /// # Errors
    /// `LIFECYCLE_ILLEGAL_TRANSITION` when the session is not being launched, or the phase is behind.
    pub fn advance(self, to: Self, session: SessionState) -> Result<Self, Error> {
        if !matches!(session, SessionState::Provisioning | SessionState::Recovering) {
            let message =
                format!("a session that is `{session}` is not being launched, so its phase stays `{self}`");
            let refusal = Error::new(Code::LifecycleIllegalTransition, message);
            return Err(refusal
                .detail("from", self.as_str())
                .detail("to", to.as_str())
                .detail("session", session.as_str()));
        }
        if self == to || self.allowed().contains(&to) { Ok(to) } else { Err(illegal(self, to)) }
    }

    /// Whether a session may become active.
    pub const fn is_ready(self) -> bool {
        matches!(self, Self::Ready)
    }
}
