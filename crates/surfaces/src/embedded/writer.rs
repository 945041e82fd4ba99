//! What the writer does with changes of the embedded surfaces.

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

/// How many changes may wait. Callers beyond that wait before they are queued, so a flood costs time and not memory.
const QUEUE: usize = 4096;
/// How long the sweep rests, by the clock of the calls, once nothing was left to remove.
const SWEEP_EVERY_MS: i64 = 10_000;
/// For how long no change has to come before the log is copied.
const PAUSE: Duration = Duration::from_millis(5);

/// The handle of the writer. Dropping it writes what was handed over, and ends.
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
        // Given back by the thread when it takes the job.
        self.room.acquire().await.map_err(|_| ())?.forget();
        self.jobs.submit(job).map_err(|_| ())
    }
}

struct Changes {
    schema: &'static Schema,
    log: Log,
    room: Arc<Semaphore>,
    /// When the last call was made.
    now: i64,
    sweep_at: i64,
    /// Whether the sweep of this transaction left something, where it swept.
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
        // A sweep that failed is made again later; the changes beside it are worth more.
        self.is_left = Some(swept.unwrap_or_else(|error| {
            tracing::warn!(store = self.schema.name, %error, "what has expired could not be removed");
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
