//! Applies a plan to a workspace, as a whole or not at all.
//!
//! ```text
//! lock -> recover -> lease -> fetch into staging -> assemble slots -> restore -> journal -> promote -> commit
//!                                                                        |________ undone on failure ________|
//! ```
//!
//! Everything before the journal happens in the state folder, which agents do not use. Then slots
//! are exchanged, each in one file system operation. A failure or crash before the commit is rolled
//! back; after the commit, the next call cleans up. `docs/formats/workspace-state.md` documents
//! every file of the state folder.
//!
//! Nothing here is asynchronous. Resolvers run on their own threads ([`Applier::apply`]).

mod agent_files;
mod arrange;
mod assemble;
mod attempt;
mod fetch;
mod journal;
mod lease;
mod limits;
mod lock;
mod moves;
mod promote;
mod queue;
mod records;
mod recovery;
mod relocate;
mod report;
mod restore;
mod run;
mod slots;
mod staging;
mod state;
mod store;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

pub use self::fetch::Timeouts;
pub use self::lease::{Lease, LeaseScope, LeaseState};
use self::lease::{LeaseFile, Verdict};
pub use self::limits::Limits;
use self::lock::{Claim, LockResult};
pub use self::report::{
    ApplyReport, LeaseReason, MAX_LISTED, MAX_PINNED, Pinned, Preserved, Promote, Shadowed, SlotReport,
    Status, Why,
};
pub use self::restore::{Restore, RestoreSink, Restored};
use self::run::{Run, Work};
use self::slots::Slots;
use self::store::Store;
use crate::drift::{self, Disrepair};
use crate::plan::ValidPlan;
use crate::resolve::Resolver;
use crate::rooted::{Dir, refusal};
use crate::slot::STATE_DIR;
use crate::{Code, Error};

/// The default time until a lease expires without renewal: 15 minutes.
pub const DEFAULT_TTL_MS: u64 = 900_000;

/// How existing read-write slots are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RwPolicy {
    /// Keep what the agent wrote, and merge the plan around it.
    #[default]
    Preserve,
    /// Replace them with the plan's content and delete what the agent wrote. A plan that is already
    /// applied is applied again.
    Reset,
}

/// How thoroughly to check whether a plan is already applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Trust the lease.
    None,
    /// Compare file metadata.
    #[default]
    Stat,
    /// Compare every byte of the read-only slots.
    Hash,
}

/// Whether the agent can write to files that this program owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentUser {
    /// The agent runs as the same user or as a privileged user. Every file is a separate copy.
    #[default]
    Same,
    /// The agent runs as another, unprivileged user. Equal files of read-only slots may be hard
    /// links.
    Other,
}

/// What to apply, and how.
#[derive(Clone, Copy)]
pub struct ApplyRequest<'a> {
    pub plan: &'a ValidPlan,
    /// The owner of the workspace: usually [`LeaseScope::of`] the plan.
    pub scope: &'a LeaseScope,
    /// A name for people, shown to others who want the workspace.
    pub holder: &'a str,
    /// How long the lease lasts without renewal.
    pub ttl_ms: u64,
    pub rw_policy: RwPolicy,
    pub verify: Verify,
    pub agent_user: AgentUser,
    /// A snapshot to unpack over the read-write slots. A plan that is already applied is applied
    /// again.
    pub restore: Option<&'a dyn Restore>,
}

impl<'a> ApplyRequest<'a> {
    /// A request with default options.
    pub fn new(plan: &'a ValidPlan, scope: &'a LeaseScope, holder: &'a str) -> Self {
        Self {
            plan,
            scope,
            holder,
            ttl_ms: DEFAULT_TTL_MS,
            rw_policy: RwPolicy::Preserve,
            verify: Verify::Stat,
            agent_user: AgentUser::Same,
            restore: None,
        }
    }
}

/// The progress of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Mounts are being fetched.
    Resolved { mounts: usize, of: usize, files: u64, bytes: u64 },
    /// Everything is fetched and is being installed.
    Promoting,
}

pub trait Progress: Sync {
    fn step(&self, step: Step);
}

impl Progress for () {
    fn step(&self, _step: Step) {}
}

/// Applies plans in one root.
#[derive(Debug)]
pub struct Applier {
    root: Dir,
    limits: Limits,
    timeouts: Timeouts,
    /// Background removal of replaced files.
    cleaning: Mutex<Vec<JoinHandle<()>>>,
}

impl Applier {
    /// Opens a root, which must be a directory. If an earlier apply was interrupted and no other
    /// process is active, it is rolled back or finished now.
    ///
    /// # Errors
    /// If the root cannot be opened, or an interrupted apply cannot be recovered.
    pub fn new(root: &Path) -> Result<Self, Error> {
        Self::below(Dir::open_root(root).map_err(|error| refusal(&error, "open", root))?)
    }

