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
pub mod audit;
pub mod bulk;
pub mod bundle;
pub mod caller;
mod compute_pool;
pub mod counts;
pub mod create;
mod credential;
pub mod definitions;
mod effects;
mod engine_context;
pub mod exposed;
mod family;
pub mod features;
mod feed;
pub mod fork;
mod guide;
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
pub mod records;
mod recovery;
pub mod refusal;
pub mod retention;
mod timers;
mod traces;
pub mod webhooks;
mod work_limits;
mod workflow_view;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use executors::Executors;
use flow::definition::Capabilities;
use flow::engine::Limits;
use guided_node::{GuidedNodes, SessionKeys};
use ports::runs::RunStore;
use system::secrets::Secrets;
use system::{Clock, Entropy};
use tokio::sync::{Notify, watch};

use self::audit::{Anchors, Signer};
pub use self::audit::{Audit, AuditKey};
pub use self::caller::{Caller, Scope};
use self::compute_pool::ComputePool;
use self::counts::{Counters, Counts};
pub use self::create::{CreatedRun, NewRun, new_run_id};
use self::definitions::Definitions;
pub use self::family::{MAX_FAMILY, Waiting};
pub use self::features::Features;
pub use self::feed::{Batch, Following};
use self::keyed_lock::KeyedLock;
pub use self::keys::{ApiKey, GuidedCaller, KeyError, Keys};
pub use self::listeners::SilentTrigger;
use self::live::LiveRuns;
pub use self::records::idempotency::{Direct, Keyed, Respond, StoredReply, Written};
use self::records::{CommitListener, random_failed};
pub use self::records::{MAX_WRITES, Records, Trouble};
use self::recovery::Recovery;
pub use self::recovery::RecoveryProgress;
pub use self::refusal::{ApiCode, Refusal, RefusalKind};
pub use self::traces::{Ended, EndedRuns, MAX_WAITING as MAX_TRACES_WAITING};
use self::webhooks::Webhooks;
use self::work_limits::WorkLimits;
pub use self::work_limits::{MAX_AT_WORK, MAX_AT_WORK_FOR_A_RUN};
pub use self::workflow_view::WorkflowLook;

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
    records: Arc<Records>,
    features: Arc<Features>,
    audit: Arc<Audit>,
    keys: Arc<Keys>,
    /// Runs decisions that take long.
    compute: Arc<ComputePool>,
    definitions: Definitions,
    live: LiveRuns,
    timer_set: Notify,
    delivery_queued: Notify,
    webhooks: Webhooks,
    changes: watch::Sender<u64>,
    /// Limits the work of nodes in progress.
    places: WorkLimits,
    /// What remains of the recovery after the start.
    recovery: Recovery,
    one_by_one: KeyedLock,
    counters: Counters,
    /// The tenants whose triggers must be checked.
    listeners: listeners::Changed,
    /// Children that are durable and have not begun.
    newborn: new_children::NewChildren,
    token_secrets: Vec<[u8; 32]>,
    public_url: String,
    outbound: outbound::Client,
    guided_nodes: Option<GuidedNodes>,
    ended_runs: Option<EndedRuns>,
}

impl fmt::Debug for Runs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Runs").field("records", &self.inner.records).finish_non_exhaustive()
    }
}

impl Runs {
    /// Creates the services on a store. Runs in progress do not continue before [`Runs::recover`].
    pub fn new(options: Options) -> Self {
        let signer = Arc::new(Signer::new(options.audit_key, options.anchors));
        let listener: Arc<dyn CommitListener> = Arc::<Signer>::clone(&signer);
        let records = Records::new(options.store, options.clock, options.entropy, options.secrets, listener);
        let records = Arc::new(records);
        let features = Features::new(options.limits, options.capabilities, options.executors);
        // The secrets are those of interrupt tokens; the signed data includes the kind.
        let session_keys = SessionKeys::new(options.token_secrets.clone());
        let inner = Inner {
            features: Arc::new(features),
            audit: Arc::new(Audit::new(Arc::clone(&records), signer)),
            keys: Arc::new(Keys::new(Arc::clone(&records), session_keys)),
            compute: Arc::default(),
            definitions: Definitions::default(),
            live: LiveRuns::default(),
            timer_set: Notify::new(),
            delivery_queued: Notify::new(),
            webhooks: Webhooks::default(),
            changes: watch::Sender::new(0),
            places: WorkLimits::default(),
            recovery: Recovery::default(),
            one_by_one: KeyedLock::default(),
            counters: Counters::default(),
            listeners: listeners::Changed::default(),
            newborn: new_children::NewChildren::default(),
            token_secrets: options.token_secrets,
            public_url: options.public_url,
            outbound: options.outbound,
            guided_nodes: options.guided_nodes,
            ended_runs: options.ended_runs,
            records,
        };
        Self { inner: Arc::new(inner) }
    }

    /// What every service needs: the store, the clock, the commit.
    pub fn records(&self) -> &Arc<Records> {
        &self.inner.records
    }

    /// What this host can run.
    pub fn features(&self) -> &Features {
        &self.inner.features
    }

    /// The API keys.
    pub fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// The audit logs.
    pub fn audit(&self) -> &Audit {
        &self.inner.audit
    }

    /// The counters since the start.
    pub fn counts(&self) -> Counts {
        self.inner.counters.now()
    }

    /// The base URL for clients.
    pub fn public_url(&self) -> &str {
        &self.inner.public_url
    }

    /// Refuses further requests that write, and waits until those in progress are done.
    pub async fn drain(&self) {
        self.inner.records.stop();
        self.inner.timer_set.notify_waiters();
        self.inner.records.written().await;
        let _ = tokio::time::timeout(PATIENCE, self.inner.places.idle()).await;
    }

    /// Whether the host can serve requests: the store responds, recovery is complete, and the host is not shutting down.
    pub async fn is_ready(&self) -> bool {
        let records = &self.inner.records;
        !records.is_stopping()
            && self.recovering().is_none()
            && records.check_store().await.is_ok()
            && records.store_trouble().is_none()
    }
}
