//! Which lines can be trusted without reading bytes, and how that is kept for the next scan.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::fstat;

use super::Baseline;
use crate::index::{self, Header, Line, LineKind, Reader, Writer, compare_paths};
use crate::rooted::{Dir, Sharing, Stat};
use crate::slot::STATE_DIR;

/// How far the clock of a file system can stand still: coarser than that of every one in use.
const GRAIN_NS: i64 = 2_000_000_000;

/// The most lines that one scan refreshes. The rest are read again by the next scan, which refreshes more.
const MAX_RECORDS: usize = 65_536;

/// The lock of a workspace, in the state folder.
pub(super) const LOCK: &str = "lock";

/// What the name of an index starts with that is being refreshed.
const TEMPORARY: &str = "index.refresh-";

/// What may be done with the index when files have been touched, and their bytes are as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// Nothing.
    Never,
    /// Write it anew, if nobody holds the lock of the workspace at the end of the scan.
    IfFree,
    /// Write it anew: the caller holds the lock.
    LockHeld,
}

/// What a scan learned about lines.
#[derive(Debug)]
pub(super) struct Refreshes {
    written_at_ns: i64,
    /// The earliest mtime of a fresh file whose bytes were read and are right.
    earliest_fresh: Option<i64>,
    records: Vec<Record>,
    /// Whether a line that must not be trusted could not be recorded.
    overflowed: bool,
}

#[derive(Debug)]
struct Record {
    path: String,
    learned: Learned,
}

#[derive(Clone, Copy, Debug)]
enum Learned {
    /// The bytes are right, and the file looks like this now.
    Looks { mtime_ns: i64, ctime_ns: i64, ino: u64 },
    /// The line looks right, and the bytes are not known to be: the next scan reads them.
    Doubtful,
}

impl Refreshes {
    pub(super) fn new(written_at_ns: i64) -> Self {
        Self { written_at_ns, earliest_fresh: None, records: Vec::new(), overflowed: false }
    }

    /// Whether the bytes of a file have to be read to know whether they are right.
    pub(super) fn is_suspect(&self, line: &Line, stat: &Stat) -> bool {
        !looks_alike(line, stat) || is_fresh(line, self.written_at_ns)
    }

    /// The bytes are right.
    pub(super) fn verified(&mut self, line: &Line, stat: &Stat) {
        if !looks_alike(line, stat) {
            let learned = Learned::Looks {
                mtime_ns: time(stat.mtime_ns),
                ctime_ns: time(stat.ctime_ns),
                ino: stat.ino,
            };
            if self.records.len() < MAX_RECORDS {
                self.records.push(Record { path: line.path.clone(), learned });
            }
        } else if is_fresh(line, self.written_at_ns) {
            let earliest = self.earliest_fresh.unwrap_or(i64::MAX);
            self.earliest_fresh = Some(earliest.min(line.mtime_ns));
        }
    }

    /// The bytes are wrong, or could not be read. A later scan must not take the line for right by its looks.
    pub(super) fn doubt(&mut self, line: &Line, stat: Option<&Stat>) {
        let looks_right = stat.is_some_and(|stat| looks_alike(line, stat));
        if line.kind == LineKind::File && (looks_right || is_fresh(line, self.written_at_ns)) {
            if self.records.len() < MAX_RECORDS {
                self.records.push(Record { path: line.path.clone(), learned: Learned::Doubtful });
            } else {
                self.overflowed = true;
            }
        }
    }

