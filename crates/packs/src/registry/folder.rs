//! A registry in a folder.
//!
//! ```text
//! <root>/lock                       held by the writing process
//! <root>/packs/<name>.json          the document of a pack; a long name is shortened, with its digest appended
//! <root>/archives/<2>/<64>.tgz      archives by digest, the first two digits as a folder
//! ```

use std::io;
use std::path::Path;
use std::sync::Arc;

use disk::rooted::{FileLock, Gate};

use super::record::{FORMAT, PackRecord};
use super::{RegistryError, RegistryErrorCode, RegistryStore};
use crate::disk::Folder;
use crate::integrity::Integrity;
use crate::name::PackName;

/// The maximum size of a pack document, in bytes.
const MAX_RECORD_BYTES: usize = 256 << 20;
/// The maximum length of a name used as a file name.
const MAX_PLAIN_NAME: usize = 180;

/// A registry store in a folder, owned by one process at a time.
#[derive(Debug)]
pub struct FolderStore {
    root: Folder,
    packs: Folder,
    archives: Folder,
    most_archive_bytes: usize,
    _lock: FileLock,
}

impl FolderStore {
    /// Opens the folder, creates it if needed, and locks it.
    ///
    /// # Errors
    /// `pack_storage_failure`, also if another process holds the lock.
    pub fn open(root: &Path) -> Result<Self, RegistryError> {
        Self::open_gated(root, None)
    }

    /// As [`FolderStore::open`], with a test gate.
    ///
    /// # Errors
    /// As [`FolderStore::open`].
    pub fn open_gated(root: &Path, gate: Option<Arc<dyn Gate>>) -> Result<Self, RegistryError> {
        let opened = || -> io::Result<Self> {
            let root = Folder::open_root(root)?;
            let root = match gate {
                Some(gate) => root.gated(gate),
                None => root,
            };
            let lock = root.try_lock("lock")?;
            let (packs, _) = root.open_or_make("packs")?;
            let (archives, _) = root.open_or_make("archives")?;
            root.sync()?;
            let most_archive_bytes = crate::archive::Limits::DEFAULT.packed_bytes;
            Ok(Self { root, packs, archives, most_archive_bytes, _lock: lock })
        };
        opened().map_err(|cause| failed("cannot open the registry folder", &cause))
    }

    fn place(&self, integrity: Integrity, make: bool) -> io::Result<(Folder, String)> {
        let hex = integrity.to_hex();
        let shelf = &hex[..2];
        let folder = if make {
            let (folder, made) = self.archives.open_or_make(shelf)?;
            if made {
                self.archives.sync()?;
            }
            folder
        } else {
            self.archives.open(shelf)?
        };
        Ok((folder, format!("{hex}.tgz")))
    }
}

impl RegistryStore for FolderStore {
    fn load(&self) -> Result<Vec<PackRecord>, RegistryError> {
        let names = self.packs.names().map_err(|cause| failed("cannot list the registry", &cause))?;
        let mut records = Vec::new();
        for file in names.iter().filter(|name| name.ends_with(".json")) {
            let what = format!("cannot read the registry document {file}");
            let bytes = self.packs.read(file, MAX_RECORD_BYTES).map_err(|cause| failed(&what, &cause))?;
            let Some(bytes) = bytes else { continue };
            let damaged = |message: String| {
                RegistryError::new(RegistryErrorCode::StorageFailure, format!("{what}: {message}"))
            };
            let record: PackRecord =
                serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
            if record.format != FORMAT {
                return Err(damaged(format!(
                    "format {} is not supported; this program supports {FORMAT}",
                    record.format
                )));
            }
            if file_name(&record.name) != *file {
                return Err(damaged(format!("it belongs to {}", record.name)));
            }
            records.push(record);
        }
        Ok(records)
    }

    fn save(&self, record: &PackRecord) -> Result<(), RegistryError> {
        let bytes = serde_json::to_vec(record).expect(
            "a record was parsed from JSON, or has only strings and \
                numbers",
        );
        self.packs
            .replace(&file_name(&record.name), &bytes)
            .map_err(|cause| failed(&format!("cannot write the document of {}", record.name), &cause))
    }

    fn put(&self, integrity: Integrity, archive: &[u8]) -> Result<(), RegistryError> {
        let written = || -> io::Result<()> {
            let (folder, name) = self.place(integrity, true)?;
            if folder.has(&name)? { Ok(()) } else { folder.replace(&name, archive) }
        };
        written().map_err(|cause| failed("cannot write an archive", &cause))
    }

    fn get(&self, integrity: Integrity) -> Result<Option<Vec<u8>>, RegistryError> {
        let (folder, name) = match self.place(integrity, false) {
            Ok(place) => place,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(failed("cannot read an archive", &cause)),
        };
        let archive = folder
            .read(&name, self.most_archive_bytes)
            .map_err(|cause| failed("cannot read an archive", &cause))?;
        match archive {
            Some(archive) if !Integrity::of(&archive).is(integrity) => Err(RegistryError::new(
                RegistryErrorCode::StorageFailure,
                format!("the archive {integrity} is damaged"),
            )),
            archive => Ok(archive),
        }
    }

    fn forget(&self, integrity: Integrity) -> Result<(), RegistryError> {
        let removed = || -> io::Result<()> {
            let (folder, name) = self.place(integrity, false)?;
            folder.remove_file(&name)?;
            folder.sync()
        };
        match removed() {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(failed("cannot remove an archive", &cause))
            }
            _ => Ok(()),
        }
    }

    fn clear(&self) -> Result<(), RegistryError> {
        let cleared = || -> io::Result<()> {
            for folder in [&self.packs, &self.archives] {
                for name in folder.names()? {
                    folder.remove_tree(&name)?;
                }
                folder.sync()?;
            }
            self.root.sync()
        };
        cleared().map_err(|cause| failed("cannot clear the registry", &cause))
    }
}

fn file_name(name: &PackName) -> String {
    let text = name.as_str();
    if text.len() <= MAX_PLAIN_NAME {
        return format!("{text}.json");
    }
    format!("{}-{}.json", &text[..MAX_PLAIN_NAME], &Integrity::of(text.as_bytes()).to_hex()[..16])
}

fn failed(what: &str, cause: &io::Error) -> RegistryError {
    RegistryError::new(RegistryErrorCode::StorageFailure, format!("{what}: {cause}"))
}
