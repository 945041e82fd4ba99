//! What the writer does with commits of runs.

use std::sync::Arc;

use disk::sqlite::{self, Panicked, Work};
use flow::store::{Cause, Commit, CommitError, Done};
use rusqlite::{Connection, ErrorCode};

use super::audit::Chains;
use super::changes::apply;
use super::memory::Memory;
use super::wal::WriteAheadLog;

pub(super) type Writer = sqlite::Writer<Commits>;

/// Commits never wait for company: under load the next batch queues up while one is made durable.
pub(super) struct Commits {
    log: WriteAheadLog,
    memory: Arc<Memory>,
    /// Read anew in every transaction: another process may have written in between.
    chains: Chains,
}

impl Commits {
    pub(super) fn new(log: WriteAheadLog, memory: Arc<Memory>) -> Self {
        Self { log, memory, chains: Chains::default() }
    }
}

impl Work for Commits {
    type Job = (Commit, Done);
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

    fn panicked(&self, _job: &Self::Job) -> CommitError {
        CommitError::Store(Cause::new(Panicked))
    }

    fn done(&mut self, (commit, done): Self::Job, outcome: Result<(), CommitError>) {
        if outcome.is_ok() {
            self.memory.ended.committed(&commit);
        }
        done(outcome);
    }

    fn after(&mut self, connection: &Connection, _is_committed: bool) {
        self.log.committed(connection);
    }
}

/// Why a commit was not applied.
pub(super) enum Refused {
    /// A rule of the store.
    Commit(CommitError),
    /// SQLite failed.
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
