//! The settings file: TOML, parsed strictly.
//!
//! `keys!` declares every key once: its name, field, type and reader. The struct, the list of known
//! keys and the parser are generated from it. Readers report the expected value in plain words;
//! serde's messages would name Rust types.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use canon::error::Envelope;
use canon::nearest::nearest;
use executors::http_request::HostPattern;
use toml_edit::{Document, Item, TableLike, Value};

use super::values::{
    ByteSize, EgressUse, GuideAgent, GuideCommand, HttpCredential, McpServer, PrivateNetworks, Sections, Span,
};
use super::{Origin, Setting};
use crate::failure::{CommandErrorCode, Failure};

const FILE_BYTES: usize = 256 * 1024;

/// The largest rate and connection count: more than one process can have.
const MAX_COUNT: u32 = 1_000_000;

macro_rules! keys {
    ($($key:literal => $field:ident: $type:ty = $read:ident;)+) => {
        /// All keys, with dots.
        const KEYS: &[&str] = &[$($key),+];

        /// The contents of a settings file.
        #[derive(Clone, Debug, Default)]
        pub(super) struct FileSettings {
            $(pub(super) $field: Option<Setting<$type>>,)+
        }

        impl FileSettings {
            /// Reads the value of a key. Returns whether the key is known.
            fn take(&mut self, entry: &Entry<'_>) -> Result<bool, Failure> {
                match entry.key {
                    $($key => {
                        self.$field = Some(Setting { value: entry.$read()?, origin: entry.origin() });
                    })+
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    };
}

keys! {
    "data_dir" => data_dir: PathBuf = path;
    "database.master_key" => master_key: String = reference;
    "database.url" => database_url: String = text;
    "datasources" => datasources: Sections = datasources;
    "egress.http" => http_hosts: Vec<HostPattern> = host_patterns;
    "egress.private" => private_networks: PrivateNetworks = private_networks;
    "envelopes" => envelopes: Sections = envelopes;
    "guide.agents" => guide_agents: BTreeMap<String, GuideAgent> = guide_agents;
    "guide.commands" => guide_commands: BTreeMap<String, GuideCommand> = guide_commands;
    "guide.workflow_dirs" => workflow_dirs: Vec<PathBuf> = paths;
    "guide.workspace_roots" => workspace_roots: Vec<PathBuf> = paths;
    "http.credentials" => http_credentials: BTreeMap<String, HttpCredential> = http_credentials;
    "limits.append_bytes" => append_bytes: ByteSize = byte_size;
    "limits.pattern_bytes" => pattern_bytes: ByteSize = byte_size;
    "limits.run_bytes" => run_bytes: ByteSize = byte_size;
    "mcp.mount" => mcp_mount: bool = flag;
    "mcp.servers" => mcp_servers: BTreeMap<String, McpServer> = servers;
    "models" => models: Sections = models;
    "otlp.endpoint" => otlp_endpoint: String = url;
    "otlp.headers" => otlp_headers: BTreeMap<String, String> = references;
    "packs.fuel" => pack_fuel: u64 = fuel;
    "plugins.listen" => plugins_listen: SocketAddr = address;
    "plugins.public_url" => plugins_url: String = web_origin;
    "rate_limits.key.burst" => key_burst: u32 = count;
    "rate_limits.key.per_second" => key_per_second: u32 = count;
    "rate_limits.route.burst" => route_burst: u32 = count;
    "rate_limits.route.per_second" => route_per_second: u32 = count;
    "rate_limits.tenant.burst" => tenant_burst: u32 = count;
    "rate_limits.tenant.per_second" => tenant_per_second: u32 = count;
    "registry.public" => open_registry: bool = flag;
    "retention.answers" => answers: Span = span;
    "retention.finished_runs" => finished_runs: Span = span;
    "secrets" => secrets: BTreeMap<String, String> = references;
    "server.allowed_origins" => allowed_origins: Vec<String> = web_origins;
    "server.connections_per_address" => connections_per_address: u32 = count;
    "server.public_url" => public_url: String = url;
}

/// The tables that contain the keys.
fn tables() -> impl Iterator<Item = &'static str> {
    KEYS.iter().flat_map(|key| key.match_indices('.').map(|(dot, _)| &key[..dot]))
}

impl FileSettings {
    /// Reads a file that must exist.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = read(path).map_err(|cause| unreadable(path, &cause))?;
        Reader { path, text: &text }.settings()
    }

    /// Reads the file of a data directory, which is optional and cannot set `data_dir`.
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
                    "`data_dir` cannot be set in the settings file inside the data directory",
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
        let message = format!("the file is larger than {FILE_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

fn unreadable(path: &Path, cause: &io::Error) -> Failure {
    Envelope::new(
        CommandErrorCode::ConfigUnreadable,
        format!("The settings in {} cannot be read: {cause}.", path.display()),
    )
    .suggest("Check the path and its permissions, or omit --config.")
    .detail("file", path.display().to_string())
    .into()
}

/// The text, if it is a web origin.
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
                .suggest("Fix the TOML syntax.")
        })?;
        let mut settings = FileSettings::default();
        self.table("", document.as_table(), &mut settings)?;
        Ok(settings)
    }

    fn table(&self, prefix: &str, table: &dyn TableLike, settings: &mut FileSettings) -> Result<(), Failure> {
        for (name, item) in table.iter() {
            let span = table.key(name).and_then(toml_edit::Key::span).or_else(|| item.span());
            let key = format!("{prefix}{name}");
            let entry = Entry { reader: self, key: &key, item, span };
            if settings.take(&entry)? {
                continue;
            }
            if !tables().any(|table| table == key) {
                return Err(entry.unknown());
            }
            let inner = item.as_table_like().ok_or_else(|| entry.wrong("a table"))?;
            self.table(&format!("{key}."), inner, settings)?;
        }
        Ok(())
    }

    fn invalid(&self, code: CommandErrorCode, span: Option<Range<usize>>, message: &str) -> Envelope {
        let file = self.path.display().to_string();
        let (line, column) = self.position(span.map_or(0, |span| span.start));
        Envelope::new(code, format!("In {file}, line {line}, column {column}: {message}."))
            .detail("file", file)
            .detail("line", line)
            .detail("column", column)
    }

    /// Line and column of a byte offset, from 1.
    fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (line, column)
    }
}

