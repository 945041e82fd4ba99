//! Checks each slot before fetching, and plans its move at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::RwPolicy;
use super::arrange::Treatment;
use super::assemble::{directory_mode, staged_path};
use super::journal::Displaced;
use super::lease::Lease;
use super::moves::{Move, Old};
use super::promote::Planner;
use super::recovery::displaced_path;
use super::relocate;
use super::report::{Listed, Preserved, Promote, Why};
use super::state;
use crate::Error;
use crate::plan::Grant;
use crate::rooted::{Dir, Kind, Name, refusal};
use crate::slot::{Mode, Slot};

/// The slots of the plan and of the previous lease.
pub(super) struct Slots<'a> {
    pub(super) root: &'a Dir,
    pub(super) granted: BTreeMap<Slot, Mode>,
    /// The slots of the last lease.
    pub(super) had: BTreeMap<Slot, Mode>,
}

impl<'a> Slots<'a> {
    pub(super) fn new(root: &'a Dir, grants: &[Grant], found: Option<&Lease>) -> Self {
        let had = found.into_iter().flat_map(|lease| &lease.slots);
        Self {
            root,
            granted: grants.iter().map(|grant| (grant.slot, grant.mode)).collect(),
            had: had.filter_map(|slot| Some((Slot::from_path(&slot.path)?, slot.mode))).collect(),
        }
    }

