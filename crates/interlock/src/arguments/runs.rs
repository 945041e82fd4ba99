//! Arguments of `runs`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCandidates;

use super::{OutputFormat, Target};
use crate::completion;

/// List, inspect and control runs.
///
/// RUN is the id of a run, at least 6 characters from the start or the end of its id, the URL of its
/// page in the console, `last` for the latest run, or `last:WORKFLOW` for the latest run of a workflow.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    #[command(subcommand)]
    pub(crate) command: RunsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    List(RunsList),
    Show(RunsShow),
    Tail(RunsTail),
    Answer(RunsAnswer),
    /// Cancel runs and their children. This cannot be undone.
    #[command(after_help = "\
Examples:
  One run:
    interlock runs cancel a203eaf0 --reason \"wrong version\"

  All running backfills. Asks for confirmation; a script must pass --yes:
    interlock runs cancel --filter 'workflow:backfill status:running'")]
    Cancel(RunsControl),
    /// Pause runs. They keep their state until they are resumed.
    #[command(after_help = "\
Examples:
  Pause one run:
    interlock runs pause a203eaf0

  Pause all running runs without confirmation:
    interlock runs pause --filter status:running --yes --reason maintenance")]
    Pause(RunsControl),
    /// Resume paused runs.
    #[command(after_help = "\
Examples:
  Resume one run:
    interlock runs resume a203eaf0

  Resume all paused runs:
    interlock runs resume --filter status:paused")]
    Resume(RunsControl),
    Fork(RunsFork),
    Diff(RunsDiff),
    Export(RunsExport),
}

impl RunsCommand {
    pub(crate) const fn answering(&self) -> OutputFormat {
        match self {
            Self::List(list) => list.target.answering,
            Self::Show(show) => show.target.answering,
            Self::Tail(tail) => tail.target.answering,
            Self::Answer(answer) => answer.target.answering,
            Self::Cancel(control) | Self::Pause(control) | Self::Resume(control) => control.target.answering,
            Self::Fork(fork) => fork.target.answering,
            Self::Diff(diff) => diff.target.answering,
            Self::Export(export) => export.target.answering,
        }
    }
}

/// Selects runs.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RunsFilter {
    /// Only runs in one of these states, separated by commas: pending, running, waiting, paused,
    /// completed, rejected, failed, cancelling, cancelled.
    #[arg(long, value_name = "S,…", add = ArgValueCandidates::new(completion::statuses))]
    pub(crate) status: Option<String>,

    /// Only runs of this workflow.
    #[arg(long, value_name = "W", add = ArgValueCandidates::new(completion::workflows))]
    pub(crate) workflow: Option<String>,

    /// Only runs with this tag.
    #[arg(long, value_name = "T")]
    pub(crate) tag: Option<String>,

    /// Only runs that started within this time, such as 24h, or after this instant (RFC 3339).
    #[arg(long, value_name = "24h")]
    pub(crate) since: Option<String>,

    /// Only runs that started before this time, given as for --since.
    #[arg(long, value_name = "T")]
    pub(crate) until: Option<String>,

    /// Only runs that took longer than this, such as 10s.
    #[arg(long, value_name = "D")]
    pub(crate) longer: Option<String>,

    /// Only runs that this principal started.
    #[arg(long, value_name = "P")]
    pub(crate) by: Option<String>,
}

/// List runs, newest first.
///
/// FILTER is text to search for in ids, workflows, tags and errors, or `key:value`: status, workflow,
/// tag, by, after, before, longer, shorter, error, id. Values separated by commas are alternatives; `-`
/// before a filter excludes the matching runs. Times are instants (RFC 3339) or relative (`-24h`).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Runs that failed in the last 24 hours:
    interlock runs list --since 24h --status failed,rejected

  The same with filters, excluding one workflow. Put filters that begin with a hyphen after `--`:
    interlock runs list -- status:failed,rejected after:-24h -workflow:nightly

  The ids of running runs, for a script:
    interlock runs list --status running | cut -f3")]
pub(crate) struct RunsList {
    /// Text to search for, or key:value.
    #[arg(value_name = "FILTER", add = ArgValueCandidates::new(completion::filter_keys))]
    pub(crate) filter: Vec<String>,

    #[command(flatten)]
    pub(crate) select: RunsFilter,

    /// The maximum number of runs to list.
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) limit: usize,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Show a run: state, error, nodes, and what to do next.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  The latest run:
    interlock runs show last

  One node in full, and the values of the run:
    interlock runs show a203eaf0 --node triage
    interlock runs show a203eaf0 --inputs --outputs")]
pub(crate) struct RunsShow {
    /// The run.
    #[arg(value_name = "RUN", add = ArgValueCandidates::new(completion::runs))]
    pub(crate) id: String,

    /// Show this node in full.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,

    /// Also show the events.
    #[arg(long)]
    pub(crate) events: bool,

    /// Also show the inputs.
    #[arg(long)]
    pub(crate) inputs: bool,

