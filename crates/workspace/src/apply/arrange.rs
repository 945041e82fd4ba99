//! Plans the moves that turn the staged slots into the slots of the workspace, and the resulting
//! index.
//!
//! Only the staging folder is changed here. Most slots are exchanged as a whole. An existing
//! read-write slot is merged: the base is what the last apply wrote, "theirs" is what is staged,
//! "ours" is what is on disk.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use super::agent_files::{self, DiskEntry};
use super::assemble::staged_path;
use super::moves::{Move, Old};
use super::promote::Planner;
use super::records::{Draft, Drafts};
use super::relocate;
use super::report::{Listed, Preserved, Why};
use super::staging;
use crate::Error;
use crate::index::{self, Line, LineKind, compare_paths, slot_of};
use crate::rooted::{Dir, Kind, refusal};
use crate::slot::Slot;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// The staged slot replaces the one on disk.
    Swap,
    /// The same, entry by entry, because the slot is a mount point.
    Children,
    /// The staged slot is merged into the one on disk.
    Merge,
    /// No change is needed.
    Keep,
}

/// Takes staged items in path order and plans moves.
pub(super) struct Arrangement<'a> {
    pub(super) root: &'a Dir,
    /// The staging folder, relative to the root.
    pub(super) staging_path: String,
    pub(super) treatments: &'a BTreeMap<Slot, Treatment>,
    /// Slots whose staged tree was copied into the slot itself.
    pub(super) inside: &'a BTreeSet<Slot>,
    /// Slots with snapshot content over the plan's content.
    pub(super) restored: &'a BTreeSet<Slot>,
    /// Mounts that are kept.
    pub(super) untouched: BTreeSet<String>,
    pub(super) base: Option<index::Reader<File>>,
    pub(super) next_base: Option<Line>,
    pub(super) written_at: i64,
    pub(super) planner: Planner<'a>,
    pub(super) drafts: Drafts,
    pub(super) preserved: Listed<Preserved>,
    /// Directories that the plan no longer has, deepest last.
    pub(super) gone: Vec<(String, u32)>,
    /// The last directory in which files were created; it exists or will exist.
    pub(super) made: BTreeSet<String>,
}

