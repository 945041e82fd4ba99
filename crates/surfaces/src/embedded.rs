//! The room that the embedded surfaces share: one SQLite file, one thread that writes, readers that wait for nobody.
//!
//! ```text
//!   change ─► bounded queue ─► writer thread: BEGIN · change, change, change · COMMIT (one fsync) ─► answer, answer, answer
//!   read   ─► a connection of the pool: its own snapshot of the file, never behind the writer
//! ```
//!
//! What queues up while one transaction is made durable is the next one, so callers that come together share a commit and one that comes
//! alone waits for nobody. A change that is refused is taken back alone; those beside it happen: where it had changed something already,
//! all of them are made again, each in a savepoint of its own. Savepoints cost more than most changes, and refusals that come late are rare.
//!
//! # Effects
//! A change under an effect's identity looks for the identity first, and stores it with its answer in the same transaction. The identity
//! is there if and only if the change is: a crash between the two cannot happen. Refusals change nothing and store nothing.

mod effects;
mod log;
mod schema;
mod task;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use disk::sqlite::{self, Readers};
use rusqlite::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::task::Task;
use self::writer::Writer;
use crate::apart;
use crate::call::{Scope, Tenant};
use crate::error::{Code, SurfaceError};
use crate::outlook::outlook;

pub use self::effects::{MAX_EFFECT_BYTES, RETENTION_MS};
pub use self::schema::Schema;
pub use self::task::Refused;

/// Why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// SQLite, or the disk below it.
    #[error("the database of {name} cannot be opened")]
    Sqlite {
        /// Which one.
        name: &'static str,
        /// What SQLite said.
        #[source]
        cause: rusqlite::Error,
    },
    /// It was written by a newer version of this program.
    #[error("the database of {name} has version {found}, and this program knows up to {known}")]
    Newer {
        /// Which one.
        name: &'static str,
        /// Its version.
        found: i64,
        /// The newest version that is known.
        known: i64,
    },
    /// A file or a folder beside it, or the thread that writes.
    #[error("{what}")]
    Io {
        /// What could not be done.
        what: String,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
}

impl OpenError {
    fn named(name: &'static str, error: sqlite::OpenError) -> Self {
        match error {
            sqlite::OpenError::Create { path, source } => {
                Self::Io { what: format!("{} cannot be made", path.display()), cause: source }
            }
            sqlite::OpenError::Newer { found, known } => Self::Newer { name, found, known },
            sqlite::OpenError::Sqlite(cause) => Self::Sqlite { name, cause },
        }
    }
}

/// One database. Dropping it writes what was handed over, and closes the file.
pub struct Database {
    name: &'static str,
    // Closed before the writer: the connection that is closed last copies the log into the file and removes it, and one that may only
    // read cannot.
    readers: Readers,
    writer: Writer,
}

impl fmt::Debug for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Database").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Database {
    /// Opens the file, which is made or brought up to date where needed.
    ///
    /// # Errors
    /// When it cannot be opened, or is of a newer version.
    pub fn open(path: &Path, schema: &'static Schema) -> Result<Self, OpenError> {
        let name = schema.name;
        let connection = schema::open_writer(path, schema)?;
        let readers = Readers::new(path, schema::settings(schema));
        // Fails here and not at the first read.
        readers.read(|_| Ok(())).map_err(|cause| OpenError::Sqlite { name, cause })?;
        let writer = Writer::start(connection, schema).map_err(|cause| {
            let what = format!("the writer of {name} could not be started");
            OpenError::Io { what, cause }
        })?;
        Ok(Self { name, readers, writer })
    }

    /// Makes a change, at most once where the scope has an effect's identity. It is on the disk when this returns.
    ///
    /// `op` names what is done, as in `kv.set`: an identity is good for one operation. `change` may be called again when a change beside
    /// it was refused and the transaction of both was rolled back, so it does nothing but what it does to the connection.
    ///
    /// # Errors
    /// The refusal of the change, which then left no trace, or `surface_unavailable`.
    pub async fn change<T, F>(&self, scope: &Scope, op: &'static str, change: F) -> Result<T, SurfaceError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(&Connection) -> Result<T, Refused> + Send + 'static,
    {
        self.change_then(scope, op, change, |_| ()).await
    }

    /// As [`Database::change`], and `then` is called with the answer once it is on the disk, even when the caller has gone away. It is
    /// not called for an answer that was stored before. It runs on the thread that writes, so it has to be quick.
    ///
    /// # Errors
    /// As [`Database::change`].
    pub async fn change_then<T, F, A>(
        &self,
        scope: &Scope,
        op: &'static str,
        change: F,
        then: A,
    ) -> Result<T, SurfaceError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(&Connection) -> Result<T, Refused> + Send + 'static,
        A: FnOnce(&T) + Send + 'static,
    {
        let (task, answer) = Task::new(scope, op, change, then)?;
        self.writer.submit(Box::new(task)).await.map_err(|()| self.closed())?;
        answer.await.map_err(|_| self.closed())?
    }

    /// The answer that is stored for the effect of this scope, if there is one. For surfaces whose change is not in this file.
    ///
    /// # Errors
    /// As [`Database::change`].
    pub fn stored<T: DeserializeOwned>(&self, scope: &Scope, op: &str) -> Result<Option<T>, SurfaceError> {
        let Some(effect) = &scope.effect else { return Ok(None) };
        effects::check(effect)?;
        self.read(|connection| effects::find(connection, &scope.tenant, effect, op))
    }

    /// Reads on the calling thread, with its own snapshot. For what is bounded and short.
    ///
    /// # Errors
    /// The refusal of the read, or `surface_unavailable`.
    pub fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Refused>) -> Result<T, SurfaceError> {
        self.readers.read(read).map_err(|refused| match refused {
            Refused::Change(error) => error,
            Refused::Sqlite(cause) => {
                tracing::warn!(store = self.name, error = %cause, "a store could not be read");
                failure(self.name, &cause)
            }
        })
    }

    /// Reads on a thread of its own, for a page of rows.
    ///
    /// # Errors
    /// As [`Database::read`].
    pub async fn read_apart<T, F>(self: &Arc<Self>, read: F) -> Result<T, SurfaceError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Refused> + Send + 'static,
    {
        let database = Arc::clone(self);
        match tokio::task::spawn_blocking(move || database.read(read)).await {
            Ok(told) => told,
            Err(_) => Err(self.closed()),
        }
    }

    /// Reads on a thread that gives way to everything else, for what goes through a lot of rows. Tenants take turns.
    ///
    /// # Errors
    /// As [`Database::read`].
    pub async fn read_long<T, F>(self: &Arc<Self>, tenant: &Tenant, read: F) -> Result<T, SurfaceError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Refused> + Send + 'static,
    {
        let database = Arc::clone(self);
        match apart::run(tenant, move || database.read(read)).await {
            Some(told) => told,
            None => Err(self.closed()),
        }
    }

    fn closed(&self) -> SurfaceError {
        let message = format!("the store of {} is being closed; make the call again later", self.name);
        SurfaceError::new(Code::SurfaceUnavailable, message)
    }
}

/// SQLite's error as one of a call. Its text names tables and no values.
fn failure(name: &str, cause: &rusqlite::Error) -> SurfaceError {
    let message = format!("the store of {name} failed: {cause}; {}", outlook(cause));
    SurfaceError::new(Code::SurfaceUnavailable, message)
}
