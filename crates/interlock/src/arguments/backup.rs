//! Arguments of `backup`.

use std::path::PathBuf;

use clap::Args;

use super::OutputFormat;

/// Copy the data directory, also while a server uses it.
///
/// The copy is a complete data directory: runs, guided sessions of all tenants with their data,
/// keys, settings, console modules and policy, and agent workspaces. Locks, unfinished files and
/// the derived `cache/` are not copied. Runs are copied as of one point in time; sessions may be
/// slightly newer. Every session in the copy is validated before the folder gets its final name.
/// Only the owner can read it, because it contains the keys.
///
/// To restore, stop the server, replace the data directory with the copy, and start the server.
/// Runs continue from their state in the copy; tokens and keys in it are valid.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Copy into a new folder:
    interlock backup /backups/today

  Check the copy, or serve it directly:
    interlock session verify --data-dir /backups/today
    interlock serve --data-dir /backups/today

  Restore:
    mv ~/.local/share/interlock ~/.local/share/interlock.broken
    cp -a /backups/today ~/.local/share/interlock
    interlock doctor")]
pub(crate) struct Backup {
    /// The folder for the copy. It is created; a folder that is not empty is never overwritten.
    pub(crate) dir: PathBuf,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}