/// A key of the file and its value.
struct Entry<'a> {
    reader: &'a Reader<'a>,
    /// The full name with dots.
    key: &'a str,
    item: &'a Item,
    /// The position of the key.
    span: Option<Range<usize>>,
}

impl<'a> Entry<'a> {
    /// The value, if `read` accepts it.
    fn wanted<T>(&self, wanted: &str, read: impl FnOnce(&'a Item) -> Option<T>) -> Result<T, Failure> {
        read(self.item).ok_or_else(|| self.wrong(wanted))
    }

    fn flag(&self) -> Result<bool, Failure> {
        self.wanted("true or false", Item::as_bool)
    }

    fn text(&self) -> Result<String, Failure> {
        self.wanted("a string in quotes", |item| item.as_str().map(str::to_owned))
    }

    fn reference(&self) -> Result<String, Failure> {
        self.wanted("a reference such as `env:NAME` or `file:/path`", |item| item.as_str().map(str::to_owned))
    }

    fn url(&self) -> Result<String, Failure> {
        self.wanted("a URL in quotes", |item| item.as_str().map(str::to_owned))
    }

    fn web_origin(&self) -> Result<String, Failure> {
        self.wanted("an origin such as `https://plugins.example`", |item| item.as_str().and_then(origin_of))
    }

    fn web_origins(&self) -> Result<Vec<String>, Failure> {
        self.wanted("a list of origins such as `https://app.example`", |item| list(item, origin_of))
    }

    fn names(&self) -> Result<Vec<String>, Failure> {
        self.wanted("a list of names in quotes", |item| list(item, |name| Some(name.to_owned())))
    }

    fn address(&self) -> Result<SocketAddr, Failure> {
        self.wanted("an address in quotes, such as `127.0.0.1:7718`", |item| item.as_str()?.parse().ok())
    }

    fn path(&self) -> Result<PathBuf, Failure> {
        self.wanted("a path in quotes", |item| item.as_str().map(|text| self.below(text)))
    }

    fn paths(&self) -> Result<Vec<PathBuf>, Failure> {
        self.wanted("a list of paths in quotes", |item| list(item, |text| Some(self.below(text))))
    }

    /// A path relative to the settings file.
    fn below(&self, text: &str) -> PathBuf {
        self.reader.path.parent().unwrap_or(Path::new("/")).join(text)
    }

    fn count(&self) -> Result<u32, Failure> {
        self.wanted(&format!("an integer from 1 to {MAX_COUNT}"), |item| {
            u32::try_from(item.as_integer()?).ok().filter(|count| (1..=MAX_COUNT).contains(count))
        })
    }

    fn fuel(&self) -> Result<u64, Failure> {
        self.wanted("an integer greater than 0", |item| {
            u64::try_from(item.as_integer()?).ok().filter(|fuel| *fuel > 0)
        })
    }

    fn byte_size(&self) -> Result<ByteSize, Failure> {
        self.wanted("a size from 1 KiB to 1024 GiB, such as \"16 MiB\" or a number of bytes", |item| {
            let number = item.as_integer().and_then(|bytes| u64::try_from(bytes).ok());
            number.and_then(ByteSize::new).or_else(|| ByteSize::parse(item.as_str()?))
        })
    }

    fn span(&self) -> Result<Span, Failure> {
        self.wanted("a duration in quotes, such as \"12h\" or \"30d\"", |item| Span::parse(item.as_str()?))
    }

    /// References to secrets by name.
    fn references(&self) -> Result<BTreeMap<String, String>, Failure> {
        self.wanted("a table of references such as `env:NAME`", |item| {
            let references = item.as_table_like()?.iter();
            references.map(|(name, item)| Some((name.to_owned(), item.as_str()?.to_owned()))).collect()
        })
    }

    fn models(&self) -> Result<Sections, Failure> {
        self.sections(&["kind", "base_url", "secret", "model", "default"])
    }

    fn datasources(&self) -> Result<Sections, Failure> {
        self.sections(&["kind", "url", "tenants"])
    }

    fn envelopes(&self) -> Result<Sections, Failure> {
        self.sections(&["schema", "version"])
    }

    /// Named tables with string values for known members.
    fn sections(&self, known: &[&str]) -> Result<Sections, Failure> {
        let wanted = "a table of named tables";
        let mut sections = Sections::new();
        for (name, section) in self.wanted(wanted, Item::as_table_like)?.iter() {
            let mut members = BTreeMap::new();
            for (member, item) in section.as_table_like().ok_or_else(|| self.wrong(wanted))?.iter() {
                let key = format!("{}.{name}.{member}", self.key);
                let entry = Entry { key: &key, item, span: item.span(), ..*self };
                if !known.contains(&member) {
                    let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
                    return Err(entry
                        .no_such_key()
                        .suggest(format!("Known keys: {}.", known.join(", ")))
                        .into());
                }
                let text = item.as_bool().map_or_else(|| entry.text(), |flag| Ok(flag.to_string()))?;
                members.insert(member.to_owned(), text);
            }
            sections.insert(name.to_owned(), members);
        }
        Ok(sections)
    }

    /// External MCP servers by id.
    fn servers(&self) -> Result<BTreeMap<String, McpServer>, Failure> {
        let mut servers = BTreeMap::new();
        for (id, item) in self.wanted("a table for each server", Item::as_table_like)?.iter() {
            let key = format!("{}.{id}", self.key);
            servers.insert(id.to_owned(), Entry { key: &key, item, span: item.span(), ..*self }.server()?);
        }
        Ok(servers)
    }

    fn server(&self) -> Result<McpServer, Failure> {
        let wanted = "a table with `url` and optional `secret` and `tenants`";
        let (mut url, mut server) = (None, McpServer::default());
        for (name, item) in self.wanted(wanted, Item::as_table_like)?.iter() {
            let key = format!("{}.{name}", self.key);
            let entry = Entry { key: &key, item, span: item.span(), ..*self };
            match name {
                "url" => url = Some(entry.text()?),
                "secret" => server.secret = Some(entry.text()?),
                "tenants" => server.tenants = entry.names()?,
                _ => return Err(entry.unknown()),
            }
        }
        server.url = url.ok_or_else(|| self.wrong(wanted))?;
        Ok(server)
    }

    /// Hosts that nodes may send requests to.
    fn host_patterns(&self) -> Result<Vec<HostPattern>, Failure> {
        let wanted = "a list of hosts, such as `[\"api.example.com\", \"*.example.org\"]`, or `[\"*\"]` for every public host";
        self.wanted(wanted, |item| list(item, |text| text.parse().ok()))
    }

    /// Credentials that nodes may send, by name.
    fn http_credentials(&self) -> Result<BTreeMap<String, HttpCredential>, Failure> {
        self.named("a table for each credential", "as `credentialsRef` names it", |entry| {
            entry.http_credential()
        })
    }

    fn http_credential(&self) -> Result<HttpCredential, Failure> {
        let wanted = "a table with `secret` and `audience`, and optional `header`, `prefix` and `tenants`";
        let mut credential = HttpCredential::default();
        for (name, item) in self.wanted(wanted, Item::as_table_like)?.iter() {
            let key = format!("{}.{name}", self.key);
            let entry = Entry { key: &key, item, span: item.span(), ..*self };
            match name {
                "secret" => credential.secret = entry.text()?,
                "audience" => credential.audience = entry.host_patterns()?,
                "header" => credential.header = Some(entry.text()?),
                "prefix" => credential.prefix = Some(entry.text()?),
                "tenants" => credential.tenants = entry.names()?,
                _ => return Err(entry.unknown()),
            }
        }
        // A credential for every host would be sent wherever a workflow says.
        let is_bounded = !credential.audience.is_empty() && !credential.audience.contains(&HostPattern::Any);
        if credential.secret.is_empty() || !is_bounded {
            return Err(self.wrong(
                "a table with `secret`, and with `audience`: the hosts that it may be sent to, without `*`",
            ));
        }
        Ok(credential)
    }

    /// Private address ranges, each with what it may be called for.
    fn private_networks(&self) -> Result<PrivateNetworks, Failure> {
        let wanted =
            "a table of address ranges and what each is for, such as `\"10.0.0.0/8\" = [\"webhooks\"]`";
        let mut networks = Vec::new();
        for (range, item) in self.wanted(wanted, Item::as_table_like)?.iter() {
            let key = format!("{}.{range}", self.key);
            let entry = Entry { key: &key, item, span: item.span(), ..*self };
            let network = range.parse().map_err(|error: outbound::NetworkError| {
                self.reader
                    .invalid(
                        CommandErrorCode::ConfigInvalid,
                        entry.span.clone(),
                        &format!("`{key}`: {error}"),
                    )
                    .detail("key", key.as_str())
            })?;
            let known: Vec<_> = EgressUse::ALL.iter().map(|known| format!("`{}`", known.as_str())).collect();
            let uses = format!("a list of uses: {}", known.join(", "));
            networks.push((network, entry.wanted(&uses, |item| list(item, EgressUse::parse))?));
        }
        Ok(PrivateNetworks(networks))
    }

    /// Commands that the host may run to verify evidence, by name.
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is bound to one lifetime of entries"
    )]
    fn guide_commands(&self) -> Result<BTreeMap<String, GuideCommand>, Failure> {
        self.named("a table for each command", "as steps name it", |entry| entry.guide_command())
    }

    /// Agents that the host starts for guided nodes, by name.
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is bound to one lifetime of entries"
    )]
    fn guide_agents(&self) -> Result<BTreeMap<String, GuideAgent>, Failure> {
        self.named("a table for each agent", "as nodes name it", |entry| entry.guide_agent())
    }

    /// Tables by a name that workflows use.
    fn named<T>(
        &self,
        wanted: &str,
        used: &str,
        read: impl Fn(&Entry<'_>) -> Result<T, Failure>,
    ) -> Result<BTreeMap<String, T>, Failure> {
        let mut tables = BTreeMap::new();
        for (name, item) in self.wanted(wanted, Item::as_table_like)?.iter() {
            let key = format!("{}.{name}", self.key);
            let entry = Entry { key: &key, item, span: item.span(), ..*self };
            let is_name = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
            if !(1..=64).contains(&name.len()) || !name.bytes().all(is_name) {
                return Err(entry.wrong(&format!("named with 1 to 64 of a-z, 0-9, `_` and `-`, {used}")));
            }
            tables.insert(name.to_owned(), read(&entry)?);
        }
        Ok(tables)
    }

    fn guide_agent(&self) -> Result<GuideAgent, Failure> {
        let wanted = "a table with `argv` and, where they are needed, `timeout`, `max_output`, `processes`, `restarts`, `env` \
                      and `tenants`";
        let (mut argv, mut agent) = (None, GuideAgent::default());
        for (name, item) in self.wanted(wanted, Item::as_table_like)?.iter() {
            let key = format!("{}.{name}", self.key);
            let entry = Entry { key: &key, item, span: item.span(), ..*self };
            match name {
                "argv" => argv = Some(entry.agent_argv()?),
                "timeout" => {
                    let wanted = "a time from \"1s\" to \"7d\"";
                    let span = entry.wanted(wanted, |item| Span::parse(item.as_str()?))?;
                    if span.duration() > GuideAgent::LONGEST {
                        return Err(entry.wrong(wanted));
                    }
                    agent.timeout = span;
                }
                "max_output" => {
                    let size = entry.byte_size()?;
                    if size.bytes() > GuideAgent::MOST_OUTPUT {
                        return Err(entry.wrong("a size of at most 1 GiB"));
                    }
                    agent.max_output = size;
                }
                "processes" => agent.processes = entry.number(1, GuideAgent::MOST_PROCESSES)?,
                "restarts" => agent.restarts = entry.number(0, GuideAgent::MOST_RESTARTS)?,
                "env" => agent.env = entry.names()?,
                "tenants" => agent.tenants = entry.names()?,
                _ => {
                    let known = "It has `argv`, `timeout`, `max_output`, `processes`, `restarts`, `env` and `tenants`.";
                    return Err(entry.no_such_key().suggest(known).into());
                }
            }
        }
        agent.argv = argv.ok_or_else(|| self.wrong(wanted))?;
        Ok(agent)
    }

    /// The arguments of an agent. A misspelled placeholder would reach the program as it is.
    fn agent_argv(&self) -> Result<Vec<String>, Failure> {
        let argv = self.argv()?;
        match argv.iter().find_map(|part| guided_node::unknown_placeholder(part)) {
            None => Ok(argv),
            Some(name) => {
                let message = format!("`{}` has the unknown placeholder `{{{name}}}`", self.key);
                let known: Vec<_> =
                    guided_node::PLACEHOLDERS.iter().map(|name| format!("`{{{name}}}`")).collect();
                Err(self
                    .reader
                    .invalid(CommandErrorCode::ConfigInvalid, self.item.span(), &message)
                    .suggest(format!(
                        "Use one of {}. The key of the session is in the environment variable INTERLOCK_SESSION_KEY.",
                        known.join(", ")
                    ))
                    .detail("key", self.key)
                    .into())
            }
        }
    }

    fn number(&self, least: u32, most: u32) -> Result<u32, Failure> {
        self.wanted(&format!("a number from {least} to {most}"), |item| {
            u32::try_from(item.as_integer()?).ok().filter(|number| (least..=most).contains(number))
        })
    }

    fn guide_command(&self) -> Result<GuideCommand, Failure> {
        let wanted = "a table with `argv` and, where they are needed, `timeout`, `max_output` and `env`";
        let (mut argv, mut command) = (None, GuideCommand::default());
        for (name, item) in self.wanted(wanted, Item::as_table_like)?.iter() {
            let key = format!("{}.{name}", self.key);
            let entry = Entry { key: &key, item, span: item.span(), ..*self };
            match name {
                "argv" => argv = Some(entry.argv()?),
                "timeout" => {
                    let wanted = "a time from \"1s\" to \"1h\"";
                    let span = entry.wanted(wanted, |item| Span::parse(item.as_str()?))?;
                    if span.duration() > GuideCommand::LONGEST {
                        return Err(entry.wrong(wanted));
                    }
                    command.timeout = span;
                }
                "max_output" => {
                    let size = entry.byte_size()?;
                    if size.bytes() > GuideCommand::MOST_OUTPUT {
                        return Err(entry.wrong("a size of at most 64 MiB"));
                    }
                    command.max_output = size;
                }
                "env" => command.env = entry.names()?,
                _ => {
                    let known = "It has `argv`, `timeout`, `max_output` and `env`.";
                    return Err(entry.no_such_key().suggest(known).into());
                }
            }
        }
        command.argv = argv.ok_or_else(|| self.wrong(wanted))?;
        Ok(command)
    }

    /// A program and its arguments, each by itself: there is no shell to split them.
    fn argv(&self) -> Result<Vec<String>, Failure> {
        self.wanted("a list of 1 to 64 strings: the program, then its arguments", |item| {
            let argv = list(item, |part| (!part.contains('\0')).then(|| part.to_owned()))?;
            ((1..=64).contains(&argv.len()) && !argv[0].is_empty()).then_some(argv)
        })
    }

    fn origin(&self) -> Origin {
        let line = self.span.as_ref().map_or(1, |span| self.reader.position(span.start).0);
        Origin::File { path: self.reader.path.to_owned(), line }
    }

    fn wrong(&self, wanted: &str) -> Failure {
        let message = format!("`{}` is {}, expected {wanted}", self.key, self.item.type_name());
        self.reader
            .invalid(CommandErrorCode::ConfigInvalid, self.item.span(), &message)
            .suggest(format!("Use {wanted}."))
            .detail("key", self.key)
            .into()
    }

    fn no_such_key(&self) -> Envelope {
        let shown: String = self.key.chars().take(80).collect();
        let message = format!("unknown setting `{shown}`");
        self.reader
            .invalid(CommandErrorCode::ConfigUnknownKey, self.span.clone(), &message)
            .detail("key", shown)
    }

    fn unknown(&self) -> Failure {
        let near = nearest(self.key, KEYS.iter().copied().chain(tables()), 1).first().copied();
        let last = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
        // The last segment may exist in another table.
        let near = near.or_else(|| {
            let own = self.key.rsplit('.').next().unwrap_or(self.key);
            let found = *nearest(own, KEYS.iter().copied().map(last), 1).first()?;
            KEYS.iter().copied().find(|key| last(key) == found)
        });
        let envelope = self.no_such_key();
        match near {
            Some(near) => envelope.suggest(format!("Did you mean `{near}`?")).detail("nearest", near),
            None => {
                let known: Vec<_> = KEYS.iter().map(|key| format!("`{key}`")).collect();
                envelope.suggest(format!("Remove it. Known settings: {}.", known.join(", ")))
            }
        }
        .into()
    }
}

