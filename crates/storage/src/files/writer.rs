//! Appends to sessions. This is the only way a log changes.
//!
//! ```text
//!   lock and validate ──► repair the manifest, if an append was interrupted
//!                              │
//!            ┌─────────────────┴──────────────────┬───────────────────┐        concurrently
//!   snapshots, workflows, artifacts         the segment         the chain's line
//!   temp, fsync, rename, fsync(dir)   temp, fsync, rename,        write, fsync
//!            │                             fsync(dir)                 │
//!            └─────────────────┬──────────────────┴───────────────────┘
//!              the manifest's group: one write, one fsync   ◄── the append is recorded
//!                              │
//!              the line end of the chain's line: one write, no fsync
//! ```

use std::collections::BTreeSet;
use std::sync::PoisonError;

use guide::bundle::Salvaged;
use guide::plan::AppendPlan;
use guide::record::{EventIndex, SessionId};
use ports::sessions::{ObjectKind, StoreError};
use sessionlog::manifest::{self, MANIFEST_BYTES};
use sessionlog::references;
use sessionlog::snapshots::{NewSnapshot, Prepared};

use super::log::{Cursor, Loaded};
use super::{SessionFiles, chain, layout, objects, salvaged, snapshots};
use crate::disk::{self, DiskPath, Lock, Sharing, Unsynced};
use crate::files::objects::NewObject;

/// The objects that the events of an append refer to and that the store may not have yet.
#[derive(Clone, Debug, Default)]
pub struct Attachments<'a> {
    /// The snapshots of new nodes. If a parent and its child are both new, the parent comes first.
    pub snapshots: Vec<NewSnapshot<'a>>,
    /// The compiled workflows of new runs.
    pub workflows: Vec<NewObject<'a>>,
    /// Artifacts that are not part of their events.
    pub artifacts: Vec<NewObject<'a>>,
}

/// A durable append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The first new event.
    pub first: EventIndex,
    pub last: EventIndex,
    /// The new end of the session.
    pub cursor: Cursor,
}

/// The right to append to one session: proof that it is locked and was healthy.
///
/// Only [`SessionFiles::lock`] creates one. It is owned and can be sent to another thread. Dropping it releases the lock.
#[derive(Debug)]
pub struct Writer {
    files: SessionFiles,
    news: Loaded,
    cursor: Cursor,
    state: State,
    // Fields are dropped in this order: the lock of the session is released last.
    _store: Box<dyn Lock>,
    _session: Box<dyn Lock>,
    _process: Held,
}

/// The state after the last append of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The cursor is the end of the log.
    Clean,
    /// The append failed before the manifest was written. Nothing was recorded.
    Failed,
    /// The append failed while the manifest was written. It may have been recorded.
    Unconfirmed,
}

/// Registers a session as being written by this process.
#[derive(Debug)]
struct Held {
    files: SessionFiles,
    session: SessionId,
}

impl Held {
    fn take(files: &SessionFiles, session: &SessionId) -> Option<Self> {
        let mut writing = files.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        writing.insert(session.clone()).then(|| Self { files: files.clone(), session: session.clone() })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.files.0.writing.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.session);
    }
}

impl SessionFiles {
    /// Blocks garbage collection while the result is alive.
    pub(super) fn share_store(&self) -> Result<Box<dyn Lock>, StoreError> {
        let path = layout::store_lock();
        let locked = self.disk().try_lock(&path, Sharing::Shared).map_err(StoreError::disk("lock", &path))?;
        locked.ok_or(StoreError::Busy { with: "old sessions are being collected" })
    }
}

impl Writer {
    pub(super) fn lock(
        files: &SessionFiles,
        session: &SessionId,
        known: Option<&Cursor>,
    ) -> Result<Self, StoreError> {
        let known = known.filter(|cursor| cursor.session_id() == session);
        // Locking a session that does not exist must not create a directory for it.
        if files.manifest_stat(session)?.is_none() {
            return Err(StoreError::Unknown { session: session.clone() });
        }
        files.prepare()?;
        let locked = || StoreError::Locked { session: session.clone() };
        let process = Held::take(files, session).ok_or_else(locked)?;
        let store = files.share_store()?;
        let path = layout::session_lock(session);
        let lock =
            files.disk().try_lock(&path, Sharing::Exclusive).map_err(StoreError::disk("lock", &path))?;
        let lock = lock.ok_or_else(locked)?;
        let start = Cursor::start(session.clone());
        let news = files.load_since(known.unwrap_or(&start))?;
        let cursor = news.cursor.clone();
        Ok(Self {
            files: files.clone(),
            news,
            cursor,
            state: State::Clean,
            _store: store,
            _session: lock,
            _process: process,
        })
    }

