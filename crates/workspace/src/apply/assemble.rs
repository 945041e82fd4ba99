//! Assembles the trees of single mounts into the trees of slots.
//!
//! Each mount was staged separately. Most are moved as a whole. Where mounts overlap, the outermost
//! is moved as a whole and the others file by file in path order, so that collisions are found
//! deterministically.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::records::{Draft, Merged, Record, Sorter};
use super::report::{Listed, Shadowed};
use super::staging::join;
use crate::index::{Line, LineKind, compare_paths, slot_of};
use crate::plan::{Source, ValidEntry};
use crate::rooted::{Dir, Kind, refusal};
use crate::slot::{Mode, Slot};
use crate::{Code, Error};

pub(super) struct Assembly<'a> {
    pub(super) root: &'a Dir,
    pub(super) staging: &'a Dir,
    pub(super) entries: &'a [ValidEntry],
    /// The successful attempt of each fetched mount.
    pub(super) tries: &'a BTreeMap<usize, u8>,
    /// The slots to assemble, with their access modes.
    pub(super) slots: &'a BTreeMap<Slot, Mode>,
    pub(super) shadowed: &'a mut Listed<Shadowed>,
}

/// The permission bits of a directory in a slot.
pub(super) const fn directory_mode(granted: Mode) -> u32 {
    match granted {
        Mode::ReadOnly => 0o555,
        Mode::ReadWrite => 0o755,
    }
}

/// The staging path of a path below the root.
pub(super) fn staged_path(slot: Slot, path: &str) -> String {
    let rest = path.strip_prefix(slot.relative()).unwrap_or(path);
    format!("slots/{}{rest}", slot.key())
}

