//! Arguments of `key`.

use clap::{Args, Subcommand};

use super::OutputFormat;

/// Manage API keys and token-signing keys.
#[derive(Debug, Args)]
pub(crate) struct Key {
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// List the signing keys by fingerprint, and the API keys by id. The keys are never shown.
    #[command(after_help = "\
Examples:
  Show the signing keys and the API keys:
    interlock key list

  Print the ids of the valid API keys, for a script:
    interlock key list --json | jq '.apiKeys[] | select(.status == \"valid\") | .id'")]
    List(OutputFormat),

    /// Create a new signing key; the current key becomes the previous key.
    ///
    /// Tokens signed with the previous key remain valid until the next rotation. Two rotations
    /// invalidate all tokens issued before the first. No session is lost: `resume_session` issues
    /// new tokens.
    #[command(after_help = "\
Examples:
  Rotate; tokens that are in use remain valid:
    interlock key rotate

  Invalidate all issued tokens:
    interlock key rotate && interlock key rotate")]
    Rotate(OutputFormat),

    #[command(alias = "new-api-key")]
    New(NewApiKey),

    Revoke(RevokeApiKey),
}

/// Create an API key for clients of `interlock serve`. It is shown once.
///
/// A key belongs to one tenant and has scopes; no scope implies another. Only its hash is stored.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  A key for the default tenant with all tenant scopes:
    interlock key new

  A key that can also administer the host (metrics, keys, workflow sources):
    interlock key new --scope host:admin --scope runs:read

  A read-only key for another tenant that expires after 30 days:
    interlock key new --tenant acme --scope runs:read --scope manifest:read --expires 30d

  A key for an agent over MCP, and a key for a single session that expires after one day:
    interlock key new --scope sessions:drive
    interlock key new --session sess_EXAMPLE --expires 1d")]
pub(crate) struct NewApiKey {
    /// The tenant of the key.
    #[arg(long, value_name = "T", default_value = "default")]
    pub(crate) tenant: String,

    /// A scope of the key; may be repeated. Default: all scopes except `host:admin`.
    #[arg(long = "scope", value_name = "S")]
    pub(crate) scopes: Vec<String>,

    /// Restrict the key to one guided session over MCP. Such a key has no scopes.
    #[arg(long, value_name = "ID", conflicts_with = "scopes")]
    pub(crate) session: Option<String>,

    /// Create a key for test suites, which may force engine versions and use mock providers.
    #[arg(long)]
    pub(crate) test: bool,

    /// The lifetime, such as 12h or 30d.
    #[arg(long, value_name = "D")]
    pub(crate) expires: Option<String>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Revoke an API key. Clients that use it are refused within a second. This cannot be undone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Revoke a key by the id that `interlock key list` shows:
    interlock key revoke key_0123456789ab --yes")]
pub(crate) struct RevokeApiKey {
    /// The id of the key.
    pub(crate) id: String,

    /// The tenant of the key. Default: the tenant that has a key with this id.
    #[arg(long, value_name = "T")]
    pub(crate) tenant: Option<String>,

    /// Do not ask for confirmation.
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

impl KeyCommand {
    pub(crate) const fn answering(&self) -> OutputFormat {
        match self {
            Self::List(answering) | Self::Rotate(answering) => *answering,
            Self::New(new) => new.answering,
            Self::Revoke(revoke) => revoke.answering,
        }
    }
}
