//! One apply, from an empty staging folder to the commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use super::agent_files::{self, Repositories};
use super::arrange::{Arrangement, Treatment};
use super::assemble::Assembly;
use super::fetch::{self, Fetched, Timeouts};
use super::journal::{Displaced, Journal, Phase};
use super::lease::{Lease, LeaseFile, LeaseState};
use super::limits::{Count, Limits};
use super::promote::{self, Planner};
use super::queue::Queue;
use super::records::{Drafts, Record, Sorter};
use super::report::{
    ApplyReport, LeaseReason, Listed, MAX_PINNED, Pinned, Preserved, Promote, Shadowed, SlotReport, Status,
    Why,
};
use super::slots::{PlannedMoves, Slots};
use super::staging::{self, Shared, join};
use super::store::Store;
use super::{ApplyRequest, Progress, Step, recovery, restore, state};
use crate::drift::Disrepair;
use crate::index::{self, Digests, slot_of};
use crate::plan::{SourceKind, ValidEntry};
use crate::resolve::Resolver;
use crate::rooted::Dir;
use crate::slot::{Mode, STATE_DIR, Slot};
use crate::{Code, Error};

/// What to fetch.
pub(super) enum Work {
    /// The whole plan.
    All,
    /// Only what has drifted.
    Some(Disrepair),
}

/// One apply, with the lock held.
pub(super) struct Run<'a> {
    pub(super) root: &'a Dir,
    pub(super) state: &'a Dir,
    pub(super) limits: &'a Limits,
    pub(super) timeouts: &'a Timeouts,
    pub(super) store: Option<Store>,
    pub(super) request: &'a ApplyRequest<'a>,
    pub(super) found: Option<&'a Lease>,
    pub(super) reason: LeaseReason,
    pub(super) now_ms: u64,
    pub(super) began: Instant,
}

/// A prepared promotion.
struct Prepared {
    staging: Dir,
    staging_path: String,
    drafts: Drafts,
    displaced: Vec<Displaced>,
    promotes: BTreeMap<Slot, Promote>,
    preserved: Listed<Preserved>,
    shadowed: Listed<Shadowed>,
    warnings: Vec<String>,
    pinned: Vec<Pinned>,
    calls: u64,
}

