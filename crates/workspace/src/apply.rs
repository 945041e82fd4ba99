//! Putting a plan in place, all or nothing.
//!
//! ```text
//! lock -> recover -> lease -> fetch into staging -> assemble slots -> restore -> journal -> promote -> commit
//!                                                                        |________ undone on failure ________|
//! ```
//!
//! Everything up to the journal happens in the state folder, where no agent looks. Then slots change places,
//! each in one step of the file system; a failure or a crash before the commit undoes all of them, one after it only leaves
//! tidying to the next call. `docs/formats/workspace-state.md` has every byte of the state folder.
//!
//! Nothing here is asynchronous. Resolvers run on threads of their own ([`Applier::apply`]).

mod arrange;
mod assemble;
mod attempt;
mod fetch;
mod journal;
mod lease;
mod limits;
mod lock;
mod moves;
mod ours;
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
use self::lock::{Asked, Claim};
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

/// How long a lease lasts without being renewed, unless the request says otherwise: a quarter of an hour.
pub const DEFAULT_TTL_MS: u64 = 900_000;

/// What happens to read-write slots that exist already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RwPolicy {
    /// What the agent wrote is kept, and the plan is merged around it.
    #[default]
    Preserve,
    /// They become what the plan says. What the agent wrote is gone. A plan that is in place already is applied again.
    Reset,
}

/// How closely to look before saying that a plan is in place already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Not at all: the lease is believed.
    None,
    /// At what the file system knows.
    #[default]
    Stat,
    /// At every byte of the read-only slots.
    Hash,
}

/// Whether the agent could write to a file that this program owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentUser {
    /// It runs as the same user, or as one who may do anything. Every file is its own.
    #[default]
    Same,
    /// It runs as another, ordinary user. Equal files of read-only slots may be one file.
    Other,
}

/// What is to be applied, and how.
#[derive(Clone, Copy)]
pub struct ApplyRequest<'a> {
    /// The plan.
    pub plan: &'a ValidPlan,
    /// For whom: mostly [`LeaseScope::of`] the plan.
    pub scope: &'a LeaseScope,
    /// Who applies: a name for people, told to others who want the workspace.
    pub holder: &'a str,
    /// How long the lease lasts without being renewed.
    pub ttl_ms: u64,
    /// What happens to read-write slots.
    pub rw_policy: RwPolicy,
    /// How closely to look at a plan that is in place.
    pub verify: Verify,
    /// As whom the agent runs.
    pub agent_user: AgentUser,
    /// What is unpacked over the read-write slots. A plan that is in place already is applied again.
    pub restore: Option<&'a dyn Restore>,
}

impl<'a> ApplyRequest<'a> {
    /// A request with everything as usual.
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

/// How far an apply is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Bytes are arriving.
    Resolved {
        /// How many mounts are complete.
        mounts: usize,
        /// Of how many.
        of: usize,
        /// How many files, links and directories arrived.
        files: u64,
        /// How many bytes arrived.
        bytes: u64,
    },
    /// Everything has arrived and is being put in place.
    Promoting,
}

/// Is told how far an apply is.
pub trait Progress: Sync {
    /// A step was made.
    fn step(&self, step: Step);
}

/// Nobody wants to know.
impl Progress for () {
    fn step(&self, _step: Step) {}
}

/// Puts plans in place in one root.
#[derive(Debug)]
pub struct Applier {
    root: Dir,
    limits: Limits,
    timeouts: Timeouts,
    /// What is being removed in the background.
    cleaning: Mutex<Vec<JoinHandle<()>>>,
}

impl Applier {
    /// Opens a root, which has to be a directory. If an earlier apply was cut off, and nobody else is at work, it is undone
    /// or finished now.
    ///
    /// # Errors
    /// When the root cannot be opened, and when what was cut off cannot be put right.
    pub fn new(root: &Path) -> Result<Self, Error> {
        Self::below(Dir::open_root(root).map_err(|error| refusal(&error, "open", root))?)
    }

