//! Arguments of `doctor`.

use clap::Args;

use super::OutputFormat;

/// Check the installation: settings, data directory, keys, sessions, workflows, git.
///
/// Prints every setting with its origin. Changes nothing and shows no keys.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Check the default data directory:
    interlock doctor

  Check another data directory and print JSON:
    interlock doctor --data-dir /srv/interlock --json

Exit codes:
  0  no problems
  1  problems found; see the lines marked `fail`
  2  the settings cannot be read")]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}
