//! Whether a workspace is still what was applied.
//!
//! [`scan`] walks the granted slots and compares what it sees with the [index] of the
//! lease, both in the same order, so that memory does not grow with the number of files. It
//! changes nothing but the index itself, which it refreshes when times have moved and bytes have not.
//!
//! # What is looked at
//! * [`Level::Stat`]: type, size, mode, mtime, ctime and inode number of everything; the bytes of what looks
//!   different, and of files so young that they could have changed again without a trace.
//! * [`Level::Hash`]: all bytes too.
//! * Names beside the slots are told of, and not looked into. `.interlock/` and `.opencode/runtime.jsonc`
//!   belong to others, and are skipped.
//!
//! The agent may write while a scan runs. Then the report has some files as they were before, and some as
//! they were after.

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
pub use self::report::{Counts, Drift, Facts, MAX_LISTED, Report, Scanned, Verdict};
use crate::index::{self, Reader};
use crate::plan::Grant;
use crate::rooted::{self, Dir};
use crate::slot::{Mode, STATE_DIR, Slot};
use crate::{Code, Error};

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// At what the file system knows, and at the bytes of what looks different.
    Stat,
    /// At all bytes.
    Hash,
}

/// What a workspace is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// The name of the index in the state folder, as the lease has it.
    pub index: String,
    /// The slots that the lease grants.
    pub grants: Vec<Grant>,
}

/// How a scan is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What may be done with the index when files have only been touched.
    pub refresh: Refresh,
    /// How many threads look, this one among them; by default as many as the machine has, up to 16.
    pub threads: Option<NonZeroUsize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { refresh: Refresh::IfFree, threads: None }
    }
}

/// The most threads that are worth having: beyond them the disk is the limit.
const MAX_THREADS: usize = 16;

/// Compares a workspace with its index. `now_ns` is the time, in nanoseconds since 1970.
///
/// # Errors
/// `LEASE_NOT_FOUND` when there is no index, `APPLY_IO` when it is damaged or the disk cannot be read, `LEASE_HELD`
/// when something has drifted and a plan is being put in place, so that nobody can say which of both it is.
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

/// What of the read-only slots has to be put right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disrepair {
    /// The mounts that have a drift.
    pub mounts: BTreeSet<String>,
    /// The slots that have a drift, of a mount or of none: a file too many belongs to no mount.
    pub slots: BTreeSet<Slot>,
}

impl Disrepair {
    /// Whether nothing has to be put right.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// Compares the read-only slots of a workspace with its index, for an apply that asks whether they are still good.
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
            Error::new(Code::LeaseNotFound, "there is no index: no plan was applied to this root")
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
            // Without helpers the scan is slower, and the same.
            let _ = std::thread::Builder::new().name("drift".into()).spawn_scoped(scope, || pool.help());
        }
        // However this ends, the helpers go home, or the scope would wait for them.
        let _closing = pool.closing();
        let refreshes = Refreshes::new(header.written_at_ns);
        Comparison::new(root, &baseline.grants, level, &pool, collector, refreshes)?.run(&mut reader)
    })?;
    refreshes.carry_out(root, &header, kept, baseline, now_ns, options.refresh);
    Ok(header)
}
