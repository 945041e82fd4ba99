//! The file of the chain. Its lines are described in [`sessionlog::chain`].

use guide::token::Key;
use ports::sessions::StoreError;
use sessionlog::chain::{End, TAIL_BYTES, begun_late};
use sessionlog::manifest::MANIFEST_BYTES;

use super::layout;
use super::log::Cursor;
use crate::disk::{self, Disk, DiskPath, Unsynced};

/// Whether a line was added, so that its line end must be written later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extended {
    Unacknowledged,
    /// The chain does not match the log. It is not extended, because that would authenticate records that it does not
    /// cover.
    LeftAlone,
}

/// Makes the line of an append durable, before its group is written to the manifest. A session without a chain gets one
/// that covers all existing records.
pub(super) fn extend(
    disk: &dyn Disk,
    key: &Key,
    dir: &DiskPath,
    cursor: &Cursor,
    (records, group): (u64, &[u8]),
) -> Result<Extended, StoreError> {
    let path = layout::chain(dir);
    let failed = |doing| StoreError::disk(doing, &path);
    let at = cursor.next_record().0;
    let mut stat = disk.stat(&path).map_err(failed("look at"))?;
    if stat.is_none() {
        begin(disk, key, dir, cursor)?;
        stat = disk.stat(&path).map_err(failed("look at"))?;
    }
    let len = stat.map_or(0, |stat| stat.len);
    let offset = len.saturating_sub(TAIL_BYTES);
    let bytes = disk.read_range(&path, offset, TAIL_BYTES).map_err(failed("read"))?;
    let Some(end) = End::of(&bytes, at) else {
        tracing::warn!(
            session.id = %cursor.session_id(),
            "the chain of the session does not agree with its log; run `interlock session verify`"
        );
        return Ok(Extended::LeftAlone);
    };
    let keep = offset + end.keep as u64;
    if keep != len {
        disk.truncate(&path, keep).map(drop).map_err(failed("write"))?;
    }
    let lead = if end.is_acknowledged { "" } else { "\n" };
    let line = format!("{lead}{}", end.next_line(key, (at, at + records), group));
    disk.append(&path, line.as_bytes()).and_then(Unsynced::sync).map_err(failed("write"))?;
    Ok(Extended::Unacknowledged)
}

/// Records that the append of the last line is in the manifest. Not synced, because a missing line end is not an error.
pub(super) fn acknowledge(disk: &dyn Disk, dir: &DiskPath) -> Result<(), StoreError> {
    let path = layout::chain(dir);
    disk.append(&path, b"\n").map(drop).map_err(StoreError::disk("write", &path))
}

/// Starts the chain of a session that was written without one.
fn begin(disk: &dyn Disk, key: &Key, dir: &DiskPath, cursor: &Cursor) -> Result<(), StoreError> {
    let path = layout::manifest(dir);
    let mut manifest =
        disk.read_range(&path, 0, cursor.manifest_bytes()).map_err(StoreError::disk("read", &path))?;
    manifest.push(b'\n');
    let records = cursor.next_record().0;
    let bytes = begun_late(key, cursor.session_id(), records, &manifest);
    // There is only one writer, so one temporary name is enough.
    let temporary = format!("{}{}", layout::CHAIN, layout::TEMPORARY);
    disk::publish(disk, dir, &temporary, layout::CHAIN, &bytes)
        .map_err(StoreError::disk("write", &layout::chain(dir)))
}

/// Reads the chain of a session.
pub(super) fn read(disk: &dyn Disk, dir: &DiskPath) -> Result<Option<Vec<u8>>, StoreError> {
    let path = layout::chain(dir);
    disk::read(disk, &path, MANIFEST_BYTES).map_err(StoreError::disk("read", &path))
}
