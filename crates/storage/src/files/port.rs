//! The adapter for [`ports::sessions`]. Each operation runs on a blocking thread, unless the answer is in memory.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use guide::bundle::Salvaged;
use guide::project::resume::{ResumeQuery, rank};
use guide::record::{EventIndex, SessionId, WorkflowHash};
use guide::state::Run;
use guide::token::Keyring;
use ports::sessions::{
    Append, Creation, Ended, GcReport, IndexPage, IsAwaited, NewObjects, Object, ObjectRef, OpenRunRef,
    PositionKey, Projection, Retention, Revision, SearchResult, SessionIndex, SessionKeys, SessionLog,
    SessionMaintenance, SessionMarks, SessionObjects, SessionStore, SessionStores, SessionWriter, StoreError,
    StoreFuture, Verification, page, project,
};
use ports::{PortFuture, blocking};
use serde::Deserialize;
use tracing::Span;

use super::{Attachments, Cursor, Loaded, NewObject, NewSnapshot, SessionFiles, Writer};
use crate::disk::{Disk, DiskPath, RealDisk, Stat};
use crate::index::{Index, Projector};

/// The guided sessions of one data directory, behind the port. Cheap to clone; clones share caches and locks.
#[derive(Clone, Debug)]
pub struct FileSessions {
    files: SessionFiles,
    index: Arc<Index>,
}

impl FileSessions {
    /// Opens the sessions of a data directory. Nothing is written before the first append.
    ///
    /// # Errors
    /// As [`SessionFiles::open`].
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        SessionFiles::open(disk).map(Self::new)
    }

    /// Creates an adapter for these files, with its own index.
    pub fn new(files: SessionFiles) -> Self {
        Self { index: Arc::new(Index::new(files.clone())), files }
    }

    /// The underlying files, for commands that work on the data directory itself.
    pub const fn files(&self) -> &SessionFiles {
        &self.files
    }

    /// Runs an operation on a blocking thread.
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SessionFiles, &Index) -> T + Send + 'static,
    ) -> PortFuture<'static, T> {
        let (this, span) = (self.clone(), Span::current());
        blocking(move || span.in_scope(|| work(&this.files, &this.index)))
    }
}

impl SessionLog for FileSessions {
    fn sessions(&self) -> StoreFuture<'_, Vec<SessionId>> {
        self.run(|files, _| files.sessions())
    }

    fn revisions(&self, sessions: Vec<SessionId>) -> StoreFuture<'_, Vec<Option<Revision>>> {
        self.run(move |files, _| {
            let revision = |session: &SessionId| Ok(files.manifest_stat(session)?.map(revision_of));
            sessions.iter().map(revision).collect()
        })
    }

    fn create(&self, creation: Creation) -> StoreFuture<'_, ports::sessions::Appended> {
        self.run(move |files, index| {
            let Creation { plans, objects, projection, salvaged, imported_ms } = creation;
            let attachments = attachments(&objects);
            let appended = match &salvaged {
                Some(salvaged) => files.create_part(&plans, &attachments, salvaged)?,
                None => files.create(&plans, &attachments)?,
            };
            if let Some(now_ms) = imported_ms {
                files.set_imported(appended.cursor.session_id(), now_ms)?;
            }
            record(index, None, &appended.cursor, projection);
            Ok(shown(&appended))
        })
    }

    fn load_since(&self, cursor: ports::sessions::Cursor) -> StoreFuture<'_, ports::sessions::Loaded> {
        self.run(move |files, _| files.load_since(&Cursor::from_port(&cursor)).map(loaded))
    }

    fn load_validated_prefix(&self, session: SessionId) -> StoreFuture<'_, ports::sessions::ValidatedPrefix> {
        self.run(move |files, _| {
            let prefix = files.load_validated_prefix(&session)?;
            Ok(ports::sessions::ValidatedPrefix { loaded: loaded(prefix.loaded), health: prefix.health })
        })
    }

    fn lock(
        &self,
        session: SessionId,
        known: Option<ports::sessions::Cursor>,
    ) -> StoreFuture<'_, Box<dyn SessionWriter>> {
        let index = Arc::clone(&self.index);
        self.run(move |files, _| {
            let mut writer = files.lock(&session, known.as_ref().map(Cursor::from_port).as_ref())?;
            let ended = files.ended(&session)?;
            let news = loaded(writer.take_news());
            Ok(Box::new(FileWriter { writer, news, ended, index }) as Box<dyn SessionWriter>)
        })
    }
}

/// A locked session, and the events that were read under the lock.
#[derive(Debug)]
struct FileWriter {
    writer: Writer,
    news: ports::sessions::Loaded,
    ended: Option<Ended>,
    index: Arc<Index>,
}

impl SessionWriter for FileWriter {
    fn news(&self) -> &ports::sessions::Loaded {
        &self.news
    }

    fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    fn append(self: Box<Self>, append: Append) -> StoreFuture<'static, ports::sessions::Appended> {
        let span = Span::current();
        let work = move || {
            let Self { mut writer, index, .. } = *self;
            let before = writer.cursor().clone();
            let appended = writer.append(&append.plan, &attachments(&append.objects)).map_err(|cause| {
                if writer.is_unconfirmed() {
                    let session = before.session_id().clone();
                    StoreError::OutcomeUnknown { session, cause: Box::new(cause) }
                } else {
                    cause
                }
            })?;
            record(&index, Some(&before), &appended.cursor, append.projection);
            Ok(shown(&appended))
        };
        blocking(move || span.in_scope(work))
    }

    fn end(self: Box<Self>, ended: Ended) -> StoreFuture<'static, ()> {
        blocking(move || self.writer.end(&ended))
    }
}

impl SessionObjects for FileSessions {
    fn objects(&self, wanted: Vec<ObjectRef>) -> PortFuture<'_, Vec<Result<Object, StoreError>>> {
        // The next advance usually starts from the snapshot that the last one wrote. It is cached, so no thread is
        // needed.
        let in_memory = |wanted: &ObjectRef| match wanted {
            ObjectRef::Snapshot(reference) => self.files.cached_snapshot(*reference).map(Object::Snapshot),
            ObjectRef::Workflow(_) | ObjectRef::Artifact(_) => None,
        };
        if let Some(found) = wanted.iter().map(in_memory).collect::<Option<Vec<_>>>() {
            return PortFuture::ready(found.into_iter().map(Ok).collect());
        }
        self.run(move |files, _| wanted.into_iter().map(|wanted| object(files, wanted)).collect())
    }
}

impl SessionIndex for FileSessions {
    fn position(&self, key: PositionKey) -> StoreFuture<'_, Option<(SessionId, EventIndex)>> {
        if let Some(found) = self.index.position_in_memory(&key) {
            return PortFuture::ready(Ok(Some(found)));
        }
        self.run(move |files, index| index.position(&key, &ByWorkflowName::new(files)))
    }

    fn search(&self, query: ResumeQuery, limit: usize) -> StoreFuture<'_, SearchResult> {
        self.run(move |files, index| {
            index.with_inputs(&ByWorkflowName::new(files), |inputs| {
                let ranking = rank(inputs, &query);
                let best = ranking.ranked.iter().take(limit);
                let candidates = best.map(|ranked| ranking.candidate(ranked)).collect();
                SearchResult { candidates, total_eligible: ranking.total_eligible() }
            })
        })
    }

    fn page(&self, first: usize, limit: usize) -> StoreFuture<'_, IndexPage> {
        self.run(move |files, index| {
            let projector = ByWorkflowName::new(files);
            let (sessions, total) = index.with_inputs(&projector, |inputs| page(inputs, first, limit))?;
            Ok(IndexPage { sessions, total, unusable: index.unusable() })
        })
    }

    fn newest_open_run(&self, repo_root_hash: String) -> StoreFuture<'_, Option<OpenRunRef>> {
        self.run(move |files, index| {
            index.with_inputs(&ByWorkflowName::new(files), |inputs| {
                inputs
                    .filter(|run| !run.is_complete && run.repo_root_hash.as_deref() == Some(&repo_root_hash))
                    .max_by_key(|run| (run.last_modified_ms, run.last_activity_index))
                    .map(|run| OpenRunRef { session_id: run.session_id.clone(), run_id: run.run_id.clone() })
            })
        })
    }
}

impl SessionMarks for FileSessions {
    fn are_kept(&self, sessions: Vec<SessionId>) -> StoreFuture<'_, Vec<bool>> {
        self.run(move |files, _| sessions.iter().map(|session| files.is_kept(session)).collect())
    }

    fn set_kept(&self, session: SessionId, kept: bool) -> StoreFuture<'_, ()> {
        self.run(move |files, _| files.set_kept(&session, kept))
    }

    fn ended(&self, session: SessionId) -> StoreFuture<'_, Option<Ended>> {
        self.run(move |files, _| files.ended(&session))
    }

    fn salvaged(&self, session: SessionId) -> StoreFuture<'_, Option<Salvaged>> {
        self.run(move |files, _| files.salvaged(&session))
    }
}

impl SessionKeys for FileSessions {
    fn keyring(&self) -> StoreFuture<'_, Option<Keyring>> {
        self.run(|files, _| files.keyring())
    }

    fn keyring_or_create(&self, entropy: [u8; 32]) -> StoreFuture<'_, Keyring> {
        self.run(move |files, _| files.keyring_or_create(entropy))
    }

    fn rotate_keys(&self, entropy: [u8; 32]) -> StoreFuture<'_, Keyring> {
        self.run(move |files, _| files.rotate_keys(entropy))
    }
}

