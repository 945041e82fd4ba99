//! The steps of a promotion. Each can be done, and undone from any state that a crash leaves.
//!
//! A step identifies what it moves by path and inode number. Whether it was done is read from the
//! disk: the staged inode is at the target or not. Undoing therefore needs no progress record and
//! is idempotent.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::rooted::{Dir, Kind, Stat, refusal};

/// One step. Paths are relative to the workspace root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(super) enum Move {
    /// Creates a missing directory.
    MakeDir { target: String, mode: u32 },
    /// Moves a staged entry to its target. The previous entry goes to the staged path or, if the
    /// file system cannot exchange two names, to `parked`.
    Place {
        staged: String,
        target: String,
        parked: String,
        /// The inode number of the staged entry.
        ino: u64,
        /// The previous entry when the step was planned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        old: Option<Old>,
        /// The mode that a directory gets after the move.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
        /// Whether the step is skipped if the target has changed since planning.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        careful: bool,
    },
    Remove {
        target: String,
        parked: String,
        old: Old,
        /// As for `Place`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        careful: bool,
    },
    /// Removes a directory if it is empty.
    RemoveDir { target: String, mode: u32 },
    /// Sets the mode of a directory that cannot be moved.
    SetMode { target: String, mode: u32, old: u32 },
}

/// The previous entry at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Old {
    pub(super) ino: u64,
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) mtime_ns: i64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) dir: bool,
}

impl From<Stat> for Old {
    fn from(stat: Stat) -> Self {
        let dir = stat.kind == Kind::Dir;
        Self {
            ino: stat.ino,
            mode: stat.mode,
            // For a directory, neither is relevant.
            size: if dir { 0 } else { stat.size },
            mtime_ns: if dir { 0 } else { i64::try_from(stat.mtime_ns).unwrap_or(i64::MAX) },
            dir,
        }
    }
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// As planned.
    Yes,
    /// Skipped: the target has changed since planning and was not touched.
    GivenUp,
}

impl Move {
    /// Executes the step.
    pub(super) fn take(&self, root: &Dir) -> Result<Done, Error> {
        self.try_take(root).map_err(|error| refusal(&error, "install", Path::new(self.target())))
    }

    /// Undoes the step from any state; no effect if it was not executed.
    pub(super) fn undo(&self, root: &Dir) -> Result<(), Error> {
        self.try_undo(root).map_err(|error| refusal(&error, "restore", Path::new(self.target())))
    }

    pub(super) fn target(&self) -> &str {
        match self {
            Self::MakeDir { target, .. }
            | Self::Place { target, .. }
            | Self::Remove { target, .. }
            | Self::RemoveDir { target, .. }
            | Self::SetMode { target, .. } => target,
        }
    }

    fn try_take(&self, root: &Dir) -> io::Result<Done> {
        match self {
            Self::MakeDir { target, mode } => match root.make_dir(target, *mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            },
            Self::Place { staged, target, parked, old, mode, careful, .. } => {
                let now = root.stat(target)?;
                if *careful && now.map(Old::from) != *old {
                    return Ok(Done::GivenUp);
                }
                match now {
                    None => root.rename(staged, root, target)?,
                    Some(now) => {
                        make_movable(root, target, now)?;
                        swap(root, staged, target, parked)?;
                        // The agent may have written between the check and the exchange. The
                        // exchange took whatever was there, so check again.
                        if *careful && !is_still(root, [staged, parked], *old)? {
                            self.try_undo(root)?;
                            return Ok(Done::GivenUp);
                        }
                    }
                }
                if let Some(mode) = mode {
                    root.set_mode(target, *mode)?;
                }
            }
            Self::Remove { target, parked, old, careful } => {
                let Some(now) = root.stat(target)? else {
                    return Ok(Done::Yes);
                };
                if *careful && Old::from(now) != *old {
                    return Ok(Done::GivenUp);
                }
                make_movable(root, target, now)?;
                root.rename(target, root, parked)?;
                if *careful && !is_still(root, [parked, parked], Some(*old))? {
                    self.try_undo(root)?;
                    return Ok(Done::GivenUp);
                }
            }
            Self::RemoveDir { target, .. } => match root.remove_dir(target) {
                // It contains files of the agent, or the agent was faster.
                Err(error)
                    if matches!(Errno::from_io_error(&error), Some(Errno::NOTEMPTY | Errno::NOENT)) => {}
                removed => removed?,
            },
            Self::SetMode { target, mode, .. } => root.set_mode(target, *mode)?,
        }
        Ok(Done::Yes)
    }

    fn try_undo(&self, root: &Dir) -> io::Result<()> {
        match self {
            Self::MakeDir { target, .. } => match root.remove_dir(target) {
                // It contains files of the agent, or was not created.
                Err(error)
                    if matches!(
                        Errno::from_io_error(&error),
                        Some(Errno::NOTEMPTY | Errno::NOENT | Errno::NOTDIR)
                    ) => {}
                removed => removed?,
            },
            Self::Place { staged, target, parked, ino, old, .. } => {
                if let Some(now) = root.stat(target)?.filter(|now| now.ino == *ino) {
                    make_movable(root, target, now)?;
                    if root.stat(staged)?.is_some() {
                        swap(root, staged, target, parked)?;
                    } else {
                        root.rename(target, root, staged)?;
                    }
                }
                put_back(root, parked, target, *old)?;
            }
            Self::Remove { target, parked, old, .. } => put_back(root, parked, target, Some(*old))?,
            Self::RemoveDir { target, mode } => match root.make_dir(target, *mode) {
                Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists) => {}
                made => made?,
            },
            Self::SetMode { target, old, .. } => root.set_mode(target, *old)?,
        }
        Ok(())
    }
}

/// Moves a parked entry back and restores its mode.
fn put_back(root: &Dir, parked: &str, target: &str, old: Option<Old>) -> io::Result<()> {
    if root.stat(parked)?.is_some() && root.stat(target)?.is_none() {
        root.rename(parked, root, target)?;
    }
    let now = root.stat(target)?;
    if let (Some(old), Some(now)) = (old, now)
        && old.dir
        && now.ino == old.ino
        && now.mode != old.mode
    {
        root.set_mode(target, old.mode)?;
    }
    Ok(())
}

/// Moving a directory to another parent requires write permission on it.
fn make_movable(root: &Dir, path: &str, stat: Stat) -> io::Result<()> {
    if stat.kind == Kind::Dir && stat.mode & 0o200 == 0 {
        root.set_mode(path, stat.mode | 0o700)?;
    }
    Ok(())
}

/// Exchanges two names; the previous entry at `target` ends up at `staged` or `parked`.
fn swap(root: &Dir, staged: &str, target: &str, parked: &str) -> io::Result<()> {
    match root.exchange(staged, root, target) {
        // Without support for exchange: two renames, between which the target is missing for a
        // moment.
        Err(error)
            if matches!(
                Errno::from_io_error(&error),
                Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
            ) =>
        {
            root.rename(target, root, parked)?;
            root.rename(staged, root, target)
        }
        exchanged => exchanged,
    }
}

/// Whether the moved entry is the one that was planned.
fn is_still(root: &Dir, places: [&str; 2], old: Option<Old>) -> io::Result<bool> {
    for place in places {
        if let Some(stat) = root.stat(place)? {
            return Ok(Some(Old::from(stat)) == old);
        }
    }
    Ok(old.is_none())
}
