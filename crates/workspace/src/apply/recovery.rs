//! Finishes or undoes an interrupted apply, and cleans up.

use super::journal::{Journal, Phase};
use super::lease::{LeaseFile, LeaseState};
use super::promote;
use super::relocate;
use super::state::{self, DISPLACED, SCRATCH, STAGING, TRASH};
use crate::index;
use crate::rooted::{Dir, Kind};
use crate::slot::{STATE_DIR, Slot};
use crate::{Code, Error};

/// Recovers from any state that an earlier apply left. Requires the lock.
pub(super) fn recover(root: &Dir, state: &Dir) -> Result<(), Error> {
    if let Some(journal) = Journal::read(state)? {
        match journal.state {
            Phase::Promoting => roll_back(root, state, &journal)?,
            Phase::Committed => finish(root, state, &journal)?,
        }
    }
    clear_scratch(state)?;
    clear_staging(root, state)
}

/// Removes leftovers of killed resolvers. Only the lock holder fetches.
fn clear_scratch(state: &Dir) -> Result<(), Error> {
    let io = state::failed("clear", SCRATCH);
    let scratch = match state.open_dir(SCRATCH) {
        Ok(scratch) => scratch,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
    };
    for (name, _) in scratch.names().map_err(&io)? {
        scratch.remove_tree(&name.0).map_err(&io)?;
    }
    Ok(())
}

/// Undoes a promotion.
pub(super) fn roll_back(root: &Dir, state: &Dir, journal: &Journal) -> Result<(), Error> {
    let staging = state.open_dir(&journal.staging).map_err(|error| {
        let lost = state::failed("open", &journal.staging)(error);
        let message = format!(
            "files needed to restore the workspace are missing; remove {STATE_DIR}/{} to accept the workspace as it is",
            super::journal::FILE_NAME
        );
        Error::new(Code::ApplyRollbackFailed, message).caused_by([lost])
    })?;
    promote::undo(root, &staging)?;
    if let Some(mut file) = LeaseFile::read(state)?.filter(|file| file.lease.state == LeaseState::Failed) {
        match &journal.previous {
            Some(previous) => {
                file.lease = previous.clone();
                file.write(state)?;
            }
            None => {
                state.remove_file(super::lease::FILE_NAME).map_err(state::failed("remove", "the lease"))?;
            }
        }
    }
    Journal::remove(state)
}

/// Finishes a committed promotion: index, lease and displaced entries.
pub(super) fn finish(root: &Dir, state: &Dir, journal: &Journal) -> Result<(), Error> {
    let io = state::failed("finish", &journal.staging);
    for displaced in &journal.displaced {
        let Some((parent, _)) = displaced.to.rsplit_once('/') else { continue };
        for from in &displaced.from {
            if root.stat(from).map_err(&io)?.is_some() && state.stat(&displaced.to).map_err(&io)?.is_none() {
                state.make_dirs(parent, 0o700).map_err(&io)?;
                root.rename(from, state, &displaced.to).map_err(&io)?;
            }
        }
    }
    let staged_index = format!("{}/{}", journal.staging, index::FILE_NAME);
    if state.stat(&staged_index).map_err(&io)?.is_some() {
        state.rename(&staged_index, state, index::FILE_NAME).map_err(&io)?;
    }
    LeaseFile { version: state::VERSION, lease: journal.lease.clone(), previous: journal.previous.clone() }
        .write(state)?;
    Journal::remove(state)
}

/// Moves everything staged to the trash. Without a journal it is not needed.
pub(super) fn clear_staging(root: &Dir, state: &Dir) -> Result<(), Error> {
    for slot in Slot::ALL {
        let inside = format!("{}/{}", slot.relative(), relocate::INSIDE);
        if !slot.is_file() && matches!(root.stat(&inside), Ok(Some(_))) {
            root.remove_tree(&inside).map_err(state::failed("remove", &inside))?;
        }
    }
    let io = state::failed("clear", STAGING);
    let staging = match state.open_dir(STAGING) {
        Ok(staging) => staging,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
    };
    for (name, _) in staging.names().map_err(&io)? {
        state.make_dirs(TRASH, 0o700).map_err(&io)?;
        let trash = state.open_dir(TRASH).map_err(&io)?;
        let mut number = 0_u64;
        let place = loop {
            let place = format!("{number}");
            if trash.stat(&place).map_err(&io)?.is_none() {
                break place;
            }
            number += 1;
        };
        // An entry that cannot be moved is removed in place.
        let is_dir = staging.stat(&name.0).map_err(&io)?.is_some_and(|stat| stat.kind == Kind::Dir);
        if is_dir && staging.rename(&name.0, &trash, &place).is_ok() {
            continue;
        }
        staging.remove_tree(&name.0).map_err(&io)?;
    }
    Ok(())
}

/// Whether the trash has entries.
pub(super) fn has_trash(state: &Dir) -> bool {
    state.open_dir(TRASH).and_then(|trash| trash.names()).is_ok_and(|names| !names.is_empty())
}

pub(super) fn empty_trash(state: &Dir) -> Result<(), Error> {
    let io = state::failed("remove", TRASH);
    let trash = match state.open_dir(TRASH) {
        Ok(trash) => trash,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
    };
    loop {
        let names = trash.names().map_err(&io)?;
        if names.is_empty() {
            return Ok(());
        }
        for (name, _) in names {
            trash.remove_tree(&name.0).map_err(&io)?;
        }
    }
}

/// Where a displaced entry is kept, below the state folder: under the generation number or the next
/// free one, because generations restart when a lease is lost.
pub(super) fn displaced_path(root: &Dir, generation: u64, slot: Slot) -> std::io::Result<String> {
    let mut number = generation;
    loop {
        let path = format!("{DISPLACED}/{number}/{}", slot.key());
        if root.stat(format!("{STATE_DIR}/{path}"))?.is_none() {
            return Ok(path);
        }
        number += 1;
    }
}
