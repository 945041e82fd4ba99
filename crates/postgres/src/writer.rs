//! The writers: each has a connection and executes one batch after the other.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ports::Cause;
use ports::runs::{Change, Commit, CommitError};
use tracing::field;

use crate::batch::{self, BatchOutcome, Name};
use crate::chain::Ends;
use crate::connection::{Connection, Connector};
use crate::error::Failure;
use crate::hosts::Host;
use crate::queue::{Job, Queue};
use crate::single::{self, Stop};

/// How often a batch is repeated because of other transactions or lost connections.
const MAX_ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(100);

/// What the writers of a store share.
pub(crate) struct Writing {
    pub(crate) connector: Connector,
    pub(crate) host: Host,
    pub(crate) queue: Queue,
    pub(crate) ends: Ends,
    pub(crate) numbers: Numbers,
    pub(crate) positions: RowPositions,
    /// How long a writer tries to reach the database for one batch. To find out whether a batch was committed, it tries twice
    /// as long.
    pub(crate) patience: Duration,
    /// Another host has taken over.
    pub(crate) is_fenced: AtomicBool,
}

/// The numbers of batches.
#[derive(Default)]
pub(crate) struct Numbers(Mutex<(i64, BTreeSet<i64>)>);

impl Numbers {
    fn begin(&self) -> i64 {
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.0 += 1;
        let number = numbers.0;
        numbers.1.insert(number);
        number
    }

    fn end(&self, number: i64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number);
    }

    /// All smaller numbers are of batches whose outcome is known.
    pub(crate) fn oldest(&self) -> i64 {
        let numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.1.first().copied().unwrap_or(numbers.0 + 1)
    }
}

/// Positions of rows whose order is that of their commits: microseconds of the database's clock, but always increasing.
pub(crate) struct RowPositions {
    started: Instant,
    last: Mutex<i64>,
    base: i64,
}

impl RowPositions {
    /// Positions from the time of the database now, in microseconds.
    pub(crate) fn from(now: i64) -> Self {
        Self { started: Instant::now(), last: Mutex::new(now), base: now }
    }

    /// The first of some positions.
    fn reserve(&self, count: usize) -> i64 {
        let elapsed = i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let first = self.base.saturating_add(elapsed).max(last.saturating_add(1));
        *last = first.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
        first
    }
}

impl Writing {
    /// Executes batches until the queue is closed and empty.
    pub(crate) async fn run(&self) {
        let mut writer = Writer { writing: self, connection: None };
        while let Some(mut batch) = self.queue.next().await {
            let keys = batch.take_keys();
            writer.execute(batch.jobs, batch.is_batchable).await;
            self.queue.release(&keys);
        }
    }
}

struct Writer<'w> {
    writing: &'w Writing,
    connection: Option<Connection>,
}

enum Attempt {
    Committed,
    /// Nothing was written. These commits are refused, or executed by themselves if there is no reason.
    Refused(Vec<(usize, Option<CommitError>)>),
    /// Nothing was written. Another attempt may succeed.
    Again(Failure),
    /// Nothing was written, and another attempt would fail too.
    Failed(Failure),
    OutcomeUnknown(Failure),
}

