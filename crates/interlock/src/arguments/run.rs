//! Arguments of `run`.

use std::path::PathBuf;

use clap::Args;

use super::OutputFormat;

/// Start a run of a workflow.
///
/// If a server uses the data directory, the run is created there. Otherwise this process runs it,
/// and the next `serve` continues what is unfinished.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Run a workflow file and follow it to the end:
    interlock run ./hello.json --follow

  Run a registered workflow with inputs:
    interlock run release-review --inputs '{\"version\": \"1.2.0\"}' --follow

Exit codes with --follow:
  0  the run completed
  1  it failed, was cancelled, or waits for a person")]
pub(crate) struct Run {
    /// A workflow id, or a workflow file.
    pub(crate) workflow: String,

    /// The inputs: a JSON object, or a file with one.
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) inputs: Option<String>,

    /// Print each event until the run ends or waits for a person.
    #[arg(long)]
    pub(crate) follow: bool,

    /// A folder of workflow files; may be repeated.
    #[arg(long, value_name = "DIR")]
    pub(crate) workflows: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}
