//! The settings file: TOML, read strictly.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use canon::error::Envelope;
use canon::nearest::nearest;
use toml_edit::{Document, Item, Table, Value};

use super::values::{ByteSize, Limit, McpServer, Sections, Span};
use super::{Origin, Setting};
use crate::failure::{CommandErrorCode, Failure};

/// The longest settings file.
const FILE_BYTES: usize = 256 * 1024;

/// The greatest rate that can be set: more than one process answers.
const MAX_RATE: u32 = 1_000_000;

/// The most connections that one address can be given: more than one process has files for.
const MAX_CONNECTIONS: u32 = 1_000_000;

/// Every key there is, as it would be written with dots.
const KEYS: [&str; 29] = [
    "data_dir",
    "datasources",
    "envelopes",
    "guide.workflow_dirs",
    "guide.workspace_roots",
    "limits.append_bytes",
    "limits.pattern_bytes",
    "limits.run_bytes",
    "mcp.mount",
    "mcp.servers",
    "models",
    "otlp.endpoint",
    "otlp.headers",
    "packs.fuel",
    "plugins.listen",
    "plugins.public_url",
    "rate_limits.key.burst",
    "rate_limits.key.per_second",
    "rate_limits.route.burst",
    "rate_limits.route.per_second",
    "rate_limits.tenant.burst",
    "rate_limits.tenant.per_second",
    "registry.public",
    "retention.answers",
    "retention.finished_runs",
    "secrets",
    "server.allowed_origins",
    "server.connections_per_address",
    "server.public_url",
];

/// The tables that the keys stand in.
const TABLES: [&str; 13] = [
    "guide",
    "limits",
    "mcp",
    "otlp",
    "packs",
    "plugins",
    "rate_limits",
    "rate_limits.key",
    "rate_limits.route",
    "rate_limits.tenant",
    "registry",
    "retention",
    "server",
];

/// What a settings file says.
#[derive(Clone, Debug, Default)]
pub(super) struct FileSettings {
    pub(super) data_dir: Option<Setting<PathBuf>>,
    pub(super) workflow_dirs: Option<Setting<Vec<PathBuf>>>,
    pub(super) workspace_roots: Option<Setting<Vec<PathBuf>>>,
    pub(super) public_url: Option<Setting<String>>,
    pub(super) allowed_origins: Option<Setting<Vec<String>>>,
    pub(super) secrets: Option<Setting<BTreeMap<String, String>>>,
    pub(super) models: Option<Setting<Sections>>,
    pub(super) datasources: Option<Setting<Sections>>,
    pub(super) envelopes: Option<Setting<Sections>>,
    pub(super) mcp_mount: Option<Setting<bool>>,
    pub(super) open_registry: Option<Setting<bool>>,
    pub(super) mcp_servers: Option<Setting<BTreeMap<String, McpServer>>>,
    pub(super) otlp_endpoint: Option<Setting<String>>,
    pub(super) pack_fuel: Option<Setting<u64>>,
    pub(super) plugins_listen: Option<Setting<SocketAddr>>,
    pub(super) plugins_url: Option<Setting<String>>,
    pub(super) otlp_headers: Option<Setting<BTreeMap<String, String>>>,
    pub(super) finished_runs: Option<Setting<Span>>,
    pub(super) answers: Option<Setting<Span>>,
    pub(super) key_limit: Option<Setting<Limit>>,
    pub(super) tenant_limit: Option<Setting<Limit>>,
    pub(super) route_limit: Option<Setting<Limit>>,
    pub(super) append_bytes: Option<Setting<ByteSize>>,
    pub(super) run_bytes: Option<Setting<ByteSize>>,
    pub(super) pattern_bytes: Option<Setting<ByteSize>>,
    pub(super) connections_per_address: Option<Setting<u32>>,
}

