//! The service of runs: creates, reads, advances and ends them.
//!
//! Each operation works the same way. The state of the run is taken from memory, or folded from its log. The engine decides
//! what follows. One commit makes the decision durable, together with the reply for the caller's idempotency key and the audit
//! entry. Only after the commit does the host notify streams, perform effects and reply to the caller.
//!
//! ```text
//!  request ─► lock of the run ─► decide ─► commit (shared fsync) ─► streams, effects, reply
//!  timer, child, effect ──┘                                          │
//!        ▲                                                           │
//!        └──────────────────── results of effects ◄──────────────────┘
//! ```
//!
//! After a restart, [`Runs::recover`] continues the runs that have not ended: each requests again the timers, children and
//! effects that it waits for. Ids of children are derived and effects have a layer-2 identity, so a repeated request has no
//! second effect. Guided nodes are handled in `guide.rs` and the crate `guided_node`.
#![forbid(unsafe_code)]

mod advance;
pub mod annotations;
pub mod artifacts;
pub mod attempts;
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
pub mod listeners;
mod live;
mod new_children;
mod progress;
pub mod rates;
pub mod read;
mod recovery;
pub mod refusal;
pub mod retention;
pub mod rotation;
mod secrets;
mod timers;
mod traces;
pub mod webhooks;
mod work_limits;
mod workflow_view;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use canon::time::Timestamp;
use executors::Executors;
use flow::definition::Capabilities;
use flow::engine::Limits;
use guided_node::{GuidedNodes, SessionKeys};
use ports::Cause;
use ports::runs::{Change, Commit, CommitError, CommitFuture, RunStore};
use system::secrets::Secrets;
use system::{Clock, Entropy};
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
use self::secrets::Resolved;
pub use self::traces::{Ended, EndedRuns, MAX_WAITING as MAX_TRACES_WAITING};
use self::webhooks::Webhooks;
use self::work_limits::WorkLimits;
pub use self::work_limits::{MAX_AT_WORK, MAX_AT_WORK_FOR_A_RUN};
pub use self::workflow_view::WorkflowLook;

/// The maximum number of writing requests in progress at once. Further requests are refused and can be retried. Each request
/// holds a few kilobytes and waits for one shared fsync.
pub const MAX_WRITES: usize = 4096;

/// How long shutdown waits for the work of nodes. Work that is not done by then has an unknown outcome for the next start.
const PATIENCE: Duration = Duration::from_secs(10);

/// What [`Runs`] is built from.
pub struct Options {
    /// Stores the runs.
    pub store: Arc<dyn RunStore>,
    /// The source of the current time.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness for unguessable ids.
    pub entropy: Arc<dyn Entropy>,
    /// The limits of every run.
    pub limits: Limits,
    /// The capabilities that this host serves.
    pub capabilities: Capabilities,
    /// The secrets that sign references to interrupts. The current one is first.
    pub token_secrets: Vec<[u8; 32]>,
    /// The base URL for clients, without a trailing slash.
    pub public_url: String,
    /// Signs the checkpoints of the audit log.
    pub audit_key: AuditKey,
    /// The source of secrets.
    pub secrets: Arc<dyn Secrets>,
    /// The client for requests to addresses that callers chose.
    pub outbound: outbound::Client,
    /// Executes the work of nodes. `None` on a host without executors: workflows that need them are refused.
    pub executors: Option<Executors>,
    /// Hands work to agents. `None` on a host without guided nodes: they fail.
    pub guided_nodes: Option<GuidedNodes>,
    /// Keeps the newest audit checkpoints in a file outside the database.
    pub anchors: Option<Anchors>,
    /// Is notified of the runs that end. `None` if nothing exports traces.
    pub ended_runs: Option<EndedRuns>,
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
    withheld: Mutex<BTreeSet<&'static str>>,
    /// Limits the work of nodes in progress.
    places: WorkLimits,
    /// Runs decisions that take long.
    heavy: ComputePool,
    /// What remains of the recovery after the start.
    recovery: Recovery,
    one_by_one: KeyedLock,
    known_keys: KnownKeys,
    health: StoreHealth,
    counters: Counters,
    /// The tenants whose triggers must be checked.
    listeners: listeners::Changed,
    /// Children that are durable and have not begun.
    newborn: new_children::NewChildren,
}

impl fmt::Debug for Runs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Runs").field("store", &self.inner.options.store).finish_non_exhaustive()
    }
}

