//! Guided sessions as files.
//!
//! ```text
//! format.json                                  the version of this layout
//! sessions/<id>/manifest.jsonl                 the valid segments with their digests, and pinned snapshots
//! sessions/<id>/chain.jsonl                    authenticates the manifest with the integrity key
//! sessions/<id>/events/<first>-<last>.jsonl    the events of one append
//! sessions/<id>/.lock                          held by the one writer
//! sessions/<id>/keep                           garbage collection spares this session
//! sessions/<id>/salvaged.json                  this session was salvaged from a damaged one
//! snapshots/<digest>.json                      states of runs
//! workflows/pinned/<digest>.json               compiled workflows
//! artifacts/<digest>                           large outputs
//! keys/keyring.json                            the keys that sign tokens
//! keys/integrity.json                          the key that authenticates chains; never rotated
//! cache/                                       derived; can be deleted at any time
//! ```
//!
//! `docs/formats/session-files.md` specifies every file byte by byte, with the rationale.

mod chain;
mod ended;
mod format;
mod gc;
mod integrity_key;
mod keep;
mod keyring;
pub(crate) mod layout;
mod log;
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

pub use log::{Cursor, Loaded};
pub use objects::{NewObject, WORKFLOW_BYTES};
pub use port::{FileSessions, FileTenants};
pub use ports::sessions::{
    ChainBreak, ChainState, Damage, DamageReason, Ended, GcOutcome, GcReport, Retention, SessionHealth,
    Verification,
};
use ports::sessions::{ObjectKind, StoreError};
pub use sessionlog::chain::chain_within;
pub use sessionlog::manifest::MANIFEST_BYTES;
pub use sessionlog::snapshots::{CHAIN, NewSnapshot, SNAPSHOT_BYTES};
pub use writer::{Appended, Attachments, Writer};

use sessionlog::snapshots::Snapshots;

use crate::disk::Disk;

/// The guided sessions of one data directory.
///
/// Cheap to clone; clones share caches and locks. Reading takes no lock and writes nothing.
#[derive(Clone, Debug)]
pub struct SessionFiles(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    disk: Arc<dyn Disk>,
    snapshots: Snapshots,
    objects: objects::Objects,
    /// The sessions that this process is writing.
    writing: Mutex<HashSet<SessionId>>,
    /// The integrity key. `None` before the first write of this process.
    integrity: Mutex<Option<Key>>,
    /// Whether the directories are known to exist.
    prepared: Mutex<bool>,
}

/// The valid prefix of a session that may be damaged. It can be shown and exported, but never continued.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedPrefix {
    /// The validated events. If the session is healthy, all of them.
    pub loaded: Loaded,
    /// The health of the session, with the damage of the rest.
    pub health: SessionHealth,
}

