//! A change on its way through the writer.

use rusqlite::{Connection, ErrorCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::{effects, unavailable};
use crate::call::{Scope, Tenant};
use crate::error::SurfaceError;

/// Why a change or a read did not happen.
#[derive(Debug)]
pub enum Refused {
    /// It may not happen.
    Surface(SurfaceError),
    /// The database failed.
    Sqlite(rusqlite::Error),
}

impl From<SurfaceError> for Refused {
    fn from(error: SurfaceError) -> Self {
        Self::Surface(error)
    }
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// What the writer sees of a change.
pub(super) trait Job: Send {
    /// Makes the change inside the transaction. It may be made again after the transaction was rolled back.
    ///
    /// # Errors
    /// Those after which SQLite may have ended the transaction itself: the whole batch is given up.
    fn apply(&mut self, connection: &Connection) -> rusqlite::Result<Applied>;

    /// Answers whoever waits, once the transaction is on the disk or given up.
    fn done(self: Box<Self>, committed: Result<(), &SurfaceError>);

    /// When the call was made.
    fn now(&self) -> i64;
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Applied {
    /// It is kept.
    Kept,
    /// It was refused before it changed anything.
    Untouched,
    /// It was refused, and what it did until then has to be taken back.
    Undo,
}

pub(super) struct Task<T, F, A> {
    store: &'static str,
    tenant: Tenant,
    effect: Option<String>,
    op: &'static str,
    now: i64,
    change: F,
    then: A,
    outcome: Option<Result<T, SurfaceError>>,
    is_old: bool,
    answer: oneshot::Sender<Result<T, SurfaceError>>,
}

type Answer<T> = oneshot::Receiver<Result<T, SurfaceError>>;

impl<T, F, A> Task<T, F, A>
where
    T: Serialize + DeserializeOwned,
    F: Fn(&Connection) -> Result<T, Refused>,
{
    pub(super) fn new(
        store: &'static str,
        scope: &Scope,
        op: &'static str,
        change: F,
        then: A,
    ) -> Result<(Self, Answer<T>), SurfaceError> {
        if let Some(effect) = &scope.effect {
            effects::check(effect)?;
        }
        let (answer, receiver) = oneshot::channel();
        let task = Self {
            store,
            tenant: scope.tenant.clone(),
            effect: scope.effect.clone(),
            op,
            now: scope.at(),
            change,
            then,
            outcome: None,
            is_old: false,
            answer,
        };
        Ok((task, receiver))
    }

    fn once(&mut self, connection: &Connection) -> Result<T, Refused> {
        self.is_old = false;
        if let Some(effect) = &self.effect
            && let Some(answer) = effects::find(connection, &self.tenant, effect, self.op)?
        {
            self.is_old = true;
            return Ok(answer);
        }
        let answer = (self.change)(connection)?;
        if let Some(effect) = &self.effect {
            effects::store(connection, &self.tenant, effect, self.op, self.now, &answer)?;
        }
        Ok(answer)
    }
}

impl<T, F, A> Job for Task<T, F, A>
where
    T: Serialize + DeserializeOwned + Send,
    F: Fn(&Connection) -> Result<T, Refused> + Send,
    A: FnOnce(&T) + Send,
{
    fn apply(&mut self, connection: &Connection) -> rusqlite::Result<Applied> {
        self.outcome = None;
        let before = connection.total_changes();
        let (outcome, applied) = match self.once(connection) {
            Ok(answer) => (Ok(answer), Applied::Kept),
            Err(Refused::Sqlite(cause)) if is_fatal(&cause) => return Err(cause),
            // Tables that were made are no changes of rows, so what is counted is not all.
            Err(Refused::Sqlite(cause)) => (Err(unavailable(self.store, &cause)), Applied::Undo),
            Err(Refused::Surface(error)) if connection.total_changes() == before => {
                (Err(error), Applied::Untouched)
            }
            Err(Refused::Surface(error)) => (Err(error), Applied::Undo),
        };
        self.outcome = Some(outcome);
        Ok(applied)
    }

    fn done(self: Box<Self>, committed: Result<(), &SurfaceError>) {
        let told = match (committed, self.outcome) {
            (Ok(()), Some(outcome)) => outcome,
            (Err(error), _) => Err(error.clone()),
            (Ok(()), None) => {
                let message = format!("{} met a mistake of this program, and changed nothing", self.op);
                Err(SurfaceError::new(crate::error::Code::SurfaceUnavailable, message))
            }
        };
        if let Ok(answer) = &told
            && !self.is_old
        {
            (self.then)(answer);
        }
        // Whoever asked may have gone away; what was done is done.
        let _ = self.answer.send(told);
    }

    fn now(&self) -> i64 {
        self.now
    }
}

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
