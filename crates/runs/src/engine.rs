//! Advances runs: decides on their inputs, commits the decisions and performs what follows.
//!
//! Each operation works the same way. The state of the run is taken from memory, or folded from its log. The core decides
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
//! After a restart, [`Engine::recover`] continues the runs that have not ended: each requests again the timers, children and
//! effects that it waits for. Ids of children are derived and effects have a layer-2 identity, so a repeated request has no
//! second effect. Guided nodes are handled in `guide.rs` and the crate `guided_node`.

mod advance;
mod begin;
mod context;
pub mod counts;
mod effects;
mod family;
mod guide;
mod keyed_lock;
mod new_children;
mod progress;
mod recorder;
mod recovery;
mod timers;
mod work_limits;

use std::sync::Arc;
use std::time::Duration;

use guided_node::GuidedNodes;
use tokio::sync::Notify;

pub(crate) use self::begin::{BeginError, created};
pub(crate) use self::context::EngineContext;
use self::counts::{Counters, Counts};
use self::keyed_lock::KeyedLock;
use self::new_children::NewChildren;
pub(crate) use self::recorder::Recorder;
use self::recovery::Recovery;
pub use self::recovery::RecoveryProgress;
use self::work_limits::WorkLimits;
pub use self::work_limits::{MAX_AT_WORK, MAX_AT_WORK_FOR_A_RUN};
use super::compute_pool::ComputePool;
use super::definitions::Definitions;
use super::features::Features;
use super::records::Records;
use super::states::States;
use super::traces::Traces;
use super::webhooks::Webhooks;

/// How long shutdown waits for the work of nodes. Work that is not done by then has an unknown outcome for the next start.
const PATIENCE: Duration = Duration::from_secs(10);

/// Advances runs. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    uses: Arc<Uses>,
    work: Arc<Work>,
}

/// The services that the engine and the commands use.
pub(crate) struct Uses {
    pub(crate) records: Arc<Records>,
    pub(crate) features: Arc<Features>,
    /// Runs decisions that take long.
    pub(crate) compute: Arc<ComputePool>,
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) states: Arc<States>,
    pub(crate) webhooks: Arc<Webhooks>,
    pub(crate) traces: Arc<Traces>,
    pub(crate) guided_nodes: Option<GuidedNodes>,
}

/// The work in progress.
#[derive(Default)]
struct Work {
    timer_set: Notify,
    /// Limits the work of nodes in progress.
    places: WorkLimits,
    /// What remains of the recovery after the start.
    recovery: Recovery,
    one_by_one: KeyedLock,
    counters: Counters,
    /// Children that are durable and have not begun.
    newborn: NewChildren,
}

impl Engine {
    /// Creates the engine. Runs in progress do not continue before [`Engine::recover`].
    pub(crate) fn new(uses: Arc<Uses>) -> Self {
        Self { uses, work: Arc::default() }
    }

    /// The counters since the start.
    pub fn counts(&self) -> Counts {
        self.work.counters.now()
    }

    /// Ends the timer loop, and waits for the writes and the work of nodes in progress. The host is stopping by then.
    pub(crate) async fn drain(&self) {
        self.work.timer_set.notify_waiters();
        self.uses.records.written().await;
        let _ = tokio::time::timeout(PATIENCE, self.work.places.idle()).await;
    }
}
