//! Installed packs: `<root>/<name>/<version>/`, each complete or absent.
//!
//! ```text
//! read the archive  ->  manifest  ->  integrity  ->  trust  ->  host facts  ->  write to .staging  ->  syncfs  ->  rename  ->  sync
//! ```
//!
//! All checks happen in memory before the first write, so a rejected pack leaves nothing behind. A crash before the
//! rename leaves a folder in `.staging`, which the next install removes. `.interlock/installed.json` in a version's
//! folder records what was installed, with the digest of every file; it appears together with the files.

mod host;
mod record;
mod signed;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use canon::time::Timestamp;
use disk::rooted::{FileLock, Gate, is_link};
use serde_json::json;

pub use self::host::HostFacts;
pub use self::record::{InstalledFile, InstalledRecord};
use self::record::{RECORD_FOLDER, RECORD_NAME};
use crate::agents::CatalogueEntry;
use crate::archive::{Archive, Limits};
use crate::disk::Folder;
use crate::error::{PackError, PackErrorCode};
use crate::integrity::Integrity;
use crate::manifest::{Content, MANIFEST_PATH, MAX_MANIFEST_BYTES, Manifest};
use crate::name::PackName;
use crate::path::EntryPath;
use crate::trust::{self, TrustMode, TrustPolicy};
use crate::version::{self, Version};

const STAGING: &str = ".staging";
const LOCK: &str = ".lock";

/// The folder of installed packs.
#[derive(Debug)]
pub struct InstalledPacks {
    root: Folder,
}

/// The inputs of an install.
#[derive(Clone, Copy, Debug)]
pub struct Install<'a> {
    pub archive: &'a [u8],
    /// The announced digest, if any.
    pub expected: Option<Integrity>,
    pub policy: &'a TrustPolicy,
    pub host: &'a HostFacts,
    pub limits: Limits,
    pub now: Timestamp,
}

#[derive(Clone, Debug)]
pub struct InstalledPack {
    pub manifest: Manifest,
    pub record: InstalledRecord,
}

/// An installed pack that cannot be used.
#[derive(Clone, Debug)]
pub struct DamagedPack {
    pub name: PackName,
    /// Its version; 0.0.0 if the versions cannot be listed.
    pub version: Version,
    pub error: PackError,
}

/// A validated pack that is not written yet.
#[derive(Debug)]
pub struct ValidatedPack {
    pub manifest: Manifest,
    pub record: InstalledRecord,
    archive: Archive,
}

/// Validates an archive without writing anything.
///
/// # Errors
/// Everything that would make an install fail.
pub fn judge(install: &Install<'_>) -> Result<ValidatedPack, PackError> {
    judge_asked(install, None)
}

/// Validates an archive for a name and version.
///
/// # Errors
/// `pack_integrity_failure` if it is another pack; those of [`judge`].
pub fn judge_as(
    name: &PackName,
    version: &Version,
    install: &Install<'_>,
) -> Result<ValidatedPack, PackError> {
    judge_asked(install, Some((name, version)))
}

