//! Workflows and artifacts: files that are named after the digest of their bytes.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use canon::digest::Digest;
use guide::record::budgets::ARTIFACT_BYTES;

use super::layout;
use crate::disk::{self, Disk, DiskPath, Stat};
use crate::error::{ObjectKind, StoreError};

/// The largest compiled workflow.
pub const WORKFLOW_BYTES: u64 = 16 << 20;
/// How many objects are remembered as stored. A few hundred bytes each at most.
const REMEMBERED: usize = 4096;

/// An object that an append brings along: its digest, and the canonical bytes that have it.
#[derive(Clone, Copy, Debug)]
pub struct NewObject<'a> {
    /// The digest of the bytes.
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

/// The name of an object's file. Artifacts have no extension: what they are is told by their event.
fn name(kind: ObjectKind, digest: Digest) -> String {
    match kind {
        ObjectKind::Workflow | ObjectKind::Snapshot => layout::json_name(digest),
        ObjectKind::Artifact => digest.to_hex(),
    }
}

/// Whether a file of that name is there.
pub(super) fn is_there(disk: &dyn Disk, kind: ObjectKind, digest: Digest) -> Result<bool, StoreError> {
    let path = dir(kind).join(&name(kind, digest));
    Ok(disk.stat(&path).map_err(StoreError::disk("look at", &path))?.is_some())
}

/// The objects that this process has seen whole and made durable, with what their files looked like then.
///
/// A workflow is attached to every start of it. Reading and hashing it each time, only to find that
/// it is there, would make a start cost as much as the workflow is large. Nothing is *read* on the word of
/// this: whoever uses an object [gets](get) it from its file, and verifies it.
#[derive(Debug, Default)]
pub(super) struct Objects(Mutex<HashMap<(ObjectKind, Digest), Stat>>);

impl Objects {
    /// Checks an object before anything is written.
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
        // What is stored already is not written, so these bytes do not matter.
        if !self.is_stored(disk, kind, object.digest)? && Digest::of_bytes(object.bytes) != object.digest {
            let problem = "its bytes have another digest".to_owned();
            return Err(StoreError::ObjectDamaged { kind, digest: object.digest, problem });
        }
        Ok(())
    }

    /// Stores a checked object; it is durable afterwards. One that is there already, whole, is left alone.
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
        // Looked at before it is read: whatever happens to the file after that shows.
        let before = disk.stat(&path).map_err(failed())?;
        let stat = if get(disk, kind, object.digest).is_ok() {
            // Whoever put it there may not have come as far as syncing the directory.
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
                // Which one goes decides only how soon it is read again.
                stored.clear();
            }
            stored.insert((kind, object.digest), stat);
        }
        Ok(())
    }

    /// Whether an object is known to be stored, and its file is as it was left.
    fn is_stored(&self, disk: &dyn Disk, kind: ObjectKind, digest: Digest) -> Result<bool, StoreError> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&(kind, digest)).copied();
        let Some(known) = known else { return Ok(false) };
        let path = dir(kind).join(&name(kind, digest));
        Ok(disk.stat(&path).map_err(StoreError::disk("look at", &path))? == Some(known))
    }
}

/// Reads an object, and verifies it.
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
        Err(damaged("its content is not what its name says".to_owned()))
    }
}
