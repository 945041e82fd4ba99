//! Arguments of `approvals`.

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;

use super::{OutputFormat, Target};
use crate::completion;

/// List, show and decide the approvals and questions that runs wait for.
#[derive(Debug, Args)]
pub(crate) struct Approvals {
    #[command(subcommand)]
    pub(crate) command: ApprovalsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    List(ApprovalsList),
    Show(ApprovalsShow),
    /// Approve. The runs continue.
    #[command(after_help = "\
Examples:
  Approve with a reason:
    interlock approvals approve 7b12c09e --reason \"customer facing\"")]
    Approve(ApprovalsDecide),
    /// Reject. Each run follows its path for rejection, or ends.
    #[command(after_help = "\
Examples:
  Reject with a reason:
    interlock approvals reject 7b12c09e --reason \"the changelog misses the migration\"")]
    Reject(ApprovalsDecide),
}

impl ApprovalsCommand {
    pub(crate) const fn answering(&self) -> OutputFormat {
        match self {
            Self::List(list) => list.target.answering,
            Self::Show(show) => show.target.answering,
            Self::Approve(decide) | Self::Reject(decide) => decide.target.answering,
        }
    }
}

/// List pending approvals and questions, most urgent first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Everything that waits for a person:
    interlock approvals list

  Include what waits for an external event or an agent:
    interlock approvals list --all")]
pub(crate) struct ApprovalsList {
    /// Also list runs that wait for an external event or an agent.
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Show a pending approval or question in full.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Read before you approve:
    interlock approvals show 7b12c09e")]
pub(crate) struct ApprovalsShow {
    /// The run that waits.
    #[arg(value_name = "RUN", add = ArgValueCandidates::new(completion::waiting_runs))]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// The questions to decide.
#[derive(Debug, Args)]
pub(crate) struct ApprovalsDecide {
    /// The runs that wait.
    #[arg(value_name = "RUN", required = true, add = ArgValueCandidates::new(completion::waiting_runs))]
    pub(crate) ids: Vec<String>,

    /// The reason, recorded with the decision.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    /// Do not ask for confirmation.
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}