impl SessionMaintenance for FileSessions {
    fn verify(&self, session: SessionId) -> StoreFuture<'_, Verification> {
        self.run(move |files, _| files.verify(&session))
    }

    fn gc(&self, retention: Retention, is_awaited: IsAwaited) -> StoreFuture<'_, GcReport> {
        self.run(move |files, index| {
            let report = files.gc_sparing(retention, &|events| is_awaited.ask(events.to_vec()).wait())?;
            if !retention.dry_run && !report.deleted_sessions.is_empty() {
                // The index detects deletions by itself; this saves the next reader the work.
                let _ = index.forget(&report.deleted_sessions);
            }
            Ok(report)
        })
    }
}

/// The data directory of all tenants. It has its own sessions, and those of tenant `T` below `tenants/<T>`.
#[derive(Debug)]
pub struct FileTenants {
    disk: Arc<RealDisk>,
}

impl FileTenants {
    pub const fn new(disk: Arc<RealDisk>) -> Self {
        Self { disk }
    }
}

impl SessionStores for FileTenants {
    fn open<'a>(&'a self, tenant: Option<&'a str>) -> StoreFuture<'a, Arc<dyn SessionStore>> {
        let disk = Arc::clone(&self.disk);
        let dir = tenant.map(|tenant| DiskPath::root("tenants").join(tenant));
        blocking(move || {
            let disk: Arc<dyn Disk> = match dir {
                None => disk,
                Some(dir) => Arc::new(disk.open_below(&dir).map_err(StoreError::disk("open", &dir))?),
            };
            Ok(Arc::new(FileSessions::open(disk)?) as Arc<dyn SessionStore>)
        })
    }
}

/// Creates index entries for sessions that the index does not know.
struct ByWorkflowName<'f> {
    files: &'f SessionFiles,
    /// A cache, because many sessions share few workflows.
    names: RefCell<HashMap<WorkflowHash, Option<String>>>,
}

impl<'f> ByWorkflowName<'f> {
    fn new(files: &'f SessionFiles) -> Self {
        Self { files, names: RefCell::default() }
    }

    /// The name of a run's workflow, for searching. `None` if its pinned copy cannot be read.
    fn name(&self, run: &Run) -> Option<String> {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let read = |hash| {
            let bytes = self.files.workflow(hash).ok()?;
            serde_json::from_slice::<Named>(&bytes).ok().map(|workflow| workflow.name)
        };
        let mut names = self.names.borrow_mut();
        names.entry(run.workflow_hash).or_insert_with(|| read(run.workflow_hash)).clone()
    }
}

impl Projector for ByWorkflowName<'_> {
    fn project(&self, session: &Loaded) -> Option<Projection> {
        project(session.cursor.session_id(), &session.events, |run| self.name(run))
    }
}

/// Updates the index after an append. If this fails, the append is still durable, and the index reads the session on
/// demand.
fn record(index: &Index, before: Option<&Cursor>, after: &Cursor, projection: Projection) {
    if let Err(error) = index.record(before, after, projection) {
        let session = after.session_id().as_str();
        let cause = error.envelope().message().to_owned();
        tracing::warn!(session.id = session, cause, "the index of sessions could not be updated");
    }
}

fn attachments(objects: &NewObjects) -> Attachments<'_> {
    Attachments {
        snapshots: objects
            .snapshots
            .iter()
            .map(|new| NewSnapshot { named: &new.named, parent: new.parent })
            .collect(),
        workflows: objects.workflows.iter().map(new_object).collect(),
        artifacts: objects.artifacts.iter().map(new_object).collect(),
    }
}

fn new_object(object: &ports::sessions::NewObject) -> NewObject<'_> {
    NewObject { digest: object.digest, bytes: &object.bytes }
}

fn object(files: &SessionFiles, wanted: ObjectRef) -> Result<Object, StoreError> {
    match wanted {
        ObjectRef::Snapshot(reference) => files.snapshot(reference).map(Object::Snapshot),
        ObjectRef::Workflow(hash) => files.workflow(hash).map(Object::Bytes),
        ObjectRef::Artifact(digest) => files.artifact(digest).map(Object::Bytes),
    }
}

fn loaded(loaded: Loaded) -> ports::sessions::Loaded {
    let cursor = loaded.cursor.to_port();
    ports::sessions::Loaded { events: loaded.events, manifest: loaded.manifest, cursor }
}

fn shown(appended: &super::Appended) -> ports::sessions::Appended {
    let cursor = appended.cursor.to_port();
    ports::sessions::Appended { first: appended.first, last: appended.last, cursor }
}

/// Every append changes the length of the manifest, and a session that is deleted and created again has a new file.
fn revision_of(stat: Stat) -> Revision {
    Revision::new(stat.modified_ms, u128::from(stat.id) << 64 | u128::from(stat.len))
}
