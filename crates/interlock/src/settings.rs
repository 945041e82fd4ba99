//! Where everything is: flag over environment over file over default.
//!
//! Each value remembers where it came from, and `interlock doctor` says so. The file is `config.toml` in the
//! data directory, or the one that `--config` names:
//!
//! ```toml
//! data_dir = "/srv/interlock"            # only in a file that --config names
//!
//! [guide]
//! workflow_dirs = ["/srv/workflows"]     # further folders of workflow files; a later one wins
//! workspace_roots = ["/home/me/code"]    # below these `serve` opens the workspaces that agents name; without, none
//!
//! [server]
//! public_url = "https://host.example"    # where clients reach `serve`, when a proxy stands in front
//! allowed_origins = ["https://app.example"]  # web pages that may speak MCP to it, besides those of this machine
//! connections_per_address = 500          # one eighth of all connections without; behind a proxy, more
//!
//! [limits]                               # what no run or workflow may exceed
//! append_bytes = "16 MiB"
//! run_bytes = "256 MiB"
//! pattern_bytes = "64 MiB"
//!
//! [rate_limits]                           # nothing is limited that does not stand here
//! key = { per_second = 50, burst = 100 }  # each key; also `tenant` and `route`
//!
//! [retention]
//! finished_runs = "90d"                   # runs are kept for good without; answers to keyed requests a day
//!
//! [mcp]
//! mount = true                            # whether workflows are served to clients of MCP, at /v1/mcp
//! servers.search = { url = "https://mcp.example/mcp", secret = "search-key" }  # what nodes may use
//!
//! [registry]
//! public = false                          # whether packs that were published here can be read without a key
//!
//! [otlp]
//! endpoint = "http://127.0.0.1:4318"      # traces go to /v1/traces there, as Protobuf
//!
//! [models.local]                          # a provider that workflows may ask
//! kind = "openai"                         # or `anthropic`
//! base_url = "http://127.0.0.1:8080/v1"
//!
//! [envelopes."vendor.acme.note"]         # a kind of envelope that nodes may take of a model
//! schema = "note.schema.json"             # what its payload has to fit, below the data directory
//!
//! [datasources.orders]                    # a database that workflows may use
//! kind = "postgres"
//! url = "secret:orders-url"               # by reference: the URL has a password in it
//!
//! [plugins]
//! listen = "127.0.0.1:7718"               # an origin of their own for parts of a front end; without, none are shown
//!
//! [secrets]
//! deploy-key = "env:DEPLOY_KEY"          # by reference: `env:NAME` or `file:/path`
//! ```
//!
//! A key that nothing reads is refused with the nearest name that something does: a setting that is silently
//! ignored is worse than none.

pub(crate) mod desired;
mod file;
mod places;
mod values;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::arguments::Globals;
use crate::failure::Failure;

use file::FileSettings;
pub(crate) use values::{ByteSize, Limit, McpServer, Sections, Span};

/// The environment variable of the data directory.
pub(crate) const HOME_VARIABLE: &str = "INTERLOCK_HOME";
/// The name of the settings file in the data directory.
const FILE_NAME: &str = "config.toml";

/// The settings that are in force.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Where sessions, keys and everything else are kept.
    pub(crate) data_dir: Setting<PathBuf>,
    /// The settings file. The default one need not exist.
    pub(crate) config: Setting<PathBuf>,
    /// Further folders of workflow files.
    pub(crate) workflow_dirs: Setting<Vec<PathBuf>>,
    /// Below which folders `serve` opens the workspaces that agents name; it opens none, if there are none.
    pub(crate) workspace_roots: Setting<Vec<PathBuf>>,
    /// Where clients reach `serve`.
    pub(crate) public_url: Setting<Option<String>>,
    /// Web pages that may speak MCP to `serve`.
    pub(crate) allowed_origins: Setting<Vec<String>>,
    /// The providers of models, by name.
    pub(crate) models: Setting<Sections>,
    /// The databases that workflows may use, by name.
    pub(crate) datasources: Setting<Sections>,
    /// The kinds of envelopes that nodes may take of a model, by name.
    pub(crate) envelopes: Setting<Sections>,
    /// Where secrets come from, by name.
    pub(crate) secrets: Setting<BTreeMap<String, String>>,
    /// Whether workflows are served to clients of MCP.
    pub(crate) mcp_mount: Setting<bool>,
    /// Whether anybody may read what the registry of packs offers.
    pub(crate) open_registry: Setting<bool>,
    /// Other MCP servers that nodes may use, by id.
    pub(crate) mcp_servers: Setting<BTreeMap<String, McpServer>>,
    /// Where traces are sent.
    pub(crate) otlp_endpoint: Setting<Option<String>>,
    /// What is sent along, by name: references, as for secrets.
    pub(crate) otlp_headers: Setting<BTreeMap<String, String>>,
    /// The fuel of a call of a node that a pack brings.
    pub(crate) pack_fuel: Setting<u64>,
    /// Where parts of a front end are served; nowhere, if nothing is said.
    pub(crate) plugins_listen: Setting<Option<SocketAddr>>,
    /// Where browsers reach them, when a proxy stands in front.
    pub(crate) plugins_url: Setting<Option<String>>,
    /// For how long runs are kept that have ended; for good, if nothing is said.
    pub(crate) finished_runs: Setting<Option<Span>>,
    /// For how long answers to keyed requests are kept.
    pub(crate) answers: Setting<Span>,
    /// How often each key, each tenant and each route may be used.
    pub(crate) key_limit: Setting<Limit>,
    pub(crate) tenant_limit: Setting<Limit>,
    pub(crate) route_limit: Setting<Limit>,
    /// How many bytes of events one append of a run may hold, and a run in all.
    pub(crate) append_bytes: Setting<ByteSize>,
    pub(crate) run_bytes: Setting<ByteSize>,
    /// How many bytes the patterns of a workflow may take once they are compiled.
    pub(crate) pattern_bytes: Setting<ByteSize>,
    /// How many connections one address may have.
    pub(crate) connections_per_address: Setting<Option<u32>>,
    /// The user's own workflows.
    pub(crate) user_workflows: Option<PathBuf>,
}

