//! Arguments of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Start the server: runs over HTTP (OpenWOP), MCP for agents, and the console.
///
/// Agents connect over MCP at /mcp and are guided through workflows as with `interlock mcp`.
///
/// All data is stored in the data directory; runs are in one SQLite file, or in PostgreSQL with
/// --database. A run is durable once the server has acknowledged it: even after a crash, the next
/// `serve` continues all unfinished runs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Serve locally; the first start creates an API key and prints it once:
    interlock serve

  Serve the workflows in a folder, and reload changed files:
    interlock serve --workflows ./workflows

  Serve other machines with your own key (behind a TLS proxy):
    INTERLOCK_API_KEY=$(openssl rand -hex 24) interlock serve --listen 0.0.0.0:7717

  Store runs in PostgreSQL:
    interlock database init --database env:DATABASE_URL
    interlock serve --database env:DATABASE_URL

  Create a run and watch it:
    KEY=$(cat ~/.local/share/interlock/keys/local-api-key)
    curl -H \"Authorization: Bearer $KEY\" --json '{\"workflowId\": \"hello\"}' localhost:7717/v1/runs
    curl -H \"Authorization: Bearer $KEY\" localhost:7717/v1/runs/RUN/events

  Connect an agent's client over HTTP:
    {\"mcpServers\": {\"interlock\": {\"type\": \"http\", \"url\": \"http://127.0.0.1:7717/mcp\",
      \"headers\": {\"Authorization\": \"Bearer KEY\"}}}}

Only one `serve` can use a data directory; a second one prints the address of the first and exits with 2.
SIGINT and SIGTERM stop the server after work in progress is recorded.")]
pub(crate) struct Serve {
    /// The address to listen on. Without your own API key, only loopback addresses are allowed.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7717")]
    pub(crate) listen: SocketAddr,

    /// A folder of workflow files (*.json, *.yaml, *.yml; top level only): files with `nodes` are
    /// run, files with `steps` guide agents. May be repeated; later folders take precedence.
    #[arg(long, value_name = "DIR")]
    pub(crate) workflows: Vec<PathBuf>,

    /// The URL that clients use to reach this server, if it is behind a proxy, such as
    /// `https://host.example`.
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,

    /// Store runs in this PostgreSQL database instead of the data directory: a URL, or `env:NAME` or
    /// `file:/path` to read the URL from. Run `interlock database init` once first.
    #[arg(long, value_name = "URL", conflicts_with = "new_database")]
    pub(crate) database: Option<String>,

    /// Create a new, empty run database if the existing one is missing. Without this flag, `serve`
    /// refuses to start in that case, so that the loss of runs, keys and workflows does not go
    /// unnoticed.
    #[arg(long)]
    pub(crate) new_database: bool,

    /// Accept MCP requests (`/mcp` and `/v1/mcp`) from this machine without a key, for example to run
    /// the MCP conformance suite. All other requests still require a key. Allowed only on a loopback
    /// address without `--public-url`.
    #[arg(long)]
    pub(crate) mcp_without_key: bool,
}
