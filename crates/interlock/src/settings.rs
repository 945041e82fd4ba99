//! The settings. Precedence: flag, environment, file, default.
//!
//! Each value records its origin, which `interlock doctor` prints. The file is `config.toml` in the
//! data directory, or the one given with `--config`:
//!
//! ```toml
//! data_dir = "/srv/interlock"            # only in a file given with --config
//!
//! [guide]
//! workflow_dirs = ["/srv/workflows"]     # additional workflow folders; later ones take precedence
//! workspace_roots = ["/home/me/code"]    # allowed roots for workspaces that agents name; default: none
//!
//! [guide.commands.tests]                 # what steps may have run to verify what an agent claims
//! argv = ["cargo", "test"]
//!
//! [guide.agents.claude]                  # what `serve` starts for guided nodes that name it
//! argv = ["claude", "-p", "--mcp-config", "{mcp_config}"]
//!
//! [server]
//! public_url = "https://host.example"    # the public URL, if `serve` is behind a proxy
//! allowed_origins = ["https://app.example"]  # web origins that may use MCP, besides local ones
//! connections_per_address = 500          # default: one eighth of all connections; more behind a proxy
//!
//! [limits]                               # limits of a single run or workflow
//! append_bytes = "16 MiB"
//! run_bytes = "256 MiB"
//! pattern_bytes = "64 MiB"
//!
//! [rate_limits]                           # default: no rate limits
//! key = { per_second = 50, burst = 100 }  # per key; also `tenant` and `route`
//!
//! [retention]
//! finished_runs = "90d"                   # default: forever; `answers` (idempotent responses): 24h
//!
//! [mcp]
//! mount = true                            # serve workflows as MCP tools at /v1/mcp
//! servers.search = { url = "https://mcp.example/mcp", secret = "search-key" }  # an external MCP server for nodes
//!
//! [registry]
//! public = false                          # whether published packs can be read without a key
//!
//! [egress]                                # where callers may make the host send requests; default: webhooks to public addresses
//! http = ["api.github.com", "*.example.com"]  # hosts for `core.http.request`; `["*"]` for every public host
//! private = { "10.0.0.0/8" = ["webhooks"] }  # private address ranges, each with its uses: `webhooks`, `http`
//!
//! [http.credentials.github-bot]           # what a node with `credentialsRef: credential:github-bot` sends
//! secret = "github-token"                 # the name of a secret
//! audience = ["api.github.com"]           # the only hosts that get it
//!
//! [otlp]
//! endpoint = "http://127.0.0.1:4318"      # traces are sent to /v1/traces as Protobuf
//!
//! [models.local]                          # a model provider for workflows
//! kind = "openai"                         # or `anthropic`
//! base_url = "http://127.0.0.1:8080/v1"
//!
//! [envelopes."vendor.acme.note"]         # an envelope kind for model nodes
//! schema = "note.schema.json"             # the schema of its payload, relative to the data directory
//!
//! [database]                             # default: runs are in the data directory
//! url = "env:DATABASE_URL"                # PostgreSQL for runs; by reference, because it contains a password
//! master_key = "file:/etc/interlock/key"  # guided sessions and keys are in the database too, the keys encrypted
//!
//! [datasources.orders]                    # a database for workflows
//! kind = "postgres"
//! url = "secret:orders-url"               # by reference, because the URL contains a password
//!
//! [plugins]
//! listen = "127.0.0.1:7718"               # the plugin origin; without it, plugins are not served
//!
//! [secrets]
//! deploy-key = "env:DEPLOY_KEY"          # by reference: `env:NAME` or `file:/path`
//! ```
//!
//! Unknown keys are errors, with a suggestion: silently ignoring a setting is worse than rejecting
//! it.

pub(crate) mod desired;
mod directories;
mod file;
mod values;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use executors::http_request::HostPattern;
use serde::{Serialize, Serializer};

use crate::arguments::Globals;
use crate::failure::Failure;

use file::FileSettings;
pub(crate) use values::{
    ByteSize, EgressUse, GuideAgent, GuideCommand, HttpCredential, Limit, McpServer, PrivateNetworks,
    Sections, Span,
};