    /// The events that were appended since the cursor that was passed to the lock.
    pub const fn news(&self) -> &Loaded {
        &self.news
    }

    /// Moves out the result of [`Writer::news`].
    pub(super) fn take_news(&mut self) -> Loaded {
        let nothing = Loaded { events: Vec::new(), manifest: Vec::new(), cursor: self.cursor.clone() };
        std::mem::replace(&mut self.news, nothing)
    }

    /// The store of the session.
    pub(super) const fn files(&self) -> &SessionFiles {
        &self.files
    }

    /// The end of the session.
    pub const fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// Appends a plan. The append is durable when this returns.
    ///
    /// After an error, this writer cannot append any more. Recorded events are never lost; locking the session again
    /// shows whether this append was recorded.
    ///
    /// # Errors
    /// [`StoreError::Moved`] if the plan was made for another end of the log, [`StoreError::ObjectMissing`] if it refers
    /// to an object that is neither attached nor stored, and disk errors.
    pub fn append(
        &mut self,
        plan: &AppendPlan,
        attachments: &Attachments<'_>,
    ) -> Result<Appended, StoreError> {
        let session = self.cursor.session_id().clone();
        if self.state != State::Clean {
            return Err(StoreError::Spent { session });
        }
        if plan.session_id() != &session || plan.first() != self.cursor.next_event() {
            return Err(StoreError::Moved { session, tip: self.cursor.next_event(), planned: plan.first() });
        }
        let files = self.files.clone();
        let prepared = check(&files, std::slice::from_ref(plan), attachments)?;
        let at = self.cursor.next_record();
        let record = manifest::segment_record(&session, at, (plan.first(), plan.last()), plan.segment());
        let records = manifest::group(&session, at, record, plan.pins());
        let bytes = manifest::encode(&records);
        let path = layout::manifest(&layout::session(&session));
        too_large(&path, self.cursor.manifest_bytes() + 1 + bytes.len() as u64)?;
        self.state = State::Failed;
        let disk = files.disk().as_ref();
        let dir = layout::session(&session);
        // This happens before the segment is written: the record of an interrupted append may name the same file, and
        // would then refer to replaced bytes.
        self.repair(&dir)?;
        let key = files.integrity_key_or_create()?;
        let (mut objects, mut segment, mut chained) = (Ok(()), Ok(()), Ok(chain::Extended::LeftAlone));
        disk.both(&mut || objects = write_objects(&files, &prepared, attachments), &mut || {
            disk.both(
                &mut || {
                    chained = chain::extend(disk, &key, &dir, &self.cursor, (records.len() as u64, &bytes));
                },
                &mut || segment = write_segment(&files, &dir, plan),
            );
        });
        objects.and(segment)?;
        let chained = chained?;
        self.state = State::Unconfirmed;
        disk.append(&path, &bytes).and_then(Unsynced::sync).map_err(StoreError::disk("write", &path))?;
        match chained {
            chain::Extended::Unacknowledged => chain::acknowledge(disk, &dir)?,
            chain::Extended::LeftAlone => {}
        }
        prepared.iter().for_each(|snapshot| files.0.snapshots.keep(snapshot));
        let file = self.cursor.file();
        self.cursor = self.cursor.after(records.len() as u64, plan.last(), bytes.len() as u64, file);
        self.state = State::Clean;
        Ok(Appended { first: plan.first(), last: plan.last(), cursor: self.cursor.clone() })
    }

    /// Whether the last append may have been recorded although it failed. Locking the session again shows whether it was.
    pub const fn is_unconfirmed(&self) -> bool {
        matches!(self.state, State::Unconfirmed)
    }

