//! Guided sessions as files.
//!
//! ```text
//! format.json                                  which version of this layout
//! sessions/<id>/manifest.jsonl                 the valid segments with their digests, and pinned snapshots
//! sessions/<id>/chain.jsonl                    authenticates the manifest with the integrity key
//! sessions/<id>/events/<first>-<last>.jsonl    the events of one append
//! sessions/<id>/.lock                          held by the one writer
//! sessions/<id>/keep                           garbage collection spares this session
//! sessions/<id>/salvaged.json                  this session is the valid part of a damaged one
//! snapshots/<digest>.json                      states of runs
//! workflows/pinned/<digest>.json               compiled workflows
//! artifacts/<digest>                           large outputs
//! keys/keyring.json                            the keys that tokens are signed with
//! keys/integrity.json                          the key that chains are authenticated with; never rotated
//! cache/                                       derived; can be deleted at any time
//! ```
//!
//! `docs/formats/session-files.md` draws every file byte by byte and gives the reasons.

mod chain;
mod ended;
mod format;
mod gc;
mod integrity_key;
mod keep;
mod keyring;
pub(crate) mod layout;
mod log;
mod manifest;
mod objects;
mod port;
mod salvaged;
mod snapshots;
mod verify;
mod writer;

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex};

use guide::bundle::Salvaged;
use guide::plan::AppendPlan;
use guide::record::{EventIndex, ExecutionSnapshot, SessionId, SnapshotRef, WorkflowHash};
use guide::token::Key;

pub use chain::chain_within;
pub use log::{Cursor, Loaded, MANIFEST_BYTES};
pub use objects::{NewObject, WORKFLOW_BYTES};
pub use port::{FileSessions, FileTenants};
pub use ports::sessions::{
    ChainBreak, ChainState, Damage, DamageReason, Ended, GcOutcome, GcReport, Retention, SessionHealth,
    Verification,
};
use ports::sessions::{ObjectKind, StoreError};
pub use snapshots::{CHAIN, NewSnapshot, SNAPSHOT_BYTES};
pub use writer::{Appended, Attachments, Writer};

use crate::disk::Disk;

/// The guided sessions of one data directory.
///
/// Cheap to clone; clones share caches and locks. Reading takes no lock and writes nothing.
#[derive(Clone, Debug)]
pub struct SessionFiles(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    disk: Arc<dyn Disk>,
    snapshots: snapshots::Snapshots,
    objects: objects::Objects,
    /// The sessions that this process is writing.
    writing: Mutex<HashSet<SessionId>>,
    /// The integrity key, once this process has written something.
    integrity: Mutex<Option<Key>>,
    /// Whether the directories are known to exist.
    prepared: Mutex<bool>,
}

/// A part of a session that may be damaged: for showing it, never for continuing it.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedPrefix {
    /// What could be validated. If the session is healthy, all of it.
    pub loaded: Loaded,
    /// What is wrong with the rest.
    pub health: SessionHealth,
}

