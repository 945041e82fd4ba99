//! The writer thread: group commit.
//!
//! Jobs that queue up during a commit form the next transaction, so concurrent callers share an fsync. Usually all jobs
//! of a batch succeed, so nothing is prepared to undo one. If a job fails after it changed something, the transaction
//! is rolled back and repeated with a savepoint per job: savepoints cost more than most jobs, and such failures are
//! rare.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use tracing::field;

/// The maximum number of jobs per transaction: enough to share an fsync, few enough for a short latency.
pub const MAX_BATCH: usize = 1024;

/// A store's implementation of jobs. All methods run on the writer thread.
pub trait Work: Send + 'static {
    type Job: Send + 'static;
    /// Why a job failed.
    type Error: Clone;

    /// The maximum time that the first job of a batch waits for others, and at most half of the last transaction. Zero
    /// disables waiting. Useful if the same callers return right after each reply.
    const PATIENCE: Duration = Duration::ZERO;

    /// Called when jobs are taken from the queue.
    fn taken(&mut self, count: usize) {
        let _ = count;
    }

    /// Called first in every transaction: earlier cached state may be rolled back, or changed by another process.
    ///
    /// # Errors
    /// SQLite errors; the whole batch then fails.
    fn begin(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let _ = connection;
        Ok(())
    }

    /// Applies one job. May be called again for the same job after a rollback.
    ///
    /// # Errors
    /// Why the job failed; none of its changes remain. [`Refused::Change`] means that the job violated only a rule of
    /// the store and changed at most rows.
    fn apply(&mut self, connection: &Connection, job: &mut Self::Job) -> Result<(), Refused<Self::Error>>;

    /// Called last in every transaction, before the commit.
    ///
    /// # Errors
    /// SQLite errors; the whole batch then fails.
    fn end(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let _ = connection;
        Ok(())
    }

    /// Converts an SQLite error.
    fn failure(&self, error: rusqlite::Error) -> Self::Error;

    /// Converts an error of the `COMMIT` itself. Unlike others, such a transaction may be on the disk in part or whole.
    fn commit_failure(&self, error: rusqlite::Error) -> Self::Error {
        self.failure(error)
    }

    /// The error of a job that panicked.
    fn panicked(&self, job: &Self::Job) -> Self::Error;

    /// Called when a job is durable or failed. It must be quick: all others wait for it.
    fn done(&mut self, job: Self::Job, outcome: Result<(), Self::Error>);

    /// Called after the jobs of a batch are done, between two transactions.
    fn after(&mut self, connection: &Connection, is_committed: bool) {
        let _ = (connection, is_committed);
    }

    /// How long no job must arrive before [`Work::idle`] is called. `None` disables it.
    fn pause(&mut self) -> Option<Duration> {
        None
    }

    /// Called when no job arrived for a while.
    fn idle(&mut self, connection: &Connection) {
        let _ = connection;
    }
}

/// Why a job was not applied.
#[derive(Debug)]
pub enum Refused<E> {
    /// A rule of the store.
    Change(E),
    Sqlite(rusqlite::Error),
}

impl<E> From<rusqlite::Error> for Refused<E> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// A job panicked and was rolled back; the other jobs were committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the change panicked (a bug in this program) and was rolled back")]
pub struct Panicked;

/// The writer handle. Dropping it commits the submitted jobs and closes the connection.
pub struct Writer<W: Work> {
    jobs: Option<Sender<W::Job>>,
    thread: Option<JoinHandle<()>>,
}

impl<W: Work> fmt::Debug for Writer<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Writer").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl<W: Work> Writer<W> {
    /// Starts the thread. `store` names the store in the log and, with `-writer`, the thread.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(store: &'static str, connection: Connection, work: W) -> io::Result<Self> {
        let (jobs, queue) = channel();
        let batches = Batches { store, connection, work, queue, usual: 1, took: Duration::ZERO };
        let thread = Builder::new().name(format!("{store}-writer")).spawn(move || batches.write())?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Submits a job without waiting. The queue is unbounded: a store with unbounded callers counts with
    /// [`Work::taken`].
    ///
    /// # Errors
    /// The job, if the writer has stopped.
    pub fn submit(&self, job: W::Job) -> Result<(), W::Job> {
        match &self.jobs {
            Some(jobs) => jobs.send(job).map_err(|unsent| unsent.0),
            None => Err(job),
        }
    }
}