    /// Removes the remains of an interrupted append, durably.
    fn repair(&mut self, dir: &DiskPath) -> Result<(), StoreError> {
        if self.cursor.is_clean() {
            return Ok(());
        }
        let disk = self.files.disk().as_ref();
        let path = layout::manifest(dir);
        let end = self.cursor.manifest_bytes();
        disk.truncate(&path, end)
            .and_then(Unsynced::sync)
            // The line end of the last complete group may also be missing.
            .and_then(|()| disk.append(&path, b"\n"))
            .and_then(Unsynced::sync)
            .map_err(StoreError::disk("repair", &path))?;
        self.cursor.repaired();
        Ok(())
    }
}

/// Creates a session; see [`SessionFiles::create`] and [`SessionFiles::create_part`].
pub(super) fn create(
    files: &SessionFiles,
    plans: &[AppendPlan],
    attachments: &Attachments<'_>,
    salvaged: Option<&Salvaged>,
) -> Result<Appended, StoreError> {
    let (first, last) = (plans.first(), plans.last());
    let (first, last) = first.zip(last).expect("a session is made of at least one plan");
    let session = first.session_id().clone();
    files.prepare()?;
    let Some(_process) = Held::take(files, &session) else { return Err(StoreError::Locked { session }) };
    let _store = files.share_store()?;
    let disk = files.disk().as_ref();
    let target = layout::session(&session);
    if disk.stat(&target).map_err(StoreError::disk("look at", &target))?.is_some() {
        return Err(StoreError::Exists { session });
    }
    let prepared = check(files, plans, attachments)?;
    let sessions = layout::sessions();
    let staging = sessions.join(&format!("{}{:x}", layout::STAGING, disk.unique()));
    let (mut left, mut right) = (Ok(()), None);
    disk.both(&mut || left = write_objects(files, &prepared, attachments), &mut || {
        right = Some(stage(files, &session, &staging, plans, salvaged));
    });
    let staged = left.and_then(|()| right.expect("both were run"));
    let made = staged.and_then(|cursor| {
        let renamed = disk.rename(&staging, &target).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::DirectoryNotEmpty | std::io::ErrorKind::AlreadyExists => {
                StoreError::Exists { session: session.clone() }
            }
            _ => StoreError::disk("write", &target)(cause),
        });
        renamed.map(|()| cursor)
    });
    let cursor = match made {
        Ok(cursor) => cursor,
        Err(error) => {
            // Best effort: garbage collection deletes the rest.
            let _ = files.remove_tree(&staging);
            return Err(error);
        }
    };
    disk.sync_dir(Some(&sessions)).map_err(StoreError::disk("write", &target))?;
    prepared.iter().for_each(|snapshot| files.0.snapshots.keep(snapshot));
    Ok(Appended { first: first.first(), last: last.last(), cursor })
}

/// Writes a whole session into a staging directory.
fn stage(
    files: &SessionFiles,
    session: &SessionId,
    staging: &DiskPath,
    plans: &[AppendPlan],
    salvaged: Option<&Salvaged>,
) -> Result<Cursor, StoreError> {
    let disk = files.disk().as_ref();
    let failed = || StoreError::disk("write", staging);
    let events = layout::events(staging);
    disk.create_dir(staging).and_then(|()| disk.create_dir(&events)).map_err(failed())?;
    let mut cursor = Cursor::start(session.clone());
    let mut bytes = Vec::new();
    let last = plans.len().saturating_sub(1);
    for (position, plan) in plans.iter().enumerate() {
        assert_eq!(
            (plan.session_id(), plan.first()),
            (session, cursor.next_event()),
            "the plans are those of one session, in order"
        );
        let path = segment_path(staging, plan);
        // Readers ignore the staging directory, so its files do not have to appear atomically. One sync of the directory
        // after the last segment is enough.
        disk.create(&path, plan.segment()).and_then(Unsynced::sync).map_err(failed())?;
        if position == last {
            disk.sync_dir(Some(&events)).map_err(failed())?;
        }
        let at = cursor.next_record();
        let record = manifest::segment_record(session, at, (plan.first(), plan.last()), plan.segment());
        let records = manifest::group(session, at, record, plan.pins());
        let group = manifest::encode(&records);
        cursor = cursor.after(records.len() as u64, plan.last(), group.len() as u64, 0);
        bytes.extend_from_slice(&group);
    }
    let path = layout::manifest(staging);
    too_large(&path, bytes.len() as u64)?;
    let key = files.integrity_key_or_create()?;
    let chain = sessionlog::chain::created(&key, session, cursor.next_record().0, &bytes);
    let (mut written, mut chained) = (Ok(()), Ok(()));
    disk.both(
        &mut || chained = disk.create(&layout::chain(staging), &chain).and_then(Unsynced::sync),
        &mut || written = disk.create(&path, &bytes).and_then(Unsynced::sync),
    );
    written.and(chained).map_err(failed())?;
    if let Some(salvaged) = salvaged {
        let mark = layout::salvaged(staging);
        disk.create(&mark, &salvaged::encode(salvaged)).and_then(Unsynced::sync).map_err(failed())?;
    }
    disk.sync_dir(Some(staging)).map_err(failed())?;
    let file = disk.stat(&path).map_err(failed())?.map_or(0, |stat| stat.id);
    cursor.set_file(file);
    Ok(cursor)
}

