//! Unpacks a snapshot over the staged read-write slots.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::Path;

use super::assemble::staged_path;
use crate::drift::link::{Leads, leads};
use crate::index::slot_of;
use crate::plan::validate::path;
use crate::resolve::{Content, Stopped};
use crate::rooted::{Dir, Kind, refusal};
use crate::slot::Slot;
use crate::{Code, Error};

/// Content that is unpacked over the read-write slots after staging and before any move, such as a
/// [snapshot](crate::snapshot).
///
/// # Contract
/// * On refusal the workspace is unchanged.
/// * Untrusted content is refused with `SNAPSHOT_CORRUPT`, unreadable content with
///   `SNAPSHOT_RESTORE_FAILED`.
pub trait Restore: Sync {
    /// Writes everything into the sink. `slots` are the read-write slots of the plan; everything
    /// else is rejected.
    ///
    /// # Errors
    /// If the content is damaged or unreadable, or the sink refuses it.
    fn restore(&self, slots: &[Slot], sink: &mut dyn RestoreSink) -> Result<(), Error>;
}

/// The target of a snapshot.
pub trait RestoreSink {
    /// Declares a slot of the snapshot, even if it is empty there. Its content on disk is replaced.
    ///
    /// # Errors
    /// If it is not a read-write slot of the plan.
    fn covers(&mut self, slot: Slot) -> Result<(), Stopped>;

    /// Adds one item. The snapshot wins over the plan's content.
    ///
    /// # Errors
    /// If the path is unsafe or not in a read-write slot, if a limit is exceeded, or if the disk
    /// fails.
    fn put(&mut self, item: Restored) -> Result<(), Stopped>;
}

/// An item to restore.
#[derive(Debug)]
pub struct Restored {
    /// The path below the root, such as `deliverables/report.md`.
    pub path: String,
    /// The permission bits; only read, write and execute are kept. Links have none.
    pub mode: u32,
    /// The modification time, in seconds since 1970.
    pub mtime: Option<i64>,
    pub content: Content,
}

/// The limits of a snapshot in bytes and items.
const MAX_BYTES: u64 = 16 << 30;
const MAX_ITEMS: u64 = 500_000;

/// Unpacks into the staging folder. Returns the slots in the snapshot.
pub(super) fn unpack(
    restore: &dyn Restore,
    staging: &Dir,
    writable: &[Slot],
) -> Result<BTreeSet<Slot>, Error> {
    let mut sink =
        Unpacking { staging, writable, covered: BTreeSet::new(), bytes: 0, items: 0, modes: Vec::new() };
    restore.restore(writable, &mut sink)?;
    // Directories last, deepest first: a read-only directory could not be filled.
    for (path, mode) in sink.modes.iter().rev() {
        let set = staging.set_mode(path, *mode);
        set.map_err(|error| failed(&error, path))?;
    }
    Ok(sink.covered)
}

struct Unpacking<'a> {
    staging: &'a Dir,
    writable: &'a [Slot],
    covered: BTreeSet<Slot>,
    bytes: u64,
    items: u64,
    modes: Vec<(String, u32)>,
}

impl RestoreSink for Unpacking<'_> {
    fn covers(&mut self, slot: Slot) -> Result<(), Stopped> {
        if !self.writable.contains(&slot) || slot.is_file() {
            return Err(Stopped(corrupt(slot.relative(), "is not a read-write slot of the plan")));
        }
        self.covered.insert(slot);
        Ok(())
    }

    fn put(&mut self, item: Restored) -> Result<(), Stopped> {
        self.try_put(item).map_err(Stopped)
    }
}