impl<W: Work> Drop for Writer<W> {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic loses nothing: acknowledged jobs are durable.
            let _ = thread.join();
        }
    }
}

/// Why a whole batch failed.
enum Failure {
    /// Nothing of it can be on the disk.
    Apply(rusqlite::Error),
    /// The last statement failed.
    Commit(rusqlite::Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Apply(error)
    }
}

/// A job of the batch, and its error.
struct Slot<W: Work> {
    job: W::Job,
    refused: Option<W::Error>,
}

struct Batches<W: Work> {
    store: &'static str,
    connection: Connection,
    work: W,
    queue: Receiver<W::Job>,
    /// The size of the last batch.
    usual: usize,
    /// The duration of its transaction.
    took: Duration,
}

/// What arrived from the queue.
enum Next {
    Jobs,
    Pause,
    Closed,
}

impl<W: Work> Batches<W> {
    fn write(mut self) {
        let mut batch = Vec::new();
        loop {
            match self.next(&mut batch) {
                Next::Jobs => self.commit(&mut batch),
                Next::Pause => self.work.idle(&self.connection),
                Next::Closed => break,
            }
        }
        // The connections of the work close first: the last one to close checkpoints and removes the log.
        drop(self.work);
    }

    fn next(&mut self, batch: &mut Vec<Slot<W>>) -> Next {
        let first = match self.work.pause() {
            None => match self.queue.recv() {
                Ok(job) => job,
                Err(_) => return Next::Closed,
            },
            Some(pause) => match self.queue.recv_timeout(pause) {
                Ok(job) => job,
                Err(RecvTimeoutError::Timeout) => return Next::Pause,
                Err(RecvTimeoutError::Disconnected) => return Next::Closed,
            },
        };
        batch.push(Slot { job: first, refused: None });
        self.gather(batch);
        self.work.taken(batch.len());
        Next::Jobs
    }

    /// Takes the waiting jobs. With `PATIENCE`: the callers of the last commit were just answered and most will return;
    /// if the first one does not wait a little, the others wait for a commit of one job.
    fn gather(&self, batch: &mut Vec<Slot<W>>) {
        let until = (!W::PATIENCE.is_zero()).then(|| Instant::now() + W::PATIENCE.min(self.took / 2));
        loop {
            while batch.len() < MAX_BATCH
                && let Ok(job) = self.queue.try_recv()
            {
                batch.push(Slot { job, refused: None });
            }
            match until {
                Some(until) if batch.len() < self.usual && Instant::now() < until => {}
                _ => return,
            }
            // The threads that prepare the next jobs may need this processor.
            std::thread::yield_now();
        }
    }

    fn commit(&mut self, batch: &mut Vec<Slot<W>>) {
        let began = Instant::now();
        let failed = self.transaction(batch, began);
        (self.usual, self.took) = (batch.len(), began.elapsed());
        for Slot { job, refused } in batch.drain(..) {
            let outcome = match failed.as_ref().or(refused.as_ref()) {
                None => Ok(()),
                Some(error) => Err(error.clone()),
            };
            // A panicking callback must not end the writer thread.
            let _ = catch_unwind(AssertUnwindSafe(|| self.work.done(job, outcome)));
        }
        self.work.after(&self.connection, failed.is_none());
    }

