//! One try to resolve one mount, as its resolver, the writers and the coordinator see it.

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

/// The most warnings of one try that are kept, and the most bytes of each.
const MAX_WARNINGS: usize = 20;
const MAX_WARNING_BYTES: usize = 1024;

/// The most bytes of a revision that are kept. A commit id has 64 at most.
const MAX_REVISION_BYTES: usize = 128;

/// The longest target of a link: what the kernel takes.
const MAX_TARGET_BYTES: usize = 4095;

/// One try to resolve one mount.
#[derive(Debug)]
pub(super) struct Attempt {
    /// Which mount, by its place in the plan.
    pub(super) mount: usize,
    /// Which try, from 0.
    pub(super) number: u8,
    pub(super) entries: Arc<[ValidEntry]>,
    /// What it has yielded.
    pub(super) count: Count,
    /// Why nothing more of it is wanted.
    ended: OnceLock<Error>,
    /// How many batches were handed over and are not on the disk yet.
    unwritten: AtomicUsize,
    /// How many things were put in all.
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

    /// Its name in the staging folder.
    pub(super) fn name(&self) -> String {
        format!("mounts/{}.{}", self.mount, self.number)
    }

    /// Nothing more of it is wanted. The first reason stays.
    pub(super) fn end(&self, why: Error) {
        let _ = self.ended.set(why);
    }

    pub(super) fn ended(&self) -> Option<&Error> {
        self.ended.get()
    }

    /// The resolver is done with it.
    pub(super) fn set_returned(&self) {
        self.returned.store(true, Ordering::SeqCst);
    }

    /// Whether the resolver is done and everything is on the disk.
    pub(super) fn is_complete(&self) -> bool {
        self.returned.load(Ordering::SeqCst) && self.unwritten.load(Ordering::SeqCst) == 0
    }

    /// One batch fewer to write. Says whether that completes it, so that the coordinator has to be told: it looks at
    /// this count itself once the resolver has returned, and one of the two always sees what the other did before.
    pub(super) fn written(&self) -> bool {
        self.unwritten.fetch_sub(1, Ordering::SeqCst) == 1 && self.returned.load(Ordering::SeqCst)
    }

    /// What is wrong with the whole, once the resolver says that it is complete.
    pub(super) fn problem(&self) -> Option<Error> {
        let items = self.items.load(Ordering::Acquire);
        if !self.kind().is_tree() && items != 1 {
            return Some(self.bad("a source of this kind is one file, and none came"));
        }
        None
    }

    pub(super) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the source turned out to be, where it has no fixed revision.
    pub(super) fn take_pinned(&self) -> Option<String> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn bad(&self, what: &str) -> Error {
        let key = &self.entry().mount_key;
        Error::new(Code::ResolveBadResponse, format!("the source of {key} cannot be used: {what}"))
            .detail("mountKey", key.as_str())
    }

    /// Whether an item is one that this mount may have.
    fn check(&self, item: &Item) -> Result<(), Error> {
        let tree = self.kind().is_tree();
        if !tree {
            if !item.rel_path.is_empty() || !matches!(item.content, Content::Bytes(_) | Content::File(_)) {
                return Err(self.bad("a source of this kind is one file without a path"));
            }
            if self.items.load(Ordering::Acquire) > 0 {
                return Err(self.bad("a source of this kind is one file, and a second came"));
            }
            return Ok(());
        }
        if let Err(problem) = path::check(&item.rel_path) {
            let key = &self.entry().mount_key;
            let shown: String = item.rel_path.chars().take(200).collect();
            let message = format!("a path that the source of {key} yields {problem}: {shown:?}");
            return Err(Error::new(Code::PlanUnsafePath, message).detail("mountKey", key.as_str()));
        }
        match &item.content {
            Content::Link(target) => self.check_link(&item.rel_path, target),
            Content::Bytes(_) | Content::File(_) | Content::Directory => Ok(()),
        }
    }

    /// Only repositories have links, and only such that cannot lead out of their mount: relative, with `..` at the
    /// beginning alone. Behind a name, `..` goes up from wherever that name leads, which may be a link too.
    fn check_link(&self, rel_path: &str, target: &str) -> Result<(), Error> {
        if self.kind() == SourceKind::ScmRepo
            && target.len() <= MAX_TARGET_BYTES
            && leads(rel_path.as_bytes(), target.as_bytes()) == Leads::Inside
        {
            return Ok(());
        }
        let key = &self.entry().mount_key;
        let message =
            format!("the link {rel_path} of {key} is not a relative link that stays in its repository");
        Err(Error::new(Code::ApplyUnsafeSymlink, message)
            .detail("mountKey", key.as_str())
            .detail("path", rel_path))
    }
}

/// Things to write, and for whom.
pub(super) type Work = (Arc<Attempt>, Vec<Item>);

/// How many things are handed over at once: handing over wakes another thread, which costs as much as writing a small
/// file. Each may be an open file, so they are not many.
const MAX_BATCH: usize = 16;

/// How many bytes are handed over at once, unless a single thing has more.
const MAX_BATCH_BYTES: usize = 256 << 10;

/// The sink that a resolver is given. It hands everything over to the writers.
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

    /// Hands over what was put and waits here.
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
                // Nobody listens any more when the whole apply is over.
                let _ = self.events.send(Event::Drained(Arc::clone(&self.attempt)));
            }
            self.check()?;
            return Err(Stopped(over()));
        }
        Ok(())
    }
}

/// What the coordinator hears of.
#[derive(Debug)]
pub(super) enum Event {
    /// A resolver came back, in that worker.
    Returned(usize, Arc<Attempt>, Result<(), Error>),
    /// The resolver is back, and now everything that it handed over is on the disk, or never will be.
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
    Error::new(Code::ResolveUpstream, "the apply is over, and nothing more is wanted")
}
