//! The configuration file and format of each client.

use std::path::{Path, PathBuf};

use canon::error::Envelope;

use crate::arguments::{Client, ConfigScope};
use crate::failure::{CommandErrorCode, Failure};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// JSON, comments allowed, with the servers in one member.
    Json {
        servers: &'static str,
        /// Whether an entry must name its transport.
        names_transport: bool,
    },
    /// TOML, with a table for each server.
    Toml { servers: &'static str },
}

const MCP_SERVERS: Form = Form::Json { servers: "mcpServers", names_transport: false };
const VSCODE_SERVERS: Form = Form::Json { servers: "servers", names_transport: true };
const CODEX_SERVERS: Form = Form::Toml { servers: "mcp_servers" };

/// The base directories of configuration files.
#[derive(Clone, Debug)]
pub(super) struct Directories {
    pub(super) home: PathBuf,
    /// The system's directory for user settings.
    pub(super) config: PathBuf,
    pub(super) project: PathBuf,
    /// `CLAUDE_CONFIG_DIR` and `CODEX_HOME`, which relocate the files of these clients.
    pub(super) claude: Option<PathBuf>,
    pub(super) codex: Option<PathBuf>,
}

impl Directories {
    pub(super) fn from_environment() -> Result<Self, Failure> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = variable("HOME").ok_or_else(|| {
            Envelope::new(
                CommandErrorCode::InputUnreadable,
                "HOME is not set, so the settings of the client cannot be found.",
            )
            .suggest("Set HOME, or pass `--scope project` in the project's directory.")
        })?;
        let config = if cfg!(target_os = "macos") {
            home.join("Library/Application Support")
        } else {
            variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"))
        };
        let project = std::env::current_dir()
            .map_err(|cause| Failure::Unreadable { name: "the current directory".to_owned(), cause })?;
        Ok(Self {
            home,
            config,
            project,
            claude: variable("CLAUDE_CONFIG_DIR"),
            codex: variable("CODEX_HOME"),
        })
    }
}

/// The file of a client; `None` if it has none for this scope.
pub(super) fn config_file(client: Client, scope: ConfigScope, at: &Directories) -> Option<ConfigFile> {
    use Client::{Claude, ClaudeDesktop, Codex, Cursor, Gemini, Vscode, Windsurf};
    let home = |path: &str| at.home.join(path);
    let project = |path: &str| at.project.join(path);
    let (path, form) = match (client, scope) {
        (Claude, ConfigScope::User) => {
            (at.claude.as_deref().unwrap_or(&at.home).join(".claude.json"), MCP_SERVERS)
        }
        (Claude, ConfigScope::Project) => (project(".mcp.json"), MCP_SERVERS),
        (ClaudeDesktop, ConfigScope::User) => {
            (at.config.join("Claude/claude_desktop_config.json"), MCP_SERVERS)
        }
        (Cursor, ConfigScope::User) => (home(".cursor/mcp.json"), MCP_SERVERS),
        (Cursor, ConfigScope::Project) => (project(".cursor/mcp.json"), MCP_SERVERS),
        (Vscode, ConfigScope::User) => (at.config.join("Code/User/mcp.json"), VSCODE_SERVERS),
        (Vscode, ConfigScope::Project) => (project(".vscode/mcp.json"), VSCODE_SERVERS),
        (Codex, ConfigScope::User) => {
            (at.codex.clone().unwrap_or_else(|| home(".codex")).join("config.toml"), CODEX_SERVERS)
        }
        (Codex, ConfigScope::Project) => (project(".codex/config.toml"), CODEX_SERVERS),
        (Gemini, ConfigScope::User) => (home(".gemini/settings.json"), MCP_SERVERS),
        (Gemini, ConfigScope::Project) => (project(".gemini/settings.json"), MCP_SERVERS),
        (Windsurf, ConfigScope::User) => (home(".codeium/windsurf/mcp_config.json"), MCP_SERVERS),
        (ClaudeDesktop | Windsurf, ConfigScope::Project) => return None,
    };
    Some(ConfigFile { path, form })
}

/// The display name.
pub(super) const fn title(client: Client) -> &'static str {
    match client {
        Client::Claude => "Claude Code",
        Client::ClaudeDesktop => "Claude Desktop",
        Client::Cursor => "Cursor",
        Client::Vscode => "Visual Studio Code",
        Client::Codex => "Codex",
        Client::Gemini => "Gemini CLI",
        Client::Windsurf => "Windsurf",
    }
}

/// How to check that it worked.
pub(super) const fn check(client: Client) -> &'static str {
    match client {
        Client::Claude => "Start `claude` again and run `/mcp`.",
        Client::ClaudeDesktop => "Quit Claude Desktop and start it again.",
        Client::Cursor => "Open Cursor's settings, then MCP, and switch the server on.",
        Client::Vscode => "Run the command `MCP: List Servers` and start the server.",
        Client::Codex => "Start `codex` again and run `/mcp`.",
        Client::Gemini => "Start `gemini` again and run `/mcp list`.",
        Client::Windsurf => "Open Windsurf's settings, then Cascade, and refresh the MCP servers.",
    }
}

/// A path as the user would type it.
pub(super) fn shown(path: &Path, at: &Directories) -> String {
    match path.strip_prefix(&at.project) {
        Ok(inside) => inside.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_client_has_a_user_file_in_the_home_directory() {
        let at = Directories {
            home: "/home/ann".into(),
            config: "/home/ann/.config".into(),
            project: "/work/app".into(),
            claude: None,
            codex: None,
        };
        for client in Client::value_variants() {
            let user = config_file(*client, ConfigScope::User, &at).unwrap();
            assert!(user.path.starts_with("/home/ann"), "{client:?}");
            if let Some(project) = config_file(*client, ConfigScope::Project, &at) {
                assert!(project.path.starts_with("/work/app"), "{client:?}");
                assert_eq!(project.form, user.form, "{client:?}");
            }
        }
    }

    #[test]
    fn relocated_client_files_are_found() {
        let at = Directories {
            home: "/home/ann".into(),
            config: "/home/ann/.config".into(),
            project: "/work/app".into(),
            claude: Some("/etc/claude".into()),
            codex: Some("/etc/codex".into()),
        };
        let path = |client| config_file(client, ConfigScope::User, &at).unwrap().path;
        assert_eq!(path(Client::Claude), Path::new("/etc/claude/.claude.json"));
        assert_eq!(path(Client::Codex), Path::new("/etc/codex/config.toml"));
    }
}
