//! The version of the data directory, and its directories.

use std::sync::PoisonError;

use canon::json;
use ports::sessions::StoreError;
use serde_json::Value;

use super::{SessionFiles, layout};
use crate::disk::{self, Disk, DiskPath, Unsynced};

/// The newest layout version that this program supports.
pub(super) const VERSION: u64 = 1;

/// Refuses a data directory with a newer version. A directory without a version is new.
pub(super) fn check(disk: &dyn Disk) -> Result<(), StoreError> {
    let path = layout::format();
    let damaged = |problem: String| StoreError::Damaged { path: path.to_string(), problem };
    let Some(bytes) = disk::read(disk, &path, 4096).map_err(StoreError::disk("read", &path))? else {
        return Ok(());
    };
    let value = json::read(&bytes, &json::Limits::default()).map_err(|error| damaged(error.to_string()))?;
    match value.get("version").and_then(Value::as_u64) {
        Some(VERSION) => Ok(()),
        Some(found) if found > VERSION => Err(StoreError::NewerVersion { found, known: VERSION }),
        _ => Err(damaged(format!("`version` should be a number from 1 to {VERSION}"))),
    }
}

impl SessionFiles {
    /// Creates the directories before the first write of this process.
    pub(crate) fn prepare(&self) -> Result<(), StoreError> {
        let mut prepared = self.0.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if *prepared {
            return Ok(());
        }
        let disk = self.disk().as_ref();
        let pinned = layout::pinned();
        let there = disk.stat(&layout::format()).map_err(StoreError::disk("look at", layout::FORMAT))?;
        for dir in [
            layout::sessions(),
            layout::snapshots(),
            layout::workflows(),
            pinned.clone(),
            layout::artifacts(),
            layout::keys(),
            layout::cache(),
        ] {
            disk.create_dir(&dir).map_err(StoreError::disk("make", &dir))?;
        }
        if there.is_none() {
            let failed = |path| StoreError::disk("write", path);
            disk.sync_dir(Some(&layout::workflows())).map_err(failed(pinned.as_str()))?;
            // The version is written last: if it exists, everything else does too.
            disk.sync_dir(None).map_err(failed(layout::FORMAT))?;
            let temporary = DiskPath::root(&format!("format-{:x}{}", disk.unique(), layout::TEMPORARY));
            let text = format!("{{\"version\":{VERSION}}}\n");
            disk.create(&temporary, text.as_bytes())
                .and_then(Unsynced::sync)
                .and_then(|()| disk.rename(&temporary, &layout::format()))
                .and_then(|()| disk.sync_dir(None))
                .map_err(failed(layout::FORMAT))?;
        }
        *prepared = true;
        Ok(())
    }
}