fn too_large(path: &DiskPath, measured: u64) -> Result<(), StoreError> {
    if measured > MANIFEST_BYTES {
        return Err(StoreError::TooLarge { what: path.to_string(), measured, maximum: MANIFEST_BYTES });
    }
    Ok(())
}

fn segment_path(session: &DiskPath, plan: &AppendPlan) -> DiskPath {
    let relative = guide::record::segment_rel_path(plan.first(), plan.last());
    DiskPath::parse(&format!("{session}/{relative}")).expect("the path of a segment is made of numbers")
}

fn write_segment(files: &SessionFiles, session: &DiskPath, plan: &AppendPlan) -> Result<(), StoreError> {
    let path = segment_path(session, plan);
    let (_, name) = path.split();
    // There is only one writer, so one temporary name is enough. The remains of a crash are overwritten.
    let temporary = format!("segment{}", layout::TEMPORARY);
    disk::publish(files.disk().as_ref(), &layout::events(session), &temporary, name, plan.segment())
        .map_err(StoreError::disk("write", &path))
}

fn write_objects(
    files: &SessionFiles,
    prepared: &[Prepared],
    attachments: &Attachments<'_>,
) -> Result<(), StoreError> {
    let disk = files.disk().as_ref();
    for workflow in &attachments.workflows {
        files.0.objects.put(disk, ObjectKind::Workflow, *workflow)?;
    }
    for artifact in &attachments.artifacts {
        files.0.objects.put(disk, ObjectKind::Artifact, *artifact)?;
    }
    for snapshot in prepared {
        snapshots::write(disk, snapshot)?;
    }
    Ok(())
}

/// Checks that every object that the plans refer to is attached or stored, before anything is written.
fn check(
    files: &SessionFiles,
    plans: &[AppendPlan],
    attachments: &Attachments<'_>,
) -> Result<Vec<Prepared>, StoreError> {
    let disk = files.disk().as_ref();
    let mut attached = BTreeSet::new();
    for (kind, objects) in
        [(ObjectKind::Workflow, &attachments.workflows), (ObjectKind::Artifact, &attachments.artifacts)]
    {
        for object in objects {
            files.0.objects.check(disk, kind, *object)?;
            attached.insert((kind, object.digest));
        }
    }
    let mut prepared = Vec::with_capacity(attachments.snapshots.len());
    for snapshot in &attachments.snapshots {
        let snapshot = files.0.snapshots.prepare(&snapshots::Files(disk), *snapshot)?;
        if attached.insert((ObjectKind::Snapshot, snapshot.reference().0)) {
            prepared.push(snapshot);
        }
    }
    for (kind, digest) in plans.iter().flat_map(AppendPlan::events).flat_map(references) {
        if attached.insert((kind, digest)) && !objects::is_there(disk, kind, digest)? {
            return Err(StoreError::ObjectMissing { kind, digest });
        }
    }
    Ok(prepared)
}
