//! A change in the writer queue.

use rusqlite::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::effects;
use crate::call::{Scope, Tenant};
use crate::error::{Code, SurfaceError};

/// Why a change or a read failed.
pub type Refused = disk::sqlite::Refused<SurfaceError>;

impl From<SurfaceError> for Refused {
    fn from(error: SurfaceError) -> Self {
        Self::Change(error)
    }
}

/// A change as seen by the writer.
pub(super) trait Job: Send {
    /// Applies the change inside the transaction. May be called again after a rollback.
    fn apply(&mut self, connection: &Connection) -> Result<(), Refused>;

    /// The error of a change that panicked.
    fn panicked(&self) -> SurfaceError;

    /// Replies to the caller, once the transaction is durable or abandoned.
    fn done(self: Box<Self>, outcome: Result<(), SurfaceError>);

    /// The time of the call.
    fn now(&self) -> i64;
}

pub(super) struct Task<T, F, A> {
    tenant: Tenant,
    effect: Option<String>,
    op: &'static str,
    now: i64,
    change: F,
    then: A,
    made: Option<T>,
    is_old: bool,
    answer: oneshot::Sender<Result<T, SurfaceError>>,
}

type Reply<T> = oneshot::Receiver<Result<T, SurfaceError>>;

impl<T, F, A> Task<T, F, A>
where
    T: Serialize + DeserializeOwned,
    F: Fn(&Connection) -> Result<T, Refused>,
{
    pub(super) fn new(
        scope: &Scope,
        op: &'static str,
        change: F,
        then: A,
    ) -> Result<(Self, Reply<T>), SurfaceError> {
        if let Some(effect) = &scope.effect {
            effects::check(effect)?;
        }
        let (answer, receiver) = oneshot::channel();
        let task = Self {
            tenant: scope.tenant.clone(),
            effect: scope.effect.clone(),
            op,
            now: scope.at(),
            change,
            then,
            made: None,
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
    fn apply(&mut self, connection: &Connection) -> Result<(), Refused> {
        self.made = None;
        self.made = Some(self.once(connection)?);
        Ok(())
    }

    fn panicked(&self) -> SurfaceError {
        let message = format!("{} failed with an internal error; nothing was changed", self.op);
        SurfaceError::new(Code::SurfaceUnavailable, message)
    }

    fn done(mut self: Box<Self>, outcome: Result<(), SurfaceError>) {
        let reply = match (outcome, self.made.take()) {
            (Ok(()), Some(answer)) => Ok(answer),
            (Err(error), _) => Err(error),
            (Ok(()), None) => Err(self.panicked()),
        };
        if let Ok(answer) = &reply
            && !self.is_old
        {
            (self.then)(answer);
        }
        // The caller may be gone; the change is done anyway.
        let _ = self.answer.send(reply);
    }

    fn now(&self) -> i64 {
        self.now
    }
}
