//! One attempt to resolve a mount, shared by its resolver, the writers and the coordinator.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::limits::Count;
use super::queue::Queue;
use crate::drift::link::{Leads, leads};
use crate::plan::validate::path;
use crate::plan::{SourceKind, ValidEntry};
use crate::resolve::{Content, Item, Sink, Stopped};
use crate::{Code, Error};

/// Limits of the kept warnings: their number, and the bytes of each.
const MAX_WARNINGS: usize = 20;
const MAX_WARNING_BYTES: usize = 1024;

/// The limit of a revision, in bytes. A commit id has at most 64.
const MAX_REVISION_BYTES: usize = 128;

/// The longest link target that the kernel accepts.
const MAX_TARGET_BYTES: usize = 4095;

#[derive(Debug)]
pub(super) struct Attempt {
    /// The index of the mount in the plan.
    pub(super) mount: usize,
    /// The attempt number, from 0.
    pub(super) number: u8,
    pub(super) entries: Arc<[ValidEntry]>,
    pub(super) count: Count,
    /// Why the output is no longer wanted.
    ended: OnceLock<Error>,
    /// Batches that are not written yet.
    unwritten: AtomicUsize,
    /// The number of items so far.
    items: AtomicU64,
    returned: AtomicBool,
    warnings: Mutex<Vec<String>>,
    pinned: Mutex<Option<String>>,
}

impl Attempt {
    pub(super) fn new(entries: &Arc<[ValidEntry]>, mount: usize, number: u8) -> Self {
        Self {
            mount,
            number,
            entries: Arc::clone(entries),
            count: Count::default(),
            ended: OnceLock::new(),
            unwritten: AtomicUsize::new(0),
            items: AtomicU64::new(0),
            returned: AtomicBool::new(false),
            warnings: Mutex::new(Vec::new()),
            pinned: Mutex::new(None),
        }
    }

    pub(super) fn entry(&self) -> &ValidEntry {
        &self.entries[self.mount]
    }

    pub(super) fn kind(&self) -> SourceKind {
        self.entry().source.kind()
    }

    /// The name in the staging folder.
    pub(super) fn name(&self) -> String {
        format!("mounts/{}.{}", self.mount, self.number)
    }

    /// Cancels the attempt. The first reason is kept.
    pub(super) fn end(&self, why: Error) {
        let _ = self.ended.set(why);
    }

    pub(super) fn ended(&self) -> Option<&Error> {
        self.ended.get()
    }

    /// Marks the resolver as finished.
    pub(super) fn set_returned(&self) {
        self.returned.store(true, Ordering::SeqCst);
    }

    /// Whether the resolver has finished and everything is written.
    pub(super) fn is_complete(&self) -> bool {
        self.returned.load(Ordering::SeqCst) && self.unwritten.load(Ordering::SeqCst) == 0
    }

    /// Counts down one written batch. Returns whether that completes the attempt, so that the
    /// coordinator must be notified. The coordinator checks the count itself after the resolver
    /// returns, so one of the two always sees the other's change.
    pub(super) fn written(&self) -> bool {
        self.unwritten.fetch_sub(1, Ordering::SeqCst) == 1 && self.returned.load(Ordering::SeqCst)
    }

    /// Validates the complete output.
    pub(super) fn problem(&self) -> Option<Error> {
        let items = self.items.load(Ordering::Acquire);
        if !self.kind().is_tree() && items != 1 {
            return Some(self.bad("a source of this kind must be one file, but it returned none"));
        }
        None
    }

    pub(super) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The resolved revision, if the source has no fixed one.
    pub(super) fn take_pinned(&self) -> Option<String> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn bad(&self, what: &str) -> Error {
        let key = &self.entry().mount_key;
        Error::new(
            Code::ResolveBadResponse,
            format!("the source of {key} returned an invalid result: {what}"),
        )
        .detail("mountKey", key.as_str())
    }

    /// Validates one item of this mount.
    fn check(&self, item: &Item) -> Result<(), Error> {
        let tree = self.kind().is_tree();
        if !tree {
            if !item.rel_path.is_empty() || !matches!(item.content, Content::Bytes(_) | Content::File(_)) {
                return Err(self.bad("a source of this kind must be one file without a path"));
            }
            if self.items.load(Ordering::Acquire) > 0 {
                return Err(self.bad("a source of this kind must be one file, but it returned several"));
            }
            return Ok(());
        }
        if let Err(problem) = path::check(&item.rel_path) {
            let key = &self.entry().mount_key;
            let shown: String = item.rel_path.chars().take(200).collect();
            let message = format!("the source of {key} returned an invalid path, which {problem}: {shown:?}");
            return Err(Error::new(Code::PlanUnsafePath, message).detail("mountKey", key.as_str()));
        }
        match &item.content {
            Content::Link(target) => self.check_link(&item.rel_path, target),
            Content::Bytes(_) | Content::File(_) | Content::Directory => Ok(()),
        }
    }

