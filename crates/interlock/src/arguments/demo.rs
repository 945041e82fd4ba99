//! What can be typed after `demo`.

use std::net::SocketAddr;

use clap::Args;

/// Show the whole path on a data directory of its own, which is deleted at the end.
///
/// A run is created; it equips an agent with a workspace and guides it over MCP; a person approves; the notes are published.
/// The agent is a stand-in with a script. The server, the protocols and the files are the real ones. The server stays up after the
/// decision, so that you can look around in the console; Ctrl-C stops it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Watch it, open the link that it prints, and approve in the console:
    interlock demo

  Without a person; ends as soon as the notes are published:
    interlock demo --approve

What it runs is in examples/release-review. Exit codes: 0 the notes were published; 1 they were rejected.")]
pub(crate) struct Demo {
    /// Approve without asking, print the result and exit.
    #[arg(long)]
    pub(crate) approve: bool,

    /// Where to listen; without it a free port of this machine.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
}
