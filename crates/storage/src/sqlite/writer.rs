//! The writer thread, which applies commits of runs.

use std::error::Error as _;
use std::sync::Arc;

use disk::sqlite::{self, Panicked, Work};
use ports::Cause;
use ports::Responder;
use ports::runs::{Commit, CommitError};
use rusqlite::{Connection, ErrorCode};
use tracing::field;

use super::audit::Chains;
use super::changes::apply;
use super::memory::Memory;
use super::wal::WriteAheadLog;

pub(super) type Writer = sqlite::Writer<Batches>;

/// Commits are not delayed to share a transaction: under load, the next batch queues up while the current one is synced.
pub(super) struct Batches {
    log: WriteAheadLog,
    memory: Arc<Memory>,
    /// Read again in every transaction, because another process may have written in the meantime.
    chains: Chains,
}

impl Batches {
    pub(super) fn new(log: WriteAheadLog, memory: Arc<Memory>) -> Self {
        Self { log, memory, chains: Chains::default() }
    }
}

impl Work for Batches {
    type Job = (Commit, Responder<Result<(), CommitError>>);
    type Error = CommitError;

    fn begin(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.chains = Chains::default();
        self.memory.seen.notice_others(connection)
    }

    fn apply(
        &mut self,
        connection: &Connection,
        (commit, _): &mut Self::Job,
    ) -> Result<(), sqlite::Refused<CommitError>> {
        let mut tentative = self.chains.tentative();
        apply(connection, &mut tentative, &self.memory.seen, commit)?;
        tentative.keep();
        Ok(())
    }

    fn failure(&self, error: rusqlite::Error) -> CommitError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => CommitError::Full(Cause::new(error)),
            _ => CommitError::Store(Cause::new(error)),
        }
    }

    fn commit_failure(&self, error: rusqlite::Error) -> CommitError {
        match error.sqlite_error_code() {
            // The frames of the transaction may be in the log although it could not be synced. SQLite ignores them while
            // this process lives, but a crash before the next commit may bring them back.
            Some(ErrorCode::SystemIoFailure) => CommitError::OutcomeUnknown(Cause::new(error)),
            _ => self.failure(error),
        }
    }

    fn panicked(&self, _job: &Self::Job) -> CommitError {
        CommitError::Store(Cause::new(Panicked))
    }

    fn done(&mut self, (commit, responder): Self::Job, outcome: Result<(), CommitError>) {
        if outcome.is_ok() {
            self.memory.ended.committed(&commit);
        }
        // The caller may be gone. Log a failure here, because no other component reports it.
        if let Err(Err(error)) = responder.send(outcome) {
            tracing::warn!(%error, cause = error.source().map(field::display), "a commit failed after its caller stopped waiting");
        }
    }

    fn after(&mut self, connection: &Connection, _is_committed: bool) {
        self.log.committed(connection);
    }
}

/// Why a commit was not applied.
pub(super) enum Refused {
    /// The commit violates a rule of the store.
    Commit(CommitError),
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

impl From<Refused> for sqlite::Refused<CommitError> {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Commit(error) => Self::Change(error),
            Refused::Sqlite(error) => Self::Sqlite(error),
        }
    }
}
