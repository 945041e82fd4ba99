//! The files of contents: `<tenant>/<two digits>/<digest>`, each the bytes that its name says.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use canon::digest::Digest;

use crate::call::Tenant;
use crate::durable::{make_folder, sync_folder_of, write_whole};
use crate::folder::folder_of;

/// Files that are being written. No tenant begins with a dot.
const STAGING: &str = ".staging";
/// How many folders are known to be on the disk. Beyond it they are looked at again.
const MAX_KNOWN: usize = 4096;

pub(super) struct Contents {
    root: PathBuf,
    count: AtomicU64,
    /// Folders whose names are known to be on the disk.
    durable: Mutex<HashSet<PathBuf>>,
}

impl Contents {
    pub(super) fn open(root: PathBuf) -> io::Result<Self> {
        let staging = root.join(STAGING);
        make_folder(&staging)?;
        // What was being written when the program ended was never said to be there.
        for left in fs::read_dir(&staging)? {
            fs::remove_file(left?.path())?;
        }
        Ok(Self { root, count: AtomicU64::new(0), durable: Mutex::default() })
    }

    /// Makes sure that a content is on the disk. Doing it twice is as doing it once.
    pub(super) fn write(&self, tenant: &Tenant, digest: Digest, content: &[u8]) -> io::Result<()> {
        let path = self.path(tenant, digest);
        let folder = path.parent().unwrap_or(&self.root);
        // A name that is there may be on its way to the disk still: somebody else has made it a moment ago, or a program that was killed.
        if path.try_exists()? {
            self.make_folder(folder)?;
            return sync_folder_of(&path);
        }
        self.make_folder(folder)?;
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let staged = self.root.join(STAGING).join(number.to_string());
        write_whole(&staged, &path, content)
    }

    /// Makes sure that a folder is on the disk, by its name and that of the folder above it. The root is there since it was made.
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
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the bytes are not those that were stored",
            ));
        }
        Ok(content)
    }

    /// Removes a content that no object has. It may be gone already.
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
