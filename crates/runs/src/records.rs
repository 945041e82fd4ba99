//! What every service of this crate needs: the store, the clock, randomness, secrets, and the commit.
//!
//! A service gets `Arc<Records>` when it is created. [`Records::commit`] is the only way to change the store. It observes the
//! health of the store and reports committed audit entries to a [`CommitListener`], so that no service can forget either.

mod audit_entry;
mod health;
pub mod idempotency;
mod secrets;
mod shutdown;

use std::fmt;
use std::sync::Arc;

use canon::time::Timestamp;
use flow::id::Tenant;
use ports::Cause;
use ports::runs::{Change, Commit, CommitError, RunStore};
use system::secrets::Secrets;
use system::{Clock, Entropy};
use tokio::sync::{Semaphore, SemaphorePermit};

pub use self::health::Trouble;
pub(crate) use self::secrets::KnownSecrets;

use self::health::StoreHealth;
use self::shutdown::Shutdown;
use super::{ApiCode, Refusal};

/// The maximum number of writing requests in progress at once. Further requests are refused and can be retried. Each request
/// holds a few kilobytes and waits for one shared fsync.
pub const MAX_WRITES: usize = 4096;

/// The maximum number of entries in one page of a list.
pub const MAX_LISTED: usize = 200;

/// What every service needs.
pub struct Records {
    store: Arc<dyn RunStore>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    secrets: KnownSecrets,
    listener: Arc<dyn CommitListener>,
    health: StoreHealth,
    shutdown: Shutdown,
    writes: Semaphore,
}

/// Is notified of commits. The signer of the audit log implements it: it needs [`Records`] itself, so records know only this
/// trait.
pub(crate) trait CommitListener: Send + Sync {
    /// Audit entries of these tenants were committed: one for each entry.
    fn audited(self: Arc<Self>, records: &Arc<Records>, tenants: Vec<Tenant>);
}

impl fmt::Debug for Records {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Records").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Records {
    pub(crate) fn new(
        store: Arc<dyn RunStore>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        secrets: Arc<dyn Secrets>,
        listener: Arc<dyn CommitListener>,
    ) -> Self {
        Self {
            store,
            clock,
            entropy,
            secrets: KnownSecrets::read(secrets),
            listener,
            health: StoreHealth::default(),
            shutdown: Shutdown::default(),
            writes: Semaphore::new(MAX_WRITES),
        }
    }

    pub(crate) fn store(&self) -> &dyn RunStore {
        &*self.store
    }

    /// The current time of the host's clock.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.clock.now_ms())
    }

    /// The source of randomness for unguessable ids.
    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.entropy
    }

    /// The secrets of the host, and what is redacted because of them.
    pub(crate) fn secrets(&self) -> &KnownSecrets {
        &self.secrets
    }

    /// Whether any secrets are configured.
    pub fn serves_secrets(&self) -> bool {
        self.secrets.are_served()
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

    /// An unguessable id.
    pub(crate) fn new_id(&self, prefix: &str) -> Result<String, Refusal> {
        let mut random = [0_u8; 16];
        let filled = self.entropy.fill(&mut random);
        filled.map_err(random_failed)?;
        Ok(format!("{prefix}{}", canon::encoding::hex(&random)))
    }

    /// Commits changes and waits until they are durable. A caller that stops waiting does not undo the commit.
    pub(crate) async fn commit(self: &Arc<Self>, changes: Vec<Change>) -> Result<(), CommitError> {
        let audited = changes.iter().filter_map(|change| match change {
            Change::Audit { tenant, .. } => Some(tenant.clone()),
            _ => None,
        });
        let audited: Vec<_> = audited.collect();
        let result = self.store().commit(Commit { changes }).await;
        self.health.committed(&result, self.now());
        result?;
        if !audited.is_empty() {
            Arc::clone(&self.listener).audited(self, audited);
        }
        Ok(())
    }

    /// A permit for a write, or a refusal if too many are in progress.
    pub(crate) fn admit(&self) -> Result<SemaphorePermit<'_>, Refusal> {
        if self.is_stopping() {
            return Err(Refusal::unavailable("the host is shutting down", 5));
        }
        self.writes.try_acquire().map_err(|_| Refusal::unavailable("the host is overloaded; retry later", 1))
    }
}

/// The system failed to provide randomness.
pub(crate) fn random_failed(error: impl std::error::Error + Send + Sync + 'static) -> Refusal {
    Refusal::new(
        ApiCode::InternalError,
        "the system's random number generator \
                                          failed",
    )
    .because(Cause::new(error))
}
