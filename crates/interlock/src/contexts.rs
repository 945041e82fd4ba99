//! Contexts: named servers of this user, in `contexts.toml` of the configuration directory.
//!
//! A key is never in the file. A context refers to an environment variable or to a file that only its owner can read.

use std::path::{Path, PathBuf};

use canon::error::Envelope;
use canon::nearest::nearest;
use system::secrets::SecretReference;
use toml_edit::{DocumentMut, Item, Table, value};
use url::Url;

use crate::failure::{CommandErrorCode, Failure};
use crate::output::{Overwrite, write_file};
use crate::settings::config_dir;

/// The environment variable that selects a context.
pub(crate) const VARIABLE: &str = "INTERLOCK_CONTEXT";
/// The name of the server of the data directory.
pub(crate) const LOCAL: &str = "local";
const FILE: &str = "contexts.toml";
const KEYS: &str = "context-keys";
const MAX_NAME: usize = 64;
const MAX_FILE_BYTES: u64 = 1 << 20;

/// When a command that changes something asks first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Confirm {
    /// Before it changes many runs.
    #[default]
    Bulk,
    /// Before every change.
    Always,
}

impl Confirm {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Always => "always",
        }
    }
}

/// A named server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    pub(crate) name: String,
    pub(crate) url: String,
    /// `env:NAME` or `file:PATH`.
    pub(crate) key: Option<String>,
    /// A PEM file with the certificate authorities to trust instead of the system's.
    pub(crate) authority: Option<PathBuf>,
    pub(crate) confirm: Confirm,
}

impl Context {
    /// The key, read where the context refers to.
    pub(crate) fn read_key(&self) -> Result<Option<String>, Failure> {
        let Some(reference) = &self.key else { return Ok(None) };
        let read = SecretReference::parse(reference).and_then(|reference| reference.read());
        // A reference is not secret, but a key that was written in its place is.
        let place = if SecretReference::parse(reference).is_ok() { reference.as_str() } else { "its `key`" };
        read.map(|value| Some(value.expose().trim().to_owned())).map_err(|error| {
            Envelope::new(
                CommandErrorCode::KeyRequired,
                format!("The key of context `{}` cannot be read from {place}: {error}.", self.name),
            )
            .suggest(format!(
                "Set the variable or restore the file, or save another key: \
                 `interlock context add {} {} --key-stdin --replace`.",
                self.name, self.url
            ))
            .into()
        })
    }

    /// The certificate authorities of the context.
    pub(crate) fn read_authority(&self) -> Result<Option<Vec<u8>>, Failure> {
        let Some(path) = &self.authority else { return Ok(None) };
        std::fs::read(path).map(Some).map_err(|cause| Failure::unreadable(Some(path), cause))
    }
}

pub(crate) struct Contexts {
    path: PathBuf,
    document: DocumentMut,
    contexts: Vec<Context>,
    current: Option<String>,
}

impl Contexts {
    /// The contexts of this user. A missing file has none.
    pub(crate) fn load() -> Result<Self, Failure> {
        let Some(folder) = config_dir() else {
            // Without a home directory there are no contexts; the local server needs none.
            return Self::read(PathBuf::new(), "");
        };
        let path = folder.join(FILE);
        let unreadable = |cause| Failure::unreadable(Some(&path), cause);
        match std::fs::metadata(&path) {
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Self::read(path, ""),
            Err(cause) => return Err(unreadable(cause)),
            Ok(found) if found.len() > MAX_FILE_BYTES => {
                return Err(invalid(&path, &format!("is larger than {MAX_FILE_BYTES} bytes")));
            }
            Ok(_) => {}
        }
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        Self::read(path, &text)
    }

    fn read(path: PathBuf, text: &str) -> Result<Self, Failure> {
        let document: DocumentMut =
            text.parse().map_err(|error: toml_edit::TomlError| invalid(&path, error.message()))?;
        if let Some((key, _)) = document.iter().find(|(key, _)| !matches!(*key, "current" | "contexts")) {
            return Err(invalid(&path, &format!("has an unknown key `{key}`")));
        }
        let current = match document.get("current") {
            None => None,
            Some(current) => {
                Some(current.as_str().ok_or_else(|| invalid(&path, "`current` must be a string"))?.to_owned())
            }
        };
        let mut contexts = Vec::new();
        if let Some(listed) = document.get("contexts") {
            let listed =
                listed.as_table_like().ok_or_else(|| invalid(&path, "`contexts` must be a table"))?;
            for (name, context) in listed.iter() {
                contexts.push(read_context(&path, name, context)?);
            }
        }
        contexts.sort_by(|a: &Context, b| a.name.cmp(&b.name));
        Ok(Self { path, document, contexts, current })
    }

    pub(crate) fn all(&self) -> &[Context] {
        &self.contexts
    }

    /// The name that `context use` saved.
    pub(crate) fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// The selected context; `None` is the local server. A flag wins over `--data-dir`, which wins over the environment and the file.
    pub(crate) fn selected(
        &self,
        flag: Option<&str>,
        names_data_dir: bool,
    ) -> Result<Option<&Context>, Failure> {
        let variable = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
        self.select(flag, names_data_dir, variable.as_deref())
    }

