//! The one thread that writes: group commit.
//!
//! What queues up while one transaction is made durable is the next one, so callers that come together share an fsync. Nearly
//! always every job of a batch is kept, and nothing has to be prepared to undo one. When a job is refused after it changed
//! something, the transaction is rolled back and made again with a savepoint for each job: savepoints cost more than most jobs,
//! and such refusals are rare.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use tracing::field;

/// The most jobs of one transaction: enough to share an fsync among all that wait, and few enough to be acknowledged soon.
pub const MAX_BATCH: usize = 1024;

/// What a store does with the jobs of its writer. Everything is called on the writer's thread.
pub trait Work: Send + 'static {
    /// What is handed over.
    type Job: Send + 'static;
    /// Why a job was not kept.
    type Error: Clone;

    /// The longest that the first job of a batch waits for others, and never longer than half of the last transaction. Zero:
    /// never. Worth it where the same callers come again right after each answer.
    const PATIENCE: Duration = Duration::ZERO;

    /// Called when jobs were taken from the queue.
    fn taken(&mut self, count: usize) {
        let _ = count;
    }

    /// Called first in every transaction: what was known from the one before may be rolled back, or changed by another process.
    ///
    /// # Errors
    /// SQLite's; the whole batch then fails.
    fn begin(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let _ = connection;
        Ok(())
    }

    /// Makes the change of one job. It may be called again for the same job, after the transaction was rolled back.
    ///
    /// # Errors
    /// Why the job is not kept; nothing of it then remains in the file. [`Refused::Change`] says that the change broke none but
    /// the store's own rules and altered rows only, if anything.
    fn apply(&mut self, connection: &Connection, job: &mut Self::Job) -> Result<(), Refused<Self::Error>>;

    /// Called last in every transaction, before it is committed.
    ///
    /// # Errors
    /// SQLite's; the whole batch then fails.
    fn end(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let _ = connection;
        Ok(())
    }

    /// SQLite's error as the store's.
    fn failure(&self, error: rusqlite::Error) -> Self::Error;

    /// The error of a job whose change panicked.
    fn panicked(&self, job: &Self::Job) -> Self::Error;

    /// Called when a job is durable, or will never be. It has to be quick: all others wait for it.
    fn done(&mut self, job: Self::Job, outcome: Result<(), Self::Error>);

    /// Called after the jobs of a batch are done, between two transactions.
    fn after(&mut self, connection: &Connection, is_committed: bool) {
        let _ = (connection, is_committed);
    }

    /// For how long no job has to come before [`Work::idle`] is called. `None`: it is not called.
    fn pause(&mut self) -> Option<Duration> {
        None
    }

    /// Called when no job came for a while.
    fn idle(&mut self, connection: &Connection) {
        let _ = connection;
    }
}

/// Why a job was not applied.
#[derive(Debug)]
pub enum Refused<E> {
    /// A rule of the store.
    Change(E),
    /// SQLite failed.
    Sqlite(rusqlite::Error),
}

impl<E> From<rusqlite::Error> for Refused<E> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// A change that panicked. It was rolled back, and the changes beside it were kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the change panicked, which is a bug in this program; nothing of it was stored")]
pub struct Panicked;

/// The handle of the writer. Dropping it writes what was handed over, and closes the connection.
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
    /// When the system has no thread left.
    pub fn start(store: &'static str, connection: Connection, work: W) -> io::Result<Self> {
        let (jobs, queue) = channel();
        let batches = Batches { store, connection, work, queue, usual: 1, took: Duration::ZERO };
        let thread = Builder::new().name(format!("{store}-writer")).spawn(move || batches.write())?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Hands a job over without waiting. The queue has no bound of its own: a store whose callers are not bounded elsewhere
    /// counts with [`Work::taken`].
    ///
    /// # Errors
    /// The job, when the writer has ended.
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
            // Nothing is lost when it panicked: what was acknowledged is on the disk.
            let _ = thread.join();
        }
    }
}

/// A job of the batch, and why it is not kept.
struct Slot<W: Work> {
    job: W::Job,
    refused: Option<W::Error>,
}

struct Batches<W: Work> {
    store: &'static str,
    connection: Connection,
    work: W,
    queue: Receiver<W::Job>,
    /// How many jobs the last batch had.
    usual: usize,
    /// How long its transaction took.
    took: Duration,
}

/// What came from the queue.
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
        // Connections that the work has of its own close first: the last one to close copies the log into the file, and
        // removes it.
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

    /// Takes what is there. With patience: those who shared the last commit were answered a moment ago, and most of them are
    /// about to come again; when the first of them does not wait a little, all the others wait for a commit of one.
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
            // The threads that compute the next jobs may need this processor.
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
            // A caller's bug must not end the thread, and with it the store.
            let _ = catch_unwind(AssertUnwindSafe(|| self.work.done(job, outcome)));
        }
        self.work.after(&self.connection, failed.is_none());
    }

    /// All jobs in one transaction, with its span. Why nothing of the batch is kept, if so.
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
        let failed = self.together(batch).err().map(|error| {
            tracing::warn!(store = self.store, jobs, %error, "a batch could not be committed; nothing of it was stored");
            if !self.connection.is_autocommit() {
                // Fails only where SQLite has rolled back already.
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            self.work.failure(error)
        });
        if !span.is_disabled() {
            span.record("refused", batch.iter().filter(|slot| slot.refused.is_some()).count());
            span.record("micros", u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
            span.record("outcome", if failed.is_none() { "committed" } else { "failed" });
        }
        drop(entered);
        failed
    }

    fn together(&mut self, batch: &mut [Slot<W>]) -> rusqlite::Result<()> {
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
        run(&self.connection, "COMMIT")
    }

    fn begin(&mut self) -> rusqlite::Result<()> {
        run(&self.connection, "BEGIN IMMEDIATE")?;
        self.work.begin(&self.connection)
    }

    /// One job after the other, with nothing to go back to but the beginning. Says whether none of them has to be undone.
    fn all_at_once(&mut self, batch: &mut [Slot<W>]) -> rusqlite::Result<bool> {
        for slot in batch {
            if self.apply(slot)? == Applied::Undo {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// # Errors
    /// Those after which the transaction cannot go on.
    fn apply(&mut self, slot: &mut Slot<W>) -> rusqlite::Result<Applied> {
        let Self { store, connection, work, .. } = self;
        let before = connection.total_changes();
        // A bug in one change must not end the thread, and with it the store.
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
            // Tables that were made are not counted as changes, so the count says nothing here.
            Ok(Err(Refused::Sqlite(error))) => {
                tracing::warn!(store, %error, "a change was refused by the database");
                (Some(work.failure(error)), Applied::Undo)
            }
            Err(_) => {
                tracing::error!(store, "a change panicked; nothing of it was stored");
                (Some(work.panicked(&slot.job)), Applied::Undo)
            }
        };
        slot.refused = refused;
        Ok(applied)
    }
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Applied {
    Kept,
    /// It was refused before it changed anything.
    Untouched,
    /// It was refused, and what it did until then has to be undone.
    Undo,
}

/// Does something of which nothing remains where it fails. For [`Work::end`].
///
/// # Errors
/// SQLite's, where the savepoint itself fails; the error of `change` is in the inner result.
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

/// After these the next job would fail too, and SQLite may have ended the transaction itself: the whole batch is given up.
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
