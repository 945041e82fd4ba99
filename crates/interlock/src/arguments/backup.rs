//! What can be typed after `backup`.

use std::path::PathBuf;

use clap::Args;

use super::Answering;

/// Copy the data directory, while it is used.
///
/// The copy is a data directory: runs, guided sessions of every tenant with all that they refer to, keys, settings, pages of the
/// console and workspaces of agents. Left out are locks, unfinished files and `cache/`, which is derived. Runs are as they were at one
/// moment, and sessions as they were then or a little later. Every session of the copy is read before the folder appears under its name; it is
/// readable for its owner alone, because it holds the keys.
///
/// To restore, end the server, put the copy in the place of the data directory, and start the server again. Runs that were under way
/// go on where the copy has them; tokens and keys of then are good.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Copy into a folder, which is made:
    interlock backup /backups/today

  Look at the copy, or use it as it is:
    interlock session verify --data-dir /backups/today
    interlock serve --data-dir /backups/today

  Restore it:
    mv ~/.local/share/interlock ~/.local/share/interlock.broken
    cp -a /backups/today ~/.local/share/interlock
    interlock doctor")]
pub(crate) struct Backup {
    /// The folder for the copy. It is made; one that has anything in it is not touched.
    pub(crate) dir: PathBuf,

    #[command(flatten)]
    pub(crate) answering: Answering,
}
