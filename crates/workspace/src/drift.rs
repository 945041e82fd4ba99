//! Checks whether a workspace still matches the applied plan.
//!
//! [`scan`] walks the granted slots and the [index] of the lease in the same order, so that memory
//! does not grow with the number of files. It changes only the index, which it refreshes if times
//! have changed and bytes have not.
//!
//! # What is checked
//! * [`Level::Stat`]: type, size, mode, mtime, ctime and inode number of everything; the bytes of
//!   files that look different, and of files so new that they could have changed again without a
//!   trace.
//! * [`Level::Hash`]: all bytes too.
//! * Other names next to the slots are reported, but not entered. `.interlock/` and
//!   `.opencode/runtime.jsonc` belong to other programs and are skipped.
//!
//! The agent may write during a scan. The report then has some files before and some after its
//! changes.

mod compare;
mod kind;
pub(crate) mod link;
mod outside;
mod pool;
mod refresh;
mod report;
mod settled;
mod walk;
mod work;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use self::compare::Comparison;
pub use self::kind::{Kind, Severity};
use self::pool::Pool;
pub use self::refresh::Refresh;
use self::refresh::Refreshes;
use self::report::Collector;
pub use self::report::{Counts, Drift, EntryFacts, MAX_LISTED, Report, Scanned, Verdict};
use crate::index::{self, Reader};
use crate::plan::Grant;
use crate::rooted::{self, Dir};
use crate::slot::{Mode, STATE_DIR, Slot};
use crate::{Code, Error};

/// How thoroughly to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// File metadata, and the bytes of files that look different.
    Stat,
    /// All bytes.
    Hash,
}

/// The reference of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// The name of the index in the state folder, from the lease.
    pub index: String,
    /// The slots that the lease grants.
    pub grants: Vec<Grant>,
}

/// The options of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether the index may be refreshed if files were only touched.
    pub refresh: Refresh,
    /// The number of threads, including this one; the default is that of the machine, up to 16.
    pub threads: Option<NonZeroUsize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { refresh: Refresh::IfFree, threads: None }
    }
}

/// The most useful threads: beyond this, the disk is the limit.
const MAX_THREADS: usize = 16;

/// Compares a workspace with its index. `now_ns` is the time in nanoseconds since 1970.
///
/// # Errors
/// `LEASE_NOT_FOUND` if there is no index, `APPLY_IO` if it is damaged or the disk cannot be read,
/// `LEASE_HELD` if something differs while a plan is being applied, so that the cause is ambiguous.
pub fn scan(
    root: &Dir,
    baseline: &Baseline,
    level: Level,
    now_ns: i64,
    options: Options,
) -> Result<Report, Error> {
    let began = Instant::now();
    let mut collector = Collector::new();
    outside::look(root, &baseline.grants, &mut collector)?;
    let header = compare(root, baseline, level, now_ns, options, &mut collector)?;
    if !collector.is_clean() {
        settled::check(root, baseline, &header)?;
    }
    Ok(collector.finish(header, level, began.elapsed()))
}

/// The parts of the read-only slots to restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disrepair {
    /// The mounts with drift.
    pub mounts: BTreeSet<String>,
    /// The slots with drift, including drift outside any mount, such as an extra file.
    pub slots: BTreeSet<Slot>,
}

impl Disrepair {
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// Compares the read-only slots with the index, to decide whether an apply is needed.
///
/// # Errors
/// As [`scan`].
pub fn scan_read_only_slots(
    root: &Dir,
    baseline: &Baseline,
    level: Level,
    now_ns: i64,
    options: Options,
) -> Result<Disrepair, Error> {
    let mut baseline = baseline.clone();
    baseline.grants.retain(|grant| grant.mode == Mode::ReadOnly);
    let mut collector = Collector::for_repair();
    compare(root, &baseline, level, now_ns, options, &mut collector)?;
    Ok(collector.into_disrepair())
}

/// Walks the slots and the index together.
fn compare(
    root: &Dir,
    baseline: &Baseline,
    level: Level,
    now_ns: i64,
    options: Options,
    collector: &mut Collector,
) -> Result<index::Header, Error> {
    let path = Path::new(STATE_DIR).join(&baseline.index);
    let file = root.open_file(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::new(Code::LeaseNotFound, "no plan was applied to this root (no index found)")
        }
        _ => rooted::refusal(&error, "open", &path),
    })?;
    let kept = file.try_clone().map_err(|error| rooted::refusal(&error, "open", &path))?;
    let mut reader = Reader::new(file)?;
    let header = reader.header().clone();
    let threads =
        options.threads.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);

    let pool = Pool::new();
    let refreshes = std::thread::scope(|scope| {
        for _ in 1..threads.min(MAX_THREADS) {
            // Without helpers, the scan is slower with the same result.
            let _ = std::thread::Builder::new().name("drift".into()).spawn_scoped(scope, || pool.help());
        }
        // Ends the helpers on every path, because the scope waits for them.
        let _closing = pool.closing();
        let refreshes = Refreshes::new(header.written_at_ns);
        Comparison::new(root, &baseline.grants, level, &pool, collector, refreshes)?.run(&mut reader)
    })?;
    refreshes.carry_out(root, &header, kept, baseline, now_ns, options.refresh);
    Ok(header)
}