/// A value, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The command line.
    Flag(&'static str),
    /// The environment.
    Environment(&'static str),
    /// The settings file.
    File {
        /// Which file.
        path: PathBuf,
        /// The line of the key.
        line: usize,
    },
    /// Nobody said anything.
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

/// Reads a variable of the environment; an empty one is none.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

impl Settings {
    /// The settings of this process.
    ///
    /// # Errors
    /// A settings file that cannot be read or says something that nothing understands, and no home to
    /// derive the data directory from.
    pub(crate) fn load(globals: &Globals) -> Result<Self, Failure> {
        let environment = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self::from_parts(globals, &environment)
    }

    fn from_parts(globals: &Globals, environment: Environment<'_>) -> Result<Self, Failure> {
        let given = globals.config.as_deref().map(places::absolute);
        let file = given.as_deref().map(FileSettings::read).transpose()?;
        let named = globals
            .data_dir
            .as_deref()
            .map(|path| Setting { value: places::absolute(path), origin: Origin::Flag("--data-dir") })
            .or_else(|| {
                let value = environment(HOME_VARIABLE)?;
                let origin = Origin::Environment(HOME_VARIABLE);
                Some(Setting { value: places::absolute(Path::new(&value)), origin })
            })
            .or_else(|| file.as_ref()?.data_dir.clone());
        let data_dir = match named {
            Some(data_dir) => data_dir,
            None => Setting { value: places::data_dir(environment)?, origin: Origin::Default },
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
            public_url: optional(file.public_url),
            allowed_origins: or_default(file.allowed_origins),
            secrets: or_default(file.secrets),
            models: or_default(file.models),
            datasources: or_default(file.datasources),
            envelopes: or_default(file.envelopes),
            open_registry: file.open_registry.unwrap_or(Setting { value: false, origin: Origin::Default }),
            mcp_mount: file.mcp_mount.unwrap_or(Setting { value: true, origin: Origin::Default }),
            mcp_servers: or_default(file.mcp_servers),
            otlp_endpoint: optional(file.otlp_endpoint),
            otlp_headers: or_default(file.otlp_headers),
            pack_fuel: file
                .pack_fuel
                .unwrap_or(Setting { value: host::hands::installed::DEFAULT_FUEL, origin: Origin::Default }),
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
            user_workflows: places::user_workflows(environment),
        })
    }

    /// The same settings with further folders of workflow files, which win over the configured ones.
    #[must_use]
    pub(crate) fn with_workflow_dirs(mut self, dirs: &[PathBuf]) -> Self {
        if !dirs.is_empty() {
            self.workflow_dirs.value.extend(dirs.iter().map(|dir| places::absolute(dir)));
            self.workflow_dirs.origin = Origin::Flag("--workflows");
        }
        self
    }
}

/// What the file says, or nothing.
fn optional<T>(setting: Option<Setting<T>>) -> Setting<Option<T>> {
    match setting {
        Some(Setting { value, origin }) => Setting { value: Some(value), origin },
        None => Setting { value: None, origin: Origin::Default },
    }
}

/// Both numbers of a limit. The line of the last one is where the limit came from.
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

/// What the file says, or so many mebibytes.
fn size(setting: Option<Setting<ByteSize>>, mebibytes: u64) -> Setting<ByteSize> {
    setting.unwrap_or(Setting { value: ByteSize::mebibytes(mebibytes), origin: Origin::Default })
}

/// What the file says, or what there is without it.
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
    fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
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
        let default = settings(&Globals::default(), &[("HOME", "/nobody/there")]);
        assert_eq!(default.data_dir.origin, Origin::Default);
        assert!(default.data_dir.value.ends_with("interlock"), "{:?}", default.data_dir);
        assert_eq!(default.config.value, default.data_dir.value.join("config.toml"));
    }

    #[test]
    fn without_a_home_nothing_is_guessed() {
        let refused = Settings::from_parts(&Globals::default(), &|_| None).unwrap_err();
        assert!(refused.to_string().contains("DATA_DIR_UNKNOWN"), "{refused}");
        assert!(
            Settings::from_parts(&Globals { data_dir: Some("/x/y/z".into()), config: None }, &|_| None)
                .is_ok()
        );
    }
}
