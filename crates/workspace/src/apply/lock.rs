//! One apply at a time: the others join it, wait for it, or are told.
//!
//! The lock belongs to the operating system and ends with its holder. Who holds it says so in the file, so that
//! somebody who wants the same plan can wait for the same report.

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

/// The name of the lock in the state folder.
const FILE_NAME: &str = "lock";

/// The name of the last report in the state folder.
const REPORT: &str = "report.json";

/// The most bytes of a report that are read: the lists in it are bounded, and so are paths.
const MAX_REPORT: u64 = 256 << 20;

/// How long to wait before looking again at a lock whose holder has not said its name yet. That takes it one write.
const A_MOMENT: Duration = Duration::from_millis(1);

/// Who holds the lock, and for what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Claim {
    pub(super) apply_id: String,
    pub(super) plan_digest: String,
    pub(super) scope: Option<LeaseScope>,
    pub(super) holder: String,
    /// Names this one apply among all.
    pub(super) flight: String,
}

/// A name that no other apply has, of this process or another.
pub(super) fn flight(now_ms: u64) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{now_ms}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// What came of asking for the lock.
pub(super) enum Asked {
    /// It is ours.
    Ours(Guard),
    /// Somebody else did the same in the meantime, and this is what they reported.
    Joined(Box<ApplyReport>),
}

/// The lock, held.
#[derive(Debug)]
pub(super) struct Guard {
    file: File,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Only then is the name in the file that of somebody who is at work. Both may fail without harm: the
        // lock goes with the handle.
        let _ = self.file.set_len(0);
        let _ = self.file.unlock();
    }
}

/// Asks for the lock. `joins` says whether the report of somebody who applies the same plan will do: not for one that
/// has more to do than the plan says.
pub(super) fn ask(state: &Dir, claim: &Claim, joins: bool) -> Result<Asked, Error> {
    let io = state::failed("lock", FILE_NAME);
    let file = state.open_lock(FILE_NAME).map_err(&io)?;
    let seen = loop {
        match file.try_lock() {
            Ok(()) => return ours(file, claim).map(Asked::Ours),
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
        // Releasing, recovering: over in a moment, and nobody's claim.
        _ => true,
    };
    if seen.apply_id != claim.apply_id && !same_scope {
        return Err(held(&seen.holder, None));
    }
    file.lock().map_err(&io)?;
    let guard = ours(file, claim)?;
    if joins
        && same_plan
        && let Some(report) = last_report(state, &seen.flight)
    {
        return Ok(Asked::Joined(Box::new(report)));
    }
    Ok(Asked::Ours(guard))
}

/// Takes the lock if nobody has it.
pub(super) fn try_now(state: &Dir, claim: &Claim) -> Result<Option<Guard>, Error> {
    let io = state::failed("lock", FILE_NAME);
    let file = state.open_lock(FILE_NAME).map_err(&io)?;
    match file.try_lock() {
        Ok(()) => ours(file, claim).map(Some),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

fn ours(mut file: File, claim: &Claim) -> Result<Guard, Error> {
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

/// Leaves the report for those who joined. It need not survive anything: without it they apply themselves.
pub(super) fn leave_report(state: &Dir, flight: &str, report: &ApplyReport) -> Result<(), Error> {
    let last = LastReport { flight: flight.to_owned(), report };
    state::write(state, REPORT, &state::json(&last), Durable::No)
}

fn last_report(state: &Dir, flight: &str) -> Option<ApplyReport> {
    let last = state::read_json::<LastReport<ApplyReport>>(state, REPORT, MAX_REPORT).ok()??;
    (last.flight == flight).then_some(last.report)
}
