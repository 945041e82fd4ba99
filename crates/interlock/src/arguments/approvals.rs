//! Arguments of `approvals`.

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;

use super::{OutputFormat, Target};
use crate::completion;

/// List and answer the questions that runs ask people.
#[derive(Debug, Args)]
pub(crate) struct Approvals {
    #[command(subcommand)]
    pub(crate) command: ApprovalsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    List(ApprovalsList),
    Show(ApprovalsShow),
    /// Approve; the runs continue.
    #[command(after_help = "\
Examples:
  Approve with a reason:
    interlock approvals approve 7b12c09e --reason \"customer facing\"")]
    Approve(ApprovalsDecide),
    /// Reject; the runs follow their rejected path, or end.
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

/// List open questions, the most urgent first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  What waits for a person:
    interlock approvals list

  Also what waits for an external event or an agent:
    interlock approvals list --all")]
pub(crate) struct ApprovalsList {
    /// Also list what waits for an external event or an agent.
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Show a question with everything that is to be decided.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Read before you approve:
    interlock approvals show 7b12c09e")]
pub(crate) struct ApprovalsShow {
    /// The run.
    #[arg(value_name = "RUN", add = ArgValueCandidates::new(completion::waiting_runs))]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// The questions to decide.
#[derive(Debug, Args)]
pub(crate) struct ApprovalsDecide {
    /// The runs.
    #[arg(value_name = "RUN", required = true, add = ArgValueCandidates::new(completion::waiting_runs))]
    pub(crate) ids: Vec<String>,

    /// Why; recorded with the decision.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    /// Do not ask for confirmation.
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}
