//! The one thread that writes.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use flow::store::{Cause, Commit, CommitError, Done};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::audit::Chains;
use super::changes::apply;
use super::memory::Memory;
use super::wal::WriteAheadLog;

/// The most commits of one transaction: enough to share an fsync among all that wait, and few enough to be
/// acknowledged soon.
const MAX_BATCH: usize = 1024;

type Job = (Commit, Done);

/// The handle of the writer. Dropping it writes what was handed over, and ends.
pub(super) struct Writer {
    jobs: Option<Sender<Job>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        log: WriteAheadLog,
        memory: Arc<Memory>,
    ) -> std::io::Result<Self> {
        let (jobs, received) = channel();
        let thread = Builder::new()
            .name("runs-writer".into())
            .spawn(move || write(connection, log, &memory, &received))?;
        Ok(Self { jobs: Some(jobs), thread: Mutex::new(Some(thread)) })
    }

    /// Hands a commit over, or back when the writer has ended.
    pub(super) fn submit(&self, commit: Commit, done: Done) -> Result<(), Done> {
        match &self.jobs {
            Some(jobs) => jobs.send((commit, done)).map_err(|job| job.0.1),
            None => Err(done),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        let thread = self.thread.get_mut().ok().and_then(Option::take);
        if let Some(thread) = thread {
            // Nothing is lost when it panicked: what was acknowledged is on the disk.
            let _ = thread.join();
        }
    }
}

fn write(mut connection: Connection, mut log: WriteAheadLog, memory: &Memory, jobs: &Receiver<Job>) {
    while let Ok(first) = jobs.recv() {
        let mut batch = vec![first];
        while batch.len() < MAX_BATCH {
            match jobs.try_recv() {
                Ok(job) => batch.push(job),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        let (commits, done): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let results = match together(&mut connection, memory, &commits) {
            Ok(results) => results,
            Err(error) => vec![Err(refusal(error)); commits.len()],
        };
        for ((commit, done), result) in commits.iter().zip(done).zip(results) {
            if result.is_ok() {
                memory.ended.committed(commit);
            }
            done(result);
        }
        log.committed(&connection);
    }
    // The copier closes its connection first: the last one to be closed puts the log into the file, and takes it away.
    drop(log);
}

/// All commits in one transaction. Nearly always each of them may happen, and nothing has to be kept to take one back; when one
/// may not, the transaction is begun again with a savepoint for each, so that the refused one leaves no trace.
fn together(
    connection: &mut Connection,
    memory: &Memory,
    commits: &[Commit],
) -> rusqlite::Result<Vec<Result<(), CommitError>>> {
    match all_of(connection, memory, commits)? {
        true => Ok(vec![Ok(()); commits.len()]),
        false => one_by_one(connection, memory, commits),
    }
}

/// Whether all of them happened. Otherwise none did.
fn all_of(connection: &mut Connection, memory: &Memory, commits: &[Commit]) -> rusqlite::Result<bool> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    memory.seen.notice_others(&transaction)?;
    // Read anew in every transaction: another process may have written in between.
    let mut chains = Chains::default();
    for commit in commits {
        let mut tentative = chains.tentative();
        match apply(&transaction, &mut tentative, &memory.seen, commit) {
            Ok(()) => tentative.keep(),
            Err(Refused::Sqlite(error)) if is_fatal(&error) => return Err(error),
            Err(Refused::Commit(_) | Refused::Sqlite(_)) => {
                transaction.rollback()?;
                return Ok(false);
            }
        }
    }
    transaction.commit()?;
    Ok(true)
}

fn one_by_one(
    connection: &mut Connection,
    memory: &Memory,
    commits: &[Commit],
) -> rusqlite::Result<Vec<Result<(), CommitError>>> {
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    memory.seen.notice_others(&transaction)?;
    let mut chains = Chains::default();
    let mut results = Vec::with_capacity(commits.len());
    for commit in commits {
        let savepoint = transaction.savepoint()?;
        let mut tentative = chains.tentative();
        match apply(&savepoint, &mut tentative, &memory.seen, commit) {
            Ok(()) => {
                savepoint.commit()?;
                tentative.keep();
                results.push(Ok(()));
            }
            Err(Refused::Commit(error)) => {
                drop(savepoint);
                results.push(Err(error));
            }
            Err(Refused::Sqlite(error)) if is_fatal(&error) => return Err(error),
            Err(Refused::Sqlite(error)) => {
                drop(savepoint);
                results.push(Err(refusal(error)));
            }
        }
    }
    transaction.commit()?;
    Ok(results)
}

/// Why a commit was not applied.
pub(super) enum Refused {
    /// It may not happen.
    Commit(CommitError),
    /// The database failed.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<CommitError> for Refused {
    fn from(error: CommitError) -> Self {
        Self::Commit(error)
    }
}

/// After these SQLite may have ended the transaction itself: the whole batch is given up.
fn is_fatal(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::OutOfMemory
                | ErrorCode::DatabaseCorrupt
        )
    )
}

fn refusal(error: rusqlite::Error) -> CommitError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => CommitError::Full(Cause::new(error)),
        _ => CommitError::Store(Cause::new(error)),
    }
}
