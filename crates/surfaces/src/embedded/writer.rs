//! The writer of the embedded surfaces.

use std::sync::Arc;
use std::time::Duration;

use disk::sqlite::{self, Work, in_savepoint};
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::log::Log;
use super::schema::Schema;
use super::task::Job;
use super::{Refused, effects, failure};
use crate::error::SurfaceError;

/// The maximum number of queued changes. Further callers wait before they are queued, so a flood does not use memory.
const QUEUE: usize = 4096;
/// The pause of the sweep after nothing was left to remove, by call time.
const SWEEP_EVERY_MS: i64 = 10_000;
/// How long no change must arrive before the log is checkpointed.
const PAUSE: Duration = Duration::from_millis(5);

/// The writer handle. Dropping it commits the submitted changes and stops the thread.
pub(super) struct Writer {
    jobs: sqlite::Writer<Changes>,
    room: Arc<Semaphore>,
}

impl Writer {
    pub(super) fn start(mut connection: Connection, schema: &'static Schema) -> std::io::Result<Self> {
        let log = Log::watch(&mut connection).map_err(std::io::Error::other)?;
        let room = Arc::new(Semaphore::new(QUEUE));
        let changes =
            Changes { schema, log, room: Arc::clone(&room), now: 0, sweep_at: i64::MIN, is_left: None };
        Ok(Self { jobs: sqlite::Writer::start(schema.name, connection, changes)?, room })
    }

    pub(super) async fn submit(&self, job: Box<dyn Job>) -> Result<(), ()> {
        // Released by the thread when it takes the job.
        self.room.acquire().await.map_err(|_| ())?.forget();
        self.jobs.submit(job).map_err(|_| ())
    }
}

struct Changes {
    schema: &'static Schema,
    log: Log,
    room: Arc<Semaphore>,
    /// The time of the last call.
    now: i64,
    sweep_at: i64,
    /// Whether the sweep of this transaction left expired rows; `None` if it did not run.
    is_left: Option<bool>,
}

impl Work for Changes {
    type Job = Box<dyn Job>;
    type Error = SurfaceError;

    const PATIENCE: Duration = Duration::from_micros(500);

    fn taken(&mut self, count: usize) {
        self.room.add_permits(count);
    }

    fn begin(&mut self, _connection: &Connection) -> rusqlite::Result<()> {
        self.is_left = None;
        Ok(())
    }

    fn apply(&mut self, connection: &Connection, job: &mut Self::Job) -> Result<(), Refused> {
        self.now = job.now();
        job.apply(connection)
    }

    fn end(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.now < self.sweep_at {
            return Ok(());
        }
        let swept = in_savepoint(connection, |connection| {
            let effects = effects::sweep(connection, self.now)?;
            let others = (self.schema.sweep)(connection, self.now)?;
            Ok(effects || others)
        })?;
        // A failed sweep is retried later and does not affect the changes.
        self.is_left = Some(swept.unwrap_or_else(|error| {
            tracing::warn!(store = self.schema.name, %error, "cannot remove expired rows");
            false
        }));
        Ok(())
    }

    fn failure(&self, error: rusqlite::Error) -> SurfaceError {
        failure(self.schema.name, &error)
    }

    fn panicked(&self, job: &Self::Job) -> SurfaceError {
        job.panicked()
    }

    fn done(&mut self, job: Self::Job, outcome: Result<(), SurfaceError>) {
        job.done(outcome);
    }

    fn after(&mut self, connection: &Connection, is_committed: bool) {
        if is_committed && let Some(is_left) = self.is_left {
            self.sweep_at = if is_left { i64::MIN } else { self.now.saturating_add(SWEEP_EVERY_MS) };
        }
        if self.log.is_long() {
            self.log.copy(connection);
        }
    }

    fn pause(&mut self) -> Option<Duration> {
        self.log.is_worth_copying().then_some(PAUSE)
    }

    fn idle(&mut self, connection: &Connection) {
        self.log.copy(connection);
    }
}