impl Unpacking<'_> {
    fn try_put(&mut self, item: Restored) -> Result<(), Error> {
        if let Err(problem) = path::check(&item.path) {
            let shown: String = item.path.chars().take(200).collect();
            return Err(corrupt(&shown, &problem.to_string()));
        }
        let Some(slot) = slot_of(&item.path) else {
            return Err(corrupt(&item.path, "is not in a slot"));
        };
        self.covers(slot)?;
        self.items += 1;
        if self.items > MAX_ITEMS {
            return Err(Error::limit("members of a snapshot", MAX_ITEMS, self.items));
        }
        let staged = staged_path(slot, &item.path);
        let mode = item.mode & 0o777;
        if item.path == slot.relative() {
            return match item.content {
                Content::Directory => Ok(()),
                Content::Bytes(_) | Content::File(_) | Content::Link(_) => {
                    Err(corrupt(&item.path, "is a slot, but not a directory"))
                }
            };
        }
        self.make_way(slot, &item.path, matches!(item.content, Content::Directory))
            .map_err(|error| failed(&error, &item.path))?;
        match item.content {
            Content::Directory => {
                self.staging.make_dirs(&staged, 0o755).map_err(|error| failed(&error, &item.path))?;
                self.modes.push((staged, mode));
            }
            Content::Link(target) => {
                check_link(slot, &item.path, &target)?;
                self.staging.symlink(&target, &staged).map_err(|error| failed(&error, &item.path))?;
            }
            Content::Bytes(bytes) => self.write(&staged, mode, item.mtime, &mut bytes.as_slice())?,
            Content::File(mut file) => {
                io::Seek::rewind(&mut file).map_err(|error| failed(&error, &item.path))?;
                self.write(&staged, mode, item.mtime, &mut file)?;
            }
        }
        Ok(())
    }

    /// Removes the plan's entries that are in the way, and creates parent directories.
    fn make_way(&self, slot: Slot, path: &str, is_dir: bool) -> io::Result<()> {
        let top = slot.relative().len();
        for (at, _) in path.match_indices('/').filter(|(at, _)| *at > top) {
            let above = staged_path(slot, &path[..at]);
            if self.staging.stat(&above)?.is_some_and(|stat| stat.kind != Kind::Dir) {
                self.staging.remove_file(&above)?;
            }
        }
        let staged = staged_path(slot, path);
        if let Some((parent, _)) = staged.rsplit_once('/') {
            self.staging.make_dirs(parent, 0o755)?;
        }
        match self.staging.stat(&staged)? {
            Some(stat) if is_dir && stat.kind == Kind::Dir => Ok(()),
            Some(_) => self.staging.remove_tree(&staged),
            None => Ok(()),
        }
    }

    fn write(
        &mut self,
        staged: &str,
        mode: u32,
        mtime: Option<i64>,
        input: &mut dyn io::Read,
    ) -> Result<(), Error> {
        let io = |error: &io::Error| failed(error, staged);
        let mut output = self.staging.create_file(staged, mode).map_err(|error| io(&error))?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(io(&error)),
            };
            self.bytes += read as u64;
            if self.bytes > MAX_BYTES {
                return Err(Error::limit("bytes of a snapshot", MAX_BYTES, self.bytes));
            }
            output.write_all(&buffer[..read]).map_err(|error| io(&error))?;
        }
        if let Some(seconds) = mtime {
            self.staging
                .set_mtime(&output, i128::from(seconds) * 1_000_000_000)
                .map_err(|error| io(&error))?;
        }
        Ok(())
    }
}

/// A link must stay within its slot, by the same rules as in repositories.
fn check_link(slot: Slot, path: &str, target: &str) -> Result<(), Error> {
    let inside = path.strip_prefix(slot.relative()).unwrap_or_default().trim_start_matches('/');
    if leads(inside.as_bytes(), target.as_bytes()) != Leads::Inside {
        return Err(corrupt(path, "is a link that may leave its slot"));
    }
    Ok(())
}

fn corrupt(path: &str, what: &str) -> Error {
    Error::new(Code::SnapshotCorrupt, format!("the snapshot is invalid: {path:?} {what}"))
        .detail("path", path)
}

fn failed(error: &io::Error, path: &str) -> Error {
    let refused = refusal(error, "restore", Path::new(path));
    match refused.code() {
        Code::ApplyIo => Error::new(Code::SnapshotRestoreFailed, refused.message()).detail("path", path),
        _ => refused,
    }
}
