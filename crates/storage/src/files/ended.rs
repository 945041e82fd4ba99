//! The mark of a session that its run no longer waits for.
//!
//! The mark is a file next to the log: recorded work stays as it is, and only the next step is refused. It is written
//! under the lock of the session, so a step is either recorded before the mark or refused because of it.

use flow::id::{NodeId, RunId};
use guide::record::SessionId;
use ports::sessions::{Ended, StoreError};

use super::{SessionFiles, Writer, layout};
use crate::disk;

/// The file name of the mark.
const NAME: &str = "ended.json";
/// The maximum size of a mark that is read, in bytes.
const MAX_BYTES: u64 = 4096;

impl SessionFiles {
    /// The mark of a session, if it has one.
    ///
    /// # Errors
    /// Disk errors. A mark that cannot be parsed still counts as a mark.
    pub fn ended(&self, session: &SessionId) -> Result<Option<Ended>, StoreError> {
        let path = layout::session(session).join(NAME);
        let bytes =
            disk::read(self.disk().as_ref(), &path, MAX_BYTES).map_err(StoreError::disk("read", &path))?;
        Ok(bytes.map(|bytes| {
            serde_json::from_slice(&bytes).unwrap_or_else(|_| Ended {
                run_id: RunId::new("unknown"),
                node_id: NodeId::new("unknown"),
                run_status: "unknown".to_owned(),
            })
        }))
    }
}

impl Writer {
    /// Marks the session as ended, durably. An existing mark is not changed.
    ///
    /// # Errors
    /// Disk errors.
    pub fn end(&self, ended: &Ended) -> Result<(), StoreError> {
        let session = self.cursor().session_id();
        if self.files().ended(session)?.is_some() {
            return Ok(());
        }
        let dir = layout::session(session);
        let bytes = serde_json::to_vec(ended).expect("three texts have a JSON form");
        let disk = self.files().disk().as_ref();
        let temporary = format!("{NAME}.{:016x}{}", disk.unique(), layout::TEMPORARY);
        disk::publish(disk, &dir, &temporary, NAME, &bytes)
            .map_err(StoreError::disk("write", &dir.join(NAME)))
    }
}
