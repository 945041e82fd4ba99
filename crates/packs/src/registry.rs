//! A pack registry.
//!
//! [`Registry`] holds publications in memory and in a [store](RegistryStore): archives by digest, and one document per
//! pack. A change is durable before it is visible. The caller authenticates and authorizes; the registry enforces that
//! a name belongs to its first publisher. A separate registry with its own store serves as the test catalog.

mod change;
mod document;
mod folder;
mod keychain;
mod memory;
mod record;

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use self::document::{MAX_FOUND, well_known};
pub use self::folder::FolderStore;
pub use self::keychain::{ChainKey, MAX_KEYS, RotateRequest};
pub use self::memory::MemoryStore;
pub use self::record::{Deprecation, PackRecord, VersionRecord, Yank};
use crate::error::{PackError, PackErrorCode};
use crate::integrity::Integrity;
use crate::name::PackName;
use crate::publish::PublishError;
use crate::resolve::{Candidate, ListedVersion, Source, SourceError};
use crate::version::Version;
use canon::time::Timestamp;

/// How long a version can be unpublished after publication.
pub const UNPUBLISH_WINDOW_MS: u64 = 72 * 60 * 60 * 1000;

canon::error_codes! {
    /// Registry error codes other than publishing.
    pub enum RegistryErrorCode {
        NotFound => "pack_not_found",
        VersionNotFound => "pack_version_not_found",
        /// The caller does not own the pack.
        Forbidden => "forbidden",
        /// The version is too old to be unpublished.
        UnpublishWindowExpired => "unpublish_window_expired",
        SignatureNotAvailable => "signature_not_available",
        /// The old key did not sign the new one.
        RotationInvalid => "pack_signature_invalid",
        /// A file operation failed.
        StorageFailure => "pack_storage_failure",
    }
}