impl Runs {
    /// Creates the service on a store. Runs in progress do not continue before [`Runs::recover`].
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
                withheld: Mutex::default(),
                places: WorkLimits::default(),
                heavy: ComputePool::default(),
                recovery: Recovery::default(),
                one_by_one: KeyedLock::default(),
                known_keys: KnownKeys::default(),
                health: StoreHealth::default(),
                counters: Counters::default(),
                listeners: listeners::Changed::default(),
                newborn: new_children::NewChildren::default(),
            }),
        };
        runs.learn_secrets();
        runs
    }

    /// The limits of every run.
    pub fn limits(&self) -> &Limits {
        &self.inner.options.limits
    }

    /// The capabilities that this host serves.
    pub fn capabilities(&self) -> Capabilities {
        let own = &self.inner.options.capabilities;
        let served = self.executors().map_or_else(|| own.clone(), |executors| executors.widen(own));
        self.withheld().into_iter().fold(served, Capabilities::without)
    }

    /// The discovery flags that are withheld. For tests.
    pub fn withheld(&self) -> BTreeSet<&'static str> {
        self.inner.withheld.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops serving the features of these discovery flags. Registered workflows stay. For tests.
    pub fn withhold(&self, flags: BTreeSet<&'static str>) {
        *self.inner.withheld.lock().unwrap_or_else(PoisonError::into_inner) = flags;
    }

    /// The executors of nodes.
    pub fn executors(&self) -> Option<&Executors> {
        self.inner.options.executors.as_ref()
    }

    /// The model providers that callers may choose from.
    fn providers(&self) -> Vec<&str> {
        let models = self.executors().and_then(Executors::models);
        models.map(|models| models.choosable().collect()).unwrap_or_default()
    }

    /// Creates and verifies session keys. The secrets are those of interrupt tokens; the signed data includes the kind.
    pub fn session_keys(&self) -> SessionKeys {
        SessionKeys::new(self.inner.options.token_secrets.clone())
    }

    /// The counters since the start.
    pub fn counts(&self) -> Counts {
        self.inner.counters.now()
    }

    /// The base URL for clients.
    pub fn public_url(&self) -> &str {
        &self.inner.options.public_url
    }

    /// Refuses further requests that write, and waits until those in progress are done.
    pub async fn drain(&self) {
        self.inner.stopping.store(true, Ordering::SeqCst);
        self.inner.timer_set.notify_waiters();
        self.inner.stop.notify_waiters();
        // All permits are available again once every write is done.
        let all = u32::try_from(MAX_WRITES).unwrap_or(u32::MAX);
        let _all = self.inner.writes.acquire_many(all).await;
        let _ = tokio::time::timeout(PATIENCE, self.inner.places.idle()).await;
    }

    /// Whether the host can serve requests: the store responds, recovery is complete, and the host is not shutting down.
    pub async fn is_ready(&self) -> bool {
        !self.is_stopping()
            && self.recovering().is_none()
            && self.check_store().await.is_ok()
            && self.store_trouble().is_none()
    }

    /// Checks that the store responds.
    ///
    /// # Errors
    /// If the store fails. Its error is the source.
    pub async fn check_store(&self) -> Result<(), Refusal> {
        self.store().next_timer().await.map(drop).map_err(|error| {
            Refusal::unavailable("the store of the host does not respond", 5).because(Cause::new(error))
        })
    }

    pub fn is_stopping(&self) -> bool {
        self.inner.stopping.load(Ordering::SeqCst)
    }

    /// Waits until the host shuts down.
    pub async fn stopped(&self) {
        let stop = self.inner.stop.notified();
        tokio::pin!(stop);
        // Registered before the check, so that a stop in between is not missed.
        stop.as_mut().enable();
        if !self.is_stopping() {
            stop.await;
        }
    }

    /// An unguessable id.
    fn new_id(&self, prefix: &str) -> Result<String, Refusal> {
        let mut random = [0_u8; 16];
        let filled = self.inner.options.entropy.fill(&mut random);
        filled.map_err(random_failed)?;
        Ok(format!("{prefix}{}", canon::encoding::hex(&random)))
    }

    /// The current time of the host's clock.
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

    /// Waits for a commit that changes keys, then clears the cached keys. This runs in its own task: the cache must be cleared even
    /// if the caller stops waiting.
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
            return Err(Refusal::unavailable("the host is shutting down", 5));
        }
        self.inner
            .writes
            .try_acquire()
            .map_err(|_| Refusal::unavailable("the host is overloaded; retry later", 1))
    }
}

/// The system failed to provide randomness.
fn random_failed(error: impl std::error::Error + Send + Sync + 'static) -> Refusal {
    Refusal::new(
        ApiCode::InternalError,
        "the system's random number generator \
                                          failed",
    )
    .because(Cause::new(error))
}
