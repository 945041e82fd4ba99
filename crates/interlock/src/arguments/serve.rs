//! What can be typed after `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Serve runs over HTTP: clients that speak OpenWOP create them, watch them and answer what they wait for.
///
/// Agents speak MCP to the same server, at /mcp, and are guided through workflows as `interlock mcp` guides them.
///
/// Everything is kept in the data directory, in one file of SQLite; a run that was acknowledged is on the disk. When the
/// process ends, however it ends, the next `serve` finds every run that was under way and goes on with it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Serve on this machine; the first start makes a key and prints it once:
    interlock serve

  Serve the workflows of a folder, and take changes of its files as they come:
    interlock serve --workflows ./workflows

  With a key of your own, for other machines (put a proxy with TLS in front):
    INTERLOCK_API_KEY=$(openssl rand -hex 24) interlock serve --listen 0.0.0.0:7717

  Create a run, and watch it:
    KEY=$(cat ~/.local/share/interlock/keys/local-api-key)
    curl -H \"Authorization: Bearer $KEY\" --json '{\"workflowId\": \"hello\"}' localhost:7717/v1/runs
    curl -H \"Authorization: Bearer $KEY\" localhost:7717/v1/runs/RUN/events

  Let an agent's client connect over HTTP:
    {\"mcpServers\": {\"interlock\": {\"type\": \"http\", \"url\": \"http://127.0.0.1:7717/mcp\",
      \"headers\": {\"Authorization\": \"Bearer KEY\"}}}}

One `serve` per data directory: a second one names the first and ends with 2. It stops on SIGINT and SIGTERM, after
what was under way is recorded.")]
pub(crate) struct Serve {
    /// Where to listen. Without a key of your own only loopback is allowed.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7717")]
    pub(crate) listen: SocketAddr,

    /// A folder of workflow files (*.json, *.yaml, *.yml; its top level): those with `nodes` are run, those with `steps` guide
    /// agents. May be given several times; a later one wins.
    #[arg(long, value_name = "DIR")]
    pub(crate) workflows: Vec<PathBuf>,

    /// Where clients reach this host, when a proxy stands in front, such as `https://host.example`.
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,

    /// Begin with an empty run database where the data directory had one that is missing. Without this, `serve` refuses to
    /// start there, so that runs, keys and workflows are not lost unnoticed.
    #[arg(long)]
    pub(crate) new_database: bool,
}
