//! The states of a run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of a run, as readers see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// Created, but not started.
    #[default]
    Pending,
    /// Nodes are being executed, or can be.
    Running,
    /// Paused by a caller.
    Paused,
    /// Waits for the decision of a person.
    WaitingApproval,
    /// Waits for the answer of a person.
    WaitingInput,
    /// Waits for an external event.
    WaitingExternal,
    /// Ended successfully.
    Completed,
    /// Ended with an error.
    Failed,
    /// Cancellation is in progress.
    Cancelling,
    Cancelled,
}

impl RunStatus {
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Running,
        Self::Paused,
        Self::WaitingApproval,
        Self::WaitingInput,
        Self::WaitingExternal,
        Self::Completed,
        Self::Failed,
        Self::Cancelling,
        Self::Cancelled,
    ];

    /// The spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::WaitingApproval => "waiting-approval",
            Self::WaitingInput => "waiting-input",
            Self::WaitingExternal => "waiting-external",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelling => "cancelling",
            Self::Cancelled => "cancelled",
        }
    }

    /// Parses the spelling on the wire.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether the run has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Whether the run waits for a person or an external event.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::WaitingApproval | Self::WaitingInput | Self::WaitingExternal)
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
