//! Marks that decide when garbage collection deletes a session.

use guide::record::SessionId;
use ports::sessions::StoreError;
use serde::{Deserialize, Serialize};

use super::{SessionFiles, layout};
use crate::disk::{self, Unsynced};

/// The maximum size of a mark that is read, in bytes.
const MARK_BYTES: u64 = 256;

/// When a session was imported.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Imported {
    v: u8,
    imported_ms: u64,
}

impl SessionFiles {
    /// Whether garbage collection spares the session.
    ///
    /// # Errors
    /// Disk errors.
    pub fn is_kept(&self, session: &SessionId) -> Result<bool, StoreError> {
        let path = layout::keep(session);
        Ok(self.disk().stat(&path).map_err(StoreError::disk("look at", &path))?.is_some())
    }

    /// Marks a session as kept, or removes the mark. The mark is a file next to the log.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], and disk errors.
    pub fn set_kept(&self, session: &SessionId, kept: bool) -> Result<(), StoreError> {
        let (dir, path) = (layout::session(session), layout::keep(session));
        let disk = self.disk();
        if self.manifest_stat(session)?.is_none() {
            return Err(StoreError::Unknown { session: session.clone() });
        }
        let failed = StoreError::disk("write", &path);
        let written = if kept {
            disk.create(&path, b"{\"v\":1}\n").and_then(Unsynced::sync)
        } else {
            disk.remove_file(&path)
        };
        written.and_then(|()| disk.sync_dir(Some(&dir))).map_err(failed)
    }

    /// When a session was imported, in milliseconds since 1970. `None` if it was started here. A mark that cannot be
    /// parsed is ignored: the age of the session is then that of its events.
    ///
    /// # Errors
    /// Disk errors.
    pub fn imported_ms(&self, session: &SessionId) -> Result<Option<u64>, StoreError> {
        let path = layout::imported(session);
        let bytes =
            disk::read(self.disk().as_ref(), &path, MARK_BYTES).map_err(StoreError::disk("read", &path))?;
        Ok(bytes
            .and_then(|bytes| serde_json::from_slice::<Imported>(&bytes).ok())
            .map(|mark| mark.imported_ms))
    }

    /// Records that a session was imported now, because its events may be older than the retention time.
    ///
    /// # Errors
    /// Disk errors.
    pub fn set_imported(&self, session: &SessionId, now_ms: u64) -> Result<(), StoreError> {
        let path = layout::imported(session);
        let bytes = format!("{{\"v\":1,\"importedMs\":{now_ms}}}\n");
        let disk = self.disk();
        disk.create(&path, bytes.as_bytes())
            .and_then(Unsynced::sync)
            .and_then(|()| disk.sync_dir(Some(&layout::session(session))))
            .map_err(StoreError::disk("write", &path))
    }
}