impl Assembly<'_> {
    /// Builds the slots and returns their entries in path order.
    pub(super) fn build(
        mut self,
        mut sorters: Vec<Sorter>,
        mut extra: Sorter,
        mut each: impl FnMut(Draft) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let whole = self.whole_mounts();
        self.move_whole(&whole, &mut extra)?;
        sorters.push(extra);
        let mut records = Merged::new(sorters)?;
        let mut open: Vec<String> = Vec::new();
        let mut last_file: Option<(String, u32)> = None;
        let mut group: Vec<Record> = Vec::new();
        loop {
            records.next_group(&mut group)?;
            if group.is_empty() {
                return self.leave(&mut open, "");
            }
            group.retain(|record| self.counts(record));
            let Some(path) = group.first().map(|first| first.line.path.clone()) else { continue };
            if let Some((file, mount)) = &last_file
                && path.strip_prefix(file.as_str()).is_some_and(|rest| rest.starts_with('/'))
            {
                return Err(self.conflict(file, *mount, group[0].mount));
            }
            let Some(slot) = slot_of(&path).filter(|slot| self.slots.contains_key(slot)) else { continue };
            let winner = self.settle(&group)?;
            let record = &group[winner];
            self.enter(slot, &path, record.mount, &mut open, &mut each)?;
            if record.line.kind == LineKind::Dir {
                self.make_dir(slot, &path)?;
                each(Draft { line: self.directory(slot, &path, &group), look: false })?;
                open.push(path);
                continue;
            }
            let replaces = group.iter().any(|record| is_whole(&whole, record));
            let moved = self.place(slot, record, replaces, &whole)?;
            last_file = Some((path, record.mount));
            each(Draft { line: record.line.clone(), look: moved })?;
        }
    }

    /// Whether a record belongs to a successful attempt.
    fn counts(&self, record: &Record) -> bool {
        record.mount == Record::NONE
            || record.attempt == Record::KEPT
            || self.tries.get(&(record.mount as usize)) == Some(&record.attempt)
    }

    /// The mounts that no other mount contains: of several at one path, the first.
    fn whole_mounts(&self) -> BTreeSet<usize> {
        let mut mounts: Vec<(String, usize)> = Vec::new();
        for &mount in self.tries.keys() {
            let entry = &self.entries[mount];
            mounts.push((join([entry.slot.relative(), &entry.rel_path, ""]), mount));
        }
        mounts.sort_by(|a, b| compare_paths(a.0.as_bytes(), b.0.as_bytes()).then(a.1.cmp(&b.1)));
        let mut whole = BTreeSet::new();
        let mut outermost: Option<String> = None;
        for (path, mount) in mounts {
            let inside = outermost.as_ref().is_some_and(|outer| {
                path.strip_prefix(outer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            if !inside {
                outermost = Some(path);
                whole.insert(mount);
            }
        }
        whole
    }

    /// Creates the slots, moves whole mounts into them, and records directories without an item.
    fn move_whole(&self, whole: &BTreeSet<usize>, extra: &mut Sorter) -> Result<(), Error> {
        for (&slot, &granted) in self.slots {
            if !slot.is_file() {
                let line = Line::directory(slot.relative(), None, directory_mode(granted));
                extra.push(Record { mount: Record::NONE, attempt: 0, line })?;
            }
        }
        for (&mount, &attempt) in self.tries {
            let entry = &self.entries[mount];
            let path = join([entry.slot.relative(), &entry.rel_path, ""]);
            let is_tree = entry.source.kind().is_tree();
            if is_tree && !entry.rel_path.is_empty() {
                let line = Line::directory(&path, Some(entry.mount_key.clone()), self.mode(entry.slot));
                let mount = u32::try_from(mount).unwrap_or(Record::NONE);
                extra.push(Record { mount, attempt, line })?;
            }
            if !whole.contains(&mount) {
                continue;
            }
            let from = format!("mounts/{mount}.{attempt}");
            let to = staged_path(entry.slot, &path);
            let io = |error| refusal(&error, "assemble", Path::new(&path));
            if let Some((parent, _)) = to.rsplit_once('/') {
                self.staging.make_dirs(parent, 0o755).map_err(io)?;
            }
            if self.staging.stat(&from).map_err(io)?.is_some() {
                self.staging.rename(&from, self.staging, &to).map_err(io)?;
            }
        }
        for &slot in self.slots.keys().filter(|slot| !slot.is_file()) {
            self.make_dir(slot, slot.relative())?;
        }
        Ok(())
    }

    fn make_dir(&self, slot: Slot, path: &str) -> Result<(), Error> {
        let made = self.staging.make_dirs(staged_path(slot, path), 0o755);
        made.map_err(|error| refusal(&error, "assemble", Path::new(path)))
    }

    fn mode(&self, slot: Slot) -> u32 {
        directory_mode(self.slots.get(&slot).copied().unwrap_or(Mode::ReadOnly))
    }

    /// Selects one of several entries at a path.
    fn settle(&mut self, group: &[Record]) -> Result<usize, Error> {
        let mut winner = 0;
        for (at, record) in group.iter().enumerate().skip(1) {
            let (is, was) = (&record.line, &group[winner].line);
            // Two directories are not compared; their contents follow.
            if is.kind == was.kind
                && (is.kind == LineKind::Dir || (is.blake3 == was.blake3 && is.mode == was.mode))
            {
                continue;
            }
            match self.shadows(group[winner].mount, record.mount) {
                Some(by) if is.kind == was.kind => {
                    let key = self.entries[by as usize].mount_key.clone();
                    self.shadowed.push(Shadowed { path: is.path.clone(), by: key });
                    if by == record.mount {
                        winner = at;
                    }
                }
                _ => return Err(self.conflict(&is.path, group[winner].mount, record.mount)),
            }
        }
        Ok(winner)
    }

    /// If two mounts of one space differ on a page, the explicit selection of pages wins.
    fn shadows(&self, left: u32, right: u32) -> Option<u32> {
        let source = |mount: u32| self.entries.get(mount as usize).map(|entry| &entry.source);
        match (source(left)?, source(right)?) {
            (Source::KbSpace { space_id: a }, Source::KbPages { space_id: b, .. }) if a == b => Some(right),
            (Source::KbPages { space_id: a, .. }, Source::KbSpace { space_id: b }) if a == b => Some(left),
            _ => None,
        }
    }

    fn conflict(&self, path: &str, left: u32, right: u32) -> Error {
        let key =
            |mount: u32| self.entries.get(mount as usize).map_or("another mount", |entry| &entry.mount_key);
        let (left, right) = (key(left), key(right));
        let message = format!("{left} and {right} have different content at {path}");
        Error::new(Code::PlanPathConflict, message)
            .detail("path", path)
            .detail("mounts", vec![left.to_owned(), right.to_owned()])
    }

    /// Leaves finished directories, and enters those above `path`.
    fn enter(
        &self,
        slot: Slot,
        path: &str,
        mount: u32,
        open: &mut Vec<String>,
        each: &mut impl FnMut(Draft) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.leave(open, path)?;
        let top = slot.relative().len();
        let deepest = open.last().map_or(0, String::len);
        let between = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > top && *at > deepest);
        for at in between.collect::<Vec<_>>() {
            let ancestor = &path[..at];
            self.make_dir(slot, ancestor)?;
            let key = self.entries.get(mount as usize).filter(|entry| {
                let prefix = join([entry.slot.relative(), &entry.rel_path, ""]);
                ancestor.strip_prefix(&prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            let key = key.map(|entry| entry.mount_key.clone());
            each(Draft { line: Line::directory(ancestor, key, self.mode(slot)), look: false })?;
            open.push(ancestor.to_owned());
        }
        Ok(())
    }

    /// Leaves every directory that is not above `path` and sets its mode, because nothing more is
    /// added to it. A slot itself gets its mode after it is moved.
    fn leave(&self, open: &mut Vec<String>, path: &str) -> Result<(), Error> {
        while let Some(last) = open.last() {
            if path.strip_prefix(last.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
                return Ok(());
            }
            if let Some(slot) =
                slot_of(last).filter(|slot| slot.relative() != last && self.mode(*slot) == 0o555)
            {
                let set = self.staging.set_mode(staged_path(slot, last), 0o555);
                set.map_err(|error| refusal(&error, "assemble", Path::new(last)))?;
            }
            open.pop();
        }
        Ok(())
    }

    /// The line of a directory: from the first mount that has one.
    fn directory(&self, slot: Slot, path: &str, group: &[Record]) -> Line {
        let key = if path == slot.relative() {
            None
        } else {
            group.iter().find_map(|record| record.line.mount_key.clone())
        };
        Line::directory(path, key, self.mode(slot))
    }

    /// Puts a file or link into its slot. Returns whether it was moved individually, which changes
    /// its ctime.
    fn place(
        &self,
        slot: Slot,
        record: &Record,
        replaces: bool,
        whole: &BTreeSet<usize>,
    ) -> Result<bool, Error> {
        let path = &record.line.path;
        let io = |error| refusal(&error, "assemble", Path::new(path));
        let to = staged_path(slot, path);
        if !is_whole(whole, record) {
            // A directory without a line: another mount has entries below it.
            if self.staging.stat(&to).map_err(io)?.is_some_and(|stat| stat.kind == Kind::Dir) {
                return Err(self.conflict(path, record.mount, Record::NONE));
            }
            if replaces {
                self.staging.remove_file(&to).map_err(io)?;
            }
        }
        if record.attempt == Record::KEPT {
            if self.root.link(path, self.staging, &to).is_err() {
                super::relocate::copy_file(self.root, path, self.staging, &to, record.line.mode)
                    .map_err(io)?;
            }
            return Ok(true);
        }
        let entry = &self.entries[record.mount as usize];
        if is_whole(whole, record) {
            return Ok(!entry.source.kind().is_tree());
        }
        let prefix = join([entry.slot.relative(), &entry.rel_path, ""]);
        let rest = path.strip_prefix(&prefix).unwrap_or_default();
        let from = format!("mounts/{}.{}{rest}", record.mount, record.attempt);
        self.staging.rename(&from, self.staging, &to).map_err(io)?;
        Ok(true)
    }
}

fn is_whole(whole: &BTreeSet<usize>, record: &Record) -> bool {
    record.attempt != Record::KEPT && whole.contains(&(record.mount as usize))
}
