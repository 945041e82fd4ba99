//! Marks that decide when a session is collected.

use guide::record::SessionId;
use serde::{Deserialize, Serialize};

use super::{SessionFiles, layout};
use crate::disk::{self, Unsynced};
use crate::error::StoreError;

/// The longest mark that is read.
const MARK_BYTES: u64 = 256;

/// When a session came here from elsewhere.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Imported {
    v: u8,
    imported_ms: u64,
}

impl SessionFiles {
    /// Whether a session is kept, however old it is.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn is_kept(&self, session: &SessionId) -> Result<bool, StoreError> {
        let path = layout::keep(session);
        Ok(self.disk().stat(&path).map_err(StoreError::disk("look at", &path))?.is_some())
    }

    /// Keeps a session, or no longer. The mark lies beside the log and is no part of it.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], and those of the disk.
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

    /// When a session was imported, in milliseconds since 1970; nothing for one that began here. A mark that cannot be
    /// read counts as none: the events then say how old the session is.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn imported_ms(&self, session: &SessionId) -> Result<Option<u64>, StoreError> {
        let path = layout::imported(session);
        let bytes =
            disk::read(self.disk().as_ref(), &path, MARK_BYTES).map_err(StoreError::disk("read", &path))?;
        Ok(bytes
            .and_then(|bytes| serde_json::from_slice::<Imported>(&bytes).ok())
            .map(|mark| mark.imported_ms))
    }

    /// Notes that a session was imported now: its events may be older than the time that it is kept for.
    ///
    /// # Errors
    /// Those of the disk.
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
