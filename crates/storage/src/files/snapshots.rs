//! The files of snapshots. Their content is described in [`sessionlog::snapshots`].

use std::io;

use guide::record::SnapshotRef;
use ports::sessions::{ObjectKind, StoreError};
use sessionlog::snapshots::{Prepared, SNAPSHOT_BYTES, SnapshotFiles};

use super::layout;
use crate::disk::{self, Disk, DiskPath};

/// The snapshots of a data directory.
pub(super) struct Files<'d>(pub(super) &'d dyn Disk);

impl SnapshotFiles for Files<'_> {
    fn has(&self, reference: SnapshotRef) -> Result<bool, StoreError> {
        let path = path(reference);
        Ok(self.0.stat(&path).map_err(StoreError::disk("look at", &path))?.is_some())
    }

    fn read(&self, reference: SnapshotRef) -> Result<Option<Vec<u8>>, StoreError> {
        let path = path(reference);
        disk::read(self.0, &path, SNAPSHOT_BYTES).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => StoreError::ObjectDamaged {
                kind: ObjectKind::Snapshot,
                digest: reference.0,
                problem: error.to_string(),
            },
            _ => StoreError::disk("read", &path)(error),
        })
    }
}

/// Writes a prepared snapshot durably.
pub(super) fn write(disk: &dyn Disk, prepared: &Prepared) -> Result<(), StoreError> {
    let name = layout::json_name(prepared.reference().0);
    let dir = layout::snapshots();
    let path = dir.join(&name);
    let failed = StoreError::disk("write", &path);
    match prepared.file() {
        Some(bytes) => {
            let hex = prepared.reference().0.to_hex();
            let temporary = format!("{hex}-{:x}{}", disk.unique(), layout::TEMPORARY);
            disk::publish(disk, &dir, &temporary, &name, bytes).map_err(failed)
        }
        // The process that wrote it may not have synced the directory.
        None => disk.sync_dir(Some(&dir)).map_err(failed),
    }
}

fn path(reference: SnapshotRef) -> DiskPath {
    layout::snapshots().join(&layout::json_name(reference.0))
}
