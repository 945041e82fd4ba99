//! Workflows of installed packs: the files in `workflows/` of the highest version of each pack.
//!
//! A file is used only if its digest matches the install record of its pack.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use packs::install::{InstalledPacks, InstalledRecord};

/// The folder of a pack that contains its guided workflows.
const FOLDER: &str = "workflows";

/// The workflows of a pack.
pub(super) struct PackFolder {
    /// The name and the version of the pack.
    pub(super) display_name: String,
    pub(super) folder: PathBuf,
    /// The digest of each file, in hexadecimal digits.
    pub(super) digests: BTreeMap<String, String>,
}

/// Reads the installed packs that have workflows. Also returns messages about packs that could not be read. A missing
/// folder has no packs.
pub(super) fn read(root: &Path) -> (Vec<PackFolder>, Vec<String>) {
    if !root.is_dir() {
        return (Vec::new(), Vec::new());
    }
    let surveyed = InstalledPacks::open(root).and_then(|packs| packs.survey());
    let (records, damaged) = match surveyed {
        Ok(surveyed) => surveyed,
        Err(error) => return (Vec::new(), vec![format!("the installed packs: {error}")]),
    };
    let mut highest: BTreeMap<&str, &InstalledRecord> = BTreeMap::new();
    for record in &records {
        let known = highest.entry(record.name.as_str()).or_insert(record);
        if known.version < record.version {
            *known = record;
        }
    }
    // An older version must not replace a version that cannot be read.
    for pack in &damaged {
        highest.remove(pack.name.as_str());
    }
    let notes = damaged.iter().map(|pack| format!("{}@{}: {}", pack.name, pack.version, pack.error));
    let folders = highest.into_values().filter_map(|record| {
        let files = record.files.iter().filter_map(|file| {
            let name = file.path.strip_prefix(FOLDER)?.strip_prefix('/')?;
            (!name.contains('/')).then(|| (name.to_owned(), file.sha256.to_hex()))
        });
        let digests: BTreeMap<String, String> = files.collect();
        let version = record.version.to_string();
        (!digests.is_empty()).then(|| PackFolder {
            display_name: format!("{}@{version}", record.name),
            folder: root.join(record.name.as_str()).join(version).join(FOLDER),
            digests,
        })
    });
    (folders.collect(), notes.collect())
}