    /// The same for an open directory.
    ///
    /// # Errors
    /// As [`Applier::new`].
    pub fn below(root: Dir) -> Result<Self, Error> {
        let applier = Self {
            root,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            cleaning: Mutex::new(Vec::new()),
        };
        if let Some(state) = state::open(&applier.root)?
            && state.stat(journal::FILE_NAME).map_err(state::failed("read", journal::FILE_NAME))?.is_some()
            && let Some(_guard) = lock::try_now(&state, &Claim::without_plan(0))?
        {
            recovery::recover(&applier.root, &state)?;
            applier.clean(&state, None);
        }
        Ok(applier)
    }

    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    #[must_use]
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    pub fn root(&self) -> &Dir {
        &self.root
    }

    /// Whether the file system of this root ignores case, which [`ValidPlan::check`] needs to know.
    /// Creates the state folder if missing.
    ///
    /// # Errors
    /// If the state folder cannot be created.
    pub fn folds_case(&self) -> Result<bool, Error> {
        let state = state::open_or_create(&self.root)?;
        let here = state.stat("").map_err(state::failed("inspect", ""))?;
        let folded = self.root.stat(STATE_DIR.to_uppercase()).map_err(state::failed("inspect", ""))?;
        Ok(folded
            .is_some_and(|folded| here.is_some_and(|here| (here.dev, here.ino) == (folded.dev, folded.ino))))
    }