    fn select(
        &self,
        flag: Option<&str>,
        names_data_dir: bool,
        variable: Option<&str>,
    ) -> Result<Option<&Context>, Failure> {
        let elsewhere = || if names_data_dir { None } else { variable.or(self.current()) };
        match flag.or_else(elsewhere) {
            None | Some(LOCAL) => Ok(None),
            Some(name) => self.get(name).map(Some),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Context, Failure> {
        self.contexts.iter().find(|context| context.name == name).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> Failure {
        let names: Vec<_> = self.contexts.iter().map(|context| context.name.as_str()).collect();
        let meant = nearest(name, &names, 1);
        let hint = meant.first().map(|meant| format!("Did you mean `{meant}`? ")).unwrap_or_default();
        Envelope::new(CommandErrorCode::ContextUnknown, format!("There is no context `{name}`."))
            .suggest(format!(
                "{hint}List them with `interlock context list`, or add one: `interlock context add {name} URL`."
            ))
            .into()
    }

    /// Adds or replaces a context, and saves.
    pub(crate) fn put(&mut self, context: &Context) -> Result<(), Failure> {
        let mut table = Table::new();
        table["url"] = value(&context.url);
        if let Some(key) = &context.key {
            table["key"] = value(key);
        }
        if let Some(authority) = &context.authority {
            table["ca"] = value(authority.display().to_string());
        }
        if context.confirm != Confirm::default() {
            table["confirm"] = value(context.confirm.as_str());
        }
        let contexts = self.document.entry("contexts").or_insert_with(|| {
            let mut contexts = Table::new();
            contexts.set_implicit(true);
            Item::Table(contexts)
        });
        contexts[&context.name] = Item::Table(table);
        self.save()
    }

    /// Removes a context, and the file of its key if this program wrote it.
    pub(crate) fn remove(&mut self, name: &str) -> Result<(), Failure> {
        self.get(name)?;
        if let Some(contexts) = self.document.get_mut("contexts").and_then(Item::as_table_like_mut) {
            contexts.remove(name);
        }
        if self.current.as_deref() == Some(name) {
            self.document.remove("current");
        }
        self.save()?;
        if let Some(path) = self.key_file(name)
            && let Err(cause) = std::fs::remove_file(&path)
            && cause.kind() != std::io::ErrorKind::NotFound
        {
            return Err(Failure::unwritable(Some(&path), cause));
        }
        Ok(())
    }

    /// Selects a context for later commands.
    pub(crate) fn select_later(&mut self, name: &str) -> Result<(), Failure> {
        if name == LOCAL {
            self.document.remove("current");
        } else {
            self.get(name)?;
            self.document["current"] = value(name);
        }
        self.save()
    }

    /// Saves a key in a file of its own that only the user can read, and returns the reference to it.
    pub(crate) fn save_key(&self, name: &str, key: &str) -> Result<String, Failure> {
        let path = self.key_file(name).ok_or_else(no_home)?;
        private_folder(path.parent().unwrap_or(Path::new("/")))?;
        write_file(&path, key.as_bytes(), Overwrite::Replace)?;
        Ok(format!("file:{}", path.display()))
    }

    fn key_file(&self, name: &str) -> Option<PathBuf> {
        Some(self.path.parent()?.join(KEYS).join(name))
    }

    fn save(&self) -> Result<(), Failure> {
        let folder =
            self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).ok_or_else(no_home)?;
        private_folder(folder)?;
        write_file(&self.path, self.document.to_string().as_bytes(), Overwrite::Replace)
    }
}

fn private_folder(folder: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|cause| Failure::unwritable(Some(folder), cause))
}

fn read_context(path: &Path, name: &str, item: &Item) -> Result<Context, Failure> {
    let wrong = |what: &str| invalid(path, &format!("context `{name}`: {what}"));
    check_name(name).map_err(|problem| wrong(&problem))?;
    let table = item.as_table_like().ok_or_else(|| wrong("must be a table"))?;
    let known = ["url", "key", "ca", "confirm"];
    if let Some((key, _)) = table.iter().find(|(key, _)| !known.contains(key)) {
        return Err(wrong(&format!("unknown key `{key}`; known keys: {}", known.join(", "))));
    }
    let text = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(found) => found.as_str().map(Some).ok_or_else(|| wrong(&format!("`{key}` must be a string"))),
    };
    let url = text("url")?.ok_or_else(|| wrong("`url` is missing"))?;
    let key = text("key")?.map(str::to_owned);
    if key.as_deref().is_some_and(|key| SecretReference::parse(key).is_err()) {
        return Err(wrong("`key` must be `env:NAME` or `file:PATH`, never the key itself"));
    }
    let confirm = match text("confirm")? {
        None | Some("bulk") => Confirm::Bulk,
        Some("always") => Confirm::Always,
        Some(_) => return Err(wrong("`confirm` must be `bulk` or `always`")),
    };
    Ok(Context {
        name: name.to_owned(),
        url: check_url(url).map_err(|problem| wrong(&problem))?,
        key,
        authority: text("ca")?.map(PathBuf::from),
        confirm,
    })
}

