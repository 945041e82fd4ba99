//! Runs: created, watched, answered, ended.
//!
//! Each operation takes the same way. The run's state is taken from memory, or folded from its log; the core decides what
//! follows; one commit makes it durable, with the answer to the caller's key and the entry of the audit log in it; then, and
//! only then, streams are told, effects are made and the caller is answered.
//!
//! ```text
//!  request ─► lock of the run ─► decide ─► commit (shared fsync) ─► streams, effects, answer
//!  timer, child, effect ──┘                                          │
//!        ▲                                                           │
//!        └──────────────────── what the effects come to ◄────────────┘
//! ```
//!
//! What was under way when the process ended is found again by [`Runs::recover`]: a run that is not at its end is told so, and asks
//! again for the timers, children and effects that it waits for. Children have derived ids and effects a layer-2 identity, so asking
//! twice does nothing twice. Nodes that guide an agent lead out of this module and back: `guide.rs`, and [`crate::guided_node`].

mod advance;
pub mod annotations;
pub mod artifacts;
pub mod audit;
pub mod bulk;
pub mod bundle;
pub mod caller;
mod compute_pool;
pub mod counts;
pub mod create;
pub mod definitions;
mod effects;
mod engine_context;
pub mod exposed;
mod family;
mod feed;
pub mod fork;
mod guide;
mod health;
pub mod idempotency;
mod inherit;
pub mod interrupts;
mod keyed_lock;
pub mod keys;
pub(crate) mod listeners;
mod live;
mod new_children;
mod progress;
pub mod rates;
pub mod read;
mod recovery;
pub mod refusal;
pub mod retention;
pub mod rotation;
pub mod secrets;
pub mod session_keys;
mod timers;
mod traces;
pub mod webhooks;
mod work_limits;
mod workflow_view;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use canon::time::Timestamp;
use flow::definition::Capabilities;
use flow::engine::Limits;
use ports::Cause;
use ports::runs::{Change, Commit, CommitError, CommitFuture, RunStore};
use tokio::sync::{Notify, Semaphore, watch};

pub use self::audit::AuditKey;
use self::audit::{Anchors, Unsigned};
pub use self::caller::{Caller, Scope};
use self::compute_pool::ComputePool;
use self::counts::{Counters, Counts};
pub use self::create::{CreatedRun, NewRun, new_run_id};
use self::definitions::Definitions;
pub use self::family::{MAX_FAMILY, Waiting};
pub use self::feed::{Batch, Following};
use self::health::StoreHealth;
pub use self::health::Trouble;
pub use self::idempotency::{Direct, Keyed, Respond, StoredReply, Written};
use self::keyed_lock::KeyedLock;
use self::keys::KnownKeys;
pub use self::keys::{ApiKey, GuidedCaller, KeyError};
pub use self::listeners::SilentTrigger;
use self::live::LiveRuns;
use self::recovery::Recovery;
pub use self::recovery::RecoveryProgress;
pub use self::refusal::{ApiCode, Refusal, RefusalKind};
use self::secrets::{Resolved, Secrets};
pub use self::session_keys::{SessionGrant, SessionKeys};
use self::traces::Traces;
pub use self::traces::{Ended, MAX_WAITING as MAX_TRACES_WAITING};
use self::webhooks::Webhooks;
use self::work_limits::WorkLimits;
pub use self::work_limits::{MAX_AT_WORK, MAX_AT_WORK_FOR_A_RUN};
pub use self::workflow_view::WorkflowLook;
use crate::executors::Executors;
use crate::guided_node::GuidedNodes;
use crate::system::{Clock, Entropy};

/// How many requests that write may be under way at once; more are told to come back. Each holds a few kilobytes, and waits for
/// one shared fsync.
pub const MAX_WRITES: usize = 4096;

/// How long a stop waits for the work of nodes. What is not done by then is work of unknown outcome for the next start.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a host of runs is made of.
pub struct Options {
    /// Where runs are kept.
    pub store: Arc<dyn RunStore>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// For ids that nobody can guess.
    pub entropy: Arc<dyn Entropy>,
    /// What no run may exceed.
    pub limits: Limits,
    /// What is served.
    pub capabilities: Capabilities,
    /// The secrets that sign references to interrupts, the current one first.
    pub token_secrets: Vec<[u8; 32]>,
    /// Where clients reach this host, without a slash at the end.
    pub public_url: String,
    /// What checkpoints of the audit log are signed with.
    pub audit_key: AuditKey,
    /// Where secrets come from.
    pub secrets: Arc<dyn Secrets>,
    /// How addresses are called that callers chose.
    pub outbound: outbound::Client,
}

