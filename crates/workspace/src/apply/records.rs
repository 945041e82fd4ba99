//! Staged entries, sorted by path in bounded memory: full buffers are written as sorted runs, which
//! are merged on reading.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};
use std::vec;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::state;
use crate::Error;
use crate::index::{Line, MAX_LINE_BYTES, compare_paths};
use crate::rooted::Dir;

/// The number of records in memory before a run is written: about 6 MiB.
const BUFFER: usize = 16 * 1024;

/// One staged entry of a mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The index of the mount in the plan; [`Record::NONE`] for a slot itself.
    pub(super) mount: u32,
    /// The attempt that staged it, or [`Record::KEPT`].
    pub(super) attempt: u8,
    /// Its future index line.
    pub(super) line: Line,
}

impl Record {
    /// The mount of a slot itself.
    pub(super) const NONE: u32 = u32::MAX;

    /// The attempt of an entry that is already in place and kept.
    pub(super) const KEPT: u8 = u8::MAX;

    fn order(&self, other: &Self) -> Ordering {
        compare_paths(self.line.path.as_bytes(), other.line.path.as_bytes())
            .then(self.mount.cmp(&other.mount))
            .then(self.attempt.cmp(&other.attempt))
    }
}

/// Accepts records in any order.
#[derive(Debug)]
pub(super) struct Sorter {
    staging: Dir,
    runs: Arc<AtomicU64>,
    buffer: Vec<Record>,
    files: Vec<File>,
}

impl Sorter {
    /// A sorter with runs in the staging folder, numbered together with other sorters.
    pub(super) fn new(staging: &Dir, runs: &Arc<AtomicU64>) -> Self {
        Self { staging: staging.clone(), runs: Arc::clone(runs), buffer: Vec::new(), files: Vec::new() }
    }

    pub(super) fn push(&mut self, record: Record) -> Result<(), Error> {
        self.buffer.push(record);
        if self.buffer.len() < BUFFER {
            return Ok(());
        }
        self.buffer.sort_unstable_by(Record::order);
        let name = format!("run-{}", self.runs.fetch_add(1, Atomic::Relaxed));
        let file = self.staging.create_file(&name, 0o600).map_err(state::failed("write", &name))?;
        let mut output = BufWriter::new(file);
        for record in self.buffer.drain(..) {
            output.write_all(&state::json(&record)).map_err(state::failed("write", &name))?;
        }
        let file = output.into_inner().map_err(|error| state::failed("write", &name)(error.into_error()))?;
        self.files.push(file);
        Ok(())
    }
}

/// The records of all sorters, in path order, then in plan order.
pub(super) struct Merged {
    heads: BinaryHeap<Reverse<Head>>,
    runs: Vec<Run>,
}

struct Head {
    record: Record,
    run: usize,
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        self.record.order(&other.record).then(self.run.cmp(&other.run))
    }
}

enum Run {
    Memory(vec::IntoIter<Record>),
    Disk(Lines<Record>),
}

impl Run {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        match self {
            Self::Memory(records) => Ok(records.next()),
            Self::Disk(lines) => lines.next(),
        }
    }
}

impl Merged {
    pub(super) fn new(sorters: Vec<Sorter>) -> Result<Self, Error> {
        let mut runs = Vec::new();
        for mut sorter in sorters {
            sorter.buffer.sort_unstable_by(Record::order);
            runs.push(Run::Memory(sorter.buffer.into_iter()));
            for file in sorter.files {
                runs.push(Run::Disk(Lines::new(file)?));
            }
        }
        let mut merged = Self { heads: BinaryHeap::new(), runs };
        for run in 0..merged.runs.len() {
            merged.refill(run)?;
        }
        Ok(merged)
    }

    fn refill(&mut self, run: usize) -> Result<(), Error> {
        if let Some(record) = self.runs[run].next()? {
            self.heads.push(Reverse(Head { record, run }));
        }
        Ok(())
    }

    /// All records of the next path; `None` at the end.
    pub(super) fn next_group(&mut self, group: &mut Vec<Record>) -> Result<(), Error> {
        group.clear();
        while let Some(Reverse(head)) = self.heads.peek() {
            if group.first().is_some_and(|first: &Record| first.line.path != head.record.line.path) {
                break;
            }
            if let Some(Reverse(Head { record, run })) = self.heads.pop() {
                group.push(record);
                self.refill(run)?;
            }
        }
        Ok(())
    }
}

/// Values from a file that this process wrote, one per line.
struct Lines<T> {
    input: BufReader<File>,
    line: Vec<u8>,
    of: std::marker::PhantomData<T>,
}

impl<T: DeserializeOwned> Lines<T> {
    fn new(mut file: File) -> Result<Self, Error> {
        file.rewind().map_err(state::failed("read", state::STAGING))?;
        Ok(Self { input: BufReader::new(file), line: Vec::new(), of: std::marker::PhantomData })
    }

    fn next(&mut self) -> Result<Option<T>, Error> {
        self.line.clear();
        let mut bounded = (&mut self.input).take(2 * MAX_LINE_BYTES as u64);
        bounded.read_until(b'\n', &mut self.line).map_err(state::failed("read", state::STAGING))?;
        if self.line.is_empty() {
            return Ok(None);
        }
        let value = serde_json::from_slice(&self.line);
        value.map(Some).map_err(|error| state::damaged(state::STAGING, &error.to_string()))
    }
}

/// A draft of an index line: complete, except that some lines still need file metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Draft {
    pub(super) line: Line,
    /// Whether times and inode number must be read after the promotion.
    pub(super) look: bool,
}

/// Drafts in insertion order: in memory while they are few, then on disk.
pub(super) struct Drafts {
    staging: Dir,
    name: &'static str,
    few: Vec<Draft>,
    many: Option<BufWriter<File>>,
}

impl Drafts {
    /// Drafts that spill to a file of this name in the staging folder.
    pub(super) fn new(staging: &Dir, name: &'static str) -> Self {
        Self { staging: staging.clone(), name, few: Vec::new(), many: None }
    }

    pub(super) fn push(&mut self, draft: Draft) -> Result<(), Error> {
        let io = state::failed("write", self.name);
        if let Some(output) = &mut self.many {
            return output.write_all(&state::json(&draft)).map_err(io);
        }
        self.few.push(draft);
        if self.few.len() < BUFFER {
            return Ok(());
        }
        let mut output = BufWriter::new(self.staging.create_file(self.name, 0o600).map_err(&io)?);
        for draft in self.few.drain(..) {
            output.write_all(&state::json(&draft)).map_err(&io)?;
        }
        self.many = Some(output);
        Ok(())
    }

    /// Reads them back.
    pub(super) fn read(self, mut each: impl FnMut(Draft) -> Result<(), Error>) -> Result<(), Error> {
        for draft in self.few {
            each(draft)?;
        }
        if let Some(output) = self.many {
            let file = output.into_inner();
            let file = file.map_err(|error| state::failed("write", self.name)(error.into_error()))?;
            let mut lines = Lines::new(file)?;
            while let Some(draft) = lines.next()? {
                each(draft)?;
            }
        }
        Ok(())
    }
}
