//! The one thread that writes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::log::Log;
use super::schema::Schema;
use super::task::Job;
use super::{effects, unavailable};

/// The most changes of one transaction: enough to share an fsync among all that wait, and few enough to be answered soon.
const MAX_BATCH: usize = 1024;
/// How many changes may wait. Callers beyond that wait before they are queued, so a flood costs time and not memory.
const QUEUE: usize = 4096;
/// How long the sweep rests, by the clock of the calls, once nothing was left to remove.
const SWEEP_EVERY_MS: i64 = 10_000;

/// The handle of the writer. Dropping it writes what was handed over, and ends.
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(mut connection: Connection, schema: &'static Schema) -> std::io::Result<Self> {
        let log = Log::watch(&mut connection).map_err(std::io::Error::other)?;
        let (jobs, received) = mpsc::channel(QUEUE);
        let thread = Builder::new()
            .name(format!("{}-writer", schema.name))
            .spawn(move || write(&connection, log, schema, received))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    pub(super) async fn submit(&self, job: Box<dyn Job>) -> Result<(), ()> {
        let jobs = self.jobs.as_ref().ok_or(())?;
        jobs.send(job).await.map_err(|_| ())
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

fn write(
    connection: &Connection,
    mut log: Log,
    schema: &'static Schema,
    mut jobs: mpsc::Receiver<Box<dyn Job>>,
) {
    let mut sweep_at = i64::MIN;
    while let Some(first) = jobs.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < MAX_BATCH
            && let Ok(job) = jobs.try_recv()
        {
            batch.push(job);
        }
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
        for job in batch {
            job.done(committed.as_ref().copied());
        }
        log.answered(connection, jobs.is_empty());
    }
}

/// All changes in one transaction, each in a savepoint of its own. Says whether the sweep left something.
fn together(
    connection: &Connection,
    schema: &Schema,
    batch: &mut [Box<dyn Job>],
    sweep_at: Option<i64>,
) -> rusqlite::Result<bool> {
    run(connection, "BEGIN IMMEDIATE")?;
    for job in batch {
        guarded(connection, |connection| {
            // A mistake in one change must not take the thread, and with it every store, away.
            catch_unwind(AssertUnwindSafe(|| job.apply(connection))).unwrap_or(Ok(false))
        })?;
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