impl SessionFiles {
    /// Opens the sessions of a data directory. Nothing is written before the first append.
    ///
    /// # Errors
    /// [`StoreError::NewerVersion`] for a directory of a newer version, [`StoreError::Damaged`] if its version cannot be
    /// read, and disk errors.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        format::check(&*disk)?;
        Ok(Self(Arc::new(Shared {
            disk,
            snapshots: Snapshots::default(),
            objects: objects::Objects::default(),
            writing: Mutex::default(),
            integrity: Mutex::default(),
            prepared: Mutex::default(),
        })))
    }

    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.0.disk
    }

    /// The ids of all sessions, sorted. The sessions themselves are not read.
    ///
    /// # Errors
    /// Disk errors.
    pub fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        let dir = layout::sessions();
        let names = self.0.disk.list(&dir).map_err(StoreError::disk("list", &dir))?;
        let mut ids: Vec<_> = names.iter().filter_map(|name| SessionId::parse(name).ok()).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Creates a session from its first plan or, for an import, from all of its plans.
    ///
    /// The session is written into a staging directory and becomes visible by one rename, so the creation is atomic even
    /// after a crash.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::ObjectMissing`] if a plan refers to an object that is neither attached nor
    /// stored, and disk errors.
    ///
    /// # Panics
    /// There is no plan, or the plans are not those of one session from its first event on.
    pub fn create(
        &self,
        plans: &[AppendPlan],
        attachments: &Attachments<'_>,
    ) -> Result<Appended, StoreError> {
        writer::create(self, plans, attachments, None)
    }

    /// Creates a session that was salvaged from a damaged one, and marks it as such.
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
    /// [`StoreError::Unknown`], [`StoreError::NotHealthy`], and disk errors.
    pub fn load(&self, session: &SessionId) -> Result<Loaded, StoreError> {
        self.load_since(&Cursor::start(session.clone()))
    }

    /// Reads the events that were appended to a healthy session since `cursor`. If there are none, this costs one `stat`
    /// of the manifest. The events are durable when this returns, even if another process wrote them.
    ///
    /// If the session was deleted and created again, everything is read; [`Loaded::events`] then begins with the first
    /// event.
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

    /// As [`SessionFiles::load_since`], for derived data: the events may not be durable yet.
    pub(crate) fn load_unsettled(&self, cursor: &Cursor) -> Result<Loaded, StoreError> {
        let session = cursor.session_id();
        let scan = log::scan(self.disk().as_ref(), &layout::session(session), cursor)?;
        if scan.health.is_healthy() {
            Ok(scan.loaded)
        } else {
            Err(StoreError::NotHealthy { session: session.clone(), health: Box::new(scan.health) })
        }
    }

    /// Syncs what another process wrote and may not have synced before it was killed. Otherwise a repeated call could be
    /// answered from an append that a power failure can still undo.
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
            // A read-only file system has no unsynced writes.
            _ => Ok(()),
        }
    }

    /// The health of a whole session.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], and disk errors.
    pub fn health(&self, session: &SessionId) -> Result<SessionHealth, StoreError> {
        self.load_validated_prefix(session).map(|prefix| prefix.health)
    }

    /// Reads the valid prefix of a session, for showing and exporting it. It must not be continued.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], and disk errors.
    pub fn load_validated_prefix(&self, session: &SessionId) -> Result<ValidatedPrefix, StoreError> {
        let start = Cursor::start(session.clone());
        let scan = log::scan(self.disk().as_ref(), &layout::session(session), &start)?;
        Ok(ValidatedPrefix { loaded: scan.loaded, health: scan.health })
    }

    /// Locks a session for appending and reads the events since `known`. The session must be healthy. Without `known`,
    /// the whole session is read.
    ///
    /// # Errors
    /// [`StoreError::Locked`] immediately if there is another writer, [`StoreError::Busy`] during garbage collection, and
    /// as [`SessionFiles::load`].
    pub fn lock(&self, session: &SessionId, known: Option<&Cursor>) -> Result<Writer, StoreError> {
        Writer::lock(self, session, known)
    }

    /// Blocks garbage collection while the result is alive, so that a copy of the files is complete. Writers are not
    /// affected. `None` if there are no sessions, and so nothing to collect.
    ///
    /// # Errors
    /// [`StoreError::Busy`] during a collection, and disk errors.
    pub fn hold(&self) -> Result<Option<Box<dyn crate::disk::Lock>>, StoreError> {
        let dir = layout::sessions();
        match self.disk().stat(&dir).map_err(StoreError::disk("look at", &dir))? {
            Some(_) => self.share_store().map(Some),
            None => Ok(None),
        }
    }

    /// The modification time and length of a session's manifest, without reading it.
    ///
    /// # Errors
    /// Disk errors.
    pub fn manifest_stat(&self, session: &SessionId) -> Result<Option<crate::disk::Stat>, StoreError> {
        let path = layout::manifest(&layout::session(session));
        self.disk().stat(&path).map_err(StoreError::disk("look at", &path))
    }

    /// Reads and verifies a snapshot.
    ///
    /// # Errors
    /// [`StoreError::ObjectMissing`], [`StoreError::ObjectDamaged`], and disk errors.
    pub fn snapshot(&self, reference: SnapshotRef) -> Result<Arc<ExecutionSnapshot>, StoreError> {
        self.0.snapshots.get(&snapshots::Files(self.disk().as_ref()), reference)
    }

    /// A cached snapshot. Reads nothing from disk.
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
