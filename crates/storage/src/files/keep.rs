//! Marks that keep a session from being collected.

use guide::record::SessionId;

use super::{SessionFiles, layout};
use crate::error::StoreError;

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
            disk.create(&path, b"{\"v\":1}\n").and_then(crate::disk::Unsynced::sync)
        } else {
            disk.remove_file(&path)
        };
        written.and_then(|()| disk.sync_dir(Some(&dir))).map_err(failed)
    }
}
