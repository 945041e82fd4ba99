//! Guided sessions as files.
//!
//! ```text
//! format.json                                  which version of this layout
//! sessions/<id>/manifest.jsonl                 what counts: attested segments and pinned snapshots
//! sessions/<id>/chain.jsonl                    authenticates the manifest with the integrity key
//! sessions/<id>/events/<first>-<last>.jsonl    the events of one append
//! sessions/<id>/.lock                          held by the one writer
//! sessions/<id>/keep                           this session is not collected
//! sessions/<id>/salvaged.json                  this session is the sound part of a damaged one
//! snapshots/<digest>.json                      states of runs
//! workflows/pinned/<digest>.json               compiled workflows
//! artifacts/<digest>                           large outputs
//! keys/keyring.json                            what tokens are signed with
//! keys/integrity.json                          what chains are authenticated with; never rotated
//! cache/                                       derived; can be deleted at any time
//! ```
//!
//! `docs/formats/session-files.md` draws every file byte by byte and gives the reasons.

mod chain;
mod ended;
mod format;
mod gc;
mod health;
mod integrity_key;
mod keep;
mod keyring;
pub(crate) mod layout;
mod log;
mod manifest;
mod objects;
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

pub use chain::{ChainBreak, ChainState, chain_within};
pub use ended::Ended;
pub use gc::{GcOutcome, GcReport, Retention};
pub use health::{Damage, DamageReason, SessionHealth};
pub use log::{Cursor, Loaded, MANIFEST_BYTES};
pub use objects::{NewObject, WORKFLOW_BYTES};
pub use snapshots::{CHAIN, NewSnapshot, SNAPSHOT_BYTES};
pub use verify::Verification;
pub use writer::{Appended, Attachments, Writer};

use crate::disk::Disk;
use crate::error::{ObjectKind, StoreError};

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
    /// Whether the directories are known to be there.
    prepared: Mutex<bool>,
}

/// A part of a session that is not healthy: for looking at, never for going on.
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

    /// The sessions there are, in order of their ids. None of them has been looked at.
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

    /// Makes a session out of its first plan, or, for an import, out of all of them.
    ///
    /// The session is built in a directory that nobody reads and becomes visible by one rename: a
    /// crash leaves the whole session or none.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::ObjectMissing`] when a plan needs something that is neither
    /// attached nor stored, and those of the disk.
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

    /// Makes a session out of what is left of another one, and marks it as such.
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

    /// Reads what was appended to a healthy session since `cursor`. When nothing was, this costs one look
    /// at the length of the manifest; what is new is durable when this returns, whoever wrote it.
    ///
    /// If the session was deleted and made anew, everything is read; [`Loaded::events`] then begin with
    /// the first event.
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

    /// As [`SessionFiles::load_since`], for what is derived and not answered to anybody.
    pub(crate) fn load_unsettled(&self, cursor: &Cursor) -> Result<Loaded, StoreError> {
        let session = cursor.session_id();
        let scan = log::scan(self.disk().as_ref(), &layout::session(session), cursor)?;
        if scan.health.is_healthy() {
            Ok(scan.loaded)
        } else {
            Err(StoreError::NotHealthy { session: session.clone(), health: Box::new(scan.health) })
        }
    }

    /// Makes durable what another process wrote and perhaps had no time to sync before it was killed.
    /// Otherwise a repeated call would be answered from an append that a power cut can still undo.
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
            // Where nothing can be written, nothing is waiting to be.
            _ => Ok(()),
        }
    }

    /// Whether a session is healthy, from its first byte to its last.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], and those of the disk.
    pub fn health(&self, session: &SessionId) -> Result<SessionHealth, StoreError> {
        self.load_validated_prefix(session).map(|prefix| prefix.health)
    }

    /// Reads what can be validated of a session, however it is. For looking at, never for going on.
    ///
    /// # Errors
    /// [`StoreError::Unknown`], and those of the disk.
    pub fn load_validated_prefix(&self, session: &SessionId) -> Result<ValidatedPrefix, StoreError> {
        let start = Cursor::start(session.clone());
        let scan = log::scan(self.disk().as_ref(), &layout::session(session), &start)?;
        Ok(ValidatedPrefix { loaded: scan.loaded, health: scan.health })
    }

    /// The gate: locks a session, reads what is new since `known`, and if all is healthy hands over the
    /// right to append. Without `known` the whole session is read.
    ///
    /// # Errors
    /// [`StoreError::Locked`] at once when somebody else writes, [`StoreError::Busy`] during a
    /// collection, and as [`SessionFiles::load`].
    pub fn lock(&self, session: &SessionId, known: Option<&Cursor>) -> Result<Writer<'_>, StoreError> {
        Writer::lock(self, session, known)
    }

    /// Keeps collections out for as long as the answer lives, so that whoever copies the files finds all that they refer
    /// to. Writers are not held up. `None` where there are no sessions, and nothing to collect.
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

    /// Reads a snapshot, and verifies it.
    ///
    /// # Errors
    /// [`StoreError::ObjectMissing`], [`StoreError::ObjectDamaged`], and those of the disk.
    pub fn snapshot(&self, reference: SnapshotRef) -> Result<Arc<ExecutionSnapshot>, StoreError> {
        self.0.snapshots.get(self.disk().as_ref(), reference)
    }

    /// Reads the canonical bytes of a pinned workflow, and verifies them.
    ///
    /// # Errors
    /// As [`SessionFiles::snapshot`].
    pub fn workflow(&self, hash: WorkflowHash) -> Result<Vec<u8>, StoreError> {
        objects::get(self.disk().as_ref(), ObjectKind::Workflow, hash)
    }

    /// Reads the canonical bytes of an artifact, and verifies them.
    ///
    /// # Errors
    /// As [`SessionFiles::snapshot`].
    pub fn artifact(&self, digest: canon::digest::Digest) -> Result<Vec<u8>, StoreError> {
        objects::get(self.disk().as_ref(), ObjectKind::Artifact, digest)
    }
}
