//! What can be typed after `demo`.

use std::net::SocketAddr;

use clap::Args;

/// Show the whole path on a data directory of its own, which is deleted at the end.
///
/// A run is created; it equips an agent with a workspace and guides it over MCP; a person approves; the notes are published.
/// The agent is a stand-in with a script. The server, the protocols and the files are the real ones.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Watch it, and approve in the console that it names:
    interlock demo

  Without a person, as a test:
    interlock demo --approve

What it runs is in examples/release-review. Exit codes: 0 the notes were published; 1 they were rejected.")]
pub(crate) struct Demo {
    /// Approve, instead of waiting for somebody to do it in the console.
    #[arg(long)]
    pub(crate) approve: bool,

    /// Where to listen; without it a free port of this machine.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
}