pub(crate) const HOME_VARIABLE: &str = "INTERLOCK_HOME";
const FILE_NAME: &str = "config.toml";

/// The effective settings.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) data_dir: Setting<PathBuf>,
    /// The settings file. The default file need not exist.
    pub(crate) config: Setting<PathBuf>,
    /// Additional folders of workflow files.
    pub(crate) workflow_dirs: Setting<Vec<PathBuf>>,
    /// The folders below which `serve` opens workspaces that agents name; none if empty.
    pub(crate) workspace_roots: Setting<Vec<PathBuf>>,
    /// Commands that the host may run to verify the evidence of a step, by name.
    pub(crate) guide_commands: Setting<BTreeMap<String, GuideCommand>>,
    /// Agents that the host starts for guided nodes, by name.
    pub(crate) guide_agents: Setting<BTreeMap<String, GuideAgent>>,
    /// The public URL of `serve`.
    pub(crate) public_url: Setting<Option<String>>,
    /// Web origins that may use MCP on `serve`.
    pub(crate) allowed_origins: Setting<Vec<String>>,
    /// Private address ranges that callers may make the host call.
    pub(crate) private_networks: Setting<PrivateNetworks>,
    /// Hosts that nodes may send HTTP requests to.
    pub(crate) http_hosts: Setting<Vec<HostPattern>>,
    /// Credentials that nodes may send, by name.
    pub(crate) http_credentials: Setting<BTreeMap<String, HttpCredential>>,
    /// Model providers by name.
    pub(crate) models: Setting<Sections>,
    /// The PostgreSQL database for runs: a URL or a reference to one.
    pub(crate) database_url: Setting<Option<String>>,
    /// A reference to the key that encrypts keys in the database.
    pub(crate) master_key: Setting<Option<String>>,
    /// Databases for workflows, by name.
    pub(crate) datasources: Setting<Sections>,
    /// Envelope kinds for model nodes, by name.
    pub(crate) envelopes: Setting<Sections>,
    /// References to secrets, by name.
    pub(crate) secrets: Setting<BTreeMap<String, String>>,
    /// Whether workflows are served to MCP clients as tools.
    pub(crate) mcp_mount: Setting<bool>,
    /// Whether the pack registry can be read without a key.
    pub(crate) open_registry: Setting<bool>,
    /// External MCP servers for nodes, by id.
    pub(crate) mcp_servers: Setting<BTreeMap<String, McpServer>>,
    /// The OTLP endpoint for traces.
    pub(crate) otlp_endpoint: Setting<Option<String>>,
    /// References to OTLP header values, by name.
    pub(crate) otlp_headers: Setting<BTreeMap<String, String>>,
    /// The fuel of one call of a pack node.
    pub(crate) pack_fuel: Setting<u64>,
    /// The address of the plugin origin; plugins are not served without it.
    pub(crate) plugins_listen: Setting<Option<SocketAddr>>,
    /// The public URL of the plugin origin, if it is behind a proxy.
    pub(crate) plugins_url: Setting<Option<String>>,
    /// How long finished runs are kept; forever if not set.
    pub(crate) finished_runs: Setting<Option<Span>>,
    /// How long responses to idempotent requests are kept.
    pub(crate) answers: Setting<Span>,
    /// Rate limits per key, tenant and route.
    pub(crate) key_limit: Setting<Limit>,
    pub(crate) tenant_limit: Setting<Limit>,
    pub(crate) route_limit: Setting<Limit>,
    /// Limits of event bytes per append and per run.
    pub(crate) append_bytes: Setting<ByteSize>,
    pub(crate) run_bytes: Setting<ByteSize>,
    /// The limit of a workflow's compiled patterns, in bytes.
    pub(crate) pattern_bytes: Setting<ByteSize>,
    /// The limit of connections per address.
    pub(crate) connections_per_address: Setting<Option<u32>>,
    /// The user's workflow folder.
    pub(crate) user_workflows: Option<PathBuf>,
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(&'static str),
    Environment(&'static str),
    File {
        path: PathBuf,
        /// The line of the key.
        line: usize,
    },
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(formatter, "flag {name}"),
            Self::Environment(name) => write!(formatter, "environment {name}"),
            Self::File { path, line } => write!(formatter, "{} line {line}", path.display()),
            Self::Default => formatter.write_str("default"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads an environment variable; an empty one counts as unset.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

impl Settings {
    ///
    /// # Errors
    /// If the settings file is unreadable or invalid, or no home directory is known for the default
    /// data directory.
    pub(crate) fn load(globals: &Globals) -> Result<Self, Failure> {
        let environment = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self::from_parts(globals, &environment)
    }

    fn from_parts(globals: &Globals, environment: Environment<'_>) -> Result<Self, Failure> {
        let given = globals.config.as_deref().map(directories::absolute);
        let file = given.as_deref().map(FileSettings::read).transpose()?;
        let named = globals
            .data_dir
            .as_deref()
            .map(|path| Setting { value: directories::absolute(path), origin: Origin::Flag("--data-dir") })
            .or_else(|| {
                let value = environment(HOME_VARIABLE)?;
                let origin = Origin::Environment(HOME_VARIABLE);
                Some(Setting { value: directories::absolute(Path::new(&value)), origin })
            })
            .or_else(|| file.as_ref()?.data_dir.clone());
        let data_dir = match named {
            Some(data_dir) => data_dir,
            None => Setting { value: directories::data_dir(environment)?, origin: Origin::Default },
        };
        let (config, file) = match (given, file) {
            (Some(path), Some(file)) => (Setting { value: path, origin: Origin::Flag("--config") }, file),
            _ => {
                let path = data_dir.value.join(FILE_NAME);
                let file = FileSettings::read_inside(&path)?;
                (Setting { value: path, origin: Origin::Default }, file)
            }
        };
        Ok(Self {
            data_dir,
            config,
            workflow_dirs: or_default(file.workflow_dirs),
            workspace_roots: or_default(file.workspace_roots),
            guide_commands: or_default(file.guide_commands),
            guide_agents: or_default(file.guide_agents),
            public_url: optional(file.public_url),
            allowed_origins: or_default(file.allowed_origins),
            private_networks: or_default(file.private_networks),
            http_hosts: or_default(file.http_hosts),
            http_credentials: or_default(file.http_credentials),
            secrets: or_default(file.secrets),
            models: or_default(file.models),
            database_url: optional(file.database_url),
            master_key: optional(file.master_key),
            datasources: or_default(file.datasources),
            envelopes: or_default(file.envelopes),
            open_registry: file.open_registry.unwrap_or(Setting { value: false, origin: Origin::Default }),
            mcp_mount: file.mcp_mount.unwrap_or(Setting { value: true, origin: Origin::Default }),
            mcp_servers: or_default(file.mcp_servers),
            otlp_endpoint: optional(file.otlp_endpoint),
            otlp_headers: or_default(file.otlp_headers),
            pack_fuel: file
                .pack_fuel
                .unwrap_or(Setting { value: executors::installed::DEFAULT_FUEL, origin: Origin::Default }),
            plugins_listen: optional(file.plugins_listen),
            plugins_url: optional(file.plugins_url),
            finished_runs: optional(file.finished_runs),
            answers: file.answers.unwrap_or(Setting { value: Span::DAY, origin: Origin::Default }),
            key_limit: limit(file.key_per_second, file.key_burst),
            tenant_limit: limit(file.tenant_per_second, file.tenant_burst),
            route_limit: limit(file.route_per_second, file.route_burst),
            append_bytes: size(file.append_bytes, 16),
            run_bytes: size(file.run_bytes, 256),
            pattern_bytes: size(file.pattern_bytes, 64),
            connections_per_address: optional(file.connections_per_address),
            user_workflows: directories::user_workflows(environment),
        })
    }

    /// The same settings with another database for runs.
    #[must_use]
    pub(crate) fn with_database(mut self, url: Option<&str>) -> Self {
        if let Some(url) = url {
            self.database_url = Setting { value: Some(url.to_owned()), origin: Origin::Flag("--database") };
        }
        self
    }

    /// The same settings with additional workflow folders, which take precedence.
    #[must_use]
    pub(crate) fn with_workflow_dirs(mut self, dirs: &[PathBuf]) -> Self {
        if !dirs.is_empty() {
            self.workflow_dirs.value.extend(dirs.iter().map(|dir| directories::absolute(dir)));
            self.workflow_dirs.origin = Origin::Flag("--workflows");
        }
        self
    }
}

/// The user's folder for configuration that does not belong to a data directory.
pub(crate) fn config_dir() -> Option<PathBuf> {
    directories::config_dir(&|name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

fn optional<T>(setting: Option<Setting<T>>) -> Setting<Option<T>> {
    match setting {
        Some(Setting { value, origin }) => Setting { value: Some(value), origin },
        None => Setting { value: None, origin: Origin::Default },
    }
}

/// Both numbers of a rate limit. The last line is the origin.
fn limit(per_second: Option<Setting<u32>>, burst: Option<Setting<u32>>) -> Setting<Limit> {
    let value = Limit {
        per_second: per_second.as_ref().map(|setting| setting.value),
        burst: burst.as_ref().map(|setting| setting.value),
    };
    let line = |setting: &Setting<u32>| match setting.origin {
        Origin::File { line, .. } => line,
        Origin::Flag(_) | Origin::Environment(_) | Origin::Default => 0,
    };
    let last = per_second.into_iter().chain(burst).max_by_key(line);
    Setting { value, origin: last.map_or(Origin::Default, |setting| setting.origin) }
}

/// The configured size, or a default in mebibytes.
fn size(setting: Option<Setting<ByteSize>>, mebibytes: u64) -> Setting<ByteSize> {
    setting.unwrap_or(Setting { value: ByteSize::mebibytes(mebibytes), origin: Origin::Default })
}

/// The configured value, or the default.
fn or_default<T: Default>(setting: Option<Setting<T>>) -> Setting<T> {
    setting.unwrap_or_else(|| Setting { value: T::default(), origin: Origin::Default })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(globals: &Globals, environment: &[(&str, &str)]) -> Settings {
        let lookup = |name: &str| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        };
        Settings::from_parts(globals, &lookup).unwrap()
    }

    #[test]
    fn precedence_is_flag_environment_file_default() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.toml");
        std::fs::write(&file, "data_dir = \"here\"\n[guide]\nworkflow_dirs = [\"flows\"]\n").unwrap();
        let flag = Globals { data_dir: Some("/flag".into()), config: Some(file.clone()) };
        let no_flag = Globals { data_dir: None, config: Some(file.clone()) };
        let home = [("HOME", "/home/me")];
        let variable = [("HOME", "/home/me"), (HOME_VARIABLE, "/variable")];
        let from_file = Origin::File { path: file.clone(), line: 1 };
        let cases = [
            ("flag", settings(&flag, &variable), PathBuf::from("/flag"), Origin::Flag("--data-dir")),
            (
                "environment",
                settings(&no_flag, &variable),
                "/variable".into(),
                Origin::Environment(HOME_VARIABLE),
            ),
            ("file", settings(&no_flag, &home), folder.path().join("here"), from_file),
        ];
        for (name, settings, value, origin) in cases {
            assert_eq!(settings.data_dir, Setting { value, origin }, "{name}");
            assert_eq!(settings.workflow_dirs.value, [folder.path().join("flows")], "{name}");
            let origin = Origin::File { path: file.clone(), line: 3 };
            assert_eq!(settings.workflow_dirs.origin, origin, "{name}");
        }
        let default = settings(&Globals::default(), &[("HOME", "/home/missing")]);
        assert_eq!(default.data_dir.origin, Origin::Default);
        assert!(default.data_dir.value.ends_with("interlock"), "{:?}", default.data_dir);
        assert_eq!(default.config.value, default.data_dir.value.join("config.toml"));
    }

    #[test]
    fn without_a_home_the_data_directory_is_unknown() {
        let refused = Settings::from_parts(&Globals::default(), &|_| None).unwrap_err();
        assert!(refused.to_string().contains("DATA_DIR_UNKNOWN"), "{refused}");
        assert!(
            Settings::from_parts(&Globals { data_dir: Some("/x/y/z".into()), config: None }, &|_| None)
                .is_ok()
        );
    }
}