fn judge_asked(
    install: &Install<'_>,
    asked: Option<(&PackName, &Version)>,
) -> Result<ValidatedPack, PackError> {
    let integrity = Integrity::of(install.archive);
    if let Some(expected) = install.expected
        && !expected.is(integrity)
    {
        let message = format!("the archive has digest {integrity}; expected {expected}");
        return Err(PackError::new(PackErrorCode::IntegrityFailure, message));
    }
    let archive = Archive::read(install.archive, &install.limits)
        .map_err(|error| PackError::new(PackErrorCode::ArchiveInvalid, error.to_string()))?;
    let Some(bytes) = archive.file(MANIFEST_PATH) else {
        return Err(PackError::new(
            PackErrorCode::ManifestInvalid,
            "the archive has no pack.json at its root",
        ));
    };
    let manifest = Manifest::read(bytes).map_err(crate::manifest::ManifestError::into_pack_error)?;
    // The announced digest comes from the same source as the archive, so it does not identify the pack.
    if let Some((name, version)) = asked
        && (manifest.common.name != *name || manifest.common.version != *version)
    {
        let message = format!("the archive is {}; requested was {name}@{version}", manifest.id());
        return Err(PackError::new(PackErrorCode::IntegrityFailure, message)
            .detail("expected", format!("{name}@{version}"))
            .detail("found", manifest.id()));
    }
    let proof = trust::judge(install.policy, &manifest, bytes, integrity, &archive)?;
    let degraded = install.host.judge(&manifest)?;
    check_files(&manifest, &archive)?;
    let files = archive.entries().iter().map(|entry| InstalledFile {
        path: entry.path.to_string(),
        size: entry.size() as u64,
        sha256: Integrity::of(archive.content(entry)),
    });
    let record = InstalledRecord {
        format: record::FORMAT,
        name: manifest.common.name.clone(),
        version: manifest.common.version.clone(),
        kind: manifest.kind(),
        integrity,
        proof,
        // A pin is compared by the policy.
        announced: install.expected.is_some() || install.policy.mode == TrustMode::Pinned,
        installed_at: install.now.to_rfc3339(),
        degraded,
        files: files.collect(),
    };
    Ok(ValidatedPack { manifest, record, archive })
}

/// Checks that referenced files exist and that schemas are valid.
fn check_files(manifest: &Manifest, archive: &Archive) -> Result<(), PackError> {
    let mut needed: Vec<(String, &str)> = manifest.file_refs();
    if let Some(runtime) = manifest.runtime()
        && runtime.language != crate::manifest::Language::Remote
    {
        needed.push(("/runtime/entry".to_owned(), &runtime.entry));
    }
    if let Content::FrontendPlugin(plugins) = &manifest.content {
        needed.extend(
            plugins
                .iter()
                .enumerate()
                .map(|(n, plugin)| (format!("/uiPlugins/{n}/entry"), plugin.entry.as_str())),
        );
    }
    for (pointer, path) in needed {
        if archive.file(path).is_none() {
            let message =
                format!("`{}` of {} is not in the archive", crate::name::shown(path), manifest.id());
            return Err(PackError::new(PackErrorCode::ManifestInvalid, message).detail("pointer", pointer));
        }
    }
    for agent in manifest.agents() {
        crate::agents::HandoffSchemas::load(agent, archive)?;
    }
    Ok(())
}

impl InstalledPacks {
    /// Opens the folder and creates it if needed.
    ///
    /// # Errors
    /// `pack_storage_failure`.
    pub fn open(root: &Path) -> Result<Self, PackError> {
        let root = Folder::open_root(root)
            .map_err(|cause| PackError::storage("cannot open the pack folder", &cause))?;
        Ok(Self { root })
    }

    /// The same folder with a test gate.
    #[must_use]
    pub fn gated(self, gate: Arc<dyn Gate>) -> Self {
        Self { root: self.root.gated(gate) }
    }

    /// Installs a pack. Installing the same bytes again only updates the record: a key that is now trusted, or a digest
    /// that is now announced.
    ///
    /// # Errors
    /// Those of [`judge`]; `pack_integrity_mismatch` if the version is installed with different contents;
    /// `pack_storage_failure`.
    pub fn install(&self, install: &Install<'_>) -> Result<InstalledPack, PackError> {
        self.keep(judge(install)?)
    }

    /// Installs the pack with this name and version, and no other.
    ///
    /// # Errors
    /// `pack_integrity_failure` if it is another pack; those of [`InstalledPacks::install`].
    pub fn install_as(
        &self,
        name: &PackName,
        version: &Version,
        install: &Install<'_>,
    ) -> Result<InstalledPack, PackError> {
        self.keep(judge_as(name, version, install)?)
    }

