//! The store of runs.

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use ports::runs::{
    AgedPage, Commit, CommitError, CommitFuture, Commits, Health, ReadError, ReadFuture, RunPage,
};
use ports::{Cause, PortFuture};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::connection::{Connection, Connector, Value};
use crate::error::{Failure, OpenError};
use crate::hosts::{BEAT, Host, Role};
use crate::queue::{Job, MAX_WAITING, NotQueued, Queue};
use crate::readers::{Readers, query};
use crate::schema;
use crate::writer::{Numbers, RowPositions, Writing};

/// How to use a database.
#[derive(Clone)]
pub struct Options {
    /// The URL with its password: a secret.
    pub url: String,
    /// The name under which operators know this host.
    pub host_name: String,
    pub role: Role,
    /// Connections that write.
    pub writers: usize,
    /// Connections that read.
    pub readers: usize,
    /// How long a commit waits for a database that cannot be reached.
    pub patience: Duration,
    /// Whether commits share transactions. Only tests turn it off.
    pub batching: bool,
}

impl Options {
    pub fn new(url: impl Into<String>, host_name: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            host_name: host_name.into(),
            role: Role::Host,
            writers: 4,
            readers: 4,
            patience: Duration::from_secs(10),
            batching: true,
        }
    }
}

/// Hides the URL, which is a secret.
impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("host_name", &self.host_name)
            .field("writers", &self.writers)
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}

/// The runs of one database.
///
/// It works on the runtime that it was opened on; its futures may be polled anywhere. Dropping it executes the commits that
/// were started and then removes the host from the database; [`PostgresRuns::close`] waits for that.
pub struct PostgresRuns {
    writing: Arc<Writing>,
    readers: Arc<Readers>,
    runtime: Handle,
    is_damaged: Arc<AtomicBool>,
    batching: bool,
    /// True after the host was removed.
    closed: watch::Receiver<bool>,
}

impl fmt::Debug for PostgresRuns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PostgresRuns").field("host", &self.writing.host).finish_non_exhaustive()
    }
}

impl PostgresRuns {
    /// Connects, checks the tables and registers this host. If the previous host ended without removing itself, this takes
    /// up to 10 seconds.
    ///
    /// # Errors
    /// The database cannot be used, has other tables than this program needs, or belongs to a host that is alive.
    pub async fn open(options: &Options) -> Result<Self, OpenError> {
        let host = Host::new(&options.host_name, options.role)?;
        let connector = Connector::new(&options.url, &format!("interlock {}", host.id))?;
        let connection = connector.connect().await?;
        schema::check(&connection).await?;
        host.register(&connection).await?;
        let sql = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
        let now = connection.first(sql, &[]).await?.ok_or(Failure::Row)?.try_get(0).map_err(Failure::from)?;
        let writing = Arc::new(Writing {
            connector: connector.clone(),
            host,
            queue: Queue::default(),
            ends: Default::default(),
            numbers: Numbers::default(),
            positions: RowPositions::from(now),
            patience: options.patience,
            is_fenced: AtomicBool::new(false),
        });
        let mut writers = JoinSet::new();
        for _ in 0..options.writers.max(1) {
            let writing = Arc::clone(&writing);
            writers.spawn(async move { writing.run().await });
        }
        let beating = tokio::spawn(beat(Arc::clone(&writing), connection));
        let (sender, closed) = watch::channel(false);
        let ending = Arc::clone(&writing);
        tokio::spawn(async move {
            while writers.join_next().await.is_some() {}
            beating.abort();
            if let Err(failure) = remove(&ending).await {
                tracing::warn!(%failure, "the host could not be removed from the database");
            }
            let _ = sender.send(true);
        });
        Ok(Self {
            writing,
            readers: Arc::new(Readers::new(connector, options.readers)),
            runtime: Handle::current(),
            is_damaged: Arc::default(),
            batching: options.batching,
            closed,
        })
    }

    /// Refuses further commits, executes those that were started, and removes this host from the database.
    pub async fn close(&self) {
        self.writing.queue.close();
        // An error means that the runtime ends, and the work with it.
        let _ = self.closed.clone().wait_for(|closed| *closed).await;
    }

    pub(crate) const fn readers(&self) -> &Arc<Readers> {
        &self.readers
    }

