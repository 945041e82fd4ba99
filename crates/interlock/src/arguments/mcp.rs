//! Arguments of `mcp`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::OutputFormat;

/// Serve MCP over standard input and output, for agent clients.
///
/// A connected agent lists workflows, starts one, and is guided through it step by step. Each step
/// is durable when the call returns, so the process can be stopped at any time and the run
/// continues from there. Standard output is reserved for the protocol; messages go to standard
/// error.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  Add Interlock to Claude Code, for all projects, or to Cursor, for this project:
    interlock mcp install --client claude
    interlock mcp install --client cursor --scope project

  The configuration that most clients accept:
    {\"mcpServers\": {\"interlock\": {\"command\": \"interlock\", \"args\": [\"mcp\"]}}}

  Serve your own workflows too:
    interlock mcp --workflows ./workflows

Exit codes:
  0  the client disconnected
  2  the data directory could not be opened, or the connection broke")]
pub(crate) struct Mcp {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,

    /// A folder of workflows (*.json, *.yaml, *.yml); may be repeated.
    #[arg(long, value_name = "DIR")]
    pub(crate) workflows: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Add Interlock to the configuration file of an MCP client.
    ///
    /// Shows the change, then writes it. Everything else in the file stays as it is, comments included.
    /// The entry has the absolute path of this program. Undo it with `interlock mcp uninstall`.
    #[command(after_help = "\
Examples:
  For all your projects, in Claude Code:
    interlock mcp install --client claude

  For everyone who works on this project, in VS Code, with the project's workflows:
    interlock mcp install --client vscode --scope project --workflows ./workflows

  Show the change without writing it:
    interlock mcp install --client codex --dry-run

Exit codes:
  0  the entry is in the file
  1  the file has a different entry of that name; pass --replace to overwrite it
  2  the file cannot be read, parsed or written")]
    Install(McpInstall),

    /// Remove Interlock from the configuration file of an MCP client.
    #[command(after_help = "\
Examples:
  Undo `interlock mcp install --client cursor`:
    interlock mcp uninstall --client cursor

Exit codes:
  0  the entry is not in the file
  2  the file cannot be read, parsed or written")]
    Uninstall(McpUninstall),
}

impl McpCommand {
    pub(crate) const fn answering(&self) -> OutputFormat {
        match self {
            Self::Install(install) => install.target.answering,
            Self::Uninstall(uninstall) => uninstall.target.answering,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct McpInstall {
    #[command(flatten)]
    pub(crate) target: ClientTarget,

    /// An additional folder of workflows (*.json, *.yaml, *.yml); may be repeated.
    #[arg(long, value_name = "DIR")]
    pub(crate) workflows: Vec<PathBuf>,

    /// Overwrite a different entry of the same name.
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct McpUninstall {
    #[command(flatten)]
    pub(crate) target: ClientTarget,
}

#[derive(Debug, Args)]
pub(crate) struct ClientTarget {
    /// The client to configure.
    #[arg(long, value_enum)]
    pub(crate) client: Client,

    /// `user`: your settings, for all projects. `project`: a file in the current directory, for
    /// everyone who works there.
    #[arg(long, value_enum, default_value_t = ConfigScope::User)]
    pub(crate) scope: ConfigScope,

    /// The name of the server in the client.
    #[arg(long, default_value = "interlock", value_parser = server_name)]
    pub(crate) name: String,

    /// Show the change without writing it.
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// Claude Code
    Claude,
    /// Claude Desktop
    ClaudeDesktop,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
    /// OpenAI Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// Windsurf
    Windsurf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigScope {
    User,
    Project,
}

/// Clients use the name as a prefix of tool names, so it has only characters that all of them
/// allow.
fn server_name(text: &str) -> Result<String, String> {
    let is_valid = (1..=32).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err("a name has 1 to 32 letters, digits, `-` or `_`".to_owned())
    }
}
