//! The plugins of the installed packs.
//!
//! Of several versions of a pack the highest counts. A pack is read anew when one of its files has changed, and is of no use until all
//! of it is as it was installed, a key that is trusted has signed its manifest, and its archive was the one that had been announced: the
//! signature says nothing of the documents beside the manifest. What is wrong is told, and nothing of the pack is handed out.

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

/// The most packs of plugins that are looked at.
pub const MAX_PACKS: usize = 32;
/// The longest part of an owner that comes from the name of its pack, in bytes.
const MAX_OWNER: usize = 80;

/// A pack that brings plugins.
#[derive(Clone, Debug)]
pub struct PluginPack {
    pub name: String,
    pub version: String,
    /// What it is called as a module: made of its name, and never that of another.
    pub owner: String,
    /// What it says of itself.
    pub description: Option<String>,
    /// Its plugins; none when something is wrong.
    pub plugins: Vec<Plugin>,
    /// What is wrong with it, in a sentence.
    pub problem: Option<String>,
    /// None where it cannot be read.
    record: Option<InstalledRecord>,
}

/// A plugin.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// Its id within its pack.
    pub id: String,
    /// Where it is shown.
    pub surface: PluginSurface,
    /// Its document, as a path in the pack.
    pub entry: String,
    /// What it may ask for.
    pub allowed: Allowed,
    /// Whether it declares that it reads artifacts, or changes them.
    pub reads: bool,
    /// Whether it declares that it changes artifacts.
    pub writes: bool,
    connect: Vec<String>,
}

/// The document of a plugin.
#[derive(Clone, Debug)]
pub struct Document {
    /// The bytes, as they were installed.
    pub bytes: Vec<u8>,
    /// The policy to serve them with.
    pub policy: String,
}

/// The installed plugins.
pub struct Plugins {
    packs: InstalledPacks,
    root: PathBuf,
    origin: Option<String>,
    ancestors: Vec<String>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    stamp: Vec<(PathBuf, Option<Stamp>)>,
    watched: Vec<PathBuf>,
    generation: u64,
    packs: Arc<[PluginPack]>,
}

