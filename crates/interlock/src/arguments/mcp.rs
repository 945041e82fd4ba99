//! What can be typed after `interlock mcp`.

use std::path::PathBuf;

use clap::Args;

/// Speak MCP over standard input and output, for agent clients.
///
/// An agent that is connected finds workflows, starts a run of one, and is walked through it step by
/// step. What it did is in the data directory when the call returns: kill it, and it goes on from
/// there. Standard output belongs to the protocol; everything else goes to standard error.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  As a client's configuration has it:
    {\"mcpServers\": {\"interlock\": {\"command\": \"interlock\", \"args\": [\"mcp\"]}}}

  With workflows of your own, for this connection:
    interlock mcp --workflows ./workflows

Exit codes:
  0  the client hung up
  2  the data directory could not be opened, or the connection broke")]
pub(crate) struct Mcp {
    /// A folder of workflows (*.json, *.yaml, *.yml); may be given several times.
    #[arg(long, value_name = "DIR")]
    pub(crate) workflows: Vec<PathBuf>,
}
