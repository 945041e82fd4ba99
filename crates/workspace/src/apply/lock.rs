//! The workspace lock: one apply at a time; others join it, wait for it, or are refused.
//!
//! The operating system releases the lock when its holder ends. The holder writes its identity into
//! the file, so that others who want the same plan can wait for the same report.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lease::{LeaseScope, held};
use super::report::ApplyReport;
use super::state::{self, Durable};
use crate::Error;
use crate::rooted::Dir;

const FILE_NAME: &str = "lock";

/// The name of the last report in the state folder.
const REPORT: &str = "report.json";

/// The largest report, in bytes: its lists and paths are bounded.
const MAX_REPORT: u64 = 256 << 20;

/// The polling interval while the holder has not written its identity yet, which takes one write.
const A_MOMENT: Duration = Duration::from_millis(1);

/// The holder of the lock and its plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Claim {
    pub(super) apply_id: String,
    pub(super) plan_digest: String,
    pub(super) scope: Option<LeaseScope>,
    pub(super) holder: String,
    /// A unique id of this apply.
    pub(super) flight: String,
}

/// A unique id among all processes.
pub(super) fn flight(now_ms: u64) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{now_ms}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The result of a lock request.
pub(super) enum LockResult {
    Acquired(Guard),
    /// Another process did the same meanwhile, with this report.
    Joined(Box<ApplyReport>),
}

/// The held lock.
#[derive(Debug)]
pub(super) struct Guard {
    file: File,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // From now on, the identity in the file belongs to the active holder. Both calls may fail
        // without harm: the lock is released with the handle.
        let _ = self.file.set_len(0);
        let _ = self.file.unlock();
    }
}

/// Requests the lock. `joins` allows using the report of another apply of the same plan; not if
/// this request has more to do than the plan.
pub(super) fn ask(state: &Dir, claim: &Claim, joins: bool) -> Result<LockResult, Error> {
    let io = state::failed("lock", FILE_NAME);
    let file = state.open_lock(FILE_NAME).map_err(&io)?;
    let seen = loop {
        match file.try_lock() {
            Ok(()) => return acquired(file, claim).map(LockResult::Acquired),
            Err(TryLockError::Error(error)) => return Err(io(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        match holder(&file) {
            Some(seen) => break seen,
            None => std::thread::sleep(A_MOMENT),
        }
    };
    let same_plan = seen.apply_id == claim.apply_id && seen.plan_digest == claim.plan_digest;
    let same_scope = match (&seen.scope, &claim.scope) {
        (Some(theirs), Some(ours)) => theirs.is_same(ours),
        // The holder releases or recovers, which is quick, and has no plan to join.
        _ => true,
    };
    if seen.apply_id != claim.apply_id && !same_scope {
        return Err(held(&seen.holder, None));
    }
    file.lock().map_err(&io)?;
    let guard = acquired(file, claim)?;
    if joins
        && same_plan
        && let Some(report) = last_report(state, &seen.flight)
    {
        return Ok(LockResult::Joined(Box::new(report)));
    }
    Ok(LockResult::Acquired(guard))
}

/// Takes the lock if it is free.
pub(super) fn try_now(state: &Dir, claim: &Claim) -> Result<Option<Guard>, Error> {
    let io = state::failed("lock", FILE_NAME);
    let file = state.open_lock(FILE_NAME).map_err(&io)?;
    match file.try_lock() {
        Ok(()) => acquired(file, claim).map(Some),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

fn acquired(mut file: File, claim: &Claim) -> Result<Guard, Error> {
    let io = state::failed("lock", FILE_NAME);
    file.set_len(0).map_err(&io)?;
    file.rewind().map_err(&io)?;
    file.write_all(&state::json(claim)).map_err(io)?;
    Ok(Guard { file })
}

fn holder(mut file: &File) -> Option<Claim> {
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.take(64 * 1024).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[derive(Serialize, Deserialize)]
struct LastReport<R> {
    flight: String,
    report: R,
}

/// Saves the report for joined callers. It need not be durable: without it they apply the plan
/// themselves.
pub(super) fn leave_report(state: &Dir, flight: &str, report: &ApplyReport) -> Result<(), Error> {
    let last = LastReport { flight: flight.to_owned(), report };
    state::write(state, REPORT, &state::json(&last), Durable::No)
}

fn last_report(state: &Dir, flight: &str) -> Option<ApplyReport> {
    let last = state::read_json::<LastReport<ApplyReport>>(state, REPORT, MAX_REPORT).ok()??;
    (last.flight == flight).then_some(last.report)
}
