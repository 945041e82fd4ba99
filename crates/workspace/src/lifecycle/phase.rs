//! The phases of a launch.

use super::{SessionState, State, illegal};
use crate::manifest::vocabulary::closed;
use crate::{Code, Error};

closed! {
    Phase {
        /// Not started.
        Queued => "queued",
        /// A worker is being started.
        WorkerLaunching => "worker_launching",
        /// The worker was started and has not responded.
        WorkerWaitingReady => "worker_waiting_ready",
        /// It receives its credentials.
        CredentialsInjecting => "credentials_injecting",
        /// Its workspace is being applied.
        WorkspacePreparing => "workspace_preparing",
        /// Its configuration is being written.
        ConfigWriting => "config_writing",
        /// It reloads its configuration.
        ConfigReloading => "config_reloading",
        /// A model connection is being tested.
        ModelVerifying => "model_verifying",
        /// Its tools are being tested.
        ToolsVerifying => "tools_verifying",
        /// The session can become active.
        Ready => "ready",
        Failed => "failed",
    }
}

impl State for Phase {
    const WHAT: &'static str = "launch";

    fn name(self) -> &'static str {
        self.as_str()
    }

    /// Phases only advance and may be skipped; every unfinished phase may fail.
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
    /// Advances the launch phase of a session; the same phase again is accepted without change.
    ///
    /// # Errors
    /// `LIFECYCLE_ILLEGAL_TRANSITION` if the session is not being launched, or the phase is an
    /// earlier one.
    pub fn advance(self, to: Self, session: SessionState) -> Result<Self, Error> {
        if !matches!(session, SessionState::Provisioning | SessionState::Recovering) {
            let message =
                format!("a session in state `{session}` is not being launched; its phase remains `{self}`");
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