    /// The same for a directory that is open already.
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
            && let Some(_guard) = lock::try_now(&state, &Claim::of_nobody(0))?
        {
            recovery::recover(&applier.root, &state)?;
            applier.clean(&state, None);
        }
        Ok(applier)
    }

    /// With other bounds.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// With other time-outs.
    #[must_use]
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// The root.
    pub fn root(&self) -> &Dir {
        &self.root
    }

    /// Whether names that differ only in case are one name in this root: what
    /// [`ValidPlan::check`] has to know. Makes the state folder where there is none.
    ///
    /// # Errors
    /// When the state folder cannot be made.
    pub fn folds_case(&self) -> Result<bool, Error> {
        let state = state::open_or_create(&self.root)?;
        let here = state.stat("").map_err(state::failed("look at", ""))?;
        let folded = self.root.stat(STATE_DIR.to_uppercase()).map_err(state::failed("look at", ""))?;
        Ok(folded
            .is_some_and(|folded| here.is_some_and(|here| (here.dev, here.ino) == (folded.dev, folded.ino))))
    }

    /// Makes a folder that resolvers of this machine may fetch into, on the file system of the workspace, and says
    /// where it is below the root. What one that was killed left there is removed by the next apply.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn scratch(&self) -> Result<PathBuf, Error> {
        let state = state::open_or_create(&self.root)?;
        state.make_dirs(state::SCRATCH, 0o700).map_err(state::failed("make", state::SCRATCH))?;
        Ok(Path::new(STATE_DIR).join(state::SCRATCH))
    }

    /// The lease of the root; nothing where nothing was applied.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn lease(&self) -> Result<Option<Lease>, Error> {
        Lease::read(&self.root)
    }

    /// Applies a plan. `now_ms` is the time, in milliseconds since 1970.
    ///
    /// Up to 16 resolvers are asked at a time, four of one upstream. One that does not answer in time is left behind on
    /// its thread, and what it yields later is thrown away.
    ///
    /// Whoever asks for the plan that is just being applied, here or in another process, waits and gets the same report.
    ///
    /// # Errors
    /// With `LEASE_…` when the workspace is not to be had; with whatever resolvers and the disk say otherwise. The workspace
    /// is then as it was, unless the code is `APPLY_ROLLBACK_FAILED`.
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
        // A snapshot has to be unpacked, and the agent's work thrown away, by whoever was asked for it.
        let forced = request.restore.is_some() || request.rw_policy == RwPolicy::Reset;
        let _guard = match lock::ask(&state, &claim, !forced)? {
            Asked::Ours(guard) => guard,
            Asked::Joined(report) => return Ok(*report),
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
            // Whoever joined and finds none applies again, and finds the plan in place.
            let _ = lock::leave_report(&state, &claim.flight, report);
        }
        self.clean(&state, store);
        done
    }

    /// Gives the workspace back. What is in it stays.
    ///
    /// # Errors
    /// `LEASE_NOT_FOUND` when there is no such lease, `LEASE_STALE_GENERATION` when another followed.
    pub fn release(&self, apply_id: &str, generation: u64, now_ms: u64) -> Result<Lease, Error> {
        let not_found = || {
            Error::new(Code::LeaseNotFound, "there is no lease of that plan on this root")
                .detail("applyId", apply_id)
        };
        let state = state::open(&self.root)?.ok_or_else(not_found)?;
        let Asked::Ours(_guard) = lock::ask(&state, &Claim::of_nobody(now_ms), false)? else {
            return Err(not_found());
        };
        recovery::recover(&self.root, &state)?;
        let mut file =
            LeaseFile::read(&state)?.filter(|file| file.lease.apply_id == apply_id).ok_or_else(not_found)?;
        let current = file.lease.generation;
        if current != generation {
            let message = format!("generation {generation} is not the one that holds: that is {current}");
            return Err(Error::new(Code::LeaseStaleGeneration, message)
                .detail("generation", generation)
                .detail("latest", current));
        }
        file.lease.state = LeaseState::Released;
        file.write(&state)?;
        Ok(file.lease)
    }

    /// Waits until what an apply replaced is removed. Dropping the applier waits too.
    pub fn settle(&self) {
        let cleaning = std::mem::take(&mut *self.cleaning.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in cleaning {
            // A cleaner that panicked left something for the next apply to remove.
            let _ = thread.join();
        }
    }

    /// What of the read-only slots has to be put right: nothing, a part, or, where that cannot be known, everything.
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
            // Without an index nobody knows what should be where.
            Err(_) => Some(None),
        }
    }

    /// Removes in the background what was moved out of the way.
    fn clean(&self, state: &Dir, store: Option<Store>) {
        let state = state.clone();
        let cleaner = std::thread::Builder::new().name("clean".into()).spawn(move || {
            // Whatever stays is removed by the next apply.
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
    /// Somebody who has no plan: it is over in a moment.
    fn of_nobody(now_ms: u64) -> Self {
        Self {
            apply_id: String::new(),
            plan_digest: String::new(),
            scope: None,
            holder: String::new(),
            flight: lock::flight(now_ms),
        }
    }
}

/// The plan is in place: only the lease lasts longer.
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
