//! Compares the index with the disk.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use super::Level;
use super::kind::{Kind, Location};
use super::link::{Leads, leads};
use super::pool::{Pool, Task};
use super::refresh::Refreshes;
use super::report::{Collector, EntryFacts};
use super::walk::{DriftWalk, Entry, Seen};
use super::work::{Hashed, Job, Suspect, TaskResult};
use crate::Error;
use crate::index::{self, Line, LineKind, Reader};
use crate::plan::Grant;
use crate::rooted::{self, Dir, Stat};
use crate::slot::{Mode, Slot};

/// The batch size of hashing.
const BATCH: usize = 64;

/// How many directories a batch may span: each of its files holds its directory open.
const BATCH_DIRS: usize = 4;

/// How many batches may be in progress. Then the oldest is awaited.
const BATCHES: usize = 16;

pub(super) struct Comparison<'a> {
    level: Level,
    grants: &'a [Grant],
    walk: DriftWalk<'a>,
    pool: &'a Pool<Job>,
    collector: &'a mut Collector,
    refreshes: Refreshes,
    batch: Vec<Suspect>,
    batch_dirs: usize,
    batches: VecDeque<Arc<Task<Job>>>,
    /// An unreadable directory: entries below it are not reported as missing.
    veiled: Option<Vec<u8>>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(
        root: &Dir,
        grants: &'a [Grant],
        level: Level,
        pool: &'a Pool<Job>,
        collector: &'a mut Collector,
        refreshes: Refreshes,
    ) -> Result<Self, Error> {
        let slots: Vec<Slot> = grants.iter().map(|grant| grant.slot).collect();
        Ok(Self {
            level,
            grants,
            walk: DriftWalk::new(root, &slots, pool)?,
            pool,
            collector,
            refreshes,
            batch: Vec::new(),
            batch_dirs: 0,
            batches: VecDeque::new(),
            veiled: None,
        })
    }

    /// Walks both to the end.
    pub(super) fn run<R: Read>(mut self, reader: &mut Reader<R>) -> Result<Refreshes, Error> {
        let mut entry = self.walk.advance()?;
        let mut line = self.next_line(reader)?;
        loop {
            let order = match (&line, &entry) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(line), Some(_)) => index::compare_paths(line.path.as_bytes(), self.walk.path()),
            };
            let applied = if order.is_le() { line.take() } else { None };
            let found = if order.is_ge() { entry.take() } else { None };
            match (applied, found) {
                (Some(applied), Some(found)) => self.both(applied, found)?,
                (Some(applied), None) => self.absent(&applied),
                (None, Some(found)) => self.unexpected(&found),
                (None, None) => {}
            }
            if order.is_le() {
                line = self.next_line(reader)?;
            }
            if order.is_ge() {
                entry = self.walk.advance()?;
            }
        }
        self.submit();
        while !self.batches.is_empty() {
            self.settle()?;
        }
        Ok(self.refreshes)
    }

    /// The next line of a scanned slot.
    fn next_line<R: Read>(&self, reader: &mut Reader<R>) -> Result<Option<Line>, Error> {
        while let Some(line) = reader.next_line()? {
            if self.granted(line.path.as_bytes()).is_some() {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// The grant of a path's slot, and the length of the slot's path.
    fn granted(&self, path: &[u8]) -> Option<(Mode, usize)> {
        self.grants.iter().find_map(|grant| {
            let slot = grant.slot.relative();
            let rest = path.strip_prefix(slot.as_bytes())?;
            (rest.is_empty() || rest.starts_with(b"/")).then_some((grant.mode, slot.len()))
        })
    }

    /// A line without an entry on disk.
    fn absent(&mut self, line: &Line) {
        self.refreshes.doubt(line, None);
        if !self.is_veiled(&line.path) {
            self.drift(line, Kind::Missing, [Some(EntryFacts::line_kind(line)), None]);
        }
    }

    /// An entry on disk without a line.
    fn unexpected(&mut self, entry: &Entry) {
        let path = self.walk.path().to_vec();
        let Some((mode, slot)) = self.granted(&path) else { return };
        let place = Location::of(mode, None);
        match &entry.seen {
            Seen::Unreadable(why) => {
                self.collector.add(place, &path, None, Kind::Extra, [None, None]);
                let facts = [None, Some(EntryFacts::error(why.clone()))];
                self.collector.add(place, &path, None, Kind::Unreadable, facts);
            }
            Seen::Stat(stat) => {
                self.count(stat);
                self.collector.add(
                    place,
                    &path,
                    None,
                    Kind::Extra,
                    [None, Some(EntryFacts::stat_kind(stat))],
                );
                if stat.kind == rooted::Kind::Link
                    && let Ok(target) = entry.dir.read_link(&entry.name)
                    && leads(below(&path, slot), target.as_bytes()) != Leads::Inside
                {
                    let facts = [None, Some(EntryFacts::target(target.as_bytes()))];
                    self.collector.add(place, &path, None, Kind::UnsafeSymlink, facts);
                }
            }
        }
    }

    /// An entry on disk with a line.
    fn both(&mut self, line: Line, entry: Entry) -> Result<(), Error> {
        let stat = match entry.seen {
            Seen::Stat(stat) => stat,
            Seen::Unreadable(why) => {
                self.refreshes.doubt(&line, None);
                self.veiled = Some(self.walk.path().to_vec());
                self.drift(&line, Kind::Unreadable, [None, Some(EntryFacts::error(why))]);
                return Ok(());
            }
        };
        self.count(&stat);
        match (line.kind, stat.kind) {
            (LineKind::Dir, rooted::Kind::Dir) => self.check_mode(&line, &stat),
            (LineKind::Link, rooted::Kind::Link) => self.check_target(&line, &entry),
            (LineKind::File, rooted::Kind::File) => {
                self.check_mode(&line, &stat);
                if line.size != stat.size {
                    let facts = [Some(bytes(&line)), Some(EntryFacts::bytes(stat.size, None))];
                    self.refreshes.doubt(&line, Some(&stat));
                    self.drift(&line, Kind::Modified, facts);
                } else if self.level == Level::Hash || self.refreshes.is_suspect(&line, &stat) {
                    return self.suspect(Suspect { dir: entry.dir, name: entry.name, line, stat });
                }
            }
            (_, found) => {
                self.refreshes.doubt(&line, None);
                let facts = [Some(EntryFacts::line_kind(&line)), Some(EntryFacts::stat_kind(&stat))];
                self.drift(&line, Kind::TypeChanged, facts);
                if found == rooted::Kind::Link {
                    self.check_target(&line, &entry);
                }
            }
        }
        Ok(())
    }

    fn check_mode(&mut self, line: &Line, stat: &Stat) {
        if line.mode != stat.mode {
            self.drift(
                line,
                Kind::ModeChanged,
                [Some(EntryFacts::mode(line.mode)), Some(EntryFacts::mode(stat.mode))],
            );
        }
    }

    /// The target of a link at the path of a line.
    fn check_target(&mut self, line: &Line, entry: &Entry) {
        let Some((_, slot)) = self.granted(line.path.as_bytes()) else { return };
        let target = match entry.dir.read_link(&entry.name) {
            Ok(target) => target,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return self.absent(line),
            Err(error) => {
                return self.drift(
                    line,
                    Kind::Unreadable,
                    [None, Some(EntryFacts::error(error.to_string()))],
                );
            }
        };
        let target = target.as_bytes();
        let expected = line.target.as_deref().map(str::as_bytes);
        let facts = [expected.map(EntryFacts::target), Some(EntryFacts::target(target))];
        if expected.is_some_and(|expected| expected != target) {
            self.drift(line, Kind::SymlinkChanged, facts.clone());
        }
        let unsafe_ = match leads(below(line.path.as_bytes(), slot), target) {
            Leads::Inside => false,
            // The apply has checked the applied links.
            Leads::Perhaps => expected != Some(target),
            Leads::Outside => true,
        };
        if unsafe_ {
            self.drift(line, Kind::UnsafeSymlink, facts);
        }
    }

    /// Queues a file for hashing.
    fn suspect(&mut self, suspect: Suspect) -> Result<(), Error> {
        let parent = |path: &str| path.rfind('/').map_or(0, |slash| slash);
        let same = self.batch.last().is_some_and(|last| {
            let (last, next) = (&last.line.path, &suspect.line.path);
            last.as_bytes()[..parent(last)] == next.as_bytes()[..parent(next)]
        });
        self.batch_dirs += usize::from(!same);
        self.batch.push(suspect);
        if self.batch.len() >= BATCH || self.batch_dirs >= BATCH_DIRS {
            self.submit();
        }
        if self.batches.len() > BATCHES { self.settle() } else { Ok(()) }
    }

    fn submit(&mut self) {
        if !self.batch.is_empty() {
            let task = Task::new(Job::Hash(std::mem::take(&mut self.batch)));
            self.batch_dirs = 0;
            self.pool.later(Arc::clone(&task));
            self.batches.push_back(task);
        }
    }

    /// Awaits the oldest batch. Batches are settled in path order, so that the report does not
    /// depend on thread timing.
    fn settle(&mut self) -> Result<(), Error> {
        let Some(task) = self.batches.pop_front() else { return Ok(()) };
        let TaskResult::Hashes(hashed) = self.pool.take(&task) else { return Ok(()) };
        for (Suspect { line, stat, .. }, hashed) in hashed {
            self.collector.scanned.hashed += 1;
            match hashed {
                Hashed::Bytes(hash) if hash.to_hex().as_str() == line.blake3 => {
                    self.refreshes.verified(&line, &stat);
                    continue;
                }
                Hashed::Bytes(hash) => {
                    let actual = EntryFacts::bytes(stat.size, Some(hash.to_hex().to_string()));
                    self.drift(&line, Kind::Modified, [Some(bytes(&line)), Some(actual)]);
                }
                Hashed::Grown => self.drift(&line, Kind::Modified, [Some(bytes(&line)), None]),
                Hashed::Gone => self.drift(&line, Kind::Missing, [Some(EntryFacts::line_kind(&line)), None]),
                Hashed::Unreadable(why) => {
                    self.drift(&line, Kind::Unreadable, [None, Some(EntryFacts::error(why))]);
                }
                Hashed::Broken(error) => return Err(rooted::refusal(&error, "open", Path::new(&line.path))),
            }
            self.refreshes.doubt(&line, Some(&stat));
        }
        Ok(())
    }

    fn drift(&mut self, line: &Line, kind: Kind, facts: [Option<EntryFacts>; 2]) {
        if let Some((mode, _)) = self.granted(line.path.as_bytes()) {
            let bits = (line.kind != LineKind::Link).then_some(line.mode);
            self.collector.add(Location::of(mode, bits), line.path.as_bytes(), Some(line), kind, facts);
        }
    }

    fn count(&mut self, stat: &Stat) {
        let scanned = &mut self.collector.scanned;
        match stat.kind {
            rooted::Kind::Dir => scanned.dirs += 1,
            rooted::Kind::File => {
                scanned.files += 1;
                scanned.bytes = scanned.bytes.saturating_add(stat.size);
            }
            rooted::Kind::Link | rooted::Kind::Other => scanned.files += 1,
        }
    }

    fn is_veiled(&self, path: &str) -> bool {
        let rest = self.veiled.as_deref().and_then(|veiled| path.as_bytes().strip_prefix(veiled));
        rest.is_some_and(|rest| rest.starts_with(b"/"))
    }
}

fn below(path: &[u8], slot: usize) -> &[u8] {
    path.get(slot + 1..).unwrap_or_default()
}

fn bytes(line: &Line) -> EntryFacts {
    EntryFacts::bytes(line.size, Some(line.blake3.clone()))
}
