//! Workflows and artifacts: files that are named after the digest of their bytes.

use std::io;

use canon::digest::Digest;
use guide::record::budgets::ARTIFACT_BYTES;

use super::layout;
use crate::disk::{self, Disk, DiskPath};
use crate::error::{ObjectKind, StoreError};

/// The largest compiled workflow.
pub const WORKFLOW_BYTES: u64 = 16 << 20;

/// An object that an append brings along: its digest, and the canonical bytes that have it.
#[derive(Clone, Copy, Debug)]
pub struct NewObject<'a> {
    /// The digest of the bytes.
    pub digest: Digest,
    /// The bytes.
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

/// Checks an object before anything is written.
pub(super) fn check(kind: ObjectKind, object: NewObject<'_>) -> Result<(), StoreError> {
    let measured = object.bytes.len() as u64;
    if measured > limit(kind) {
        let what = format!("the {} {}", kind.as_str(), object.digest);
        return Err(StoreError::TooLarge { what, measured, maximum: limit(kind) });
    }
    if Digest::of_bytes(object.bytes) != object.digest {
        let problem = "its bytes have another digest".to_owned();
        return Err(StoreError::ObjectDamaged { kind, digest: object.digest, problem });
    }
    Ok(())
}

/// Stores a checked object; it is durable afterwards. One that is there already, whole, is left alone.
pub(super) fn put(disk: &dyn Disk, kind: ObjectKind, object: NewObject<'_>) -> Result<(), StoreError> {
    let (dir, name) = (dir(kind), name(kind, object.digest));
    let path = dir.join(&name);
    let failed = StoreError::disk("write", &path);
    match get(disk, kind, object.digest) {
        // Whoever put it there may not have come as far as syncing the directory.
        Ok(_) => disk.sync_dir(Some(&dir)).map_err(failed),
        Err(_) => {
            let temporary = format!("{}-{:x}{}", object.digest.to_hex(), disk.unique(), layout::TEMPORARY);
            disk::publish(disk, &dir, &temporary, &name, object.bytes).map_err(failed)
        }
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
