//! Which server a command uses.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use super::OutputFormat;
use crate::completion;

/// The server, and the output format.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Target {
    /// The server: a context from `interlock context list`, or `local` for the server of the data
    /// directory. Default: INTERLOCK_CONTEXT, then the context chosen with `interlock context use`.
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::contexts))]
    pub(crate) context: Option<String>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}
