//! Which index lines are valid without reading bytes, and how this is saved for the next scan.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::fstat;

use super::Baseline;
use crate::index::{self, Header, Line, LineKind, Reader, Writer, compare_paths};
use crate::rooted::{Dir, Sharing, Stat};
use crate::slot::STATE_DIR;

/// The granularity of file system clocks: coarser than any in use.
const GRAIN_NS: i64 = 2_000_000_000;

/// The most lines that one scan refreshes. The next scan reads and refreshes more.
const MAX_RECORDS: usize = 65_536;

/// The workspace lock in the state folder.
pub(super) const LOCK: &str = "lock";

/// The name prefix of an index that is being refreshed.
const TEMPORARY: &str = "index.refresh-";

/// What may be done with the index if files were touched without changing their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    Never,
    /// Rewrite it, if the workspace lock is free at the end of the scan.
    IfFree,
    /// Rewrite it: the caller holds the lock.
    LockHeld,
}

/// What a scan learned about lines.
#[derive(Debug)]
pub(super) struct Refreshes {
    written_at_ns: i64,
    /// The earliest mtime of a fresh file with verified bytes.
    earliest_fresh: Option<i64>,
    records: Vec<Record>,
    /// Whether an invalid line could not be recorded.
    overflowed: bool,
}

#[derive(Debug)]
struct Record {
    path: String,
    learned: Learned,
}

#[derive(Clone, Copy, Debug)]
enum Learned {
    /// The bytes are verified, with this metadata.
    Looks { mtime_ns: i64, ctime_ns: i64, ino: u64 },
    /// The metadata matches, but the bytes are not verified: the next scan reads them.
    Doubtful,
}

impl Refreshes {
    pub(super) fn new(written_at_ns: i64) -> Self {
        Self { written_at_ns, earliest_fresh: None, records: Vec::new(), overflowed: false }
    }

    /// Whether the bytes of a file must be read.
    pub(super) fn is_suspect(&self, line: &Line, stat: &Stat) -> bool {
        !looks_alike(line, stat) || is_fresh(line, self.written_at_ns)
    }

    /// The bytes are correct.
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

    /// The bytes are wrong or unreadable. A later scan must not trust the line's metadata.
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

    /// Rewrites the index with what was learned. This only speeds up the next scan, so errors are
    /// ignored.
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
        // Lines that were not read remain valid as of the old time; lines that were read are valid
        // as of now.
        let header = Header { written_at_ns: now_ns.max(header.written_at_ns), ..header.clone() };
        let mut writer = Writer::new(state.create_file(name, 0o600).ok()?, &header).ok()?;
        let mut records = self.records.iter().peekable();
        for line in reader {
            let mut line = line.ok()?;
            let record = records.next_if(|record| record.path == line.path).map(|record| record.learned);
            match record {
                Some(Learned::Looks { mtime_ns, ctime_ns, ino }) => {
                    // A new inode is not the one in the content store.
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
        // An apply waits only for these few calls.
        let _lock = match how {
            Refresh::Never => return None,
            Refresh::IfFree => {
                let lock = state.try_lock(LOCK, Sharing::Exclusive).ok()??;
                // A crashed apply left its identity here, which others would take for the holder.
                lock.file().set_len(0).ok()?;
                Some(lock)
            }
            Refresh::LockHeld => None,
        };
        // An apply may have written another index meanwhile. The old one is open, so its inode
        // number cannot be reused.
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

/// Removes leftovers of interrupted scans. A scan that is still running finds its file missing and
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

/// A unique name.
fn temporary_name() -> PathBuf {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{TEMPORARY}{}-{count}", std::process::id()).into()
}

/// No file has inode number 0, so the line does not match until its bytes are read.
fn doubtful(line: &mut Line) {
    if line.kind == LineKind::File {
        line.ino = 0;
    }
}

/// Whether a file's metadata matches its line. A file shared with the content store gets a new
/// ctime with every link.
fn looks_alike(line: &Line, stat: &Stat) -> bool {
    line.size == stat.size
        && line.ino == stat.ino
        && i128::from(line.mtime_ns) == stat.mtime_ns
        && (line.linked || i128::from(line.ctime_ns) == stat.ctime_ns)
}

/// Whether a file is so new that it could have changed after its line was written without a change
/// of its times.
fn is_fresh(line: &Line, written_at_ns: i64) -> bool {
    line.mtime_ns >= written_at_ns.saturating_sub(GRAIN_NS)
}

/// A time as stored in a line. Times outside its range, before 1678 or after 2262, never match.
fn time(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(0)
}