/// What tells one state of a file from another.
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
    /// The plugins of the packs in a folder. `origin` is where they are served, if anywhere, and `public_url` where the pages are
    /// that show them.
    ///
    /// # Errors
    /// When the folder cannot be opened.
    pub fn open(root: &Path, origin: Option<String>, public_url: &str) -> Result<Self, PackError> {
        Ok(Self {
            packs: InstalledPacks::open(root)?,
            root: root.to_owned(),
            origin,
            ancestors: frame::ancestors(public_url),
            known: Mutex::default(),
        })
    }

    /// Where plugins are served, if anywhere.
    pub fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// The packs, with a number that is another whenever they are.
    pub fn packs(&self) -> (u64, Arc<[PluginPack]>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.generation == 0 || known.stamp != self.stamp(&known.watched) {
            let packs = self.read();
            known.watched = packs.iter().flat_map(|pack| self.files(pack)).collect();
            known.stamp = self.stamp(&known.watched);
            known.packs = packs.into();
            known.generation += 1;
        }
        (known.generation, Arc::clone(&known.packs))
    }

    /// A plugin that can be used now.
    pub fn find(&self, pack: &str, plugin: &str) -> Option<(PluginPack, Plugin)> {
        let (_, packs) = self.packs();
        let pack = packs.iter().find(|known| known.name == pack)?;
        let plugin = pack.plugins.iter().find(|known| known.id == plugin)?;
        Some((pack.clone(), plugin.clone()))
    }

    /// The address of a plugin's document.
    pub fn address(&self, pack: &PluginPack, plugin: &Plugin) -> Option<String> {
        let origin = self.origin.as_deref()?;
        Some(format!("{origin}/{}/{}/{}", pack.name, pack.version, plugin.entry))
    }

    /// The document at a path `/<pack>/<version>/<entry>`: verified, or not at all.
    pub fn document(&self, path: &str) -> Option<Document> {
        let mut parts = path.strip_prefix('/')?.splitn(3, '/');
        let (name, version, entry) = (parts.next()?, parts.next()?, parts.next()?);
        let (_, packs) = self.packs();
        let pack = packs.iter().find(|pack| pack.name == name && pack.version == version)?;
        let plugin = pack.plugins.iter().find(|plugin| plugin.entry == entry)?;
        let bytes = self.packs.read_file(pack.record.as_ref()?, &EntryPath::parse(entry).ok()?).ok()?;
        // Several plugins may have one document; it may do what each of them may do.
        let connect: Vec<String> = pack
            .plugins
            .iter()
            .filter(|other| other.entry == plugin.entry)
            .fold(plugin.connect.clone(), |kept, other| {
                kept.into_iter().filter(|source| other.connect.contains(source)).collect()
            });
        Some(Document { bytes, policy: frame::policy(&self.ancestors, &connect) })
    }

    /// Reads every pack of plugins, the highest version of each. One whose record is damaged is not replaced by the one before it:
    /// whoever can damage a record would choose the version.
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
            let is_there = |record: &Result<InstalledRecord, PackError>| !matches!(record, Err(error) if error.code() == PackErrorCode::NotFound);
            let mut records = records.filter(|(_, record)| is_there(record));
            let Some((version, record)) = records.next() else { continue };
            let is_plugins = |record: &InstalledRecord| record.kind == PackKind::FrontendPlugin;
            let shown = match &record {
                Ok(record) => is_plugins(record),
                // It is not known to be anything itself; its other versions say what it was.
                Err(_) => records.any(|(_, record)| record.is_ok_and(|record| is_plugins(&record))),
            };
            if shown {
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
                    "Nobody vouches for the key that signed it. Trust the key, and install it again."
                        .to_owned(),
                );
            }
            Proof::Unsigned => return Err("It is not signed, and is not loaded.".to_owned()),
        }
        if !record.announced {
            return Err("Its signature is over pack.json alone, and nobody had said what its documents are. Install it \
                        again from a registry, from a lock, or with --expect and the digest of the archive."
                .to_owned());
        }
        let loaded = self.packs.load(&record.name, &record.version, true);
        let loaded = loaded.map_err(|error| format!("It is not what was installed: {error}"))?;
        let Content::FrontendPlugin(plugins) = &loaded.manifest.content else {
            return Err("Its manifest is of another kind.".to_owned());
        };
        for plugin in plugins {
            check(plugin, record)?;
        }
        let made = plugins.iter().map(|plugin| Plugin {
            id: plugin.plugin_id.clone(),
            surface: plugin.surface,
            entry: plugin.entry.clone(),
            allowed: Allowed::of(&plugin.host_api),
            reads: plugin.host_api.iter().any(|method| is_of_artifacts(*method)),
            writes: plugin.host_api.contains(&HostMethod::ArtifactWrite),
            connect: plugin.connect_src.clone(),
        });
        let description = loaded.manifest.document().get("description").and_then(serde_json::Value::as_str);
        Ok((description.map(str::to_owned), made.collect()))
    }

    /// The files whose change makes a pack another.
    fn files(&self, pack: &PluginPack) -> Vec<PathBuf> {
        let folder = self.root.join(&pack.name).join(&pack.version);
        let recorded = pack.record.iter().flat_map(|record| &record.files);
        let mut files: Vec<PathBuf> = recorded.map(|file| folder.join(&file.path)).collect();
        files.push(folder.join(packs::path::RESERVED).join("installed.json"));
        files
    }

    /// Looks at the folders, and at the files that are known, without reading them.
    fn stamp(&self, watched: &[PathBuf]) -> Vec<(PathBuf, Option<Stamp>)> {
        let folders = names(&self.root).into_iter().map(|name| self.root.join(name));
        let paths = std::iter::once(self.root.clone()).chain(folders).chain(watched.iter().cloned());
        paths
            .map(|path| {
                let stamp = fs::symlink_metadata(&path).ok().map(|found| Stamp {
                    size: found.len(),
                    inode: found.ino(),
                    modified: (found.mtime(), found.mtime_nsec()),
                    changed: (found.ctime(), found.ctime_nsec()),
                });
                (path, stamp)
            })
            .collect()
    }
}

/// A pack of which no more than its record was looked at.
fn unread(
    name: &PackName,
    version: &version::Version,
    record: Result<InstalledRecord, PackError>,
) -> PluginPack {
    let (record, problem) = match record {
        Ok(record) => (Some(record), None),
        Err(error) => (None, Some(format!("It is not what was installed: {error}"))),
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
        return Err(format!("Its entry `{entry}` is no HTML document."));
    }
    let size = record.files.iter().find(|file| file.path == *entry).map_or(u64::MAX, |file| file.size);
    if size > MAX_ENTRY_BYTES as u64 {
        return Err(format!("Its entry `{entry}` has more than {MAX_ENTRY_BYTES} bytes, and is not loaded."));
    }
    match plugin.connect_src.iter().find(|source| !frame::is_source(source)) {
        Some(_) => {
            Err(format!("`{}` wants to connect to what is no plain https or wss address.", plugin.plugin_id))
        }
        None => Ok(()),
    }
}

/// The names in a folder, in order; none where there is no folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// What a pack is called as a module. Names of lower letters, digits and dots stay readable as they are; the others, which could
/// come to the same, get a digest behind them.
fn owner(name: &str) -> String {
    let is_plain = name.len() <= MAX_OWNER
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'.');
    let plain = |found: char| if found.is_ascii_alphanumeric() { found.to_ascii_lowercase() } else { '-' };
    let made: String = name.chars().take(MAX_OWNER).map(plain).collect();
    if is_plain {
        format!("pack-{made}")
    } else {
        format!("pack-{made}-{}", &Digest::of_bytes(name.as_bytes()).to_hex()[..12])
    }
}