    /// Creates a scratch folder for local resolvers on the file system of the workspace, and
    /// returns its path below the root. The next apply removes leftovers of killed processes.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn scratch(&self) -> Result<PathBuf, Error> {
        let state = state::open_or_create(&self.root)?;
        state.make_dirs(state::SCRATCH, 0o700).map_err(state::failed("make", state::SCRATCH))?;
        Ok(Path::new(STATE_DIR).join(state::SCRATCH))
    }

    /// The lease of the root; `None` if no plan was applied.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn lease(&self) -> Result<Option<Lease>, Error> {
        Lease::read(&self.root)
    }

    /// Applies a plan. `now_ms` is the time in milliseconds since 1970.
    ///
    /// Up to 16 resolvers run at a time, four per upstream. A resolver that times out is abandoned
    /// on its thread, and its later output is discarded.
    ///
    /// A caller that requests the plan that is being applied, in this or another process, waits and
    /// gets the same report.
    ///
    /// # Errors
    /// `LEASE_…` if the workspace is not available; otherwise errors of resolvers or the disk. The
    /// workspace is unchanged, unless the code is `APPLY_ROLLBACK_FAILED`.
    pub fn apply(
        &self,
        request: &ApplyRequest<'_>,
        resolver: &Arc<dyn Resolver>,
        now_ms: u64,
        progress: &dyn Progress,
    ) -> Result<ApplyReport, Error> {
        let began = Instant::now();
        let state = state::open_or_create(&self.root)?;
        let claim = Claim {
            apply_id: request.plan.apply_id().to_owned(),
            plan_digest: request.plan.digest().to_owned(),
            scope: Some(request.scope.clone()),
            holder: request.holder.to_owned(),
            flight: lock::flight(now_ms),
        };
        // A request with a snapshot or a reset must do its own work and cannot join another apply.
        let forced = request.restore.is_some() || request.rw_policy == RwPolicy::Reset;
        let _guard = match lock::ask(&state, &claim, !forced)? {
            LockResult::Acquired(guard) => guard,
            LockResult::Joined(report) => return Ok(*report),
        };
        recovery::recover(&self.root, &state)?;
        let found = LeaseFile::read(&state)?.map(|file| file.lease);
        let verdict = lease::judge(found.as_ref(), request.plan, request.scope, now_ms)?;
        Slots::new(&self.root, request.plan.grants(), found.as_ref()).check()?;
        let (reason, work) = match (verdict, &found) {
            (Verdict::InPlace, Some(_)) if forced => (LeaseReason::Renewed, Work::All),
            (Verdict::InPlace, Some(lease)) => match self.disrepair(lease, request.verify, now_ms) {
                None => {
                    if recovery::has_trash(&state) {
                        self.clean(&state, None);
                    }
                    return renew(lease.clone(), &state, request, now_ms, began);
                }
                Some(Some(disrepair)) => (LeaseReason::Drift, Work::Some(disrepair)),
                Some(None) => (LeaseReason::Drift, Work::All),
            },
            (Verdict::InPlace, None) => (LeaseReason::New, Work::All),
            (Verdict::Apply(reason), _) => (reason, Work::All),
        };
        let store = match request.agent_user {
            AgentUser::Same => None,
            AgentUser::Other => Some(Store::open(&state)?),
        };
        let run = Run {
            root: &self.root,
            state: &state,
            limits: &self.limits,
            timeouts: &self.timeouts,
            store: store.clone(),
            request,
            found: found.as_ref(),
            reason,
            now_ms,
            began,
        };
        let done = run.carry_out(&work, resolver, progress);
        if let Ok(report) = &done {
            // A joined caller without a report applies again and finds the plan already applied.
            let _ = lock::leave_report(&state, &claim.flight, report);
        }
        self.clean(&state, store);
        done
    }

    /// Releases the workspace. Its files stay.
    ///
    /// # Errors
    /// `LEASE_NOT_FOUND` if there is no such lease, `LEASE_STALE_GENERATION` if a newer one exists.
    pub fn release(&self, apply_id: &str, generation: u64, now_ms: u64) -> Result<Lease, Error> {
        let not_found = || {
            Error::new(Code::LeaseNotFound, "no lease of this plan on this root").detail("applyId", apply_id)
        };
        let state = state::open(&self.root)?.ok_or_else(not_found)?;
        let LockResult::Acquired(_guard) = lock::ask(&state, &Claim::without_plan(now_ms), false)? else {
            return Err(not_found());
        };
        recovery::recover(&self.root, &state)?;
        let mut file =
            LeaseFile::read(&state)?.filter(|file| file.lease.apply_id == apply_id).ok_or_else(not_found)?;
        let current = file.lease.generation;
        if current != generation {
            let message = format!("generation {generation} is stale; the current generation is {current}");
            return Err(Error::new(Code::LeaseStaleGeneration, message)
                .detail("generation", generation)
                .detail("latest", current));
        }
        file.lease.state = LeaseState::Released;
        file.write(&state)?;
        Ok(file.lease)
    }

    /// Waits until replaced files are removed. Dropping the applier waits too.
    pub fn settle(&self) {
        let cleaning = std::mem::take(&mut *self.cleaning.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in cleaning {
            // If the cleaner panicked, the next apply removes the rest.
            let _ = thread.join();
        }
    }

    /// The parts of the read-only slots to restore: none, some, or everything if that is unknown.
    fn disrepair(&self, lease: &Lease, verify: Verify, now_ms: u64) -> Option<Option<Disrepair>> {
        let level = match verify {
            Verify::None => return None,
            Verify::Stat => drift::Level::Stat,
            Verify::Hash => drift::Level::Hash,
        };
        let baseline = lease.baseline();
        let now_ns = i64::try_from(now_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        let options = drift::Options { refresh: drift::Refresh::LockHeld, ..drift::Options::default() };
        match drift::scan_read_only_slots(&self.root, &baseline, level, now_ns, options) {
            Ok(disrepair) if disrepair.is_empty() => None,
            Ok(disrepair) => Some(Some(disrepair)),
            // Without an index, the expected state is unknown.
            Err(_) => Some(None),
        }
    }

    /// Removes replaced files in the background.
    fn clean(&self, state: &Dir, store: Option<Store>) {
        let state = state.clone();
        let cleaner = std::thread::Builder::new().name("clean".into()).spawn(move || {
            // The next apply removes what remains.
            let _ = recovery::empty_trash(&state);
            if let Some(store) = store {
                let _ = store.evict(store::MAX_BYTES);
            }
        });
        let mut cleaning = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner);
        cleaning.retain(|thread| !thread.is_finished());
        cleaning.extend(cleaner.ok());
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        self.settle();
    }
}

impl Claim {
    /// A lock holder without a plan finishes quickly.
    fn without_plan(now_ms: u64) -> Self {
        Self {
            apply_id: String::new(),
            plan_digest: String::new(),
            scope: None,
            holder: String::new(),
            flight: lock::flight(now_ms),
        }
    }
}

/// The plan is already applied: only the lease is extended.
fn renew(
    mut lease: Lease,
    state: &Dir,
    request: &ApplyRequest<'_>,
    now_ms: u64,
    began: Instant,
) -> Result<ApplyReport, Error> {
    lease.renew(state, now_ms, request.ttl_ms)?;
    Ok(ApplyReport {
        apply_id: lease.apply_id,
        plan_digest: lease.plan_digest,
        status: Status::Cached,
        generation: lease.generation,
        lease_reason: LeaseReason::Renewed,
        slots: lease.slots,
        preserved: Vec::new(),
        preserved_unlisted: 0,
        shadowed: Vec::new(),
        shadowed_unlisted: 0,
        pinned: lease.pinned,
        warnings: Vec::new(),
        upstream_calls: 0,
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}
