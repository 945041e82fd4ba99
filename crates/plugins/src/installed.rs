//! The plugins of the installed packs.
//!
//! The highest version of each pack is used. A pack is read again when one of its files has changed. Its plugins are used only if all files are
//! as installed, a trusted key has signed its manifest, and the digest of its archive was known before the install: the signature covers only the
//! manifest and not the documents next to it. Otherwise the problem is reported, and no file of the pack is served.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use canon::digest::Digest;
use packs::install::{InstalledPacks, InstalledRecord};
use packs::kind::PackKind;
use packs::manifest::{Content, HostMethod, PluginSurface, UiPlugin};
use packs::name::PackName;
use packs::path::EntryPath;
use packs::trust::Proof;
use packs::{PackError, PackErrorCode, version};

use super::{Allowed, MAX_ENTRY_BYTES, frame};

/// The maximum number of plugin packs that are read.
pub const MAX_PACKS: usize = 32;
/// The maximum length of the pack name in an owner, in bytes.
const MAX_OWNER: usize = 80;

#[derive(Clone, Debug)]
pub struct PluginPack {
    pub name: String,
    pub version: String,
    /// The id of the pack as a module. It is derived from its name and unique.
    pub owner: String,
    /// The description in its manifest.
    pub description: Option<String>,
    /// The plugins; empty if there is a problem.
    pub plugins: Vec<Plugin>,
    /// The problem, in a sentence.
    pub problem: Option<String>,
    /// `None` if it cannot be read.
    record: Option<InstalledRecord>,
}

/// A user-interface plugin.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// The id, unique in its pack.
    pub id: String,
    /// Where the plugin is shown.
    pub surface: PluginSurface,
    /// The path of its document in the pack.
    pub entry: String,
    /// The methods that the plugin may call.
    pub allowed: Allowed,
    /// Whether the plugin declares that it reads or writes artifacts.
    pub reads: bool,
    /// Whether the plugin declares that it writes artifacts.
    pub writes: bool,
    connect: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Document {
    /// The verified contents.
    pub bytes: Vec<u8>,
    /// The content security policy.
    pub policy: String,
}

pub struct Plugins {
    packs: InstalledPacks,
    root: PathBuf,
    origin: Option<String>,
    ancestors: Vec<String>,
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    stamp: Vec<(PathBuf, Option<Stamp>)>,
    watched: Vec<PathBuf>,
    generation: u64,
    packs: Arc<[PluginPack]>,
}

