//! Why the database could not be used. No error contains a value of a user or a password.

use std::time::Duration;

use pgclient::UrlError;
use ports::Cause;
use ports::runs::{CommitError, ReadError};
use tokio_postgres::error::SqlState;

/// Why the store of runs cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("the database cannot be used")]
    Failed(#[from] Failure),
    #[error("the database has the encoding {0}; create it with the encoding UTF8")]
    Encoding(String),
    #[error("the database is empty; run `interlock database init`")]
    Uninitialized,
    #[error(
        "the database has schema version {found}, this program needs {needed}; run `interlock database migrate`"
    )]
    Older { found: i64, needed: i64 },
    #[error(
        "the database needs a program that knows schema version {needed}, this one knows up to {known}; upgrade it"
    )]
    Newer { needed: i64, known: i64 },
    #[error(
        "host {name} (version {version}) uses this database already, and one host at a time is supported; stop it first"
    )]
    HostAlive { name: String, version: String },
    #[error("no random bytes for the host id: {0}")]
    Entropy(String),
}

/// A failure of the database or of the connection to it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    #[error("cannot connect to the database: {0}")]
    Connect(String),
    #[error("the database reported: {message} (SQLSTATE {code})", code = .code.code())]
    Server {
        code: SqlState,
        /// The first line. Details and hints, which may contain values of rows, are left out.
        message: String,
        /// Whether the server ended the connection with this error.
        is_fatal: bool,
    },
    #[error("the connection to the database was lost")]
    Lost,
    #[error("the database did not reply within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("a column has an unexpected value")]
    Row,
    #[error("other transactions changed the same rows at every attempt")]
    Contended,
    #[error("another host has taken over from this one; restart it")]
    Fenced,
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(reported) => Self::Server {
                code: reported.code().clone(),
                message: first_line(reported.message()),
                is_fatal: matches!(reported.severity(), "FATAL" | "PANIC"),
            },
            None => Self::Lost,
        }
    }
}

impl Failure {
    /// Why a connection could not be made: the server's message, or the error of the network.
    pub(crate) fn connecting(error: &tokio_postgres::Error) -> Self {
        use std::error::Error as _;
        let reason = match error.as_db_error() {
            Some(reported) => first_line(reported.message()),
            None => error.source().map_or_else(|| error.to_string(), ToString::to_string),
        };
        Self::Connect(reason)
    }

    pub(crate) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Server { code, .. } => Some(code),
            Self::Connect(_) | Self::Lost | Self::Timeout(_) | Self::Row | Self::Contended | Self::Fenced => {
                None
            }
        }
    }

    /// Whether the statement may have been committed although it was reported as failed.
    pub(crate) fn is_in_doubt(&self) -> bool {
        match self {
            Self::Lost | Self::Timeout(_) => true,
            // A server that shuts down may report that after it has committed.
            Self::Server { code, is_fatal, .. } => *is_fatal || code.code().starts_with("57P"),
            Self::Connect(_) | Self::Row | Self::Contended | Self::Fenced => false,
        }
    }

    /// Whether another transaction came between the check and the write, so that the same statement may succeed now.
    pub(crate) fn is_race(&self) -> bool {
        self.code().is_some_and(|code| {
            [
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::UNIQUE_VIOLATION,
                // How a batch reports that fewer rows were updated than were checked.
                SqlState::DIVISION_BY_ZERO,
            ]
            .contains(code)
        })
    }

    /// Whether the server found its files damaged.
    pub(crate) fn is_damage(&self) -> bool {
        self.code().is_some_and(|code| [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code))
    }

    pub(crate) fn into_commit_error(self) -> CommitError {
        match self.code() {
            Some(code) if *code == SqlState::DISK_FULL => CommitError::Full(Cause::new(self)),
            Some(_) | None => CommitError::Store(Cause::new(self)),
        }
    }

    pub(crate) fn into_read_error(self) -> ReadError {
        ReadError::Store(Cause::new(self))
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().filter(|letter| !letter.is_control()).take(300).collect()
}
