//! Whether an apply was at work during a scan.

use std::path::Path;

use super::Baseline;
use super::refresh::LOCK;
use crate::index::{Header, Reader};
use crate::rooted::Dir;
use crate::slot::STATE_DIR;
use crate::{Code, Error};

/// What an apply writes before it moves anything, and removes after it has written its index.
const JOURNAL: &str = "journal.json";

/// Refuses a report on a workspace that was moved about meanwhile: the old index and the new files, or the other way
/// round, would be a drift that never was.
pub(super) fn check(root: &Dir, baseline: &Baseline, header: &Header) -> Result<(), Error> {
    // In this order: an apply that has removed its journal by now has written its index before.
    if is_promoting(root) || is_replaced(root, baseline, header) {
        let message =
            "a plan was put in place while the workspace was looked at; look again when that is over";
        return Err(Error::new(Code::LeaseHeld, message));
    }
    Ok(())
}

fn is_promoting(root: &Dir) -> bool {
    let Ok(state) = root.open_dir(STATE_DIR) else { return false };
    if !matches!(state.stat(JOURNAL), Ok(Some(_))) {
        return false;
    }
    // A journal that nobody is at work on is that of a crash. The half that it left is a drift.
    let lock = state.open_file(LOCK);
    lock.is_ok_and(|lock| lock.try_lock_shared().is_err())
}

fn is_replaced(root: &Dir, baseline: &Baseline, header: &Header) -> bool {
    let index = root.open_file(Path::new(STATE_DIR).join(&baseline.index));
    let now = index.ok().and_then(|file| Reader::new(file).ok());
    now.is_none_or(|now| {
        (&now.header().apply_id, now.header().generation) != (&header.apply_id, header.generation)
    })
}