    /// Refuses a root with a link in place of a slot or of a directory above one.
    pub(super) fn check(&self) -> Result<(), Error> {
        for slot in self.granted.keys().chain(self.had.keys()) {
            let path = Path::new(slot.relative());
            let mut places: Vec<&Path> =
                path.ancestors().filter(|place| !place.as_os_str().is_empty()).collect();
            places.reverse();
            for place in places {
                let io = |error| refusal(&error, "inspect", place);
                match self.root.stat(place).map_err(io)? {
                    Some(stat) if stat.kind == Kind::Link => {
                        return Err(state::unsafe_link(&place.to_string_lossy()));
                    }
                    Some(stat) if stat.kind != Kind::Dir && place != path => {
                        return Err(io(std::io::ErrorKind::NotADirectory.into()));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// How each granted slot is treated. `only` are the slots to restore, if not all.
    pub(super) fn treatments(
        &self,
        policy: RwPolicy,
        only: Option<&BTreeSet<Slot>>,
        restored: &BTreeSet<Slot>,
    ) -> Result<BTreeMap<Slot, Treatment>, Error> {
        let mut treatments = BTreeMap::new();
        for (&slot, &mode) in &self.granted {
            let io = |error| refusal(&error, "inspect", Path::new(slot.relative()));
            let is_dir =
                self.root.stat(slot.relative()).map_err(io)?.is_some_and(|stat| stat.kind == Kind::Dir);
            // A previously read-only slot has no files of the agent, and its directories are not
            // writable.
            let merges = mode == Mode::ReadWrite
                && policy == RwPolicy::Preserve
                && self.had.get(&slot) != Some(&Mode::ReadOnly)
                && is_dir
                && !slot.is_file()
                && !restored.contains(&slot);
            let treatment = if only.is_some_and(|only| !only.contains(&slot)) {
                Treatment::Keep
            } else if merges {
                Treatment::Merge
            } else if is_dir && !slot.is_file() && self.root.is_mount_point(slot.relative()).map_err(io)? {
                Treatment::Children
            } else {
                Treatment::Swap
            };
            treatments.insert(slot, treatment);
        }
        Ok(treatments)
    }

    /// Copies the staged trees into slots that are mount points, because nothing can be moved
    /// there.
    pub(super) fn relocate(
        &self,
        staging: &Dir,
        treatments: &BTreeMap<Slot, Treatment>,
    ) -> Result<BTreeSet<Slot>, Error> {
        let mut inside = BTreeSet::new();
        for (&slot, treatment) in treatments {
            let path = slot.relative();
            let io = |error| refusal(&error, "stage in", Path::new(path));
            let moves_in = matches!(treatment, Treatment::Merge | Treatment::Children);
            if !moves_in || !self.root.is_mount_point(path).map_err(io)? {
                continue;
            }
            let place = format!("{path}/{}", relocate::INSIDE);
            let parked = format!("{place}/parked");
            if let Err(error) = self.root.make_dirs(&parked, 0o755) {
                // A previously read-only slot. It cannot be prepared elsewhere, so it is made
                // writable; the moves make it read-only again.
                let stat = self.root.stat(path).map_err(io)?.filter(|stat| stat.mode & 0o200 == 0);
                let Some(stat) = stat else { return Err(io(error)) };
                self.root.set_mode(path, stat.mode | 0o200).map_err(io)?;
                self.root.make_dirs(&parked, 0o755).map_err(io)?;
            }
            let new = format!("{place}/new");
            let staged = staged_path(slot, path);
            let restricted = relocate::copy_tree(staging, &staged, self.root, &new).map_err(io)?;
            for (directory, mode) in restricted.into_iter().rev() {
                // Its top is moved, which requires write permission; it gets its mode then.
                if directory.strip_prefix(&new).is_some_and(|rest| rest.matches('/').count() > 1) {
                    self.root.set_mode(&directory, mode).map_err(io)?;
                }
            }
            inside.insert(slot);
        }
        Ok(inside)
    }

    /// The parent directories of slots.
    pub(super) fn plan_parents(&self, planner: &mut Planner<'_>) -> Result<(), Error> {
        let parents = self.granted.keys().filter_map(|slot| slot.relative().rsplit_once('/'));
        let parents: BTreeSet<&str> = parents.map(|(parent, _)| parent).collect();
        for parent in parents {
            let io = |error| refusal(&error, "inspect", Path::new(parent));
            if self.root.stat(parent).map_err(io)?.is_none() {
                planner.push(&Move::MakeDir { target: parent.to_owned(), mode: 0o755 })?;
            }
        }
        Ok(())
    }

    /// The moves of whole slots, in table order with `AGENTS.md` last, so that its readers find
    /// what it describes.
    pub(super) fn plan_moves(
        &self,
        plan: &mut PlannedMoves<'_, '_>,
        treatments: &BTreeMap<Slot, Treatment>,
    ) -> Result<(), Error> {
        let (last, others): (Vec<Slot>, Vec<Slot>) =
            Slot::ALL.into_iter().partition(|slot| *slot == Slot::AgentsMd);
        for slot in others.into_iter().chain(last) {
            match treatments.get(&slot) {
                Some(Treatment::Swap) => self.plan_swap(plan, slot)?,
                Some(Treatment::Children) => self.plan_children(plan, slot)?,
                None => self.plan_removal(plan, slot)?,
                Some(Treatment::Merge | Treatment::Keep) => {}
            }
        }
        Ok(())
    }

    fn plan_swap(&self, plan: &mut PlannedMoves<'_, '_>, slot: Slot) -> Result<(), Error> {
        let target = slot.relative().to_owned();
        let io = |error| refusal(&error, "inspect", Path::new(slot.relative()));
        let staged = format!("{}/{}", plan.staging_path, staged_path(slot, slot.relative()));
        let Some(new) = self.root.stat(&staged).map_err(io)? else {
            // A file slot without a file in the plan.
            return self.plan_removal(plan, slot);
        };
        let old = self.root.stat(&target).map_err(io)?;
        let parked = format!("{}/{}", plan.staging_path, plan.planner.parking_place());
        if let Some(old) = old
            && self.is_foreign(slot, plan)
            && self.has_content(slot, old.kind).map_err(io)?
        {
            let to = displaced_path(self.root, plan.generation, slot).map_err(io)?;
            plan.displaced.push(Displaced { from: [staged.clone(), parked.clone()], to });
            plan.preserved.push(Preserved { path: target.clone(), why: Why::Displaced });
        }
        let mode = self.granted.get(&slot).filter(|_| !slot.is_file()).map(|mode| directory_mode(*mode));
        plan.planner.push(&Move::Place {
            staged,
            target,
            parked,
            ino: new.ino,
            old: old.map(Old::from),
            mode,
            careful: false,
        })
    }

    /// Whether a slot contains something other than applied read-only content.
    fn is_foreign(&self, slot: Slot, plan: &PlannedMoves<'_, '_>) -> bool {
        match (self.had.get(&slot), self.granted.get(&slot)) {
            (Some(Mode::ReadOnly), _) => false,
            (_, Some(Mode::ReadWrite)) => plan.policy == RwPolicy::Preserve,
            _ => true,
        }
    }

    fn has_content(&self, slot: Slot, kind: Kind) -> std::io::Result<bool> {
        if kind != Kind::Dir {
            return Ok(true);
        }
        Ok(!self.root.open_dir(slot.relative())?.names()?.is_empty())
    }

    /// Removes applied read-only content. Writable content is kept, although it is no longer
    /// granted.
    fn plan_removal(&self, plan: &mut PlannedMoves<'_, '_>, slot: Slot) -> Result<(), Error> {
        let target = slot.relative().to_owned();
        let io = |error| refusal(&error, "inspect", Path::new(slot.relative()));
        if self.had.get(&slot) != Some(&Mode::ReadOnly) {
            return Ok(());
        }
        let Some(old) = self.root.stat(&target).map_err(io)? else { return Ok(()) };
        if self.root.is_mount_point(&target).map_err(io)? {
            return self.plan_children(plan, slot);
        }
        let parked = format!("{}/{}", plan.staging_path, plan.planner.parking_place());
        plan.planner.push(&Move::Remove { target, parked, old: Old::from(old), careful: false })
    }

    /// Entry by entry: new entries are added, entries that are no longer in the plan are removed.
    fn plan_children(&self, plan: &mut PlannedMoves<'_, '_>, slot: Slot) -> Result<(), Error> {
        let top = slot.relative();
        let io = |error| refusal(&error, "inspect", Path::new(top));
        let inside = format!("{top}/{}", relocate::INSIDE);
        self.root.make_dirs(format!("{inside}/parked"), 0o755).map_err(io)?;
        self.root.make_dirs(format!("{inside}/new"), 0o755).map_err(io)?;
        let names = |path: &str| -> Result<BTreeSet<Name>, Error> {
            let names = self.root.open_dir(path).and_then(|directory| directory.names()).map_err(io)?;
            Ok(names.into_iter().map(|(name, _)| name).filter(|name| name.0 != relocate::INSIDE).collect())
        };
        let (old, new) = (names(top)?, names(&format!("{inside}/new"))?);
        let mode = self.granted.get(&slot).map_or(0o755, |mode| directory_mode(*mode));
        for name in old.union(&new) {
            let Some(shown) = name.0.to_str() else {
                return Err(io(std::io::ErrorKind::InvalidFilename.into()));
            };
            let target = format!("{top}/{shown}");
            let parked = format!("{inside}/{}", plan.planner.parking_place());
            let was = self.root.stat(&target).map_err(io)?.map(Old::from);
            if new.contains(name) {
                let staged = format!("{inside}/new/{shown}");
                let Some(is) = self.root.stat(&staged).map_err(io)? else { continue };
                let mode = (is.kind == Kind::Dir).then_some(mode);
                plan.planner.push(&Move::Place {
                    staged,
                    target,
                    parked,
                    ino: is.ino,
                    old: was,
                    mode,
                    careful: false,
                })?;
            } else if let Some(old) = was {
                plan.planner.push(&Move::Remove { target, parked, old, careful: false })?;
            }
        }
        if let Some(stat) = self.root.stat(top).map_err(io)? {
            plan.planner.push(&Move::SetMode { target: top.to_owned(), mode, old: stat.mode })?;
        }
        Ok(())
    }

    /// How each granted slot is installed, for the report.
    pub(super) fn promotes(
        &self,
        treatments: &BTreeMap<Slot, Treatment>,
        found: Option<&Lease>,
    ) -> BTreeMap<Slot, Promote> {
        let before = |slot: Slot| {
            let slots = found.into_iter().flat_map(|lease| &lease.slots);
            slots
                .filter(|report| Slot::from_path(&report.path) == Some(slot))
                .map(|report| report.promote)
                .next()
        };
        let promote = |slot: Slot, treatment: Treatment| match treatment {
            _ if slot.is_file() => Promote::File,
            Treatment::Swap => Promote::Swap,
            Treatment::Children => Promote::Children,
            Treatment::Merge => Promote::Merge,
            Treatment::Keep => before(slot).unwrap_or(Promote::Swap),
        };
        treatments.iter().map(|(&slot, &treatment)| (slot, promote(slot, treatment))).collect()
    }
}

/// The inputs for planning the moves of whole slots.
pub(super) struct PlannedMoves<'p, 's> {
    pub(super) planner: &'p mut Planner<'s>,
    /// The staging folder, relative to the root.
    pub(super) staging_path: &'p str,
    pub(super) generation: u64,
    pub(super) policy: RwPolicy,
    pub(super) displaced: &'p mut Vec<Displaced>,
    pub(super) preserved: &'p mut Listed<Preserved>,
}
