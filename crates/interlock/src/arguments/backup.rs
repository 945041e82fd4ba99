//! What can be typed after `backup`.

use std::path::PathBuf;

use clap::Args;

use super::Answering;

/// Copy the runs of the data directory, while they are used.
///
/// The copy is a database of its own, as it was at one moment. Guided sessions are append-only files: copy the rest of the data
/// directory with the tool of your choice.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Copy into a folder, which is made:
    interlock backup /backups/today

  Use the copy:
    mkdir restored && cp /backups/today/runs.sqlite3 restored/
    interlock serve --data-dir restored")]
pub(crate) struct Backup {
    /// The folder for the copy. It is made where needed; a copy that is there already is not touched.
    pub(crate) dir: PathBuf,

    #[command(flatten)]
    pub(crate) answering: Answering,
}