impl SessionFiles {
    /// Opens the sessions of a data directory. Nothing is written before the first append.
    ///
    /// # Errors
    /// [`StoreError::NewerVersion`] for a directory of a newer version, [`StoreError::Damaged`] when its
    /// version cannot be read, and those of the disk.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        format::check(&*disk)?;
        Ok(Self(Arc::new(Shared {
            disk,
            snapshots: snapshots::Snapshots::default(),
            objects: objects::Objects::default(),
            writing: Mutex::default(),
            integrity: Mutex::default(),
            prepared: Mutex::default(),
        })))
    }

    /// The disk below.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.0.disk
    }

    /// The ids of all sessions, sorted. Nothing is read of the sessions themselves.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        let dir = layout::sessions();
        let names = self.0.disk.list(&dir).map_err(StoreError::disk("list", &dir))?;
        let mut ids: Vec<_> = names.iter().filter_map(|name| SessionId::parse(name).ok()).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Creates a session from its first plan or, for an import, from all of them.
    ///
    /// The session is written into a directory that nothing reads and becomes visible by one rename: a crash leaves the whole
    /// session or none.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::ObjectMissing`] when a plan refers to what is neither attached nor stored, and
    /// those of the disk.
    ///
    /// # Panics
    /// When there is no plan, or the plans are not those of one session from its first event on.
    pub fn create(
        &self,
        plans: &[AppendPlan],
        attachments: &Attachments<'_>,
    ) -> Result<Appended, StoreError> {
        writer::create(self, plans, attachments, None)
    }

    /// Creates a session from what is left of a damaged one, and marks it as such.
    ///
    /// # Errors
    /// As [`SessionFiles::create`].
    ///
    /// # Panics
    /// As [`SessionFiles::create`].
    pub fn create_part(
        &self,
        plans: &[AppendPlan],
        attachments: &Attachments<'_>,
        salvaged: &Salvaged,
    ) -> Result<Appended, StoreError> {
        writer::create(self, plans, attachments, Some(salvaged))
    }

    /// Reads a healthy session.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], [`StoreError::NotHealthy`], and those of the disk.
    pub fn load(&self, session: &SessionId) -> Result<Loaded, StoreError> {
        self.load_since(&Cursor::start(session.clone()))
    }

    /// Reads what was appended to a healthy session since `cursor`. When nothing was, this costs one `stat` of the manifest.
    /// What is new is durable when this returns, even if another process wrote it.
    ///
    /// If the session was deleted and created again, everything is read; [`Loaded::events`] then begins with the first event.
    ///
    /// # Errors
    /// As [`SessionFiles::load`].
    pub fn load_since(&self, cursor: &Cursor) -> Result<Loaded, StoreError> {
        let loaded = self.load_unsettled(cursor)?;
        if !loaded.events.is_empty() {
            self.settle(cursor)?;
        }
        Ok(loaded)
    }

    /// As [`SessionFiles::load_since`], for derived data, which need not be durable.
    pub(crate) fn load_unsettled(&self, cursor: &Cursor) -> Result<Loaded, StoreError> {
        let session = cursor.session_id();
        let scan = log::scan(self.disk().as_ref(), &layout::session(session), cursor)?;
        if scan.health.is_healthy() {
            Ok(scan.loaded)
        } else {
            Err(StoreError::NotHealthy { session: session.clone(), health: Box::new(scan.health) })
        }
    }

    /// Makes durable what another process wrote and may not have synced before it was killed. Otherwise a repeated call would
    /// be answered from an append that a power failure can still undo.
    fn settle(&self, from: &Cursor) -> Result<(), StoreError> {
        let disk = self.disk();
        let (sessions, dir) = (layout::sessions(), layout::session(from.session_id()));
        let manifest = layout::manifest(&dir);
        let mut settled = disk.sync_file(&manifest);
        if from.next_event() == EventIndex::FIRST {
            settled = settled.and_then(|()| disk.sync_dir(Some(&sessions)));
        }
        match settled {
            Err(cause) if cause.kind() != io::ErrorKind::ReadOnlyFilesystem => {
                Err(StoreError::disk("sync", &manifest)(cause))
            }
            // On a read-only file system nothing waits to be written.
            _ => Ok(()),
        }
    }

    /// Whether a whole session is healthy.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], and those of the disk.
    pub fn health(&self, session: &SessionId) -> Result<SessionHealth, StoreError> {
        self.load_validated_prefix(session).map(|prefix| prefix.health)
    }

    /// Reads what can be validated of a session, for showing and exporting it. Never for continuing it.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], and those of the disk.
    pub fn load_validated_prefix(&self, session: &SessionId) -> Result<ValidatedPrefix, StoreError> {
        let start = Cursor::start(session.clone());
        let scan = log::scan(self.disk().as_ref(), &layout::session(session), &start)?;
        Ok(ValidatedPrefix { loaded: scan.loaded, health: scan.health })
    }

    /// Locks a session, reads what is new since `known`, and if the session is healthy gives the right to append. Without
    /// `known`, the whole session is read.
    ///
    /// # Errors
    /// [`StoreError::Locked`] at once when there is another writer, [`StoreError::Busy`] during garbage collection, and as
    /// [`SessionFiles::load`].
    pub fn lock(&self, session: &SessionId, known: Option<&Cursor>) -> Result<Writer, StoreError> {
        Writer::lock(self, session, known)
    }

    /// Blocks garbage collection while the result is alive, so that a copy of the files has everything they refer to. Writers
    /// are not affected. `None` if there are no sessions, and so nothing to collect.
    ///
    /// # Errors
    /// [`StoreError::Busy`] during a collection, and those of the disk.
    pub fn hold(&self) -> Result<Option<Box<dyn crate::disk::Lock>>, StoreError> {
        let dir = layout::sessions();
        match self.disk().stat(&dir).map_err(StoreError::disk("look at", &dir))? {
            Some(_) => self.share_store().map(Some),
            None => Ok(None),
        }
    }

    /// When a session's manifest was last written, and how long it is, without reading it.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn manifest_stat(&self, session: &SessionId) -> Result<Option<crate::disk::Stat>, StoreError> {
        let path = layout::manifest(&layout::session(session));
        self.disk().stat(&path).map_err(StoreError::disk("look at", &path))
    }

    /// Reads and verifies a snapshot.
    ///
    /// # Errors
    /// [`StoreError::ObjectMissing`], [`StoreError::ObjectDamaged`], and those of the disk.
    pub fn snapshot(&self, reference: SnapshotRef) -> Result<Arc<ExecutionSnapshot>, StoreError> {
        self.0.snapshots.get(self.disk().as_ref(), reference)
    }

    /// A snapshot that is in memory. Reads nothing.
    pub(crate) fn cached_snapshot(&self, reference: SnapshotRef) -> Option<Arc<ExecutionSnapshot>> {
        self.0.snapshots.in_memory(reference)
    }

    /// Reads and verifies the canonical bytes of a pinned workflow.
    ///
    /// # Errors
    /// As [`SessionFiles::snapshot`].
    pub fn workflow(&self, hash: WorkflowHash) -> Result<Vec<u8>, StoreError> {
        objects::get(self.disk().as_ref(), ObjectKind::Workflow, hash)
    }

    /// Reads and verifies the canonical bytes of an artifact.
    ///
    /// # Errors
    /// As [`SessionFiles::snapshot`].
    pub fn artifact(&self, digest: canon::digest::Digest) -> Result<Vec<u8>, StoreError> {
        objects::get(self.disk().as_ref(), ObjectKind::Artifact, digest)
    }
}