/// The service of runs. Cheap to clone.
#[derive(Clone)]
pub struct Runs {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    definitions: Definitions,
    live: LiveRuns,
    writes: Semaphore,
    timer_set: Notify,
    stopping: AtomicBool,
    stop: Notify,
    delivery_queued: Notify,
    webhooks: Webhooks,
    unsigned: Unsigned,
    resolved: Resolved,
    changes: watch::Sender<u64>,
    /// Where guided nodes lead, on a host that has a way for them.
    path: OnceLock<GuidedNodes>,
    /// What nodes may use, on a host that lets them use anything.
    executors: OnceLock<Executors>,
    withheld: Mutex<BTreeSet<&'static str>>,
    /// The work of nodes that is under way.
    places: WorkLimits,
    /// Decisions that take long.
    heavy: ComputePool,
    /// What is left of the work of a start.
    recovery: Recovery,
    one_by_one: KeyedLock,
    known_keys: KnownKeys,
    health: StoreHealth,
    /// The newest checkpoints outside the database, on a host that has a place for them.
    anchors: OnceLock<Anchors>,
    traces: Traces,
    counters: Counters,
    /// Whose triggers are to be looked at.
    listeners: listeners::Changed,
    /// Children that are durable and have yet to begin.
    newborn: new_children::NewChildren,
}

impl fmt::Debug for Runs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Runs").field("store", &self.inner.options.store).finish_non_exhaustive()
    }
}

impl Runs {
    /// The service on a store. What was under way does not go on before [`Runs::recover`].
    pub fn new(options: Options) -> Self {
        let runs = Self {
            inner: Arc::new(Inner {
                options,
                definitions: Definitions::default(),
                live: LiveRuns::default(),
                writes: Semaphore::new(MAX_WRITES),
                timer_set: Notify::new(),
                stopping: AtomicBool::new(false),
                stop: Notify::new(),
                delivery_queued: Notify::new(),
                webhooks: Webhooks::default(),
                unsigned: Unsigned::default(),
                resolved: Resolved::default(),
                changes: watch::Sender::new(0),
                path: OnceLock::new(),
                executors: OnceLock::new(),
                withheld: Mutex::default(),
                places: WorkLimits::default(),
                heavy: ComputePool::default(),
                recovery: Recovery::default(),
                one_by_one: KeyedLock::default(),
                known_keys: KnownKeys::default(),
                health: StoreHealth::default(),
                anchors: OnceLock::new(),
                traces: Traces::default(),
                counters: Counters::default(),
                listeners: listeners::Changed::default(),
                newborn: new_children::NewChildren::default(),
            }),
        };
        runs.learn_secrets();
        runs
    }

    /// What no run may exceed.
    pub fn limits(&self) -> &Limits {
        &self.inner.options.limits
    }

    /// What is served.
    pub fn capabilities(&self) -> Capabilities {
        let own = &self.inner.options.capabilities;
        let served = self.inner.executors.get().map_or_else(|| own.clone(), |executors| executors.widen(own));
        self.withheld().into_iter().fold(served, Capabilities::without)
    }

    /// The flags of discovery that are withheld: for tests.
    pub fn withheld(&self) -> BTreeSet<&'static str> {
        self.inner.withheld.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves without what these flags of discovery stand for, whatever could be served. Workflows that are registered stay: for tests.
    pub fn withhold(&self, flags: BTreeSet<&'static str>) {
        *self.inner.withheld.lock().unwrap_or_else(PoisonError::into_inner) = flags;
    }

    /// Lets nodes use what these hands reach. Once, before anything runs.
    pub fn equip(&self, executors: Executors) {
        // A second pair is not taken: workflows were checked against the first.
        let _ = self.inner.executors.set(executors);
    }

    /// What nodes may use.
    pub fn executors(&self) -> Option<&Executors> {
        self.inner.executors.get()
    }