impl Arrangement<'_> {
    /// Takes the next staged item.
    pub(super) fn theirs(&mut self, mut draft: Draft) -> Result<(), Error> {
        loop {
            let order =
                self.peek()?.map(|base| compare_paths(base.path.as_bytes(), draft.line.path.as_bytes()));
            match order {
                Some(Ordering::Less) => {
                    let base = self.next_base.take();
                    self.decide(base, None)?;
                }
                Some(Ordering::Equal) => {
                    let base = self.next_base.take();
                    self.forget_times(&mut draft);
                    return self.decide(base, Some(draft));
                }
                Some(Ordering::Greater) | None => {
                    self.forget_times(&mut draft);
                    return self.decide(None, Some(draft));
                }
            }
        }
    }

    /// Takes the remaining base entries.
    pub(super) fn drain(&mut self) -> Result<(), Error> {
        while self.peek()?.is_some() {
            let base = self.next_base.take();
            self.decide(base, None)?;
        }
        while let Some((target, mode)) = self.gone.pop() {
            self.planner.push(&Move::RemoveDir { target, mode })?;
        }
        Ok(())
    }

    fn peek(&mut self) -> Result<Option<&Line>, Error> {
        if self.next_base.is_none()
            && let Some(reader) = &mut self.base
        {
            self.next_base = reader.next_line()?;
            if self.next_base.is_none() {
                self.base = None;
            }
        }
        Ok(self.next_base.as_ref())
    }

    /// Where snapshot content may be, file metadata does not describe the plan's content.
    fn forget_times(&self, draft: &mut Draft) {
        if slot_of(&draft.line.path).is_some_and(|slot| self.restored.contains(&slot)) {
            forget(&mut draft.line);
            draft.look = false;
        }
    }

    fn decide(&mut self, base: Option<Line>, theirs: Option<Draft>) -> Result<(), Error> {
        let path = theirs.as_ref().map(|draft| &draft.line).or(base.as_ref()).map(|line| line.path.as_str());
        let Some(slot) = path.and_then(slot_of) else { return Ok(()) };
        match (self.treatments.get(&slot), base, theirs) {
            (Some(Treatment::Swap | Treatment::Children), _, Some(mut draft)) => {
                draft.look |= self.inside.contains(&slot) && !self.restored.contains(&slot);
                self.drafts.push(draft)
            }
            (Some(Treatment::Keep), Some(line), _) => self.drafts.push(Draft { line, look: false }),
            (Some(Treatment::Merge), base, theirs) => self.merge(slot, base, theirs),
            // A slot that is no longer granted, or an unusable base.
            _ => Ok(()),
        }
    }

    fn merge(&mut self, slot: Slot, base: Option<Line>, theirs: Option<Draft>) -> Result<(), Error> {
        let stays = |line: &Line| line.mount_key.as_ref().is_some_and(|key| self.untouched.contains(key));
        if base.as_ref().is_some_and(stays) {
            return base.map_or(Ok(()), |line| self.drafts.push(Draft { line, look: false }));
        }
        if theirs.as_ref().is_some_and(|draft| stays(&draft.line)) {
            return Ok(());
        }
        match (base, theirs) {
            (None, None) => Ok(()),
            (None, Some(draft)) => self.merge_new(slot, draft),
            (Some(base), Some(draft)) => self.merge_known(slot, &base, draft),
            (Some(base), None) => self.merge_gone(&base),
        }
    }

    /// In the plan now, but not before.
    fn merge_new(&mut self, slot: Slot, mut draft: Draft) -> Result<(), Error> {
        let path = draft.line.path.clone();
        match self.look(&path) {
            DiskEntry::Nothing => match draft.line.kind {
                LineKind::Dir => {
                    self.make_dirs(&path)?;
                    self.drafts.push(draft)
                }
                LineKind::File | LineKind::Link => self.place(slot, draft, None),
            },
            DiskEntry::There(stat) if agent_files::is_same(self.root, &draft.line, stat, None) => {
                staging::look(&mut draft.line, stat);
                if draft.line.kind == LineKind::Dir {
                    // It existed before, with a mode chosen by the user; keep it.
                    draft.line.mode = stat.mode;
                }
                draft.line.linked = false;
                draft.look = false;
                self.drafts.push(draft)
            }
            DiskEntry::There(_) | DiskEntry::Hidden => self.keep(Some(draft), path, Why::Local),
        }
    }

    /// In the plan now and before.
    fn merge_known(&mut self, slot: Slot, base: &Line, mut draft: Draft) -> Result<(), Error> {
        let path = base.path.clone();
        let unchanged = base.kind == draft.line.kind
            && base.blake3 == draft.line.blake3
            && (base.mode == draft.line.mode || base.kind == LineKind::Dir)
            && base.target == draft.line.target;
        match agent_files::look(self.root, &path) {
            DiskEntry::Nothing => self.keep(Some(draft), path, Why::Deleted),
            DiskEntry::There(stat) if agent_files::is_same(self.root, base, stat, Some(self.written_at)) => {
                if unchanged {
                    // The bytes are equal, so the recorded metadata remains valid.
                    staging::look(&mut draft.line, stat);
                    draft.line.mode = base.mode;
                    draft.line.linked = base.linked;
                    draft.look = false;
                    return self.drafts.push(draft);
                }
                match (base.kind, draft.line.kind) {
                    (_, LineKind::Dir) => {
                        let parked = self.park(Some(slot));
                        let old = Old::from(stat);
                        self.planner.push(&Move::Remove {
                            target: path.clone(),
                            parked,
                            old,
                            careful: true,
                        })?;
                        self.planner.push(&Move::MakeDir { target: path.clone(), mode: 0o755 })?;
                        self.made.insert(path);
                        self.drafts.push(draft)
                    }
                    // Entries below the directory may belong to the agent, so the directory is
                    // kept.
                    (LineKind::Dir, _) => self.keep(Some(draft), path, Why::Modified),
                    _ => self.place(slot, draft, Some(Old::from(stat))),
                }
            }
            DiskEntry::There(_) | DiskEntry::Hidden => self.keep(Some(draft), path, Why::Modified),
        }
    }

    /// In the plan before, but not now.
    fn merge_gone(&mut self, base: &Line) -> Result<(), Error> {
        match agent_files::look(self.root, &base.path) {
            DiskEntry::Nothing => Ok(()),
            DiskEntry::There(stat) if agent_files::is_same(self.root, base, stat, Some(self.written_at)) => {
                if base.kind == LineKind::Dir {
                    self.gone.push((base.path.clone(), stat.mode));
                    return Ok(());
                }
                let parked = self.park(slot_of(&base.path));
                let target = base.path.clone();
                self.planner.push(&Move::Remove { target, parked, old: Old::from(stat), careful: true })
            }
            DiskEntry::There(_) | DiskEntry::Hidden => self.keep(None, base.path.clone(), Why::Modified),
        }
    }

    /// Keeps an entry of the agent. The index still records the plan's content, because the next
    /// merge compares with it.
    fn keep(&mut self, theirs: Option<Draft>, path: String, why: Why) -> Result<(), Error> {
        self.preserved.push(Preserved { path, why });
        match theirs {
            Some(mut draft) => {
                forget(&mut draft.line);
                draft.look = false;
                self.drafts.push(draft)
            }
            None => Ok(()),
        }
    }

    /// The entry at a path, considering planned directories.
    fn look(&self, path: &str) -> DiskEntry {
        match path.rsplit_once('/') {
            Some((parent, _)) if self.made.contains(parent) => DiskEntry::Nothing,
            _ => agent_files::look(self.root, path),
        }
    }

    fn place(&mut self, slot: Slot, mut draft: Draft, old: Option<Old>) -> Result<(), Error> {
        let target = draft.line.path.clone();
        if let Some((parent, _)) = target.rsplit_once('/') {
            match self.make_dirs(parent) {
                Ok(true) => {}
                Ok(false) => return self.keep(Some(draft), target, Why::Local),
                Err(error) => return Err(error),
            }
        }
        let staged = self.staged(slot, &target);
        let io = |error| refusal(&error, "inspect", Path::new(&staged));
        let Some(found) = self.root.stat(&staged).map_err(io)? else {
            return Err(io(std::io::ErrorKind::NotFound.into()));
        };
        let parked = self.park(Some(slot));
        self.planner.push(&Move::Place {
            staged,
            target,
            parked,
            ino: found.ino,
            old,
            mode: None,
            careful: true,
        })?;
        draft.look = true;
        self.drafts.push(draft)
    }

    /// Creates missing parent directories. Returns whether that is possible.
    fn make_dirs(&mut self, path: &str) -> Result<bool, Error> {
        let mut missing = Vec::new();
        for ancestor in Path::new(path).ancestors().filter_map(Path::to_str).filter(|path| !path.is_empty()) {
            if self.made.contains(ancestor) {
                break;
            }
            match self.look(ancestor) {
                DiskEntry::There(stat) if stat.kind == Kind::Dir => break,
                DiskEntry::Nothing => missing.push(ancestor.to_owned()),
                DiskEntry::There(_) | DiskEntry::Hidden => return Ok(false),
            }
        }
        for target in missing.into_iter().rev() {
            self.planner.push(&Move::MakeDir { target: target.clone(), mode: 0o755 })?;
            self.made.insert(target);
        }
        Ok(true)
    }

    fn park(&mut self, slot: Option<Slot>) -> String {
        let place = self.planner.parking_place();
        match slot.filter(|slot| self.inside.contains(slot)) {
            Some(slot) => format!("{}/{}/{place}", slot.relative(), relocate::INSIDE),
            None => format!("{}/{place}", self.staging_path),
        }
    }

    fn staged(&self, slot: Slot, path: &str) -> String {
        if self.inside.contains(&slot) {
            let rest = path.strip_prefix(slot.relative()).unwrap_or(path);
            return format!("{}/{}/new{rest}", slot.relative(), relocate::INSIDE);
        }
        format!("{}/{}", self.staging_path, staged_path(slot, path))
    }
}

/// The entry on disk is not the one that the line describes.
fn forget(line: &mut Line) {
    line.mtime_ns = 0;
    line.ctime_ns = 0;
    line.ino = 0;
    line.linked = false;
}