impl RegistryErrorCode {
    pub const fn http_status(self) -> u16 {
        match self {
            Self::NotFound | Self::VersionNotFound | Self::SignatureNotAvailable => 404,
            Self::Forbidden => 403,
            Self::UnpublishWindowExpired | Self::RotationInvalid => 400,
            Self::StorageFailure => 500,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RegistryError {
    pub code: RegistryErrorCode,
    pub message: String,
}

impl RegistryError {
    pub(crate) fn new(code: RegistryErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Why a publication failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PublishRefusal {
    /// The publication is invalid.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The registry could not store it.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

/// The store of a registry.
///
/// # Contract
///
/// * Writes are durable when the call returns, and complete or absent after a crash.
/// * One process writes at a time.
pub trait RegistryStore: Send + Sync {
    /// All documents.
    ///
    /// # Errors
    /// `pack_storage_failure`, also for an unreadable document.
    fn load(&self) -> Result<Vec<PackRecord>, RegistryError>;
    /// Replaces the document of a pack.
    ///
    /// # Errors
    /// `pack_storage_failure`.
    fn save(&self, record: &PackRecord) -> Result<(), RegistryError>;
    /// Stores an archive under its digest.
    ///
    /// # Errors
    /// `pack_storage_failure`.
    fn put(&self, integrity: Integrity, archive: &[u8]) -> Result<(), RegistryError>;
    /// The archive with that digest.
    ///
    /// # Errors
    /// `pack_storage_failure`, also if its digest no longer matches.
    fn get(&self, integrity: Integrity) -> Result<Option<Vec<u8>>, RegistryError>;
    /// Removes an archive. Succeeds if it does not exist.
    ///
    /// # Errors
    /// `pack_storage_failure`.
    fn forget(&self, integrity: Integrity) -> Result<(), RegistryError>;
    /// Removes everything. Only for test catalogs.
    ///
    /// # Errors
    /// `pack_storage_failure`.
    fn clear(&self) -> Result<(), RegistryError>;
}

impl<S: RegistryStore + ?Sized> RegistryStore for Box<S> {
    fn load(&self) -> Result<Vec<PackRecord>, RegistryError> {
        (**self).load()
    }

    fn save(&self, record: &PackRecord) -> Result<(), RegistryError> {
        (**self).save(record)
    }

    fn put(&self, integrity: Integrity, archive: &[u8]) -> Result<(), RegistryError> {
        (**self).put(integrity, archive)
    }

    fn get(&self, integrity: Integrity) -> Result<Option<Vec<u8>>, RegistryError> {
        (**self).get(integrity)
    }

    fn forget(&self, integrity: Integrity) -> Result<(), RegistryError> {
        (**self).forget(integrity)
    }

    fn clear(&self) -> Result<(), RegistryError> {
        (**self).clear()
    }
}

/// The publishing caller.
#[derive(Clone, Copy, Debug)]
pub struct Publisher<'a> {
    pub id: &'a str,
    /// Whether the caller may publish in `core`.
    pub may_publish_core: bool,
}

/// The result of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// The version is new (201).
    New,
    /// The version exists with the same contents (200).
    Identical,
}

pub struct Registry<S> {
    store: S,
    packs: RwLock<BTreeMap<PackName, PackRecord>>,
}

impl<S: RegistryStore> Registry<S> {
    /// Opens a registry.
    ///
    /// # Errors
    /// `pack_storage_failure`.
    pub fn open(store: S) -> Result<Self, RegistryError> {
        let packs = store.load()?.into_iter().map(|record| (record.name.clone(), record)).collect();
        Ok(Self { store, packs: RwLock::new(packs) })
    }

    /// The archive of a version, including yanked versions.
    ///
    /// # Errors
    /// `pack_not_found`, `pack_version_not_found` or `pack_storage_failure`.
    pub fn archive(&self, name: &PackName, version: &Version) -> Result<(Integrity, Vec<u8>), RegistryError> {
        let integrity = self.version(name, version)?.integrity;
        match self.store.get(integrity)? {
            Some(archive) => Ok((integrity, archive)),
            None => Err(RegistryError::new(
                RegistryErrorCode::StorageFailure,
                format!("the archive of {name}@{version} is missing"),
            )),
        }
    }

    /// The signature of a version.
    ///
    /// # Errors
    /// `signature_not_available` in all cases: missing, yanked and unsigned versions look the same.
    pub fn signature(&self, name: &PackName, version: &Version) -> Result<[u8; 64], RegistryError> {
        let found = self.version(name, version).ok().filter(|version| version.yanked.is_none());
        found.and_then(|version| version.signature()).ok_or_else(|| {
            RegistryError::new(
                RegistryErrorCode::SignatureNotAvailable,
                format!("{name}@{version} has no signature"),
            )
        })
    }

    /// The record of a version.
    ///
    /// # Errors
    /// `pack_not_found` or `pack_version_not_found`.
    pub fn version(&self, name: &PackName, version: &Version) -> Result<VersionRecord, RegistryError> {
        let packs = self.read();
        let record = known(&packs, name)?;
        record.version(version).cloned().ok_or_else(|| version_not_found(name, version))
    }

    /// The number of packs.
    pub fn count(&self) -> usize {
        self.read().values().filter(|record| !record.versions.is_empty()).count()
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<PackName, PackRecord>> {
        // The map is changed in one last step, so a panic under the lock leaves it consistent.
        self.packs.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<PackName, PackRecord>> {
        self.packs.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn known<'a>(
    packs: &'a BTreeMap<PackName, PackRecord>,
    name: &PackName,
) -> Result<&'a PackRecord, RegistryError> {
    packs
        .get(name)
        .filter(|record| !record.versions.is_empty())
        .ok_or_else(|| RegistryError::new(RegistryErrorCode::NotFound, format!("pack {name} not found")))
}

fn version_not_found(name: &PackName, version: &Version) -> RegistryError {
    RegistryError::new(RegistryErrorCode::VersionNotFound, format!("{name} has no version {version}"))
}

impl<S: RegistryStore> Source for Registry<S> {
    fn versions(&self, name: &PackName) -> Result<Vec<ListedVersion>, SourceError> {
        let packs = self.read();
        let versions = packs.get(name).map(|record| record.versions.as_slice()).unwrap_or_default();
        let listed = versions.iter().map(|version| ListedVersion {
            version: version.version.clone(),
            yanked: version.yanked.is_some(),
        });
        Ok(listed.collect())
    }

    fn candidate(&self, name: &PackName, version: &Version) -> Result<Candidate, SourceError> {
        let found = self.version(name, version).map_err(|error| SourceError::Unusable(error.message))?;
        found
            .candidate(name)
            .ok_or_else(|| SourceError::Unusable("its manifest is no longer readable".to_owned()))
    }
}

impl From<RegistryError> for PackError {
    fn from(error: RegistryError) -> Self {
        let code = match error.code {
            RegistryErrorCode::NotFound | RegistryErrorCode::SignatureNotAvailable => PackErrorCode::NotFound,
            RegistryErrorCode::VersionNotFound => PackErrorCode::VersionNotFound,
            RegistryErrorCode::Forbidden => PackErrorCode::NamespaceUnauthorized,
            RegistryErrorCode::RotationInvalid => PackErrorCode::SignatureInvalid,
            RegistryErrorCode::UnpublishWindowExpired | RegistryErrorCode::StorageFailure => {
                PackErrorCode::StorageFailure
            }
        };
        Self::new(code, error.message)
    }
}

/// A timestamp as documents show it.
fn shown(moment: Timestamp) -> String {
    moment.to_rfc3339()
}
