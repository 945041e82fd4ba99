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

    NewApiKey(NewApiKey),
}

/// Make a key for clients of `interlock serve`. It is shown once.
///
/// A key belongs to a tenant and has scopes; none implies another. Only its hash is kept.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  A key for everything that a tenant can do, of the default tenant:
    interlock key new-api-key

  A key that can also read metrics and manage keys and workflow sources of the host:
    interlock key new-api-key --scope host:admin --scope runs:read

  A key that can only look, of another tenant, for thirty days:
    interlock key new-api-key --tenant acme --scope runs:read --scope manifest:read --expires 30d

  A key for an agent that works over MCP, and one that opens a single session for a day:
    interlock key new-api-key --scope sessions:drive
    interlock key new-api-key --session sess_EXAMPLE --expires 1d")]
pub(crate) struct NewApiKey {
    /// Whose data the key opens.
    #[arg(long, value_name = "T", default_value = "default")]
    pub(crate) tenant: String,

    /// What the key may be used for; everything except `host:admin`, if none is given. May be given several times.
    #[arg(long = "scope", value_name = "S")]
    pub(crate) scopes: Vec<String>,

    /// The one guided session that the key opens, over MCP. Such a key has no scopes and is good for nothing else.
    #[arg(long, value_name = "ID", conflicts_with = "scopes")]
    pub(crate) session: Option<String>,

    /// A key for tests, which may force versions of the engine.
    #[arg(long)]
    pub(crate) test: bool,

    /// For how long it is good: 12h, 30d.
    #[arg(long, value_name = "D")]
    pub(crate) expires: Option<String>,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

impl KeyCommand {
    pub(crate) const fn answering(&self) -> Answering {
        match self {
            Self::List(answering) | Self::Rotate(answering) => *answering,
            Self::NewApiKey(new) => new.answering,
        }
    }
}