    /// The providers of models that callers may choose from.
    fn providers(&self) -> Vec<&str> {
        let models = self.executors().and_then(Executors::models);
        models.map(|models| models.choosable().collect()).unwrap_or_default()
    }

    /// What was counted since the start.
    pub fn counts(&self) -> Counts {
        self.inner.counters.now()
    }

    /// Where clients reach this host.
    pub fn public_url(&self) -> &str {
        &self.inner.options.public_url
    }

    /// Takes no more requests that write, and waits until those under way are done.
    pub async fn drain(&self) {
        self.inner.stopping.store(true, Ordering::SeqCst);
        self.inner.timer_set.notify_waiters();
        self.inner.stop.notify_waiters();
        // Every permit is there again once every write is done.
        let all = u32::try_from(MAX_WRITES).unwrap_or(u32::MAX);
        let _all = self.inner.writes.acquire_many(all).await;
        let _ = tokio::time::timeout(PATIENCE, self.inner.places.idle()).await;
    }

    /// Whether requests can be served: the store answers, every run goes on that was under way, and the host is not being stopped.
    pub async fn is_ready(&self) -> bool {
        !self.is_stopping()
            && self.recovering().is_none()
            && self.check_store().await.is_ok()
            && self.store_trouble().is_none()
    }

    /// Checks that the store answers.
    ///
    /// # Errors
    /// When it does not, with what it said as the source.
    pub async fn check_store(&self) -> Result<(), Refusal> {
        self.store().next_timer().await.map(drop).map_err(|error| {
            Refusal::unavailable("the store of the host does not answer", 5).because(Cause::new(error))
        })
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.inner.stopping.load(Ordering::SeqCst)
    }

    /// Waits until the host is being stopped.
    pub(crate) async fn stopped(&self) {
        let stop = self.inner.stop.notified();
        tokio::pin!(stop);
        // Registered before the look, so that a stop in between is not missed.
        stop.as_mut().enable();
        if !self.is_stopping() {
            stop.await;
        }
    }

    /// An id that nobody can guess.
    fn new_id(&self, prefix: &str) -> Result<String, Refusal> {
        let mut random = [0_u8; 16];
        let filled = self.inner.options.entropy.fill(&mut random);
        filled.map_err(no_entropy)?;
        Ok(format!("{prefix}{}", canon::encoding::hex(&random)))
    }

    /// The time, as this host knows it.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.inner.options.clock.now_ms())
    }

    fn store(&self) -> &dyn RunStore {
        &*self.inner.options.store
    }

    /// Commits changes and waits until they are durable. A caller that stops waiting does not undo the commit.
    async fn commit(&self, changes: Vec<Change>) -> Result<(), CommitError> {
        let audited = changes.iter().filter_map(|change| match change {
            Change::Audit { tenant, .. } => Some(tenant.clone()),
            _ => None,
        });
        let audited: Vec<_> = audited.collect();
        let has_key = changes.iter().any(|change| matches!(change, Change::PutApiKey { .. }));
        let committed = self.store().commit(Commit { changes });
        let result = if has_key { self.forget_keys_after(committed).await } else { committed.await };
        self.inner.health.committed(&result, self.now());
        result?;
        self.audit_committed(audited);
        Ok(())
    }

    /// Waits for a commit that changes keys and forgets the cached keys, in a task of its own: the cache must be cleared even if the
    /// caller stops waiting.
    async fn forget_keys_after(&self, committed: CommitFuture) -> Result<(), CommitError> {
        let runs = self.clone();
        let task = tokio::spawn(async move {
            let result = committed.await;
            runs.inner.known_keys.forget();
            result
        });
        // The task does not panic; it ends early only when the runtime shuts down.
        task.await.unwrap_or(Err(CommitError::Closed))
    }

    /// A permit for a write, or a refusal if too many are in progress.
    fn admit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Refusal> {
        if self.is_stopping() {
            return Err(Refusal::unavailable("the host is being stopped", 5));
        }
        self.inner
            .writes
            .try_acquire()
            .map_err(|_| Refusal::unavailable("the host has as much to do as it takes", 1))
    }
}

/// The system gave no randomness.
fn no_entropy(error: impl std::error::Error + Send + Sync + 'static) -> Refusal {
    Refusal::new(ApiCode::InternalError, "the system has no entropy to give").because(Cause::new(error))
}
