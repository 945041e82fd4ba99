//! What can be typed after `key`.

use clap::{Args, Subcommand};

use super::Answering;

/// The keys that tokens are signed with.
#[derive(Debug, Args)]
pub(crate) struct Key {
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// List the keys by their fingerprints. The keys themselves are never shown.
    #[command(after_help = "\
Examples:
  Which key signs, and which one is still accepted?
    interlock key list

  Compare two machines:
    interlock key list --json")]
    List(Answering),

    /// Make a new key the current one; the current one becomes the previous one.
    ///
    /// Tokens of the previous key are accepted until the next rotation. Two rotations end every token
    /// that was handed out before the first; no session is lost by that, since `resume_session` gives
    /// fresh ones.
    #[command(after_help = "\
Examples:
  Rotate, and go on using the tokens that are out:
    interlock key rotate

  End every token that was ever handed out:
    interlock key rotate && interlock key rotate")]
    Rotate(Answering),
}

impl KeyCommand {
    pub(crate) const fn answering(&self) -> Answering {
        match self {
            Self::List(answering) | Self::Rotate(answering) => *answering,
        }
    }
}
