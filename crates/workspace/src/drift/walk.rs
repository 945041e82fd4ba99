//! Walks the granted slots in index order.
//!
//! The helpers of a [`Pool`] list directories in advance; the output order does not depend on them.
//! The agent may write meanwhile: an entry that disappears counts as never seen.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::work::{Job, TaskResult};
use crate::rooted::{self, Dir, Kind, Stat};
use crate::slot::Slot;
use crate::{Error, index};

use super::pool::{Pool, Task};

/// The depth limit below a slot. Each level holds a directory open; plans reach 64.
pub(super) const MAX_DEPTH: usize = 256;

/// An entry on disk.
pub(super) struct Entry {
    pub(super) dir: Dir,
    pub(super) name: OsString,
    pub(super) seen: Seen,
}

pub(super) enum Seen {
    /// Anything but a directory, or a directory whose content follows.
    Stat(Stat),
    /// Something that cannot be inspected or entered, with the reason.
    Unreadable(String),
}

/// The contents of a directory.
pub(super) enum Listing {
    Listed {
        dir: Dir,
        stat: Stat,
        names: Vec<(OsString, Listed)>,
    },
    /// It has disappeared.
    Gone,
    /// It is no longer a directory.
    Replaced(Stat),
    Unreadable(String),
    /// A resource limit of the machine: no more open files, no memory.
    Broken(io::Error),
}

pub(super) enum Listed {
    Dir,
    Other(Stat),
    Unreadable(String),
}

enum Next {
    Dir(Arc<Task<Job>>),
    Other(Stat),
    Unreadable(String),
}

struct Frame {
    dir: Dir,
    /// The length of this directory's path.
    prefix: usize,
    entries: std::vec::IntoIter<(OsString, Next)>,
}

/// A walk, entry by entry.
pub(super) struct DriftWalk<'p> {
    pool: &'p Pool<Job>,
    frames: Vec<Frame>,
    path: Vec<u8>,
}

impl<'p> DriftWalk<'p> {
    /// Starts at these slots.
    pub(super) fn new(root: &Dir, slots: &[Slot], pool: &'p Pool<Job>) -> Result<Self, Error> {
        let mut paths: Vec<&str> = slots.iter().map(|slot| slot.relative()).collect();
        paths.sort_unstable_by(|left, right| index::compare_paths(left.as_bytes(), right.as_bytes()));
        paths.dedup();
        let mut names = Vec::new();
        for path in paths {
            match root.stat(path) {
                Ok(Some(stat)) if stat.kind == Kind::Dir => names.push((path.into(), Listed::Dir)),
                Ok(Some(stat)) => names.push((path.into(), Listed::Other(stat))),
                // A parent that is a link or a file is reported itself; nothing is below it.
                Ok(None) => {}
                Err(error) if is_replaced(&error) => {}
                Err(error) if is_broken(&error) => {
                    return Err(rooted::refusal(&error, "inspect", Path::new(path)));
                }
                Err(error) => names.push((path.into(), Listed::Unreadable(error.to_string()))),
            }
        }
        let mut walk = Self { pool, frames: Vec::new(), path: Vec::new() };
        walk.descend(root.clone(), names);
        Ok(walk)
    }

    /// The path of the last entry.
    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    pub(super) fn advance(&mut self) -> Result<Option<Entry>, Error> {
        while let Some(frame) = self.frames.last_mut() {
            let Some((name, next)) = frame.entries.next() else {
                self.frames.pop();
                continue;
            };
            self.path.truncate(frame.prefix);
            if frame.prefix > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name.as_bytes());
            let dir = frame.dir.clone();
            let seen = match next {
                Next::Other(stat) => Seen::Stat(stat),
                Next::Unreadable(why) => Seen::Unreadable(why),
                Next::Dir(task) => match self.pool.take(&task).listing() {
                    Listing::Gone => continue,
                    Listing::Replaced(stat) => Seen::Stat(stat),
                    Listing::Unreadable(why) => Seen::Unreadable(why),
                    Listing::Broken(error) => {
                        let path = Path::new(OsStr::from_bytes(&self.path));
                        return Err(rooted::refusal(&error, "list", path));
                    }
                    Listing::Listed { dir, stat, names } => {
                        if self.frames.len() > MAX_DEPTH && !names.is_empty() {
                            Seen::Unreadable(format!("more than {MAX_DEPTH} directories deep"))
                        } else {
                            self.descend(dir, names);
                            Seen::Stat(stat)
                        }
                    }
                },
            };
            return Ok(Some(Entry { dir, name, seen }));
        }
        Ok(None)
    }

    fn descend(&mut self, dir: Dir, names: Vec<(OsString, Listed)>) {
        let mut entries = Vec::with_capacity(names.len());
        for (name, listed) in names {
            let next = match listed {
                Listed::Dir => Next::Dir(Task::new(Job::List { parent: dir.clone(), name: name.clone() })),
                Listed::Other(stat) => Next::Other(stat),
                Listed::Unreadable(why) => Next::Unreadable(why),
            };
            entries.push((name, next));
        }
        self.pool.next(entries.iter().filter_map(|(_, next)| match next {
            Next::Dir(task) => Some(Arc::clone(task)),
            Next::Other(_) | Next::Unreadable(_) => None,
        }));
        self.frames.push(Frame { dir, prefix: self.path.len(), entries: entries.into_iter() });
    }
}

impl TaskResult {
    fn listing(self) -> Listing {
        match self {
            Self::Listing(listing) => listing,
            Self::Hashes(_) => Listing::Broken(Errno::INVAL.into()),
        }
    }
}

/// Lists a directory, with metadata of each name.
pub(super) fn list(parent: &Dir, name: &OsStr) -> Listing {
    let listed = parent.open_dir(name).and_then(|dir| {
        let stat = dir.stat("")?.ok_or_else(|| io::Error::from(Errno::NOENT))?;
        let mut names = Vec::new();
        for (name, kind) in dir.names()? {
            let name = name.0;
            if kind == Some(Kind::Dir) {
                names.push((name, Listed::Dir));
                continue;
            }
            match dir.stat(&name) {
                Ok(Some(stat)) if stat.kind == Kind::Dir => names.push((name, Listed::Dir)),
                Ok(Some(stat)) => names.push((name, Listed::Other(stat))),
                Ok(None) => {}
                Err(error) if is_broken(&error) => return Err(error),
                Err(error) => names.push((name, Listed::Unreadable(error.to_string()))),
            }
        }
        Ok(Listing::Listed { dir, stat, names })
    });
    listed.unwrap_or_else(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            Listing::Gone
        } else if is_replaced(&error) {
            match parent.stat(name) {
                Ok(Some(stat)) if stat.kind != Kind::Dir => Listing::Replaced(stat),
                Ok(_) => Listing::Gone,
                Err(error) => Listing::Unreadable(error.to_string()),
            }
        } else if is_broken(&error) {
            Listing::Broken(error)
        } else {
            Listing::Unreadable(error.to_string())
        }
    })
}

/// Whether something other than a directory is there.
fn is_replaced(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOTDIR | Errno::LOOP | Errno::XDEV))
}

/// Whether an error is caused by the machine instead of the workspace.
pub(super) fn is_broken(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}