/// Detects changes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    size: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl fmt::Debug for Plugins {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Plugins")
            .field("root", &self.root)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Plugins {
    /// The plugins of the packs in a folder. `origin` is where they are served, if they are; `public_url` is the URL of the pages that embed
    /// them.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn open(root: &Path, origin: Option<String>, public_url: &str) -> Result<Self, PackError> {
        Ok(Self {
            packs: InstalledPacks::open(root)?,
            root: root.to_owned(),
            origin,
            ancestors: frame::ancestors(public_url),
            cache: Mutex::default(),
        })
    }

    /// The origin where plugins are served, if they are.
    pub fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// The packs, with a number that changes whenever they change.
    pub fn packs(&self) -> (u64, Arc<[PluginPack]>) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.generation == 0 || cache.stamp != self.stamp(&cache.watched) {
            let packs = self.read();
            cache.watched = packs.iter().flat_map(|pack| self.files(pack)).collect();
            cache.stamp = self.stamp(&cache.watched);
            cache.packs = packs.into();
            cache.generation += 1;
        }
        (cache.generation, Arc::clone(&cache.packs))
    }

    /// A usable plugin.
    pub fn find(&self, pack: &str, plugin: &str) -> Option<(PluginPack, Plugin)> {
        let (_, packs) = self.packs();
        let pack = packs.iter().find(|known| known.name == pack)?;
        let plugin = pack.plugins.iter().find(|known| known.id == plugin)?;
        Some((pack.clone(), plugin.clone()))
    }

    /// The URL of a plugin's document.
    pub fn address(&self, pack: &PluginPack, plugin: &Plugin) -> Option<String> {
        let origin = self.origin.as_deref()?;
        Some(format!("{origin}/{}/{}/{}", pack.name, pack.version, plugin.entry))
    }

    /// The verified document at a path `/<pack>/<version>/<entry>`.
    pub fn document(&self, path: &str) -> Option<Document> {
        let mut parts = path.strip_prefix('/')?.splitn(3, '/');
        let (name, version, entry) = (parts.next()?, parts.next()?, parts.next()?);
        let (_, packs) = self.packs();
        let pack = packs.iter().find(|pack| pack.name == name && pack.version == version)?;
        let plugin = pack.plugins.iter().find(|plugin| plugin.entry == entry)?;
        let bytes = self.packs.read_file(pack.record.as_ref()?, &EntryPath::parse(entry).ok()?).ok()?;
        // Plugins can share a document. It then gets only the permissions that all of them have.
        let connect: Vec<String> = pack
            .plugins
            .iter()
            .filter(|other| other.entry == plugin.entry)
            .fold(plugin.connect.clone(), |kept, other| {
                kept.into_iter().filter(|source| other.connect.contains(source)).collect()
            });
        Some(Document { bytes, policy: frame::policy(&self.ancestors, &connect) })
    }

    /// Reads the highest version of every plugin pack. A pack with a damaged record is not replaced by its previous version: otherwise an
    /// attacker who can damage a record could choose the version.
    fn read(&self) -> Vec<PluginPack> {
        let mut highest: BTreeMap<String, PluginPack> = BTreeMap::new();
        for name in names(&self.root).iter().filter_map(|name| PackName::parse(name).ok()) {
            let versions = names(&self.root.join(name.as_str()));
            let mut versions: Vec<_> = versions.iter().filter_map(|text| version::parse(text)).collect();
            versions.sort();
            let records = versions.into_iter().rev().map(|version| {
                let record = self.packs.record(&name, &version);
                (version, record)
            });
            let exists = |record: &Result<InstalledRecord, PackError>| !matches!(record, Err(error) if error.code() == PackErrorCode::NotFound);
            let mut records = records.filter(|(_, record)| exists(record));
            let Some((version, record)) = records.next() else { continue };
            let is_plugins = |record: &InstalledRecord| record.kind == PackKind::FrontendPlugin;
            let is_plugin_pack = match &record {
                Ok(record) => is_plugins(record),
                // The kind is in the damaged record, so it is taken from other versions.
                Err(_) => records.any(|(_, record)| record.is_ok_and(|record| is_plugins(&record))),
            };
            if is_plugin_pack {
                highest.insert(name.as_str().to_owned(), unread(&name, &version, record));
            }
        }
        highest.into_values().take(MAX_PACKS).map(|pack| self.load(pack)).collect()
    }

    fn load(&self, mut pack: PluginPack) -> PluginPack {
        let Some(record) = &pack.record else { return pack };
        match self.plugins(record) {
            Ok((description, plugins)) => {
                pack.description = description;
                pack.plugins = plugins;
            }
            Err(problem) => pack.problem = Some(problem),
        }
        pack
    }

    fn plugins(&self, record: &InstalledRecord) -> Result<(Option<String>, Vec<Plugin>), String> {
        match &record.proof {
            Proof::Signed { .. } => {}
            Proof::SelfSigned { .. } => {
                return Err(
                    "The key that signed it is not trusted. Trust the key, and install the pack again."
                        .to_owned(),
                );
            }
            Proof::Unsigned => return Err("It is not signed, so it is not loaded.".to_owned()),
        }
        if !record.announced {
            return Err("Its signature covers only pack.json, and the digest of its archive was not known before the install. Install it \
                        again from a registry, from a lock file, or with --expect and the digest of the archive."
                .to_owned());
        }
        let loaded = self.packs.load(&record.name, &record.version, true);
        let loaded = loaded.map_err(|error| format!("Its files have changed since the install: {error}"))?;
        let Content::FrontendPlugin(plugins) = &loaded.manifest.content else {
            return Err("Its manifest is not that of a plugin pack.".to_owned());
        };
        for plugin in plugins {
            check(plugin, record)?;
        }
        let plugins = plugins.iter().map(|plugin| Plugin {
            id: plugin.plugin_id.clone(),
            surface: plugin.surface,
            entry: plugin.entry.clone(),
            allowed: Allowed::of(&plugin.host_api),
            reads: plugin.host_api.iter().any(|method| is_of_artifacts(*method)),
            writes: plugin.host_api.contains(&HostMethod::ArtifactWrite),
            connect: plugin.connect_src.clone(),
        });
        let description = loaded.manifest.document().get("description").and_then(serde_json::Value::as_str);
        Ok((description.map(str::to_owned), plugins.collect()))
    }

    /// The files that are watched for changes of a pack.
    fn files(&self, pack: &PluginPack) -> Vec<PathBuf> {
        let folder = self.root.join(&pack.name).join(&pack.version);
        let recorded = pack.record.iter().flat_map(|record| &record.files);
        let mut files: Vec<PathBuf> = recorded.map(|file| folder.join(&file.path)).collect();
        files.push(folder.join(packs::path::RESERVED).join("installed.json"));
        files
    }

    /// Reads the metadata of the folders and of the watched files, but not their contents.
    fn stamp(&self, watched: &[PathBuf]) -> Vec<(PathBuf, Option<Stamp>)> {
        let folders = names(&self.root).into_iter().map(|name| self.root.join(name));
        let paths = std::iter::once(self.root.clone()).chain(folders).chain(watched.iter().cloned());
        paths
            .map(|path| {
                let stamp = fs::symlink_metadata(&path).ok().map(|metadata| Stamp {
                    size: metadata.len(),
                    inode: metadata.ino(),
                    modified: (metadata.mtime(), metadata.mtime_nsec()),
                    changed: (metadata.ctime(), metadata.ctime_nsec()),
                });
                (path, stamp)
            })
            .collect()
    }
}