    pub(crate) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The id of this host, how to connect, and how long to wait for the database.
    pub(crate) fn for_sessions(&self) -> (String, Connector, Duration) {
        (self.writing.host.id.clone(), self.writing.connector.clone(), self.writing.patience)
    }

    /// Executes a query and converts its rows.
    pub(crate) fn read<T: Nothing + Send + 'static>(
        &self,
        sql: impl Into<Cow<'static, str>>,
        values: Vec<Box<dyn ToSql + Sync + Send>>,
        convert: impl FnOnce(&[Row]) -> Result<T, Failure> + Send + 'static,
    ) -> ReadFuture<'_, T> {
        let (readers, is_damaged, sql) =
            (Arc::clone(&self.readers), Arc::clone(&self.is_damaged), sql.into());
        let reading = self.runtime.spawn(async move {
            let values: Vec<Value<'_>> = values.iter().map(|value| &**value as Value<'_>).collect();
            let failure = match query(&readers, &sql, &values).await {
                Ok(rows) => match convert(&rows) {
                    Ok(found) => return Ok(found),
                    Err(failure) => failure,
                },
                // PostgreSQL has no text with the character U+0000, so nothing is stored under it.
                Err(failure) if failure.code() == Some(&SqlState::CHARACTER_NOT_IN_REPERTOIRE) => {
                    return Ok(T::nothing());
                }
                Err(failure) => failure,
            };
            if failure.is_damage() {
                is_damaged.store(true, Ordering::Relaxed);
            }
            Err(failure.into_read_error())
        });
        PortFuture::boxed(Cancelling(reading))
    }
}

impl Drop for PostgresRuns {
    fn drop(&mut self) {
        self.writing.queue.close();
    }
}

impl Commits for PostgresRuns {
    fn commit(&self, commit: Commit) -> CommitFuture {
        let (responder, result) = PortFuture::channel(|| {
            Err(CommitError::OutcomeUnknown(Cause::new("the writer of the database ended")))
        });
        match self.writing.queue.push(Job::new(commit, responder, self.batching)) {
            Ok(()) => result,
            Err(NotQueued::Closed) => PortFuture::ready(Err(CommitError::Closed)),
            Err(NotQueued::Full) => {
                let cause = format!("{MAX_WAITING} commits wait for the database, which is the limit");
                PortFuture::ready(Err(CommitError::Store(Cause::new(cause))))
            }
        }
    }
}

impl Health for PostgresRuns {
    fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }
}

/// The result of a query that matches nothing.
pub(crate) trait Nothing {
    fn nothing() -> Self;
}

impl<T> Nothing for Option<T> {
    fn nothing() -> Self {
        None
    }
}

impl<T> Nothing for Vec<T> {
    fn nothing() -> Self {
        Vec::new()
    }
}

impl Nothing for RunPage {
    fn nothing() -> Self {
        Self { runs: Vec::new(), next: None }
    }
}

impl Nothing for AgedPage {
    fn nothing() -> Self {
        Self { runs: Vec::new(), next: None }
    }
}

/// A task that ends with its future.
struct Cancelling<T>(JoinHandle<Result<T, ReadError>>);

impl<T> Drop for Cancelling<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> Future for Cancelling<T> {
    type Output = Result<T, ReadError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|joined| {
            joined.unwrap_or_else(|_| Err(ReadError::Store(Cause::new("the query did not finish"))))
        })
    }
}

/// Shows that the host is alive until it is fenced.
async fn beat(writing: Arc<Writing>, connection: Connection) {
    let mut connection = Some(connection);
    let mut beats = tokio::time::interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        let beaten = match connection.take().filter(|connection| !connection.is_closed()) {
            Some(open) => Ok(open),
            None => writing.connector.connect().await,
        };
        let beaten = match beaten {
            Ok(open) => writing.host.beat(&open, writing.numbers.oldest()).await.map(|()| open),
            Err(failure) => Err(failure),
        };
        match beaten {
            Ok(open) => connection = Some(open),
            Err(Failure::Fenced) => {
                writing.is_fenced.store(true, Ordering::Relaxed);
                tracing::error!(
                    "another host has taken over the database; this host commits nothing more, restart it"
                );
                return;
            }
            Err(failure) => tracing::warn!(%failure, "the database cannot be reached"),
        }
    }
}

async fn remove(writing: &Writing) -> Result<(), Failure> {
    let connection = writing.connector.connect().await?;
    writing.host.deregister(&connection).await
}
