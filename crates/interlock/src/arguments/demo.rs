//! Arguments of `demo`.

use std::net::SocketAddr;

use clap::Args;

/// Run a complete example in a temporary data directory, which is deleted at the end.
///
/// The demo creates a run that prepares a workspace for an agent, guides the agent over MCP, waits
/// for a person's approval, and publishes the release notes. The agent is scripted; the server, the
/// protocols and the files are real. After the decision the server keeps running, so that you can
/// explore the console. Ctrl-C stops it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Watch the run, open the printed link, and approve in the console:
    interlock demo

  Approve automatically and exit when the notes are published:
    interlock demo --approve

  Play the agent of the example, so that `interlock serve` can start it as a program (see
  docs/how-to/run-an-agent.md):
    interlock demo --agent

The example is in examples/release-review. Exit codes: 0 the notes were published; 1 they were rejected.")]
pub(crate) struct Demo {
    /// Approve automatically, print the result and exit.
    #[arg(long)]
    pub(crate) approve: bool,

    /// Play the agent of the example: connect to the session in INTERLOCK_MCP_URL and
    /// INTERLOCK_SESSION_KEY, and advance it to its end.
    #[arg(long, conflicts_with_all = ["approve", "listen"])]
    pub(crate) agent: bool,

    /// The address to listen on. Default: a free port on 127.0.0.1.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
}
