//! The one thread that writes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::log::Log;
use super::schema::Schema;
use super::task::{Applied, Job};
use super::{effects, unavailable};

/// The most changes of one transaction: enough to share an fsync among all that wait, and few enough to be answered soon.
const MAX_BATCH: usize = 1024;
/// How many changes may wait. Callers beyond that wait before they are queued, so a flood costs time and not memory.
const QUEUE: usize = 4096;
/// How long the sweep rests, by the clock of the calls, once nothing was left to remove.
const SWEEP_EVERY_MS: i64 = 10_000;
/// The longest that a change waits for those that are likely to share its commit.
const PATIENCE: Duration = Duration::from_micros(500);
/// For how long nobody has to come before the writer does other things.
const PAUSE: Duration = Duration::from_millis(5);

/// The handle of the writer. Dropping it writes what was handed over, and ends.
pub(super) struct Writer {
    jobs: Option<Sender<Box<dyn Job>>>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(mut connection: Connection, schema: &'static Schema) -> std::io::Result<Self> {
        let log = Log::watch(&mut connection).map_err(std::io::Error::other)?;
        let (jobs, received) = mpsc::channel();
        let room = Arc::new(Semaphore::new(QUEUE));
        let waiting = Waiting { jobs: received, room: Arc::clone(&room), usual: 1, took: Duration::ZERO };
        let thread = Builder::new()
            .name(format!("{}-writer", schema.name))
            .spawn(move || write(&connection, log, schema, waiting))?;
        Ok(Self { jobs: Some(jobs), room, thread: Some(thread) })
    }

    pub(super) async fn submit(&self, job: Box<dyn Job>) -> Result<(), ()> {
        let jobs = self.jobs.as_ref().ok_or(())?;
        // Given back by the thread when it takes the job.
        self.room.acquire().await.map_err(|_| ())?.forget();
        jobs.send(job).map_err(|_| ())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // Nothing is lost when it panicked: what was answered is on the disk.
            let _ = thread.join();
        }
    }
}

/// The changes that wait.
struct Waiting {
    jobs: Receiver<Box<dyn Job>>,
    room: Arc<Semaphore>,
    /// How many there were in the last transaction.
    usual: usize,
    /// How long that took.
    took: Duration,
}

impl Waiting {
    /// What is written together next; nothing where nobody came for a while, and an error when nobody will come any more.
    fn next(&mut self, is_patient: bool) -> Result<Option<Vec<Box<dyn Job>>>, ()> {
        let first = if is_patient {
            self.jobs.recv().map_err(|_| ())?
        } else {
            match self.jobs.recv_timeout(PAUSE) {
                Ok(job) => job,
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err(()),
            }
        };
        let mut batch = Vec::with_capacity(self.usual.max(4));
        batch.push(first);
        self.gather(&mut batch);
        self.room.add_permits(batch.len());
        Ok(Some(batch))
    }

    /// Takes what is there. Those who shared the last commit were answered a moment ago, and most of them are about to come again; when
    /// the first of them does not wait a little for the others, all the others wait for a commit of one.
    fn gather(&self, batch: &mut Vec<Box<dyn Job>>) {
        let until = Instant::now() + PATIENCE.min(self.took / 2);
        loop {
            while batch.len() < MAX_BATCH
                && let Ok(job) = self.jobs.try_recv()
            {
                batch.push(job);
            }
            if batch.len() >= self.usual || Instant::now() >= until {
                return;
            }
            // Whoever they are computed by may need this processor.
            std::thread::yield_now();
        }
    }
}

fn write(connection: &Connection, mut log: Log, schema: &'static Schema, mut waiting: Waiting) {
    let mut sweep_at = i64::MIN;
    while let Ok(next) = waiting.next(!log.is_worth_copying()) {
        let Some(mut batch) = next else {
            log.copy(connection);
            continue;
        };
        let began = Instant::now();
        let now = batch.last().map_or(0, |job| job.now());
        let sweeps = now >= sweep_at;
        let committed = match together(connection, schema, &mut batch, sweeps.then_some(now)) {
            Ok(more) => {
                if sweeps {
                    sweep_at = if more { i64::MIN } else { now.saturating_add(SWEEP_EVERY_MS) };
                }
                Ok(())
            }
            Err(cause) => {
                if !connection.is_autocommit() {
                    // Fails only where SQLite has rolled back already.
                    let _ = connection.execute_batch("ROLLBACK");
                }
                Err(unavailable(schema.name, &cause))
            }
        };
        (waiting.usual, waiting.took) = (batch.len(), began.elapsed());
        for job in batch {
            job.done(committed.as_ref().copied());
        }
        if log.is_long() {
            log.copy(connection);
        }
    }
}

/// All changes in one transaction. Says whether the sweep left something.
fn together(
    connection: &Connection,
    schema: &Schema,
    batch: &mut [Box<dyn Job>],
    sweep_at: Option<i64>,
) -> rusqlite::Result<bool> {
    run(connection, "BEGIN IMMEDIATE")?;
    if !all_at_once(connection, batch)? {
        run(connection, "ROLLBACK")?;
        run(connection, "BEGIN IMMEDIATE")?;
        for job in batch {
            guarded(connection, |connection| Ok(apply(connection, job)? != Applied::Undo))?;
        }
    }
    let mut more = false;
    if let Some(now) = sweep_at {
        guarded(connection, |connection| {
            let swept = effects::sweep(connection, now).and_then(|effects| {
                let others = (schema.sweep)(connection, now)?;
                Ok(effects || others)
            });
            // A sweep that failed is made again later; the changes beside it are worth more.
            more = *swept.as_ref().unwrap_or(&false);
            Ok(swept.is_ok())
        })?;
    }
    run(connection, "COMMIT")?;
    Ok(more)
}

/// One after the other, with nothing to go back to but the beginning. Says whether none of them has to be taken back.
fn all_at_once(connection: &Connection, batch: &mut [Box<dyn Job>]) -> rusqlite::Result<bool> {
    for job in batch {
        if apply(connection, job)? == Applied::Undo {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A mistake in one change must not take the thread, and with it every store, away.
fn apply(connection: &Connection, job: &mut Box<dyn Job>) -> rusqlite::Result<Applied> {
    catch_unwind(AssertUnwindSafe(|| job.apply(connection))).unwrap_or(Ok(Applied::Undo))
}

fn guarded(
    connection: &Connection,
    change: impl FnOnce(&Connection) -> rusqlite::Result<bool>,
) -> rusqlite::Result<()> {
    run(connection, "SAVEPOINT one")?;
    if !change(connection)? {
        run(connection, "ROLLBACK TO one")?;
    }
    run(connection, "RELEASE one")
}

fn run(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.raw_execute()?;
    Ok(())
}
