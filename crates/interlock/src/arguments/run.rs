//! What can be typed after `run`.

use std::path::PathBuf;

use clap::Args;

use super::Answering;

/// Start a run, and watch it.
///
/// The run is created on the `serve` of the data directory where one is there; otherwise it is carried out here, and what is
/// still to be done when this ends is done by the next `serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Run a workflow file to its end:
    interlock run ./hello.json --follow

  Run a workflow that the server knows, with inputs:
    interlock run release-review --inputs '{\"version\": \"1.2.0\"}' --follow

Exit codes with --follow:
  0  the run completed
  1  it failed, was cancelled, or waits for somebody")]
pub(crate) struct Run {
    /// The id of a workflow, or a file that holds one.
    pub(crate) workflow: String,

    /// The inputs: a JSON object, or a file that holds one.
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) inputs: Option<String>,

    /// Show each event until the run ends, or waits for somebody.
    #[arg(long)]
    pub(crate) follow: bool,

    /// Folders of workflow files that may be run.
    #[arg(long, value_name = "DIR")]
    pub(crate) workflows: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: Answering,
}
