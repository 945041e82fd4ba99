//! Workflows and artifacts: files named after the digest of their bytes.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use canon::digest::Digest;
use guide::record::budgets::ARTIFACT_BYTES;
use ports::sessions::{ObjectKind, StoreError};

use super::layout;
use crate::disk::{self, Disk, DiskPath, Stat};

/// The maximum size of a compiled workflow, in bytes.
pub const WORKFLOW_BYTES: u64 = 16 << 20;
/// The maximum number of objects that are remembered as stored. Each takes at most a few hundred bytes.
const REMEMBERED: usize = 4096;

/// An object of an append: its canonical bytes and their digest.
#[derive(Clone, Copy, Debug)]
pub struct NewObject<'a> {
    pub digest: Digest,
    pub bytes: &'a [u8],
}

const fn limit(kind: ObjectKind) -> u64 {
    match kind {
        ObjectKind::Artifact => ARTIFACT_BYTES as u64,
        ObjectKind::Workflow | ObjectKind::Snapshot => WORKFLOW_BYTES,
    }
}

fn dir(kind: ObjectKind) -> DiskPath {
    match kind {
        ObjectKind::Workflow => layout::pinned(),
        ObjectKind::Artifact => layout::artifacts(),
        ObjectKind::Snapshot => layout::snapshots(),
    }
}

/// The file name of an object. Artifacts have no extension, because their event has the content type.
fn name(kind: ObjectKind, digest: Digest) -> String {
    match kind {
        ObjectKind::Workflow | ObjectKind::Snapshot => layout::json_name(digest),
        ObjectKind::Artifact => digest.to_hex(),
    }
}

/// Whether the file of an object exists.
pub(super) fn is_there(disk: &dyn Disk, kind: ObjectKind, digest: Digest) -> Result<bool, StoreError> {
    let path = dir(kind).join(&name(kind, digest));
    Ok(disk.stat(&path).map_err(StoreError::disk("look at", &path))?.is_some())
}

/// The objects that this process has verified and made durable, with the `stat` of their files.
///
/// Every start of a workflow attaches the workflow. Without this cache, each start would read and hash the stored
/// workflow only to find that it exists. Reads do not rely on the cache: [`get`] always reads and verifies the file.
#[derive(Debug, Default)]
pub(super) struct Objects(Mutex<HashMap<(ObjectKind, Digest), Stat>>);

impl Objects {
    /// Validates an object before anything is written.
    pub(super) fn check(
        &self,
        disk: &dyn Disk,
        kind: ObjectKind,
        object: NewObject<'_>,
    ) -> Result<(), StoreError> {
        let measured = object.bytes.len() as u64;
        if measured > limit(kind) {
            let what = format!("the {} {}", kind.as_str(), object.digest);
            return Err(StoreError::TooLarge { what, measured, maximum: limit(kind) });
        }
        // If the object is already stored, these bytes are not used.
        if !self.is_stored(disk, kind, object.digest)? && Digest::of_bytes(object.bytes) != object.digest {
            let problem = "its bytes have another digest".to_owned();
            return Err(StoreError::ObjectDamaged { kind, digest: object.digest, problem });
        }
        Ok(())
    }

    /// Stores a validated object durably. An existing valid file is not changed.
    pub(super) fn put(
        &self,
        disk: &dyn Disk,
        kind: ObjectKind,
        object: NewObject<'_>,
    ) -> Result<(), StoreError> {
        if self.is_stored(disk, kind, object.digest)? {
            return Ok(());
        }
        let (dir, name) = (dir(kind), name(kind, object.digest));
        let path = dir.join(&name);
        let failed = || StoreError::disk("write", &path);
        // Taken before reading, so that later changes of the file are detected.
        let before = disk.stat(&path).map_err(failed())?;
        let stat = if get(disk, kind, object.digest).is_ok() {
            // The process that wrote it may not have synced the directory.
            disk.sync_dir(Some(&dir)).map_err(failed())?;
            before
        } else {
            let temporary = format!("{}-{:x}{}", object.digest.to_hex(), disk.unique(), layout::TEMPORARY);
            disk::publish(disk, &dir, &temporary, &name, object.bytes).map_err(failed())?;
            disk.stat(&path).map_err(failed())?
        };
        if let Some(stat) = stat {
            let mut stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if stored.len() >= REMEMBERED {
                // Evicting everything is correct: evicted objects are read again on demand.
                stored.clear();
            }
            stored.insert((kind, object.digest), stat);
        }
        Ok(())
    }

    /// Whether an object is known to be stored and its file is unchanged.
    fn is_stored(&self, disk: &dyn Disk, kind: ObjectKind, digest: Digest) -> Result<bool, StoreError> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&(kind, digest)).copied();
        let Some(known) = known else { return Ok(false) };
        let path = dir(kind).join(&name(kind, digest));
        Ok(disk.stat(&path).map_err(StoreError::disk("look at", &path))? == Some(known))
    }
}

/// Reads and verifies an object.
pub(super) fn get(disk: &dyn Disk, kind: ObjectKind, digest: Digest) -> Result<Vec<u8>, StoreError> {
    let path = dir(kind).join(&name(kind, digest));
    let damaged = |problem: String| StoreError::ObjectDamaged { kind, digest, problem };
    let bytes = match disk::read(disk, &path, limit(kind)) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err(StoreError::ObjectMissing { kind, digest }),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return Err(damaged(error.to_string())),
        Err(error) => return Err(StoreError::disk("read", &path)(error)),
    };
    if Digest::of_bytes(&bytes) == digest {
        Ok(bytes)
    } else {
        Err(damaged("its content does not match the digest in its name".to_owned()))
    }
}
