//! Content files: `<tenant>/<two digits>/<digest>`, each named by the digest of its bytes.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use canon::digest::Digest;

use crate::atomic_file::{make_folder, sync_folder_of, write_atomically};
use crate::call::Tenant;
use crate::folder::folder_of;

/// Files being written. Tenant names do not start with a dot.
const STAGING: &str = ".staging";
/// The maximum number of folders known to be durable. If there are more, they are checked again.
const MAX_KNOWN: usize = 4096;

pub(super) struct Contents {
    root: PathBuf,
    count: AtomicU64,
    /// Folders whose directory entries are known to be durable.
    durable: Mutex<HashSet<PathBuf>>,
}

impl Contents {
    pub(super) fn open(root: PathBuf) -> io::Result<Self> {
        let staging = root.join(STAGING);
        make_folder(&staging)?;
        // An unfinished write was never acknowledged.
        for left in fs::read_dir(&staging)? {
            fs::remove_file(left?.path())?;
        }
        Ok(Self { root, count: AtomicU64::new(0), durable: Mutex::default() })
    }

    /// Makes a content durable. Idempotent.
    pub(super) fn write(&self, tenant: &Tenant, digest: Digest, content: &[u8]) -> io::Result<()> {
        let path = self.path(tenant, digest);
        let folder = path.parent().unwrap_or(&self.root);
        // The entry may not be durable yet: another task or a killed process may just have created it.
        if path.try_exists()? {
            self.make_folder(folder)?;
            return sync_folder_of(&path);
        }
        self.make_folder(folder)?;
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let staged = self.root.join(STAGING).join(number.to_string());
        write_atomically(&staged, &path, content)
    }

    /// Makes a folder and its entry in the parent folder durable. The root is durable since it was created.
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        let known = || self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(folder) {
            return Ok(());
        }
        make_folder(folder)?;
        sync_folder_of(folder)?;
        folder.parent().map_or(Ok(()), sync_folder_of)?;
        let mut known = known();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(folder.to_owned());
        Ok(())
    }

    pub(super) fn read(&self, tenant: &Tenant, digest: Digest) -> io::Result<Vec<u8>> {
        let content = fs::read(self.path(tenant, digest))?;
        if Digest::of_bytes(&content) != digest {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file does not match its digest"));
        }
        Ok(content)
    }

    /// Removes an unreferenced content. It may be gone already.
    pub(super) fn remove(&self, tenant: &Tenant, digest: Digest) -> io::Result<()> {
        match fs::remove_file(self.path(tenant, digest)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn path(&self, tenant: &Tenant, digest: Digest) -> PathBuf {
        let digits = digest.to_hex();
        let folder = Path::new(&folder_of(tenant)).join(digits.get(..2).unwrap_or_default());
        self.root.join(folder).join(digits)
    }
}
