//! The files of contents: `<tenant>/<two digits>/<digest>`, each the bytes that its name says.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use canon::digest::Digest;

use crate::call::Tenant;
use crate::durable::{make_folder, sync_folder_of, write_whole};
use crate::folder::folder_of;

/// Files that are being written. No tenant begins with a dot.
const STAGING: &str = ".staging";

pub(super) struct Contents {
    root: PathBuf,
    count: AtomicU64,
}

impl Contents {
    pub(super) fn open(root: PathBuf) -> io::Result<Self> {
        let staging = root.join(STAGING);
        make_folder(&staging)?;
        // What was being written when the program ended was never said to be there.
        for left in fs::read_dir(&staging)? {
            fs::remove_file(left?.path())?;
        }
        Ok(Self { root, count: AtomicU64::new(0) })
    }

    /// Makes sure that a content is on the disk. Doing it twice is as doing it once.
    pub(super) fn write(&self, tenant: &Tenant, digest: Digest, content: &[u8]) -> io::Result<()> {
        let path = self.path(tenant, digest);
        if path.try_exists()? {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(&self.root);
        if !folder.try_exists()? {
            make_folder(folder)?;
            // The names of the two folders; the one above them is there since the root was made.
            sync_folder_of(folder)?;
            folder.parent().map_or(Ok(()), sync_folder_of)?;
        }
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let staged = self.root.join(STAGING).join(number.to_string());
        write_whole(&staged, &path, content)
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