impl Run<'_> {
    pub(super) fn carry_out(
        &self,
        work: &Work,
        resolver: &Arc<dyn Resolver>,
        progress: &dyn Progress,
    ) -> Result<ApplyReport, Error> {
        let status = if matches!(work, Work::Some(_)) { Status::Repaired } else { Status::Applied };
        let prepared = self.prepare(work, resolver, progress);
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                // Nothing visible has changed. The next apply removes what cannot be removed now.
                let _ = recovery::clear_staging(self.root, self.state);
                let _ = recovery::empty_trash(self.state);
                return Err(error);
            }
        };
        progress.step(Step::Promoting);
        self.put_in_place(prepared, status)
    }

    /// Everything before the first visible change.
    fn prepare(
        &self,
        work: &Work,
        resolver: &Arc<dyn Resolver>,
        progress: &dyn Progress,
    ) -> Result<Prepared, Error> {
        let plan = self.request.plan;
        let slots = Slots::new(self.root, plan.grants(), self.found);
        let entries: Arc<[ValidEntry]> = plan.entries().into();
        let (path, staging) = staging::open(self.state, plan.apply_id())?;
        let wanted: Vec<usize> = match work {
            Work::All => (0..entries.len()).collect(),
            Work::Some(drifted) => {
                (0..entries.len()).filter(|at| drifted.mounts.contains(&entries[*at].mount_key)).collect()
            }
        };
        let only = match work {
            Work::All => None,
            Work::Some(drifted) => Some(&drifted.slots),
        };
        let shared = Shared {
            staging: &staging,
            queue: Arc::new(Queue::new()),
            limits: self.limits,
            all: Count::default(),
            runs: Arc::new(AtomicU64::new(0)),
            store: self.store.clone(),
            granted: entries
                .iter()
                .map(|entry| slots.granted.get(&entry.slot).copied().unwrap_or(Mode::ReadOnly))
                .collect(),
            shares: AtomicBool::new(true),
        };
        let fetched = fetch::fetch(&shared, &entries, &wanted, resolver, self.timeouts, progress)?;
        let mut extra = Sorter::new(&staging, &shared.runs);
        if let Work::Some(drifted) = work {
            self.keep_the_rest(drifted, &entries, &mut extra)?;
        }
        self.arrange(&slots, only, &entries, fetched, extra, (path, staging.clone()))
    }

    /// In a slot that is restored, mounts without drift are reused from the disk.
    fn keep_the_rest(
        &self,
        drifted: &Disrepair,
        entries: &[ValidEntry],
        extra: &mut Sorter,
    ) -> Result<(), Error> {
        let by_key: BTreeMap<&str, usize> =
            entries.iter().enumerate().map(|(at, entry)| (entry.mount_key.as_str(), at)).collect();
        let mut failure = None;
        let whole = agent_files::read_base(self.state, |line, _| {
            let Some(key) = &line.mount_key else { return };
            let in_slot = slot_of(&line.path).is_some_and(|slot| drifted.slots.contains(&slot));
            if !in_slot || drifted.mounts.contains(key) || failure.is_some() {
                return;
            }
            let mount = by_key.get(key.as_str()).and_then(|at| u32::try_from(*at).ok());
            let Some(mount) = mount else { return };
            let kept = Record { mount, attempt: Record::KEPT, line: line.clone() };
            failure = extra.push(kept).err();
        })?;
        match failure {
            Some(error) => Err(error),
            None if whole => Ok(()),
            None => Err(state::damaged(index::FILE_NAME, "it is truncated or unreadable")),
        }
    }

    /// Assembles the slots, unpacks the snapshot, and plans the moves.
    fn arrange(
        &self,
        slots: &Slots<'_>,
        only: Option<&BTreeSet<Slot>>,
        entries: &Arc<[ValidEntry]>,
        fetched: Fetched,
        extra: Sorter,
        (path, staging): (String, Dir),
    ) -> Result<Prepared, Error> {
        let built: BTreeMap<Slot, Mode> = slots
            .granted
            .iter()
            .filter(|(slot, _)| only.is_none_or(|only| only.contains(slot)))
            .map(|(&slot, &mode)| (slot, mode))
            .collect();
        let (mut preserved, mut shadowed) = (Listed::default(), Listed::default());
        let staging_path = format!("{STATE_DIR}/{path}");
        let writable: Vec<Slot> =
            built.iter().filter(|(_, mode)| **mode == Mode::ReadWrite).map(|(slot, _)| *slot).collect();

        // The lines of slots are produced while the slots are built, but can only be compared after
        // the snapshot is unpacked. So they are buffered.
        let mut staged = Drafts::new(&staging, "staged");
        let assembly = Assembly {
            root: self.root,
            staging: &staging,
            entries,
            tries: &fetched.tries,
            slots: &built,
            shadowed: &mut shadowed,
        };
        assembly.build(fetched.sorters, extra, |draft| staged.push(draft))?;
        let restored = match self.request.restore {
            Some(restore) => restore::unpack(restore, &staging, &writable)?,
            None => BTreeSet::new(),
        };
        let treatments = slots.treatments(self.request.rw_policy, only, &restored)?;
        let inside = slots.relocate(&staging, &treatments)?;
        let merges = treatments.values().any(|treatment| *treatment == Treatment::Merge);
        let keeps = treatments.values().any(|treatment| *treatment == Treatment::Keep);
        let (base, untouched) = if merges || keeps {
            self.base(entries, &treatments, &mut preserved)?
        } else {
            (None, BTreeSet::new())
        };
        let mut planner = Planner::new(&staging)?;
        slots.plan_parents(&mut planner)?;
        let mut arrangement = Arrangement {
            root: self.root,
            staging_path: staging_path.clone(),
            treatments: &treatments,
            inside: &inside,
            restored: &restored,
            untouched,
            written_at: base.as_ref().map_or(i64::MIN, |base| base.header().written_at_ns),
            base,
            next_base: None,
            planner,
            drafts: Drafts::new(&staging, "arranged"),
            preserved,
            gone: Vec::new(),
            made: BTreeSet::new(),
        };
        staged.read(|draft| arrangement.theirs(draft))?;
        arrangement.drain()?;
        let Arrangement { mut planner, drafts, mut preserved, .. } = arrangement;
        let mut displaced = Vec::new();
        let mut planned = PlannedMoves {
            planner: &mut planner,
            staging_path: &staging_path,
            generation: self.generation(),
            policy: self.request.rw_policy,
            displaced: &mut displaced,
            preserved: &mut preserved,
        };
        slots.plan_moves(&mut planned, &treatments)?;
        planner.finish()?;
        let promotes = slots.promotes(&treatments, self.found);
        Ok(Prepared {
            staging,
            staging_path: path,
            drafts,
            displaced,
            promotes,
            preserved,
            shadowed,
            pinned: self.pinned(entries, &fetched.pinned, only.is_some()),
            warnings: fetched.warnings,
            calls: fetched.calls,
        })
    }

    /// The previous index, if it is complete, and the repositories that the agent has changed
    /// since.
    fn base(
        &self,
        entries: &[ValidEntry],
        treatments: &BTreeMap<Slot, Treatment>,
        preserved: &mut Listed<Preserved>,
    ) -> Result<(Option<index::Reader<std::fs::File>>, BTreeSet<String>), Error> {
        let merged =
            |path: &str| slot_of(path).is_some_and(|slot| treatments.get(&slot) == Some(&Treatment::Merge));
        let mut repositories = Repositories::default();
        for entry in entries {
            let path = join([entry.slot.relative(), &entry.rel_path, ""]);
            if entry.source.kind() == SourceKind::ScmRepo && merged(&path) {
                repositories.expect(&entry.mount_key, &path);
            }
        }
        let whole = agent_files::read_base(self.state, |line, _| {
            if merged(&line.path) {
                repositories.learn(line);
            }
        })?;
        if whole {
            agent_files::read_base(self.state, |line, written_at| {
                repositories.compare(self.root, line, written_at);
            })?;
        }
        let untouched = repositories.touched(self.root, preserved);
        Ok((if whole { agent_files::open_base(self.state) } else { None }, untouched))
    }

    /// The mounted revisions: the fetched ones and, after a partial fetch, the previous ones.
    fn pinned(
        &self,
        entries: &[ValidEntry],
        fetched: &BTreeMap<usize, String>,
        in_part: bool,
    ) -> Vec<Pinned> {
        let before = self.found.filter(|_| in_part).map_or(&[][..], |lease| &lease.pinned);
        let revision = |at: usize, entry: &ValidEntry| {
            let kept = || before.iter().find(|pinned| pinned.mount_key == entry.mount_key);
            fetched.get(&at).cloned().or_else(|| kept().map(|pinned| pinned.revision.clone()))
        };
        let all = entries.iter().enumerate().filter_map(|(at, entry)| {
            Some(Pinned { mount_key: entry.mount_key.clone(), revision: revision(at, entry)? })
        });
        all.take(MAX_PINNED).collect()
    }

    fn generation(&self) -> u64 {
        self.found.map_or(1, |lease| lease.generation + 1)
    }

    /// Moves everything and commits, or rolls back.
    fn put_in_place(&self, prepared: Prepared, status: Status) -> Result<ApplyReport, Error> {
        let now = self.now_ms;
        let lease = Lease {
            apply_id: self.request.plan.apply_id().to_owned(),
            plan_digest: self.request.plan.digest().to_owned(),
            scope: self.request.scope.clone(),
            generation: self.generation(),
            holder: self.request.holder.to_owned(),
            state: LeaseState::Pending,
            created_at: now,
            renewed_at: now,
            expires_at: now.saturating_add(self.request.ttl_ms),
            slots: Vec::new(),
            pinned: prepared.pinned.clone(),
            index_ref: index::FILE_NAME.to_owned(),
        };
        let mut journal = Journal {
            version: state::VERSION,
            state: Phase::Promoting,
            staging: prepared.staging_path.clone(),
            lease,
            previous: self.found.map(|found| self.ended(found)),
            displaced: prepared.displaced.clone(),
        };
        if let Err(error) = journal.write(self.state) {
            // The journal may have been renamed and not synced. Then it says that nothing was
            // moved, which is true.
            return Err(self.undo(&journal, error));
        }
        let outcome = self.promote(prepared, &mut journal, status);
        outcome.map_err(|error| match journal.state {
            Phase::Promoting => self.undo(&journal, error),
            // It is committed; the next call finishes what failed.
            Phase::Committed => error,
        })
    }

    fn promote(
        &self,
        prepared: Prepared,
        journal: &mut Journal,
        status: Status,
    ) -> Result<ApplyReport, Error> {
        let Prepared { staging, drafts, promotes, mut preserved, shadowed, warnings, calls, .. } = prepared;
        let given_up = promote::promote(self.root, &staging)?;
        for path in &given_up {
            preserved.push(Preserved { path: path.clone(), why: Why::Modified });
        }
        let given_up: BTreeSet<String> = given_up.into_iter().collect();
        let slots = self.write_index(&staging, drafts, &given_up, &promotes)?;
        journal.lease.slots = slots.clone();
        journal.lease.state = LeaseState::Active;
        let committed = Journal { state: Phase::Committed, ..journal.clone() };
        committed.write(self.state)?;
        *journal = committed;
        // From here on the new workspace is valid; the next call finishes what fails.
        let finished = recovery::finish(self.root, self.state, journal)
            .and_then(|()| recovery::clear_staging(self.root, self.state));
        if let Err(error) = finished
            && Journal::read(self.state)
                .ok()
                .flatten()
                .is_some_and(|journal| journal.state == Phase::Committed)
            && LeaseFile::read(self.state).ok().flatten().is_none_or(|file| file.lease != journal.lease)
        {
            return Err(error);
        }
        Ok(ApplyReport {
            apply_id: journal.lease.apply_id.clone(),
            plan_digest: journal.lease.plan_digest.clone(),
            status,
            generation: journal.lease.generation,
            lease_reason: self.reason,
            slots,
            preserved: preserved.items,
            preserved_unlisted: preserved.unlisted,
            shadowed: shadowed.items,
            shadowed_unlisted: shadowed.unlisted,
            pinned: journal.lease.pinned.clone(),
            warnings,
            upstream_calls: calls,
            duration_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Writes the index into the staging folder, and computes the slot totals.
    fn write_index(
        &self,
        staging: &Dir,
        drafts: Drafts,
        given_up: &BTreeSet<String>,
        promotes: &BTreeMap<Slot, Promote>,
    ) -> Result<Vec<SlotReport>, Error> {
        let io = state::failed("write", index::FILE_NAME);
        let file = staging.create_file(index::FILE_NAME, 0o600).map_err(&io)?;
        // Use the file system's clock, because the times in the lines are from it.
        let written_at = staging.stat(index::FILE_NAME).map_err(&io)?.map_or(0, |stat| stat.mtime_ns);
        let header = index::Header {
            apply_id: self.request.plan.apply_id().to_owned(),
            generation: self.generation(),
            written_at_ns: i64::try_from(written_at).unwrap_or(i64::MAX),
        };
        let mut writer = index::Writer::new(file, &header)?;
        let mut digests = Digests::new();
        drafts.read(|draft| {
            let mut line = draft.line;
            if given_up.contains(&line.path) {
                (line.mtime_ns, line.ctime_ns, line.ino) = (0, 0, 0);
            } else if draft.look
                && let Some(stat) = self.root.stat(&line.path).map_err(&io)?
            {
                staging::look(&mut line, stat);
            }
            digests.add(&line);
            writer.push(&line)
        })?;
        let (file, _) = writer.finish()?;
        staging.sync_file(&file).map_err(&io)?;
        staging.sync().map_err(io)?;
        let summary = digests.finish();
        let grants = self.request.plan.grants().iter();
        Ok(grants
            .map(|grant| {
                let tree = summary.slots.get(&grant.slot);
                SlotReport {
                    path: grant.slot.path(),
                    mode: grant.mode,
                    files: tree.map_or(0, |tree| tree.files),
                    bytes: tree.map_or(0, |tree| tree.bytes),
                    tree_digest: tree.map_or_else(empty_digest, |tree| tree.digest.clone()),
                    promote: promotes.get(&grant.slot).copied().unwrap_or(Promote::Swap),
                }
            })
            .collect())
    }

    /// The final state of the previous lease.
    fn ended(&self, found: &Lease) -> Lease {
        let state = match found.state_at(self.now_ms) {
            LeaseState::Active => LeaseState::Superseded,
            state => state,
        };
        Lease { state, ..found.clone() }
    }

    /// Rolls back and reports the result.
    fn undo(&self, journal: &Journal, error: Error) -> Error {
        // The commit may be on disk although it failed. Then the next call would finish what is
        // being undone here.
        let original = Journal { previous: self.found.cloned(), state: Phase::Promoting, ..journal.clone() };
        let undone = original
            .write(self.state)
            .and_then(|()| recovery::roll_back(self.root, self.state, &original))
            .and_then(|()| recovery::clear_staging(self.root, self.state));
        match undone {
            Ok(()) => error.detail("rolledBack", true),
            Err(failure) => {
                let failed = Lease { state: LeaseState::Failed, ..journal.lease.clone() };
                let file =
                    LeaseFile { version: state::VERSION, lease: failed, previous: self.found.cloned() };
                // The journal says the same and is kept.
                let _ = file.write(self.state);
                Error::new(Code::ApplyRollbackFailed, "the apply failed, and the rollback failed too")
                    .caused_by([error, failure])
            }
        }
    }
}

fn empty_digest() -> String {
    blake3::hash(b"").to_hex().to_string()
}