    /// Also show the variables, which are the outputs of a completed run.
    #[arg(long)]
    pub(crate) outputs: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// When `runs tail` stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TailUntil {
    /// When the run ends.
    Ended,
    /// When the run ends or waits for a person.
    #[default]
    Waiting,
}

/// Follow the events of a run. With --json, one event per line.
#[derive(Debug, Args)]
#[command(
    alias = "logs",
    after_help = "\
Examples:
  Follow the latest run until it ends or waits for a person:
    interlock runs tail last

  Only errors, across approvals, until the end:
    interlock runs tail a203eaf0 --errors --until ended

Exit codes:
  0  the run completed, or waits for a person
  1  it failed, was rejected or cancelled"
)]
pub(crate) struct RunsTail {
    /// The run.
    #[arg(value_name = "RUN", add = ArgValueCandidates::new(completion::open_runs))]
    pub(crate) id: String,

    /// Start after the event with this number.
    #[arg(long, value_name = "N")]
    pub(crate) since: Option<u64>,

    /// Print only errors.
    #[arg(long)]
    pub(crate) errors: bool,

    /// When to stop.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) until: TailUntil,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Answer the approval or question that a run waits for.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("answer").required(true).args(["approve", "reject", "value", "field"]))]
#[command(after_help = "\
Examples:
  Approve, with a reason:
    interlock runs answer a203eaf0 --approve --reason \"customer facing\"

  Answer questions by name, or with any JSON value:
    interlock runs answer a203eaf0 --field environment=staging
    interlock runs answer a203eaf0 --value '{\"answers\": {\"environment\": \"staging\"}}'")]
pub(crate) struct RunsAnswer {
    /// The run.
    #[arg(value_name = "RUN", add = ArgValueCandidates::new(completion::waiting_runs))]
    pub(crate) id: String,

    /// The waiting node. Default: the one that `runs show` names.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,

    /// Approve.
    #[arg(long)]
    pub(crate) approve: bool,

    /// Reject.
    #[arg(long)]
    pub(crate) reject: bool,

    /// The answer as JSON.
    #[arg(long, value_name = "JSON")]
    pub(crate) value: Option<String>,

    /// The answer to one question: NAME=VALUE, where VALUE is JSON or text. May be repeated.
    #[arg(long, value_name = "K=V")]
    pub(crate) field: Vec<String>,

    /// The reason, recorded with the decision.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    /// Do not ask for confirmation.
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// The runs to control.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["ids", "filter"]))]
pub(crate) struct RunsControl {
    /// The runs.
    #[arg(value_name = "RUN", add = ArgValueCandidates::new(completion::open_runs))]
    pub(crate) ids: Vec<String>,

    /// All runs that match these filters, given as for `runs list`.
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,

    /// The reason, recorded with the run.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    /// Do not ask for confirmation.
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ForkModeArgument {
    /// Run again from the event, with new effects.
    #[default]
    Branch,
    /// Repeat the recorded run, without effects.
    Replay,
}

/// Start a new run from an event or a node of another run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Run the node `page` and everything after it again:
    interlock runs fork a203eaf0 --from page

  Repeat a recorded run without effects, up to its end:
    interlock runs fork a203eaf0 --mode replay")]
pub(crate) struct RunsFork {
    /// The run.
    #[arg(value_name = "RUN", add = ArgValueCandidates::new(completion::runs))]
    pub(crate) id: String,

    /// Where to start: the number of the first event to repeat, or a node id for the first event of
    /// that node. Required for a branch.
    #[arg(long, value_name = "EVENT|NODE")]
    pub(crate) from: Option<String>,

    /// Whether the new run repeats effects.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: ForkModeArgument,

    /// Follow the new run until it ends or waits for a person.
    #[arg(long)]
    pub(crate) follow: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Compare two runs. Generated ids and times are ignored.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Find out what was different this time:
    interlock runs diff a203eaf0 4410be7d

  Also compare generated ids and times:
    interlock runs diff a203eaf0 4410be7d --generated

Exit codes:
  0  the runs do not differ
  1  the runs differ")]
pub(crate) struct RunsDiff {
    /// The first run.
    #[arg(value_name = "A", add = ArgValueCandidates::new(completion::runs))]
    pub(crate) a: String,

    /// The second run.
    #[arg(value_name = "B", add = ArgValueCandidates::new(completion::runs))]
    pub(crate) b: String,

    /// Also compare generated ids and times.
    #[arg(long)]
    pub(crate) generated: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunsExportFormat {
    /// One document per run with its snapshot, events and definition, without secrets.
    #[default]
    Bundle,
    /// One event per line.
    Jsonl,
}

/// Export runs as JSON, one document per line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Everything about a run, for a bug report:
    interlock runs export a203eaf0 -o run.json

  The events of two runs:
    interlock runs export a203eaf0 4410be7d --format jsonl")]
pub(crate) struct RunsExport {
    /// The runs.
    #[arg(value_name = "RUN", required = true, add = ArgValueCandidates::new(completion::runs))]
    pub(crate) ids: Vec<String>,

    /// The file to write. Default: standard output.
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// What to export of each run.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: RunsExportFormat,

    /// Overwrite an existing file.
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}