impl FileSettings {
    /// Reads a file that has to be there.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = read(path).map_err(|cause| unreadable(path, &cause))?;
        Reader { path, text: &text }.settings()
    }

    /// Reads the file of a data directory, which need not be there and cannot say where the directory is.
    pub(super) fn read_inside(path: &Path) -> Result<Self, Failure> {
        let text = match read(path) {
            Ok(text) => text,
            Err(cause) if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Self::default());
            }
            Err(cause) => return Err(unreadable(path, &cause)),
        };
        let reader = Reader { path, text: &text };
        let settings = reader.settings()?;
        match settings.data_dir {
            None => Ok(settings),
            Some(_) => Err(reader
                .invalid(
                    CommandErrorCode::ConfigInvalid,
                    text.find("data_dir").map(|start| start..start),
                    "`data_dir` stands in a file that lies in the data directory already",
                )
                .suggest("Remove it, and use INTERLOCK_HOME, --data-dir, or a file given with --config.")
                .into()),
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    file.take(FILE_BYTES as u64 + 1).read_to_string(&mut text)?;
    if text.len() > FILE_BYTES {
        let message = format!("it has more than {FILE_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

fn unreadable(path: &Path, cause: &io::Error) -> Failure {
    Envelope::new(
        CommandErrorCode::ConfigUnreadable,
        format!("The settings in {} cannot be read: {cause}.", path.display()),
    )
    .suggest("Check the path and that you may read it, or leave --config out.")
    .detail("file", path.display().to_string())
    .into()
}

/// A text that is the origin of web pages, and nothing more.
fn origin_of(text: &str) -> Option<String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let is_origin = !host.is_empty() && !host.contains(['/', '@', '*', ' ', ';', ',']);
    is_origin.then(|| text.to_owned())
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn settings(&self) -> Result<FileSettings, Failure> {
        let document = Document::parse(self.text).map_err(|error| {
            self.invalid(CommandErrorCode::ConfigInvalid, error.span(), error.message().trim())
                .suggest("Correct the TOML there.")
        })?;
        let mut settings = FileSettings::default();
        self.table("", document.as_table(), &mut settings)?;
        Ok(settings)
    }

    fn table(&self, prefix: &str, table: &Table, settings: &mut FileSettings) -> Result<(), Failure> {
        for (name, item) in table {
            let span = table.key(name).and_then(toml_edit::Key::span).or_else(|| item.span());
            let key = format!("{prefix}{name}");
            match key.as_str() {
                "data_dir" => {
                    let value =
                        self.below(item.as_str().ok_or_else(|| self.wrong(&key, item, "a path in quotes"))?);
                    settings.data_dir = Some(Setting { value, origin: self.origin(span) });
                }
                key if TABLES.contains(&key) => {
                    let inner = item.as_table_like().ok_or_else(|| self.wrong(key, item, "a table"))?;
                    let prefix = format!("{key}.");
                    match item.as_table() {
                        Some(inner) => self.table(&prefix, inner, settings)?,
                        // `guide = { … }`, which has no table of its own.
                        None => {
                            let inner: Table =
                                inner.iter().map(|(name, item)| (name.to_owned(), item.clone())).collect();
                            self.table(&prefix, &inner, settings)?;
                        }
                    }
                }
                "server.public_url" => {
                    let url = item.as_str().ok_or_else(|| self.wrong(&key, item, "a URL in quotes"))?;
                    settings.public_url = Some(Setting { value: url.to_owned(), origin: self.origin(span) });
                }
                "server.allowed_origins" => {
                    let wrong = || self.wrong(&key, item, "a list of origins such as `https://app.example`");
                    let list = item.as_array().ok_or_else(wrong)?;
                    let origin = |value: &Value| origin_of(value.as_str()?);
                    let value = list.iter().map(origin).collect::<Option<_>>().ok_or_else(wrong)?;
                    settings.allowed_origins = Some(Setting { value, origin: self.origin(span) });
                }
                "server.connections_per_address" => {
                    let wanted = format!("an integer from 1 to {MAX_CONNECTIONS}");
                    let value = item.as_integer().and_then(|value| u32::try_from(value).ok());
                    let value = value.filter(|value| (1..=MAX_CONNECTIONS).contains(value));
                    let value = value.ok_or_else(|| self.wrong(&key, item, &wanted))?;
                    settings.connections_per_address = Some(Setting { value, origin: self.origin(span) });
                }
                "limits.append_bytes" => settings.append_bytes = Some(self.byte_size(&key, item, span)?),
                "limits.run_bytes" => settings.run_bytes = Some(self.byte_size(&key, item, span)?),
                "limits.pattern_bytes" => settings.pattern_bytes = Some(self.byte_size(&key, item, span)?),
                "secrets" => {
                    settings.secrets =
                        Some(Setting { value: self.references(&key, item)?, origin: self.origin(span) });
                }
                "models" => {
                    let known = ["kind", "base_url", "secret", "model", "default"];
                    settings.models = Some(Setting {
                        value: self.sections(&key, item, &known)?,
                        origin: self.origin(span),
                    });
                }
                "datasources" => {
                    let known = ["kind", "url", "tenants"];
                    settings.datasources = Some(Setting {
                        value: self.sections(&key, item, &known)?,
                        origin: self.origin(span),
                    });
                }
                "envelopes" => {
                    let known = ["schema", "version"];
                    settings.envelopes = Some(Setting {
                        value: self.sections(&key, item, &known)?,
                        origin: self.origin(span),
                    });
                }
                "mcp.mount" => {
                    let value = item.as_bool().ok_or_else(|| self.wrong(&key, item, "true or false"))?;
                    settings.mcp_mount = Some(Setting { value, origin: self.origin(span) });
                }
                "registry.public" => {
                    let value = item.as_bool().ok_or_else(|| self.wrong(&key, item, "true or false"))?;
                    settings.open_registry = Some(Setting { value, origin: self.origin(span) });
                }
                "mcp.servers" => {
                    settings.mcp_servers =
                        Some(Setting { value: self.servers(&key, item)?, origin: self.origin(span) });
                }
                "otlp.headers" => {
                    settings.otlp_headers =
                        Some(Setting { value: self.references(&key, item)?, origin: self.origin(span) });
                }
                "otlp.endpoint" => {
                    let url = item.as_str().ok_or_else(|| self.wrong(&key, item, "a URL in quotes"))?;
                    settings.otlp_endpoint =
                        Some(Setting { value: url.to_owned(), origin: self.origin(span) });
                }
                "packs.fuel" => {
                    let wrong = || self.wrong(&key, item, "a whole number above 0");
                    let value = item.as_integer().and_then(|fuel| u64::try_from(fuel).ok());
                    let value = value.filter(|fuel| *fuel > 0).ok_or_else(wrong)?;
                    settings.pack_fuel = Some(Setting { value, origin: self.origin(span) });
                }
                "plugins.listen" => {
                    let wrong = || self.wrong(&key, item, "an address in quotes, such as `127.0.0.1:7718`");
                    let value = item.as_str().and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
                    settings.plugins_listen = Some(Setting { value, origin: self.origin(span) });
                }
                "plugins.public_url" => {
                    let wrong = || self.wrong(&key, item, "an origin such as `https://plugins.example`");
                    let value = item.as_str().and_then(origin_of).ok_or_else(wrong)?;
                    settings.plugins_url = Some(Setting { value, origin: self.origin(span) });
                }
                "retention.finished_runs" => {
                    settings.finished_runs =
                        Some(Setting { value: self.span(&key, item)?, origin: self.origin(span) });
                }
                "retention.answers" => {
                    settings.answers =
                        Some(Setting { value: self.span(&key, item)?, origin: self.origin(span) });
                }
                key if key.starts_with("rate_limits.") => self.rate(key, item, span, settings)?,
                "guide.workflow_dirs" => {
                    settings.workflow_dirs =
                        Some(Setting { value: self.paths(&key, item)?, origin: self.origin(span) });
                }
                "guide.workspace_roots" => {
                    settings.workspace_roots =
                        Some(Setting { value: self.paths(&key, item)?, origin: self.origin(span) });
                }
                _ => return Err(self.unknown(&key, span)),
            }
        }
        Ok(())
    }

    /// One number of a limit. The line of the last one is where the limit came from.
    fn rate(
        &self,
        key: &str,
        item: &Item,
        span: Option<Range<usize>>,
        settings: &mut FileSettings,
    ) -> Result<(), Failure> {
        let (limit, number) = match key {
            "rate_limits.key.per_second" => (&mut settings.key_limit, true),
            "rate_limits.key.burst" => (&mut settings.key_limit, false),
            "rate_limits.tenant.per_second" => (&mut settings.tenant_limit, true),
            "rate_limits.tenant.burst" => (&mut settings.tenant_limit, false),
            "rate_limits.route.per_second" => (&mut settings.route_limit, true),
            "rate_limits.route.burst" => (&mut settings.route_limit, false),
            _ => return Err(self.unknown(key, span)),
        };
        let value = item.as_integer().and_then(|value| u32::try_from(value).ok());
        let value = value.filter(|value| (1..=MAX_RATE).contains(value));
        let value =
            value.ok_or_else(|| self.wrong(key, item, &format!("an integer from 1 to {MAX_RATE}")))?;
        let mut known = limit.as_ref().map(|known| known.value).unwrap_or_default();
        if number {
            known.per_second = Some(value);
        } else {
            known.burst = Some(value);
        }
        *limit = Some(Setting { value: known, origin: self.origin(span) });
        Ok(())
    }

    /// A number of bytes.
    fn byte_size(
        &self,
        key: &str,
        item: &Item,
        span: Option<Range<usize>>,
    ) -> Result<Setting<ByteSize>, Failure> {
        let number = item.as_integer().and_then(|bytes| u64::try_from(bytes).ok()).and_then(ByteSize::new);
        let value = number.or_else(|| item.as_str().and_then(ByteSize::parse));
        let wanted = "a size from 1 KiB to 1024 GiB, such as \"16 MiB\" or a number of bytes";
        let value = value.ok_or_else(|| self.wrong(key, item, wanted))?;
        Ok(Setting { value, origin: self.origin(span) })
    }

    /// A time.
    fn span(&self, key: &str, item: &Item) -> Result<Span, Failure> {
        let span = item.as_str().and_then(Span::parse);
        span.ok_or_else(|| self.wrong(key, item, "a time in quotes, such as \"12h\" or \"30d\""))
    }

    /// Names with references to secrets.
    fn references(&self, key: &str, item: &Item) -> Result<BTreeMap<String, String>, Failure> {
        let wrong = || self.wrong(key, item, "a table of references such as `env:NAME`");
        let references = item.as_table_like().ok_or_else(wrong)?.iter();
        let references = references.map(|(name, item)| Some((name.to_owned(), item.as_str()?.to_owned())));
        references.collect::<Option<BTreeMap<_, _>>>().ok_or_else(wrong)
    }

    /// Tables by name, each with some of these texts in it.
    fn sections(&self, key: &str, item: &Item, known: &[&str]) -> Result<Sections, Failure> {
        let wrong = || self.wrong(key, item, "a table of named tables");
        let mut sections = Sections::new();
        for (name, section) in item.as_table_like().ok_or_else(wrong)?.iter() {
            let mut members = BTreeMap::new();
            for (member, value) in section.as_table_like().ok_or_else(wrong)?.iter() {
                let path = format!("{key}.{name}.{member}");
                if !known.contains(&member) {
                    let suggestion = format!(
                        "It has {}.",
                        known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
                    );
                    let message = format!("there is no setting `{path}`");
                    let envelope = self.invalid(CommandErrorCode::ConfigUnknownKey, value.span(), &message);
                    return Err(envelope.suggest(suggestion).detail("key", path).into());
                }
                let text = match value.as_bool() {
                    Some(flag) => flag.to_string(),
                    None => {
                        value.as_str().ok_or_else(|| self.wrong(&path, value, "a text in quotes"))?.to_owned()
                    }
                };
                members.insert(member.to_owned(), text);
            }
            sections.insert(name.to_owned(), members);
        }
        Ok(sections)
    }

    /// Other MCP servers, by id.
    fn servers(&self, key: &str, item: &Item) -> Result<BTreeMap<String, McpServer>, Failure> {
        let all = item.as_table_like().ok_or_else(|| self.wrong(key, item, "a table for each server"))?;
        let mut servers = BTreeMap::new();
        for (id, item) in all.iter() {
            let key = format!("{key}.{id}");
            let wanted = "a table with `url` and, where they are needed, `secret` and `tenants`";
            let members = item.as_table_like().ok_or_else(|| self.wrong(&key, item, wanted))?;
            let (mut url, mut server) = (None, McpServer::default());
            for (name, item) in members.iter() {
                let inner = format!("{key}.{name}");
                let text = || item.as_str().ok_or_else(|| self.wrong(&inner, item, "a text in quotes"));
                match name {
                    "url" => url = Some(text()?.to_owned()),
                    "secret" => server.secret = Some(text()?.to_owned()),
                    "tenants" => {
                        let wrong = || self.wrong(&inner, item, "a list of names in quotes");
                        let names = item.as_array().ok_or_else(wrong)?.iter();
                        let names = names.map(|name| name.as_str().map(str::to_owned));
                        server.tenants = names.collect::<Option<_>>().ok_or_else(wrong)?;
                    }
                    _ => return Err(self.unknown(&inner, item.span())),
                }
            }
            server.url = url.ok_or_else(|| self.wrong(&key, item, wanted))?;
            servers.insert(id.to_owned(), server);
        }
        Ok(servers)
    }

    fn paths(&self, key: &str, item: &Item) -> Result<Vec<PathBuf>, Failure> {
        let wrong = || self.wrong(key, item, "a list of paths in quotes");
        let list = item.as_array().ok_or_else(wrong)?;
        let path = |value: &Value| value.as_str().map(|text| self.below(text)).ok_or_else(wrong);
        list.iter().map(path).collect()
    }

    /// A path, from where the file is.
    fn below(&self, text: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("/")).join(text)
    }

    fn origin(&self, span: Option<Range<usize>>) -> Origin {
        let line = span.map_or(1, |span| self.position(span.start).0);
        Origin::File { path: self.path.to_owned(), line }
    }

    fn wrong(&self, key: &str, item: &Item, wanted: &str) -> Failure {
        let message = format!("`{key}` is {} and should be {wanted}", item.type_name());
        self.invalid(CommandErrorCode::ConfigInvalid, item.span(), &message)
            .suggest(format!("Write {wanted}."))
            .detail("key", key)
            .into()
    }

    fn unknown(&self, key: &str, span: Option<Range<usize>>) -> Failure {
        let near = nearest(key, KEYS.iter().chain(&TABLES), 1).first().map(|near| (**near).to_owned());
        // The last part may be right in another place.
        let last = key.rsplit('.').next().unwrap_or(key);
        let near = near.or_else(|| {
            let lasts = KEYS.iter().map(|key| key.rsplit('.').next().unwrap_or(key));
            let found = nearest(last, lasts, 1).first().map(|near| (*near).to_owned())?;
            KEYS.iter().find(|key| key.ends_with(found.as_str())).map(|key| (*key).to_owned())
        });
        let suggestion = match &near {
            Some(near) => format!("Did you mean `{near}`? Settings that nothing reads are refused."),
            None => format!("Remove it; the settings are {}.", KEYS.map(|key| format!("`{key}`")).join(", ")),
        };
        let shown: String = key.chars().take(80).collect();
        let envelope = self
            .invalid(CommandErrorCode::ConfigUnknownKey, span, &format!("there is no setting `{shown}`"))
            .suggest(suggestion)
            .detail("key", shown);
        match near {
            Some(near) => envelope.detail("nearest", near).into(),
            None => envelope.into(),
        }
    }

    fn invalid(&self, code: CommandErrorCode, span: Option<Range<usize>>, message: &str) -> Envelope {
        let file = self.path.display().to_string();
        let (line, column) = self.position(span.map_or(0, |span| span.start));
        Envelope::new(code, format!("In {file}, line {line}, column {column}: {message}."))
            .detail("file", file)
            .detail("line", line)
            .detail("column", column)
    }

    /// Line and column of a byte, from 1.
    fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (line, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let reader = Reader { path: Path::new("/etc/interlock.toml"), text };
        reader.settings().map(|settings| format!("{settings:?}")).unwrap_err().to_string()
    }

    /// The reference has a row for every key, and every settings file that a page shows can be read.
    #[test]
    fn the_pages_about_settings_are_complete_and_valid() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let page = |name: &str| std::fs::read_to_string(docs.join(name)).unwrap();
        let reference = page("settings.md");
        for key in KEYS {
            // The two numbers of a rate limit share a row.
            let row = key.strip_suffix(".per_second").or(key.strip_suffix(".burst")).unwrap_or(key);
            let is_listed =
                [format!("`{row}`"), format!("`{row}.<")].iter().any(|row| reference.contains(row));
            assert!(is_listed, "docs/settings.md has no row for `{key}`");
        }
        for name in ["settings.md", "mcp-mount.md", "mcp-over-http.md", "how-to/deploy.md"] {
            let text = page(name);
            let blocks: Vec<&str> =
                text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
            assert!(!blocks.is_empty(), "{name}");
            for text in blocks {
                let reader = Reader { path: Path::new("/etc/interlock.toml"), text };
                reader.settings().unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    }

    #[test]
    fn what_a_settings_file_may_not_say() {
        let cases = [
            (
                "a slip",
                "[guide]\nworkfow_dirs = []",
                "CONFIG_UNKNOWN_KEY",
                "line 2, column 1",
                "`guide.workflow_dirs`",
            ),
            (
                "in the wrong place",
                "workspace_roots = []",
                "CONFIG_UNKNOWN_KEY",
                "line 1",
                "`guide.workspace_roots`",
            ),
            (
                "inline",
                "guide = { workspace_root = [] }",
                "CONFIG_UNKNOWN_KEY",
                "line 1",
                "`guide.workspace_roots`",
            ),
            ("a table", "\n[gide]\n", "CONFIG_UNKNOWN_KEY", "line 2", "`guide`"),
            ("a stranger", "colour = 1", "CONFIG_UNKNOWN_KEY", "line 1", "the settings are"),
            (
                "no list",
                "[guide]\nworkflow_dirs = \"x\"",
                "CONFIG_INVALID",
                "line 2, column 17",
                "a list of paths",
            ),
            ("numbers", "[guide]\nworkspace_roots = [1]", "CONFIG_INVALID", "line 2", "a list of paths"),
            ("a number", "data_dir = 7", "CONFIG_INVALID", "line 1, column 12", "a path in quotes"),
            ("no table", "guide = 1", "CONFIG_INVALID", "line 1", "a table"),
            (
                "no origin",
                "[server]\nallowed_origins = [\"app.example\"]",
                "CONFIG_INVALID",
                "line 2",
                "a list of origins",
            ),
            ("no time", "[retention]\nfinished_runs = 30", "CONFIG_INVALID", "line 2", "a time in quotes"),
            ("no unit", "[retention]\nanswers = \"30\"", "CONFIG_INVALID", "line 2", "a time in quotes"),
            ("no rate", "[rate_limits.key]\nper_second = 0", "CONFIG_INVALID", "line 2", "from 1 to 1000000"),
            (
                "another limit",
                "[rate_limits]\nper_key = { per_second = 1 }",
                "CONFIG_UNKNOWN_KEY",
                "line 2",
                "`rate_limits.key`",
            ),
            (
                "a slip in a limit",
                "[rate_limits.tenant]\nbursts = 1",
                "CONFIG_UNKNOWN_KEY",
                "line 2",
                "`rate_limits.tenant.burst`",
            ),
            ("a collector", "otlp = \"http://x\"", "CONFIG_INVALID", "line 1", "a table"),
            ("a server", "[mcp.servers.x]\nsecret = \"s\"", "CONFIG_INVALID", "line 1", "`url`"),
            ("of a server", "[mcp.servers.x]\nurl = 1", "CONFIG_INVALID", "line 2", "`mcp.servers.x.url`"),
            ("no such part", "[mcp]\nserver = {}", "CONFIG_UNKNOWN_KEY", "line 2", "`mcp.servers`"),
            ("no address", "[plugins]\nlisten = \"7718\"", "CONFIG_INVALID", "line 2", "`127.0.0.1:7718`"),
            ("no fuel", "[packs]\nfuel = 0", "CONFIG_INVALID", "line 2", "a whole number above 0"),
            (
                "no origin",
                "[plugins]\npublic_url = \"https://x/y\"",
                "CONFIG_INVALID",
                "line 2",
                "`https://plugins.example`",
            ),
            ("no TOML", "data_dir = ", "CONFIG_INVALID", "line 1", "Correct the TOML"),
            ("twice", "data_dir = \"a\"\ndata_dir = \"b\"", "CONFIG_INVALID", "line 2", "Correct the TOML"),
        ];
        for (name, text, code, position, help) in cases {
            let words = refused(text);
            for expected in [code, position, help] {
                assert!(words.contains(expected), "{name}: {expected} in {words}");
            }
        }
    }

    #[test]
    fn switches_and_other_mcp_servers_are_read() {
        let text = "[packs]\nfuel = 5\n[registry]\npublic = true\n[mcp]\nmount = false\n[mcp.servers.a]\nurl = \"https://a.example\"\nsecret = \"s\"\n[mcp.servers.b]\nurl = \"http://b\"\ntenants = [\"t\"]\n";
        let settings = Reader { path: Path::new("/etc/interlock.toml"), text }.settings().unwrap();
        assert!(!settings.mcp_mount.unwrap().value);
        assert!(settings.open_registry.unwrap().value);
        assert_eq!(settings.pack_fuel.unwrap().value, 5);
        let server = |url: &str, secret: Option<&str>, tenants: &[&str]| McpServer {
            url: url.to_owned(),
            secret: secret.map(str::to_owned),
            tenants: tenants.iter().map(|tenant| (*tenant).to_owned()).collect(),
        };
        let a = ("a".to_owned(), server("https://a.example", Some("s"), &[]));
        let b = ("b".to_owned(), server("http://b", None, &["t"]));
        assert_eq!(settings.mcp_servers.unwrap().value, BTreeMap::from([a, b]));
    }

    #[test]
    fn limits_and_times_are_read() {
        let text = "[rate_limits]\nkey = { per_second = 50, burst = 100 }\n\n[rate_limits.route]\nper_second = 9\n\n[retention]\nfinished_runs = \"30d\"\n";
        let settings = Reader { path: Path::new("/etc/interlock.toml"), text }.settings().unwrap();
        assert_eq!(settings.key_limit.unwrap().value, Limit { per_second: Some(50), burst: Some(100) });
        assert_eq!(settings.route_limit.unwrap().value, Limit { per_second: Some(9), burst: None });
        assert_eq!(settings.tenant_limit, None);
        assert_eq!(settings.finished_runs.unwrap().value, Span::parse("30d").unwrap());
    }

    #[test]
    fn sizes_are_read_as_numbers_and_in_words() {
        let text =
            "[limits]\nappend_bytes = \"16 MiB\"\nrun_bytes = 4096\n[server]\nconnections_per_address = 9\n";
        let settings = Reader { path: Path::new("/etc/interlock.toml"), text }.settings().unwrap();
        assert_eq!(settings.append_bytes.unwrap().value.bytes(), 16 << 20);
        assert_eq!(settings.run_bytes.unwrap().value.bytes(), 4096);
        assert_eq!(settings.connections_per_address.unwrap().value, 9);
        assert_eq!(settings.pattern_bytes, None);
        for value in ["0", "-1", "1.5", "true", "\"16\"", "\"16 MB\"", "\"0 KiB\"", "\"9999999 GiB\"", "1023"]
        {
            assert!(refused(&format!("limits.run_bytes = {value}")).contains("a size from 1 KiB"), "{value}");
        }
        for value in ["0", "\"9\"", "1000001"] {
            let text = format!("server.connections_per_address = {value}");
            assert!(refused(&text).contains("an integer from 1"), "{value}");
        }
    }

    #[test]
    fn paths_start_from_the_file() {
        let reader = Reader {
            path: Path::new("/etc/interlock.toml"),
            text: "guide.workflow_dirs = [\"flows\", \"/srv/flows\"]",
        };
        let dirs = reader.settings().unwrap().workflow_dirs.unwrap();
        assert_eq!(dirs.value, [Path::new("/etc/flows"), Path::new("/srv/flows")]);
    }
}
