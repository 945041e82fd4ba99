//! The newest checkpoint of each audit log, in a file outside the database.
//!
//! An attacker who can change the database can delete entries together with the checkpoints that name them. A copy of the newest
//! checkpoint in a separate file reveals that. The file is written after the checkpoint is in the database, so a file that is ahead
//! of the database means that the database has lost something: entries were deleted, an old backup was restored, or the disk lost
//! acknowledged writes. The file is written only when a log is signed, so commits do not pay for it. A data directory without the
//! file is valid; the next checkpoint creates it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flow::id::Tenant;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use storage::disk::{Disk, DiskPath, RealDisk, publish, read};

use super::checkpoint::Checkpoint;

/// The folder in the data directory.
const FOLDER: &str = "keys";
/// The name of the file in that folder.
pub const ANCHORS_FILE: &str = "audit-checkpoints.json";
/// The maximum size of the file, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// The newest checkpoints, by tenant.
pub struct Anchors {
    disk: Arc<dyn Disk>,
    newest: Mutex<Newest>,
    /// Held while the file is written, so that an older version never replaces a newer one.
    writing: Mutex<()>,
}

/// The content of the file.
enum Newest {
    Read(Document),
    /// The file exists and cannot be read. It is not overwritten, because it may be evidence.
    Unreadable,
}

#[derive(Default, Serialize, Deserialize)]
struct Document {
    version: u32,
    checkpoints: BTreeMap<Tenant, Value>,
}

/// The anchored checkpoint of one log.
#[derive(Debug)]
pub enum Anchor {
    /// The log was not signed since the file exists.
    None,
    /// The newest signed checkpoint.
    At(Checkpoint),
    /// The file, or its entry for this log, cannot be read.
    Unreadable,
}

impl Anchor {
    /// The last signed entry.
    pub fn at_sequence(&self) -> Option<u64> {
        match self {
            Self::At(checkpoint) => Some(checkpoint.at_sequence()),
            Self::None | Self::Unreadable => None,
        }
    }
}

impl Anchors {
    /// Opens the anchors of a data directory.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub fn open(data_dir: &Path) -> io::Result<Self> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(data_dir)?);
        let newest = match read(&*disk, &DiskPath::root(FOLDER).join(ANCHORS_FILE), MAX_BYTES) {
            Ok(None) => Newest::Read(Document { version: 1, ..Document::default() }),
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).map_or(Newest::Unreadable, Newest::Read),
            Err(_) => Newest::Unreadable,
        };
        Ok(Self { disk, newest: Mutex::new(newest), writing: Mutex::default() })
    }

    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the file exists and cannot be read.
    pub fn is_unreadable(&self) -> bool {
        matches!(*self.newest(), Newest::Unreadable)
    }

    /// The tenants that have an anchor.
    pub fn tenants(&self) -> Vec<Tenant> {
        match &*self.newest() {
            Newest::Read(document) => document.checkpoints.keys().cloned().collect(),
            Newest::Unreadable => Vec::new(),
        }
    }

    /// The anchor of a tenant's log.
    pub fn of(&self, tenant: &Tenant) -> Anchor {
        let newest = self.newest();
        let Newest::Read(document) = &*newest else { return Anchor::Unreadable };
        let Some(kept) = document.checkpoints.get(tenant) else { return Anchor::None };
        Checkpoint::read(kept.to_string().as_bytes()).map_or(Anchor::Unreadable, Anchor::At)
    }

    /// Writes a checkpoint that is in the database, unless the file has a newer one.
    pub(super) fn keep(&self, tenant: &Tenant, checkpoint: &Checkpoint) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_newer = self.of(tenant).at_sequence().is_none_or(|at| at < checkpoint.at_sequence());
        let bytes = match &mut *self.newest() {
            Newest::Read(document) if is_newer => {
                document.checkpoints.insert(tenant.to_owned(), checkpoint.document());
                serde_json::to_vec(document)?
            }
            Newest::Read(_) | Newest::Unreadable => return Ok(()),
        };
        let folder = DiskPath::root(FOLDER);
        if self.disk.stat(&folder)?.is_none() {
            self.disk.create_dir(&folder)?;
        }
        let temporary = format!("{ANCHORS_FILE}.{}.tmp", self.disk.unique());
        publish(&*self.disk, &folder, &temporary, ANCHORS_FILE, &bytes)
    }
}
