//! Detects an apply during a scan.

use std::path::Path;

use super::Baseline;
use super::refresh::LOCK;
use crate::index::{Header, Reader};
use crate::rooted::Dir;
use crate::slot::STATE_DIR;
use crate::{Code, Error};

/// Written by an apply before it moves anything, and removed after it has written its index.
const JOURNAL: &str = "journal.json";

/// Refuses the report of a workspace that was changed by an apply meanwhile: mixing old index and
/// new files would report false drift.
pub(super) fn check(root: &Dir, baseline: &Baseline, header: &Header) -> Result<(), Error> {
    // In this order: an apply that has removed its journal has written its index before.
    if is_promoting(root) || is_replaced(root, baseline, header) {
        let message = "a plan was applied during the scan; scan again when that has finished";
        return Err(Error::new(Code::LeaseHeld, message));
    }
    Ok(())
}

fn is_promoting(root: &Dir) -> bool {
    let Ok(state) = root.open_dir(STATE_DIR) else { return false };
    if !matches!(state.stat(JOURNAL), Ok(Some(_))) {
        return false;
    }
    // A journal without an active process is left from a crash. Its half-finished state is drift.
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
