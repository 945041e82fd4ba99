//! Guided sessions in PostgreSQL.
//!
//! A session is a row of `sessions` and a row of `session_segments` for each append, with the bytes that the files of a
//! session have: see [`sessionlog`]. There are no locks: an append is one statement that updates the row of the session if
//! its next event is the expected one, and writes nothing otherwise. Of two writers one appends, and the other one is
//! refused with [`StoreError::Moved`].
//!
//! Keys are encrypted with the master key, so that every host of a database signs with the same keys.

mod garbage;
mod index;
mod keys;
mod log;
mod marks;
mod objects;
mod verify;
mod writer;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use guide::project::resume::RankingInput;
use guide::record::SessionId;
use guide::token::{Key, Keyring};
use ports::sessions::{SessionStore, SessionStores, StoreError, StoreFuture};
use ports::{Cause, PortFuture};
use sealing::MasterKey;
use sessionlog::snapshots::Snapshots;
use tokio::runtime::Handle;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use crate::connection::Value;
use crate::error::Failure;
use crate::readers::{Readers, query};
use crate::store::PostgresRuns;

/// Connections that write. One statement occupies one for a few milliseconds.
const WRITERS: usize = 2;
/// The pause between attempts to reach the database.
const PAUSE: Duration = Duration::from_millis(100);

/// The guided sessions of all tenants of a database.
#[derive(Debug)]
pub struct PostgresSessions {
    shared: Arc<Shared>,
}

struct Shared {
    host_id: String,
    readers: Arc<Readers>,
    writers: Readers,
    runtime: Handle,
    /// How long a write waits for a database that cannot be reached.
    patience: Duration,
    /// Dropping it would remove this host from the database.
    _runs: Arc<PostgresRuns>,
    master_key: Arc<MasterKey>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("host_id", &self.host_id).finish_non_exhaustive()
    }
}

impl PostgresSessions {
    /// The sessions of the database of `runs`, written by the same host.
    pub fn new(runs: &Arc<PostgresRuns>, master_key: Arc<MasterKey>) -> Self {
        let (host_id, connector, patience) = runs.for_sessions();
        Self {
            shared: Arc::new(Shared {
                host_id,
                readers: Arc::clone(runs.readers()),
                writers: Readers::new(connector, WRITERS),
                runtime: runs.runtime().clone(),
                patience,
                _runs: Arc::clone(runs),
                master_key,
            }),
        }
    }
}

impl PostgresSessions {
    /// The keys that sign tokens of the store itself. The first host of a database passes those that it has, so that its
    /// tokens stay valid; the others get the same ones.
    ///
    /// # Errors
    /// The database cannot be used, or has keys of another master key.
    pub async fn keyring_or(&self, keyring: Keyring) -> Result<Keyring, StoreError> {
        self.sessions("").task(|own| async move { own.keyring_or(&keyring).await }).await
    }

    /// A secret that all hosts share, under a name of the caller. The first host decides its value.
    ///
    /// # Errors
    /// As [`Self::keyring_or`].
    pub async fn secret_or(&self, name: &'static str, secret: [u8; 32]) -> Result<[u8; 32], StoreError> {
        self.sessions("").task(|own| async move { own.secret_or(name, secret).await }).await
    }

    fn sessions(&self, tenant: &str) -> Sessions {
        Sessions(Arc::new(Tenant {
            shared: Arc::clone(&self.shared),
            name: tenant.to_owned(),
            snapshots: Snapshots::default(),
            integrity: Mutex::default(),
            index: Mutex::default(),
        }))
    }
}

impl SessionStores for PostgresSessions {
    fn open<'a>(&'a self, tenant: Option<&'a str>) -> StoreFuture<'a, Arc<dyn SessionStore>> {
        PortFuture::ready(Ok(Arc::new(self.sessions(tenant.unwrap_or_default())) as Arc<dyn SessionStore>))
    }
}

/// The sessions of one tenant. Cheap to clone; clones share caches.
#[derive(Clone)]
struct Sessions(Arc<Tenant>);

struct Tenant {
    shared: Arc<Shared>,
    /// Empty for the sessions of the store itself.
    name: String,
    snapshots: Snapshots,
    /// The key of chains, once it was read. It never changes.
    integrity: Mutex<Option<Key>>,
    /// The index as it was last read.
    index: Mutex<HashMap<SessionId, Indexed>>,
}

/// What the index has of a session.
struct Indexed {
    /// The incarnation and the next event of the session.
    version: (Vec<u8>, u64),
    runs: Vec<RankingInput>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sessions").field("tenant", &self.0.name).finish_non_exhaustive()
    }
}

impl Sessions {
    fn tenant(&self) -> &str {
        &self.0.name
    }

    /// Runs an operation as a task of its own, so that it ends even if its future is dropped.
    fn task<T, F>(&self, work: impl FnOnce(Self) -> F) -> StoreFuture<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let running = self.0.shared.runtime.spawn(work(self.clone()));
        PortFuture::boxed(async move {
            match running.await {
                Ok(result) => result,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err(stopped()),
                },
            }
        })
    }

    async fn read(
        &self,
        sql: impl Into<Cow<'static, str>>,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        query(&self.0.shared.readers, &sql.into(), values).await.map_err(database)
    }

    /// Executes a statement that may be repeated: it has the same effect if the first attempt was committed.
    /// Says also whether an earlier attempt may have been committed.
    async fn write(&self, sql: &str, values: &[Value<'_>]) -> Result<(Vec<Row>, bool), Written> {
        let begun = Instant::now();
        let mut in_doubt = false;
        loop {
            let failure = match self.0.shared.writers.get().await {
                Ok(lease) => match lease.connection.query(sql, values).await {
                    Ok(rows) => return Ok((rows, in_doubt)),
                    Err(failure) => failure,
                },
                Err(failure) => failure,
            };
            in_doubt |= failure.is_in_doubt();
            let may_succeed =
                failure.is_in_doubt() || failure.is_race() || matches!(failure, Failure::Connect(_));
            if !may_succeed || begun.elapsed() >= self.0.shared.patience {
                return Err(Written { failure, in_doubt });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Why a statement was given up.
struct Written {
    failure: Failure,
    /// Whether an attempt may have been committed.
    in_doubt: bool,
}

impl Written {
    fn of_session(self, session: &SessionId) -> StoreError {
        let cause = database(self.failure);
        if self.in_doubt {
            StoreError::OutcomeUnknown { session: session.clone(), cause: Box::new(cause) }
        } else {
            cause
        }
    }
}

impl From<Written> for StoreError {
    fn from(written: Written) -> Self {
        database(written.failure)
    }
}

fn database(failure: Failure) -> StoreError {
    let is_full = failure.code() == Some(&SqlState::DISK_FULL);
    StoreError::Database { is_full, cause: Cause::new(failure) }
}

fn stopped() -> StoreError {
    StoreError::Database { is_full: false, cause: Cause::new("the operation was stopped") }
}

/// A row that does not have the expected columns.
fn unexpected(_: tokio_postgres::Error) -> StoreError {
    database(Failure::Row)
}