impl Writer<'_> {
    async fn execute(&mut self, jobs: Vec<Job>, is_batchable: bool) {
        let mut waiting = vec![(jobs, !is_batchable)];
        while let Some((jobs, is_single)) = waiting.pop() {
            let (jobs, split) = self.together(jobs, is_single).await;
            debug_assert!(jobs.is_empty(), "every commit got a result or is executed by itself");
            // In their order, which is that of the stack.
            waiting.extend(split.into_iter().rev().map(|job| (vec![job], true)));
        }
    }

    /// Executes commits together until each has a result or is to be executed by itself. Returns those.
    async fn together(&mut self, mut jobs: Vec<Job>, is_single: bool) -> (Vec<Job>, Vec<Job>) {
        let (mut attempts, mut split) = (0, Vec::new());
        while !jobs.is_empty() {
            let commits: Vec<&Commit> = jobs.iter().map(|job| &job.commit).collect();
            match self.attempt(&commits, is_single).await {
                Attempt::Committed => {
                    for job in jobs.drain(..) {
                        respond(job, Ok(()));
                    }
                }
                Attempt::Refused(mut refused) => {
                    // From the end, so that positions stay valid.
                    refused.sort_by_key(|(position, _)| std::cmp::Reverse(*position));
                    for (position, reason) in refused {
                        let job = jobs.remove(position);
                        match reason {
                            Some(error) => respond(job, Err(error)),
                            None => split.push(job),
                        }
                    }
                }
                Attempt::Again(failure) => {
                    attempts += 1;
                    if attempts < MAX_ATTEMPTS {
                        tokio::time::sleep(PAUSE.mul_f64(f64::from(attempts - 1) / 4.0)).await;
                    } else if jobs.len() > 1 {
                        split.append(&mut jobs);
                    } else {
                        fail(&mut jobs, &failure.into_commit_error());
                    }
                }
                // One of them may be the reason.
                Attempt::Failed(failure) if jobs.len() > 1 && failure.code().is_some() => {
                    split.append(&mut jobs);
                }
                Attempt::Failed(failure) => fail(&mut jobs, &failure.into_commit_error()),
                Attempt::OutcomeUnknown(failure) => {
                    fail(&mut jobs, &CommitError::OutcomeUnknown(Cause::new(failure)));
                }
            }
        }
        (jobs, split)
    }

    async fn attempt(&mut self, commits: &[&Commit], is_single: bool) -> Attempt {
        let writing = self.writing;
        if writing.is_fenced.load(Ordering::Relaxed) {
            return Attempt::Failed(Failure::Fenced);
        }
        let connection = match self.connected().await {
            Ok(connection) => connection,
            Err(failure) => {
                // What waits as long would fail the same way, only later.
                fail(&mut writing.queue.take_older(writing.patience), &failure.clone().into_commit_error());
                return Attempt::Failed(failure);
            }
        };
        let number = writing.numbers.begin();
        let count = commits.iter().map(|commit| commit.changes.len()).sum();
        let name = Name { host_id: &writing.host.id, number, place: writing.positions.reserve(count) };
        let written = match commits {
            [commit] if is_single => single::write(connection, name, commit).await.map(|()| {
                if commit.changes.iter().any(|change| matches!(change, Change::Audit { .. })) {
                    writing.ends.forget();
                }
                BatchOutcome::Committed
            }),
            _ => batch::write(connection, &writing.ends, name, commits).await.map_err(Stop::Failed),
        };
        let attempt = match written {
            Ok(BatchOutcome::Committed) => Attempt::Committed,
            Ok(BatchOutcome::Refused(refused)) => Attempt::Refused(refused),
            Ok(BatchOutcome::Stale) => {
                writing.ends.forget();
                Attempt::Again(Failure::Contended)
            }
            Err(Stop::Refused(error)) => Attempt::Refused(vec![(0, Some(error))]),
            Err(Stop::Failed(failure)) => {
                writing.ends.forget();
                if failure.is_in_doubt() || connection.is_closed() {
                    self.connection = None;
                    self.resolve(number, failure).await
                } else if failure.is_race() {
                    Attempt::Again(failure)
                } else {
                    if matches!(failure, Failure::Fenced) {
                        writing.is_fenced.store(true, Ordering::Relaxed);
                    }
                    Attempt::Failed(failure)
                }
            }
        };
        writing.numbers.end(number);
        attempt
    }

    /// The connection, made again if it was lost.
    async fn connected(&mut self) -> Result<&Connection, Failure> {
        let until = Instant::now() + self.writing.patience;
        loop {
            if self.connection.as_ref().is_some_and(|connection| !connection.is_closed()) {
                break;
            }
            match self.writing.connector.connect().await {
                Ok(connection) => self.connection = Some(connection),
                Err(failure) if Instant::now() >= until => return Err(failure),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
        self.connection.as_ref().ok_or(Failure::Lost)
    }

    /// Finds out whether a batch was committed whose connection was lost.
    ///
    /// The number of the batch is inserted by this transaction too. If the batch was committed, the row is there. If its
    /// transaction is still running, the insert waits for its end. If it has not begun, this row makes it fail.
    async fn resolve(&mut self, number: i64, failure: Failure) -> Attempt {
        let sql = "with fence as (select 1 as held from hosts where host_id = $1 for key share),
                   placed as (insert into batches (host_id, number) select $1, $2 from fence on conflict do nothing returning 1 as placed)
                   select (select count(*) from fence), (select count(*) from placed)";
        let host_id = &self.writing.host.id;
        let until = Instant::now() + self.writing.patience * 2;
        while Instant::now() < until {
            let Ok(connection) = self.connected().await else { continue };
            let Ok(Some(row)) = connection.first(sql, &[host_id, &number]).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            return match (row.try_get::<_, i64>(0), row.try_get::<_, i64>(1)) {
                (Ok(1), Ok(0)) => Attempt::Committed,
                (Ok(1), Ok(1)) => Attempt::Again(failure),
                // The host that took over has deleted the numbers.
                (Ok(_), Ok(_)) => Attempt::OutcomeUnknown(Failure::Fenced),
                (Err(_), _) | (_, Err(_)) => Attempt::OutcomeUnknown(Failure::Row),
            };
        }
        Attempt::OutcomeUnknown(failure)
    }
}

fn fail(jobs: &mut Vec<Job>, error: &CommitError) {
    for job in jobs.drain(..) {
        respond(job, Err(error.clone()));
    }
}

fn respond(job: Job, result: Result<(), CommitError>) {
    // The caller may be gone. A failure is logged here then, because no one else reports it.
    if let Err(Err(error)) = job.responder.send(result) {
        tracing::warn!(%error, cause = error.source().map(field::display), "a commit failed after its caller had gone");
    }
}
