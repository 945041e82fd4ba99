//! Arguments of `context`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;

use super::OutputFormat;
use crate::completion;

/// Manage contexts: named servers that commands can use with `--context`.
///
/// The context `local` is the server of the data directory and needs no setup.
#[derive(Debug, Args)]
pub(crate) struct Context {
    #[command(subcommand)]
    pub(crate) command: ContextCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    Add(ContextAdd),
    List(ContextList),
    Use(ContextUse),
    Show(ContextShow),
    Delete(ContextDelete),
}

impl ContextCommand {
    pub(crate) const fn answering(&self) -> OutputFormat {
        match self {
            Self::Add(add) => add.answering,
            Self::List(list) => list.answering,
            Self::Use(chosen) => chosen.answering,
            Self::Show(show) => show.answering,
            Self::Delete(delete) => delete.answering,
        }
    }
}

/// Add a context, after checking that its server accepts the key.
///
/// The key itself is never written to contexts.toml and never printed: a context refers to an
/// environment variable or to a file. With --key-stdin, the key is saved in a separate file that
/// only you can read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Read the key from a file whenever it is needed:
    interlock context add prod https://interlock.example --key file:/run/secrets/interlock

  Paste the key, and ask for confirmation before every change:
    interlock context add prod https://interlock.example --key-stdin --confirm-always")]
pub(crate) struct ContextAdd {
    /// The name of the context.
    pub(crate) name: String,

    /// The URL of the server. It must begin with https://, unless the server is on this machine.
    pub(crate) url: String,

    /// Where the key is: env:NAME or file:PATH.
    #[arg(long, value_name = "REF", conflicts_with = "key_stdin")]
    pub(crate) key: Option<String>,

    /// Read the key from standard input and save it in a private file.
    #[arg(long)]
    pub(crate) key_stdin: bool,

    /// A PEM file with the certificate authorities to trust instead of those of the system.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,

    /// Ask for confirmation before every change, even to a single run.
    #[arg(long)]
    pub(crate) confirm_always: bool,

    /// Add the context without contacting its server.
    #[arg(long)]
    pub(crate) no_check: bool,

    /// Replace an existing context.
    #[arg(long)]
    pub(crate) replace: bool,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// List contexts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  interlock context list")]
pub(crate) struct ContextList {
    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Set the context that later commands use by default.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  interlock context use prod

  Return to the server of the data directory:
    interlock context use local")]
pub(crate) struct ContextUse {
    /// The name of the context.
    #[arg(add = ArgValueCandidates::new(completion::contexts))]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Show a context, without its key.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  interlock context show prod")]
pub(crate) struct ContextShow {
    /// The name of the context.
    #[arg(add = ArgValueCandidates::new(completion::contexts))]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Delete a context, and the key that was saved for it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  interlock context delete prod")]
pub(crate) struct ContextDelete {
    /// The name of the context.
    #[arg(add = ArgValueCandidates::new(completion::contexts))]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}
