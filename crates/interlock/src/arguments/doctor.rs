//! What can be typed after `doctor`.

use clap::Args;

use super::Answering;

/// Look at this installation: settings, data directory, keys, sessions, workflows, git.
///
/// Every setting is printed with where it came from. Nothing is changed, and no key is shown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  What is used here, and is it well?
    interlock doctor

  The same of another data directory, for a script:
    interlock doctor --data-dir /srv/interlock --json

Exit codes:
  0  nothing is wrong
  1  something is: the lines marked with `fail` say what, and what to do
  2  the settings themselves cannot be read")]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) answering: Answering,
}