/// A list of strings, each parsed with `read`.
fn list<T>(item: &Item, read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    item.as_array()?.iter().map(|value: &Value| read(value.as_str()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let reader = Reader { path: Path::new("/etc/interlock.toml"), text };
        reader.settings().map(|settings| format!("{settings:?}")).unwrap_err().to_string()
    }

    /// The reference documents every key, and all settings examples in the docs are valid.
    #[test]
    fn the_settings_documentation_is_complete_and_valid() {
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
    fn invalid_settings_files_are_rejected() {
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
            ("a stranger", "colour = 1", "CONFIG_UNKNOWN_KEY", "line 1", "Known settings"),
            (
                "no list",
                "[guide]\nworkflow_dirs = \"x\"",
                "CONFIG_INVALID",
                "line 2, column 17",
                "a list of paths",
            ),
            (
                "a command as one text",
                "[guide.commands.tests]\nargv = \"cargo test\"",
                "CONFIG_INVALID",
                "line 2",
                "the program, then its arguments",
            ),
            (
                "no program",
                "[guide.commands.tests]\nargv = []",
                "CONFIG_INVALID",
                "line 2",
                "1 to 64 strings",
            ),
            ("an agent without one", "[guide.agents.a]\n", "CONFIG_INVALID", "line 1", "`guide.agents.a`"),
            (
                "a key on the command line",
                "[guide.agents.a]\nargv = [\"x\", \"--key={key}\"]",
                "CONFIG_INVALID",
                "line 2",
                "INTERLOCK_SESSION_KEY",
            ),
            (
                "no processes",
                "[guide.agents.a]\nargv = [\"x\"]\nprocesses = 0",
                "CONFIG_INVALID",
                "line 3",
                "from 1 to 64",
            ),
            (
                "a long agent",
                "[guide.agents.a]\nargv = [\"x\"]\ntimeout = \"8d\"",
                "CONFIG_INVALID",
                "line 3",
                "\"7d\"",
            ),
            (
                "a slip in an agent",
                "[guide.agents.a]\nargv = [\"x\"]\nrestart = 1",
                "CONFIG_UNKNOWN_KEY",
                "line 3",
                "`restarts`",
            ),
            (
                "a command without a program",
                "[guide.commands.tests]\ntimeout = \"5s\"",
                "CONFIG_INVALID",
                "`guide.commands.tests`",
                "a table with `argv`",
            ),
            (
                "a private range with host bits",
                "[egress]\nprivate = { \"10.1.2.3/8\" = [\"webhooks\"] }",
                "CONFIG_INVALID",
                "line 2",
                "use `10.0.0.0/8`",
            ),
            (
                "a private range for something unknown",
                "[egress.private]\n\"10.0.0.0/8\" = [\"everything\"]",
                "CONFIG_INVALID",
                "line 2",
                "`webhooks`",
            ),
            (
                "a private range without a use",
                "[egress]\nprivate = [\"10.0.0.0/8\"]",
                "CONFIG_INVALID",
                "line 2",
                "what each is for",
            ),
            (
                "a command for days",
                "[guide.commands.tests]\nargv = [\"x\"]\ntimeout = \"2h\"",
                "CONFIG_INVALID",
                "line 3",
                "to \"1h\"",
            ),
            (
                "a flood",
                "[guide.commands.tests]\nargv = [\"x\"]\nmax_output = \"1 GiB\"",
                "CONFIG_INVALID",
                "line 3",
                "at most 64 MiB",
            ),
            (
                "a command by another name",
                "[guide.commands.\"run tests\"]\nargv = [\"x\"]",
                "CONFIG_INVALID",
                "`guide.commands.run tests`",
                "as steps name it",
            ),
            (
                "a shell",
                "[guide.commands.tests]\nargv = [\"x\"]\nshell = true",
                "CONFIG_UNKNOWN_KEY",
                "`guide.commands.tests.shell`",
                "`max_output`",
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
            (
                "no time",
                "[retention]\nfinished_runs = 30",
                "CONFIG_INVALID",
                "line 2",
                "a duration in quotes",
            ),
            ("no unit", "[retention]\nanswers = \"30\"", "CONFIG_INVALID", "line 2", "a duration in quotes"),
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
            ("no fuel", "[packs]\nfuel = 0", "CONFIG_INVALID", "line 2", "an integer greater than 0"),
            (
                "no origin",
                "[plugins]\npublic_url = \"https://x/y\"",
                "CONFIG_INVALID",
                "line 2",
                "`https://plugins.example`",
            ),
            ("invalid TOML", "data_dir = ", "CONFIG_INVALID", "line 1", "Fix the TOML"),
            ("twice", "data_dir = \"a\"\ndata_dir = \"b\"", "CONFIG_INVALID", "line 2", "Fix the TOML"),
        ];
        for (name, text, code, position, help) in cases {
            let words = refused(text);
            for expected in [code, position, help] {
                assert!(words.contains(expected), "{name}: {expected} in {words}");
            }
        }
    }

    #[test]
    fn booleans_and_mcp_servers_are_read() {
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
        let rate = |number: Option<Setting<u32>>| number.map(|setting| setting.value);
        assert_eq!((rate(settings.key_per_second), rate(settings.key_burst)), (Some(50), Some(100)));
        assert_eq!((rate(settings.route_per_second), rate(settings.route_burst)), (Some(9), None));
        assert_eq!((settings.tenant_per_second, settings.tenant_burst), (None, None));
        assert_eq!(settings.finished_runs.unwrap().value, Span::parse("30d").unwrap());
    }

    #[test]
    fn sizes_are_read_as_numbers_and_with_units() {
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
    fn paths_are_relative_to_the_file() {
        let reader = Reader {
            path: Path::new("/etc/interlock.toml"),
            text: "guide.workflow_dirs = [\"flows\", \"/srv/flows\"]",
        };
        let dirs = reader.settings().unwrap().workflow_dirs.unwrap();
        assert_eq!(dirs.value, [Path::new("/etc/flows"), Path::new("/srv/flows")]);
    }
}