    /// Only repositories may contain links, and only links that cannot leave their mount: relative,
    /// with `..` only at the beginning. After a name, `..` would go up from the target of that
    /// name, which may be a link too.
    fn check_link(&self, rel_path: &str, target: &str) -> Result<(), Error> {
        if self.kind() == SourceKind::ScmRepo
            && target.len() <= MAX_TARGET_BYTES
            && leads(rel_path.as_bytes(), target.as_bytes()) == Leads::Inside
        {
            return Ok(());
        }
        let key = &self.entry().mount_key;
        let message = format!("the link {rel_path} of {key} must be relative and stay in its repository");
        Err(Error::new(Code::ApplyUnsafeSymlink, message)
            .detail("mountKey", key.as_str())
            .detail("path", rel_path))
    }
}

/// A batch of items for the writers.
pub(super) type Work = (Arc<Attempt>, Vec<Item>);

/// The batch size in items: waking another thread costs as much as writing a small file. Each item
/// may be an open file, so the number is small.
const MAX_BATCH: usize = 16;

/// The batch size in bytes; a single item may be larger.
const MAX_BATCH_BYTES: usize = 256 << 10;

/// The sink of a resolver. It passes everything to the writers.
pub(super) struct Handover {
    attempt: Arc<Attempt>,
    queue: Arc<Queue<Work>>,
    events: Sender<Event>,
    batch: Vec<Item>,
    batch_bytes: usize,
}

impl Handover {
    pub(super) fn new(attempt: &Arc<Attempt>, queue: &Arc<Queue<Work>>, events: &Sender<Event>) -> Self {
        Self {
            attempt: Arc::clone(attempt),
            queue: Arc::clone(queue),
            events: events.clone(),
            batch: Vec::with_capacity(MAX_BATCH),
            batch_bytes: 0,
        }
    }

    /// Passes the pending items to the writers.
    pub(super) fn flush(&mut self) -> Result<(), Stopped> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(MAX_BATCH));
        let (things, bytes) = (batch.len(), std::mem::take(&mut self.batch_bytes));
        self.attempt.unwritten.fetch_add(1, Ordering::SeqCst);
        let work = (Arc::clone(&self.attempt), batch);
        if self.queue.push(work, things, bytes, || self.attempt.ended().is_some()).is_err() {
            if self.attempt.written() {
                // The receiver is gone if the apply has ended.
                let _ = self.events.send(Event::Drained(Arc::clone(&self.attempt)));
            }
            self.check()?;
            return Err(Stopped(over()));
        }
        Ok(())
    }
}

/// Events for the coordinator.
#[derive(Debug)]
pub(super) enum Event {
    /// The resolver of this worker returned.
    Returned(usize, Arc<Attempt>, Result<(), Error>),
    /// The resolver has returned, and all its output is written or discarded.
    Drained(Arc<Attempt>),
}

impl Sink for Handover {
    fn put(&mut self, item: Item) -> Result<(), Stopped> {
        Sink::check(self)?;
        if let Err(error) = self.attempt.check(&item) {
            self.attempt.end(error.clone());
            return Err(Stopped(error));
        }
        self.attempt.items.fetch_add(1, Ordering::AcqRel);
        if let Content::Bytes(bytes) = &item.content {
            self.batch_bytes = self.batch_bytes.saturating_add(bytes.len());
        }
        self.batch.push(item);
        if self.batch.len() >= MAX_BATCH || self.batch_bytes >= MAX_BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Stopped> {
        self.attempt.ended().map_or(Ok(()), |error| Err(Stopped(error.clone())))
    }

    fn warn(&mut self, warning: String) {
        let mut warnings = self.attempt.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.len() < MAX_WARNINGS {
            let key = &self.attempt.entry().mount_key;
            warnings
                .push(canon::budget::truncate(&format!("{key}: {warning}"), MAX_WARNING_BYTES).into_owned());
        }
    }

    fn pinned(&mut self, revision: &str) {
        let revision = canon::budget::truncate(revision, MAX_REVISION_BYTES).into_owned();
        *self.attempt.pinned.lock().unwrap_or_else(PoisonError::into_inner) = Some(revision);
    }
}

fn over() -> Error {
    Error::new(Code::ResolveUpstream, "the apply has ended")
}