    /// Validates a pack as an install would, once those of `first` are installed. Writes nothing.
    ///
    /// # Errors
    /// Those of [`InstalledPacks::install_as`] except write failures.
    pub fn judge_after(
        &self,
        first: &[(&PackName, &Version)],
        name: &PackName,
        version: &Version,
        install: &Install<'_>,
    ) -> Result<(), PackError> {
        let judged = judge_as(name, version, install)?;
        if self.same(&judged.record)?.is_none() {
            self.check_prompt_dependencies(&judged.manifest, first)?;
        }
        Ok(())
    }

    /// The record of the same bytes, if installed.
    fn same(&self, judged: &InstalledRecord) -> Result<Option<InstalledRecord>, PackError> {
        let (name, version) = (&judged.name, &judged.version);
        match self.record(name, version) {
            Ok(there) if there.integrity.is(judged.integrity) => Ok(Some(there)),
            Ok(there) => {
                let message = format!(
                    "{name}@{version} is already installed with different contents, {}; remove it first",
                    there.integrity
                );
                Err(PackError::new(PackErrorCode::IntegrityMismatch, message))
            }
            Err(error) if error.code() == PackErrorCode::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn keep(&self, judged: ValidatedPack) -> Result<InstalledPack, PackError> {
        let _lock = self.lock()?;
        let (name, version) = (&judged.record.name, &judged.record.version);
        if let Some(there) = self.same(&judged.record)? {
            let record = self.strengthen(there, &judged.record)?;
            return Ok(InstalledPack { manifest: judged.manifest, record });
        }
        self.check_prompt_dependencies(&judged.manifest, &[])?;
        self.write(&judged)
            .map_err(|cause| PackError::storage(&format!("cannot write {name}@{version}"), &cause))?;
        Ok(InstalledPack { manifest: judged.manifest, record: judged.record })
    }

    /// Updates the record with additional proof. The files are unchanged.
    fn strengthen(
        &self,
        there: InstalledRecord,
        again: &InstalledRecord,
    ) -> Result<InstalledRecord, PackError> {
        let Some(stronger) = there.strengthened(again) else { return Ok(there) };
        let replaced = || {
            let records = self.folder(&there.name, &there.version)?.open(RECORD_FOLDER)?;
            records.replace(RECORD_NAME, &stronger.to_bytes())
        };
        let (name, version) = (&there.name, &there.version);
        replaced().map_err(|cause| {
            PackError::storage(&format!("cannot write the record of {name}@{version}"), &cause)
        })?;
        Ok(stronger)
    }

    /// Prompts are composed on use, so the dependencies of a prompt pack must be installed before it. Those of `first`
    /// will be.
    fn check_prompt_dependencies(
        &self,
        manifest: &Manifest,
        first: &[(&PackName, &Version)],
    ) -> Result<(), PackError> {
        if manifest.kind() != crate::kind::PackKind::Prompt || manifest.common.dependencies.is_empty() {
            return Ok(());
        }
        let (installed, _) = self.survey()?;
        for (name, range) in &manifest.common.dependencies {
            let mut there =
                installed.iter().map(|record| (&record.name, &record.version)).chain(first.iter().copied());
            if !there.any(|(known, version)| known == name && range.matches(version)) {
                let message = format!("{} requires {name} in {range}, which is not installed", manifest.id());
                return Err(PackError::new(PackErrorCode::PromptPackDependencyUnresolvable, message)
                    .detail("packName", name.as_str()));
            }
        }
        Ok(())
    }

    /// Writes a validated pack to staging, then renames it.
    fn write(&self, judged: &ValidatedPack) -> std::io::Result<()> {
        // Leftovers of an interrupted install.
        self.root.remove_tree(STAGING)?;
        let (staging, _) = self.root.open_or_make(STAGING)?;
        let (folder, _) = staging.open_or_make("pack")?;
        write_tree(&folder, &judged.archive)?;
        let (records, _) = folder.open_or_make(RECORD_FOLDER)?;
        records.create(RECORD_NAME, &judged.record.to_bytes(), false)?;
        let (versions, made) = self.root.open_or_make(judged.record.name.as_str())?;
        staging.sync_file_system()?;
        staging.rename("pack", &versions, &judged.record.version.to_string())?;
        versions.sync()?;
        if made {
            self.root.sync()?;
        }
        self.root.remove_tree(STAGING)
    }

    /// All installed packs, by name and version. Folders without a record are skipped.
    ///
    /// # Errors
    /// `pack_storage_failure`, or `pack_load_failure` for an unreadable record.
    pub fn list(&self) -> Result<Vec<InstalledRecord>, PackError> {
        let (records, damaged) = self.survey()?;
        match damaged.into_iter().next() {
            None => Ok(records),
            Some(damaged) => Err(damaged.error),
        }
    }

    /// All installed packs, by name and version, and those with an unusable record: one damaged pack does not hide the
    /// others.
    ///
    /// # Errors
    /// `pack_storage_failure` if the folder cannot be read.
    pub fn survey(&self) -> Result<(Vec<InstalledRecord>, Vec<DamagedPack>), PackError> {
        let storage = |cause: std::io::Error| PackError::storage("cannot list the pack folder", &cause);
        let (mut records, mut damaged) = (Vec::new(), Vec::new());
        for text in self.root.names().map_err(storage)? {
            let Ok(name) = PackName::parse(&text) else { continue };
            let versions = match self.root.open(&text).and_then(|folder| folder.names()) {
                Ok(versions) => versions,
                // A foreign file with the name of a pack, or a pack that was just removed.
                Err(cause)
                    if matches!(cause.kind(), ErrorKind::NotADirectory | ErrorKind::NotFound)
                        || is_link(&cause) =>
                {
                    continue;
                }
                Err(cause) => {
                    let error = PackError::storage(&format!("cannot list {name}"), &cause);
                    damaged.push(DamagedPack { name, version: Version::new(0, 0, 0), error });
                    continue;
                }
            };
            let mut versions: Vec<Version> =
                versions.iter().filter_map(|text| version::parse(text)).collect();
            versions.sort();
            for version in versions {
                match self.record(&name, &version) {
                    Ok(record) => records.push(record),
                    Err(error) if error.code() == PackErrorCode::NotFound => {}
                    Err(error) => damaged.push(DamagedPack { name: name.clone(), version, error }),
                }
            }
        }
        Ok((records, damaged))
    }

    /// The record of a version.
    ///
    /// # Errors
    /// `pack_not_found`, `pack_load_failure` or `pack_storage_failure`.
    pub fn record(&self, name: &PackName, version: &Version) -> Result<InstalledRecord, PackError> {
        let not_found =
            || PackError::new(PackErrorCode::NotFound, format!("{name}@{version} is not installed"));
        let bytes = self
            .folder(name, version)
            .and_then(|folder| folder.open(RECORD_FOLDER))
            .and_then(|folder| folder.read(RECORD_NAME, record::MAX_RECORD_BYTES));
        let bytes = match bytes {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(not_found()),
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Err(not_found()),
            Err(cause) => {
                return Err(PackError::storage(&format!("cannot read {name}@{version}"), &cause));
            }
        };
        InstalledRecord::read(&bytes, name, version)
    }

    /// Loads an installed pack and verifies its manifest and, if `all` is set, every file.
    ///
    /// # Errors
    /// `pack_not_found`, `pack_load_failure` if something was changed, `pack_storage_failure`.
    pub fn load(&self, name: &PackName, version: &Version, all: bool) -> Result<InstalledPack, PackError> {
        let record = self.record(name, version)?;
        let folder = self
            .folder(name, version)
            .map_err(|cause| PackError::storage(&format!("cannot read {name}@{version}"), &cause))?;
        let mut manifest = None;
        for file in record.files.iter().filter(|file| all || file.path == MANIFEST_PATH) {
            let bytes = verified(&folder, file, &record)?;
            if file.path == MANIFEST_PATH {
                manifest =
                    Some(Manifest::read(&bytes).map_err(crate::manifest::ManifestError::into_pack_error)?);
            }
        }
        let manifest = manifest.ok_or_else(|| failure(&record, "pack.json is missing"))?;
        Ok(InstalledPack { manifest, record })
    }

    /// A verified file of an installed pack.
    ///
    /// # Errors
    /// `pack_not_found` if the pack does not have it, `pack_load_failure` if it was changed, `pack_storage_failure`.
    pub fn read_file(&self, record: &InstalledRecord, path: &EntryPath) -> Result<Vec<u8>, PackError> {
        let Some(file) = record.files.iter().find(|file| file.path == path.as_str()) else {
            let message = format!("{}@{} has no file `{path}`", record.name, record.version);
            return Err(PackError::new(PackErrorCode::NotFound, message));
        };
        let folder = self
            .folder(&record.name, &record.version)
            .map_err(|cause| PackError::storage(&format!("cannot read {}", record.name), &cause))?;
        verified(&folder, file, record)
    }

    /// Removes a version. The caller checks whether it is in use.
    ///
    /// # Errors
    /// `pack_not_found` or `pack_storage_failure`.
    pub fn remove(&self, name: &PackName, version: &Version) -> Result<(), PackError> {
        let _lock = self.lock()?;
        let there = self.root.open(name.as_str()).and_then(|versions| versions.has(&version.to_string()));
        if !there.unwrap_or(false) {
            return Err(PackError::new(
                PackErrorCode::NotFound,
                format!("{name}@{version} is not installed"),
            ));
        }
        let removed = || -> std::io::Result<()> {
            self.root.remove_tree(STAGING)?;
            let (staging, _) = self.root.open_or_make(STAGING)?;
            let versions = self.root.open(name.as_str())?;
            // First make it invisible, then delete its files.
            versions.rename(&version.to_string(), &staging, "removed")?;
            versions.sync()?;
            self.root.remove_tree(STAGING)?;
            if versions.names()?.is_empty() {
                self.root.remove_folder(name.as_str())?;
            }
            self.root.sync()
        };
        removed().map_err(|cause| PackError::storage(&format!("cannot remove {name}@{version}"), &cause))
    }

    /// The agents of the installed packs that this host can use, from the highest version of each pack. A damaged pack
    /// does not hide the agents of others, and no lower version replaces it.
    ///
    /// # Errors
    /// `pack_storage_failure` if the folder cannot be read.
    pub fn agents(&self, host: &HostFacts) -> Result<Vec<CatalogueEntry>, PackError> {
        let (records, damaged) = self.survey()?;
        let mut entries = Vec::new();
        for record in highest(records, &damaged).filter(|record| record.kind == crate::kind::PackKind::Node) {
            let Ok(pack) = self.load(&record.name, &record.version, false) else { continue };
            if host.judge(&pack.manifest).is_ok() {
                entries
                    .extend(crate::agents::catalogue(&pack.manifest, |capability| !host.gives(capability)));
            }
        }
        entries.sort_by(|left, right| left.agent_id.cmp(&right.agent_id));
        Ok(entries)
    }

    /// The manifests of the installed packs, by name and version. Damaged ones are skipped; [`InstalledPacks::look`]
    /// names them.
    ///
    /// # Errors
    /// `pack_storage_failure` if the folder cannot be read.
    pub fn manifests(&self) -> Result<Vec<Manifest>, PackError> {
        Ok(self.look()?.0)
    }

    /// The manifests of the installed packs, by name and version, and the damaged packs.
    ///
    /// # Errors
    /// `pack_storage_failure` if the folder cannot be read.
    pub fn look(&self) -> Result<(Vec<Manifest>, Vec<DamagedPack>), PackError> {
        let (records, mut damaged) = self.survey()?;
        let mut manifests = Vec::new();
        for InstalledRecord { name, version, .. } in records {
            match self.load(&name, &version, false) {
                Ok(pack) => manifests.push(pack.manifest),
                Err(error) => damaged.push(DamagedPack { name, version, error }),
            }
        }
        Ok((manifests, damaged))
    }

    /// The node types in a pack's manifest as it is on disk, unverified. Only for error messages about an unavailable
    /// type.
    pub fn claimed_types(&self, name: &PackName, version: &Version) -> Vec<String> {
        let bytes =
            self.folder(name, version).and_then(|folder| folder.read(MANIFEST_PATH, MAX_MANIFEST_BYTES));
        let manifest = bytes.ok().flatten().and_then(|bytes| Manifest::read(&bytes).ok());
        let manifest = manifest.filter(|manifest| manifest.kind() == crate::kind::PackKind::Node);
        manifest.iter().flat_map(Manifest::type_ids).map(str::to_owned).collect()
    }

    fn folder(&self, name: &PackName, version: &Version) -> std::io::Result<Folder> {
        self.root.open(name.as_str())?.open(&version.to_string())
    }

    fn lock(&self) -> Result<FileLock, PackError> {
        self.root.lock(LOCK).map_err(|cause| PackError::storage("cannot write to the pack folder", &cause))
    }
}

/// The highest version of every pack, unless that is damaged: otherwise an attacker who damages a record could choose
/// the version.
fn highest(records: Vec<InstalledRecord>, damaged: &[DamagedPack]) -> impl Iterator<Item = InstalledRecord> {
    let mut by_name = std::collections::BTreeMap::new();
    for record in records {
        // Records are in version order.
        by_name.insert(record.name.clone(), record);
    }
    let is_above = |pack: &DamagedPack, record: &InstalledRecord| {
        pack.name == record.name && pack.version > record.version
    };
    by_name.into_values().filter(move |record| !damaged.iter().any(|pack| is_above(pack, record)))
}

fn write_tree(root: &Folder, archive: &Archive) -> std::io::Result<()> {
    // Files are in path order, so consecutive files mostly share their folders.
    let mut way: Vec<(&str, Folder)> = Vec::new();
    for entry in archive.entries() {
        let mut segments: Vec<&str> = entry.path.segments().collect();
        let Some(name) = segments.pop() else { continue };
        let shared = way.iter().zip(&segments).take_while(|((open, _), segment)| open == *segment).count();
        way.truncate(shared);
        for segment in &segments[shared..] {
            let (folder, _) = way.last().map_or(root, |(_, folder)| folder).open_or_make(segment)?;
            way.push((segment, folder));
        }
        let folder = way.last().map_or(root, |(_, folder)| folder);
        folder.create(name, archive.content(entry), entry.executable)?;
    }
    Ok(())
}

fn verified(folder: &Folder, file: &InstalledFile, record: &InstalledRecord) -> Result<Vec<u8>, PackError> {
    let changed = || failure(record, &format!("`{}` was changed after the install", file.path));
    let path = EntryPath::parse(&file.path).map_err(|_| changed())?;
    let most = usize::try_from(file.size).unwrap_or(MAX_MANIFEST_BYTES);
    let bytes = folder.read_path(&path, most).map_err(|_| changed())?.ok_or_else(changed)?;
    if Integrity::of(&bytes).is(file.sha256) { Ok(bytes) } else { Err(changed()) }
}

fn failure(record: &InstalledRecord, message: &str) -> PackError {
    PackError::new(PackErrorCode::LoadFailure, format!("{}@{}: {message}", record.name, record.version))
        .detail("manifest", json!(format!("{}@{}", record.name, record.version)))
}