    /// Writes the index anew with what was learned. That is for the next scan only, so that nothing is lost when
    /// it cannot be done; what goes wrong is not told.
    pub(super) fn carry_out(
        mut self,
        root: &Dir,
        header: &Header,
        old: File,
        baseline: &Baseline,
        now_ns: i64,
        how: Refresh,
    ) {
        let older = self.earliest_fresh.is_some_and(|mtime_ns| mtime_ns < now_ns.saturating_sub(GRAIN_NS));
        let nothing_new = !older && self.records.is_empty();
        if how == Refresh::Never || self.overflowed || nothing_new {
            return;
        }
        self.records.sort_by(|left, right| compare_paths(left.path.as_bytes(), right.path.as_bytes()));
        let Ok(state) = root.open_dir(STATE_DIR) else { return };
        let name = temporary_name();
        if self.rewrite(&state, &name, header, old, baseline, now_ns, how).is_none() {
            let _ = state.remove_file(&name);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call, which would otherwise be one long function")]
    fn rewrite(
        &self,
        state: &Dir,
        name: &Path,
        header: &Header,
        mut old: File,
        baseline: &Baseline,
        now_ns: i64,
        how: Refresh,
    ) -> Option<()> {
        let scanned = |path: &str| {
            let slot = index::slot_of(path);
            baseline.grants.iter().any(|grant| Some(grant.slot) == slot)
        };
        old.rewind().ok()?;
        let reader = Reader::new(old.try_clone().ok()?).ok()?;
        // What was not read is right as of the old time, and not fresh; what was read is right as of now.
        let header = Header { written_at_ns: now_ns.max(header.written_at_ns), ..header.clone() };
        let mut writer = Writer::new(state.create_file(name, 0o600).ok()?, &header).ok()?;
        let mut records = self.records.iter().peekable();
        for line in reader {
            let mut line = line.ok()?;
            let record = records.next_if(|record| record.path == line.path).map(|record| record.learned);
            match record {
                Some(Learned::Looks { mtime_ns, ctime_ns, ino }) => {
                    // Another inode is not the one that the content store shares.
                    line.linked &= ino == line.ino;
                    (line.mtime_ns, line.ctime_ns, line.ino) = (mtime_ns, ctime_ns, ino);
                }
                Some(Learned::Doubtful) => doubtful(&mut line),
                None if is_fresh(&line, self.written_at_ns) && !scanned(&line.path) => doubtful(&mut line),
                None => {}
            }
            writer.push(&line).ok()?;
        }
        let (file, _) = writer.finish().ok()?;
        state.sync_file(&file).ok()?;
        // An apply never waits for more than these few calls.
        let _lock = match how {
            Refresh::Never => return None,
            Refresh::IfFree => {
                let lock = state.try_lock(LOCK, Sharing::Exclusive).ok()??;
                // An apply that died left its name here, and another would take it for the holder.
                lock.file().set_len(0).ok()?;
                Some(lock)
            }
            Refresh::LockHeld => None,
        };
        // An apply may have written another index meanwhile. The old one is held open, so its number cannot be another's.
        let read = Stat::from(fstat(&old).ok()?);
        let there = state.stat(&baseline.index).ok()??;
        if (read.dev, read.ino) != (there.dev, there.ino) {
            return None;
        }
        state.rename(name, state, &baseline.index).ok()?;
        let _ = remove_leftovers(state);
        Some(())
    }
}

/// Removes what scans left behind that did not come to their end. One that is still at it finds its file gone, and
/// gives up.
fn remove_leftovers(state: &Dir) -> io::Result<()> {
    state.sync()?;
    for (name, _) in state.names()? {
        if name.0.to_str().is_some_and(|name| name.starts_with(TEMPORARY)) {
            state.remove_file(&name.0)?;
        }
    }
    Ok(())
}

/// A name that no other scan uses.
fn temporary_name() -> PathBuf {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{TEMPORARY}{}-{count}", std::process::id()).into()
}

/// No file has the number 0, so the line looks wrong until its bytes have been read.
fn doubtful(line: &mut Line) {
    if line.kind == LineKind::File {
        line.ino = 0;
    }
}

/// Whether a file looks as its line says. A file that shares its inode with the content store gets a new
/// ctime with every further link to it.
fn looks_alike(line: &Line, stat: &Stat) -> bool {
    line.size == stat.size
        && line.ino == stat.ino
        && i128::from(line.mtime_ns) == stat.mtime_ns
        && (line.linked || i128::from(line.ctime_ns) == stat.ctime_ns)
}

/// Whether a file is so young that it could have changed after its line was written without a change of its times.
fn is_fresh(line: &Line, written_at_ns: i64) -> bool {
    line.mtime_ns >= written_at_ns.saturating_sub(GRAIN_NS)
}

/// A time as a line has it. What is not in its range, before 1678 or after 2262, never looks alike.
fn time(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(0)
}