    /// Runs all jobs in one transaction with a tracing span. Returns the error if the whole batch failed.
    fn transaction(&mut self, batch: &mut [Slot<W>], began: Instant) -> Option<W::Error> {
        let (jobs, empty) = (batch.len(), field::Empty);
        let span = tracing::debug_span!(
            "store.batch",
            store = self.store,
            jobs,
            refused = empty,
            micros = empty,
            outcome = empty
        );
        let entered = span.enter();
        let failed = self.together(batch).err().map(|failure| {
            let (Failure::Apply(error) | Failure::Commit(error)) = &failure;
            tracing::warn!(store = self.store, jobs, %error, "cannot commit a batch; it was rolled back");
            if !self.connection.is_autocommit() {
                // Fails only if SQLite has already rolled back.
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            match failure {
                Failure::Apply(error) => self.work.failure(error),
                Failure::Commit(error) => self.work.commit_failure(error),
            }
        });
        if !span.is_disabled() {
            span.record("refused", batch.iter().filter(|slot| slot.refused.is_some()).count());
            span.record("micros", u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
            span.record("outcome", if failed.is_none() { "committed" } else { "failed" });
        }
        drop(entered);
        failed
    }

    fn together(&mut self, batch: &mut [Slot<W>]) -> Result<(), Failure> {
        self.begin()?;
        if !self.all_at_once(batch)? {
            run(&self.connection, "ROLLBACK")?;
            self.begin()?;
            for slot in batch {
                run(&self.connection, "SAVEPOINT one")?;
                if self.apply(slot)? != Applied::Kept {
                    run(&self.connection, "ROLLBACK TO one")?;
                }
                run(&self.connection, "RELEASE one")?;
            }
        }
        self.work.end(&self.connection)?;
        run(&self.connection, "COMMIT").map_err(Failure::Commit)
    }

    fn begin(&mut self) -> rusqlite::Result<()> {
        run(&self.connection, "BEGIN IMMEDIATE")?;
        self.work.begin(&self.connection)
    }

    /// Applies the jobs without savepoints. Returns whether none must be undone.
    fn all_at_once(&mut self, batch: &mut [Slot<W>]) -> rusqlite::Result<bool> {
        for slot in batch {
            if self.apply(slot)? == Applied::Undo {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// # Errors
    /// Those after which the transaction cannot continue.
    fn apply(&mut self, slot: &mut Slot<W>) -> rusqlite::Result<Applied> {
        let Self { store, connection, work, .. } = self;
        let before = connection.total_changes();
        // A panicking job must not end the writer thread.
        let applied = catch_unwind(AssertUnwindSafe(|| work.apply(connection, &mut slot.job)));
        let (refused, applied) = match applied {
            Ok(Ok(())) => (None, Applied::Kept),
            Ok(Err(Refused::Change(error))) => {
                let is_untouched = connection.total_changes() == before;
                (Some(error), if is_untouched { Applied::Untouched } else { Applied::Undo })
            }
            Ok(Err(Refused::Sqlite(error))) if is_fatal(&error) || connection.is_autocommit() => {
                return Err(error);
            }
            // Created tables are not counted as changes, so the count is meaningless here.
            Ok(Err(Refused::Sqlite(error))) => {
                tracing::warn!(store, %error, "the database rejected a change");
                (Some(work.failure(error)), Applied::Undo)
            }
            Err(_) => {
                tracing::error!(store, "a change panicked and was rolled back");
                (Some(work.panicked(&slot.job)), Applied::Undo)
            }
        };
        slot.refused = refused;
        Ok(applied)
    }
}

/// The result of applying a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Applied {
    Kept,
    /// It failed before it changed anything.
    Untouched,
    /// It failed, and its changes must be undone.
    Undo,
}

/// Runs a change that leaves nothing behind if it fails. For [`Work::end`].
///
/// # Errors
/// SQLite errors of the savepoint itself; the error of `change` is in the inner result.
pub fn in_savepoint<T>(
    connection: &Connection,
    change: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<rusqlite::Result<T>> {
    run(connection, "SAVEPOINT one")?;
    let changed = change(connection);
    if changed.is_err() {
        run(connection, "ROLLBACK TO one")?;
    }
    run(connection, "RELEASE one")?;
    Ok(changed)
}

/// After these errors the next job would fail too, and SQLite may have ended the transaction: the whole batch is
/// abandoned.
fn is_fatal(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::OutOfMemory
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::ReadOnly
        )
    )
}

fn run(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.raw_execute()?;
    Ok(())
}