/// A name is also the name of a file, and `local` is taken.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_name =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    match name {
        LOCAL => Err("`local` is the server of the data directory; choose another name".to_owned()),
        name if (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_name) => Ok(()),
        _ => Err(format!("a name has 1 to {MAX_NAME} lower-case letters, digits, `-` and `_`")),
    }
}

/// The URL without a slash at its end. A key must not travel unencrypted, except on this machine.
pub(crate) fn check_url(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("`{text}` is not a URL: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL must not contain a password; give a key with `--key`".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("the URL must not have a query or a fragment".to_owned());
    }
    let is_here = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => return Err(format!("`{text}` has no host")),
    };
    match url.scheme() {
        "https" => {}
        "http" if is_here => {}
        "http" => return Err("the URL must begin with https://, so that keys are encrypted".to_owned()),
        _ => return Err("the URL must begin with https://".to_owned()),
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn invalid(path: &Path, problem: &str) -> Failure {
    Envelope::new(CommandErrorCode::ConfigInvalid, format!("{}: {problem}", path.display()))
        .suggest("Fix the file, or remove it and add the contexts again with `interlock context add`.")
        .detail("file", path.display().to_string())
        .into()
}

fn no_home() -> Failure {
    Envelope::new(CommandErrorCode::DataDirUnknown, "Contexts cannot be saved because HOME is not set.")
        .suggest("Set HOME or XDG_CONFIG_HOME.")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "current = \"prod\"\n[contexts.prod]\nurl = \"https://a.example/\"\nkey = \"env:KEY\"\n\
                        [contexts.test]\nurl = \"http://127.0.0.1:7717\"\nconfirm = \"always\"\n";

    fn contexts(text: &str) -> Contexts {
        Contexts::read("/nowhere/contexts.toml".into(), text).unwrap()
    }

    #[test]
    fn the_most_explicit_choice_wins() {
        let contexts = contexts(FILE);
        for (flag, names_data_dir, variable, expected) in [
            (None, false, None, Some("prod")),
            (None, false, Some("test"), Some("test")),
            (None, false, Some("local"), None),
            (None, true, Some("test"), None),
            (Some("test"), true, Some("prod"), Some("test")),
            (Some("local"), false, Some("prod"), None),
        ] {
            let selected = contexts.select(flag, names_data_dir, variable).unwrap();
            assert_eq!(selected.map(|context| context.name.as_str()), expected, "{flag:?} {variable:?}");
        }
        assert!(contexts.select(Some("prd"), false, None).unwrap_err().to_string().contains("`prod`"));
        assert_eq!(contexts.get("prod").unwrap().url, "https://a.example");
        assert_eq!(contexts.get("test").unwrap().confirm, Confirm::Always);
    }

    #[test]
    fn a_file_that_is_wrong_is_refused() {
        for (text, expected) in [
            ("x = 1", "unknown key `x`"),
            ("current = 1", "`current` must be a string"),
            ("contexts = 1", "`contexts` must be a table"),
            ("[contexts.prod]", "`url` is missing"),
            ("[contexts.local]\nurl = \"https://a\"", "choose another name"),
            ("[contexts.\"../a\"]\nurl = \"https://a\"", "lower-case letters"),
            ("[contexts.a]\nurl = \"https://a\"\nkey = \"ilk_live_secret\"", "never the key itself"),
            ("[contexts.a]\nurl = \"https://a\"\nkeys = \"x\"", "unknown key `keys`"),
            ("[contexts.a]\nurl = \"http://a.example\"", "https://"),
            ("[contexts.a]\nurl = \"https://u:p@a\"", "password"),
            ("[", "CONFIG_INVALID"),
        ] {
            let refused = Contexts::read("/nowhere/contexts.toml".into(), text).err().unwrap().to_string();
            assert!(refused.contains(expected), "{text}: {refused}");
            assert!(!refused.contains("ilk_live_secret"), "{refused}");
        }
    }

    #[test]
    fn contexts_are_saved_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("interlock/contexts.toml");
        let mut saved = Contexts::read(path.clone(), "# mine\n").unwrap();
        let key = saved.save_key("prod", "ilk_live_secret").unwrap();
        let context = Context {
            name: "prod".to_owned(),
            url: "https://a.example".to_owned(),
            key: Some(key),
            authority: None,
            confirm: Confirm::Always,
        };
        saved.put(&context).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("# mine") && !text.contains("ilk_live_secret"), "{text}");
        let mut saved = Contexts::read(path.clone(), &text).unwrap();
        assert_eq!(saved.all(), std::slice::from_ref(&context));
        assert_eq!(context.read_key().unwrap().as_deref(), Some("ilk_live_secret"));
        for file in ["interlock/contexts.toml", "interlock/context-keys/prod"] {
            let mode = std::fs::metadata(folder.path().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        saved.select_later("prod").unwrap();
        let mut saved = Contexts::read(path.clone(), &std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(saved.current(), Some("prod"));
        saved.remove("prod").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("prod"), "{text}");
        assert!(!folder.path().join("interlock/context-keys/prod").exists());
    }
}