/// A pack of which only the record was read.
fn unread(
    name: &PackName,
    version: &version::Version,
    record: Result<InstalledRecord, PackError>,
) -> PluginPack {
    let (record, problem) = match record {
        Ok(record) => (Some(record), None),
        Err(error) => (None, Some(format!("Its files have changed since the install: {error}"))),
    };
    PluginPack {
        name: name.as_str().to_owned(),
        version: version.to_string(),
        owner: owner(name.as_str()),
        description: None,
        plugins: Vec::new(),
        problem,
        record,
    }
}

fn is_of_artifacts(method: HostMethod) -> bool {
    matches!(method, HostMethod::ArtifactRead | HostMethod::ArtifactWrite)
}

fn check(plugin: &UiPlugin, record: &InstalledRecord) -> Result<(), String> {
    let entry = &plugin.entry;
    if !entry.ends_with(".html") {
        return Err(format!("Its entry `{entry}` is not an HTML document."));
    }
    let size = record.files.iter().find(|file| file.path == *entry).map_or(u64::MAX, |file| file.size);
    if size > MAX_ENTRY_BYTES as u64 {
        return Err(format!(
            "Its entry `{entry}` is larger than {MAX_ENTRY_BYTES} bytes, so it is not loaded."
        ));
    }
    match plugin.connect_src.iter().find(|source| !frame::is_source(source)) {
        Some(_) => Err(format!(
            "`{}` declares a connection to an address that is not a plain https or wss URL.",
            plugin.plugin_id
        )),
        None => Ok(()),
    }
}

/// The sorted names in a folder; empty if the folder does not exist.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The id of a pack as a module. A name of lower-case letters, digits and dots is used as it is. Other names could collide after normalization,
/// so a digest is appended.
fn owner(name: &str) -> String {
    let is_plain = name.len() <= MAX_OWNER
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'.');
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let normalized: String = name.chars().take(MAX_OWNER).map(plain).collect();
    if is_plain {
        format!("pack-{normalized}")
    } else {
        format!("pack-{normalized}-{}", &Digest::of_bytes(name.as_bytes()).to_hex()[..12])
    }
}
