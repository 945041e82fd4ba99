//! The database of the embedded surfaces: one SQLite file, one writer thread, concurrent readers.
//!
//! ```text
//!   change ─► bounded queue ─► writer thread: BEGIN · change, change, change · COMMIT (one fsync) ─► replies
//!   read   ─► a pooled connection: its own snapshot of the file, never blocked by the writer
//! ```
//!
//! Changes that queue up during a commit form the next transaction, so concurrent callers share a commit and a single
//! caller never waits for others. A failed change does not affect the others of its transaction: if it had already
//! modified something, the transaction is rolled back and all changes are applied again, each in a savepoint.
//! Savepoints cost more than most changes, and late failures are rare.
//!
//! # Effects
//!
//! A change with an effect id first looks up the id, and stores it with its result in the same transaction. Both are
//! stored or neither, even after a crash. Failed changes store nothing.

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
use crate::call::{Scope, Tenant};
use crate::error::{Code, SurfaceError};
use crate::retry_advice::retry_advice;
use crate::scan_pool;

pub use self::effects::{MAX_EFFECT_BYTES, RETENTION_MS};
pub use self::schema::Schema;
pub use self::task::Refused;

/// Why a database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot open the {name} database")]
    Sqlite {
        name: &'static str,
        #[source]
        cause: rusqlite::Error,
    },
    /// It was written by a newer version of this program.
    #[error("the {name} database has version {found}; this program supports versions up to {known}")]
    Newer {
        name: &'static str,
        found: i64,
        /// The newest supported version.
        known: i64,
    },
    /// A file or folder beside the database, or the writer thread.
    #[error("{what}")]
    Io {
        what: String,
        #[source]
        cause: std::io::Error,
    },
}

impl OpenError {
    fn named(name: &'static str, error: sqlite::OpenError) -> Self {
        match error {
            sqlite::OpenError::Create { path, source } => {
                Self::Io { what: format!("cannot create {}", path.display()), cause: source }
            }
            sqlite::OpenError::Newer { found, known } => Self::Newer { name, found, known },
            sqlite::OpenError::Sqlite(cause) => Self::Sqlite { name, cause },
        }
    }
}

/// A database. Dropping it commits the submitted changes and closes the file.
pub struct Database {
    name: &'static str,
    // Closed before the writer: the connection that closes last checkpoints and removes the log, which a read-only
    // connection cannot do.
    readers: Readers,
    writer: Writer,
}

impl fmt::Debug for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Database").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Database {
    /// Opens the file; creates or migrates it if needed.
    ///
    /// # Errors
    /// The file cannot be opened or has a newer version.
    pub fn open(path: &Path, schema: &'static Schema) -> Result<Self, OpenError> {
        let name = schema.name;
        let connection = schema::open_writer(path, schema)?;
        let readers = Readers::new(path, schema::settings(schema));
        // Fails here rather than at the first read.
        readers.read(|_| Ok(())).map_err(|cause| OpenError::Sqlite { name, cause })?;
        let writer = Writer::start(connection, schema).map_err(|cause| {
            let what = format!("cannot start the writer thread of {name}");
            OpenError::Io { what, cause }
        })?;
        Ok(Self { name, readers, writer })
    }

    /// Applies a change, at most once if the scope has an effect id. It is durable when this returns.
    ///
    /// `op` names the operation, such as `kv.set`: an effect id is valid for one operation. `change` may be called
    /// again if another change failed and their transaction was rolled back, so it must have no side effects outside
    /// the connection.
    ///
    /// # Errors
    /// The error of the change, which then had no effect, or `surface_unavailable`.
    pub async fn change<T, F>(&self, scope: &Scope, op: &'static str, change: F) -> Result<T, SurfaceError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(&Connection) -> Result<T, Refused> + Send + 'static,
    {
        self.change_then(scope, op, change, |_| ()).await
    }

    /// As [`Database::change`]; calls `then` with the result once it is durable, even if the caller is gone. It is not
    /// called for a stored result. It runs on the writer thread, so it must be quick.
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

    /// The stored result of the scope's effect id, if any. For surfaces whose change is not in this file.
    ///
    /// # Errors
    /// As [`Database::change`].
    pub fn stored<T: DeserializeOwned>(&self, scope: &Scope, op: &str) -> Result<Option<T>, SurfaceError> {
        let Some(effect) = &scope.effect else { return Ok(None) };
        effects::check(effect)?;
        self.read(|connection| effects::find(connection, &scope.tenant, effect, op))
    }

    /// Reads on the calling thread with its own snapshot. For short, bounded reads.
    ///
    /// # Errors
    /// The error of the read, or `surface_unavailable`.
    pub fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Refused>) -> Result<T, SurfaceError> {
        self.readers.read(read).map_err(|refused| match refused {
            Refused::Change(error) => error,
            Refused::Sqlite(cause) => {
                tracing::warn!(store = self.name, error = %cause, "cannot read a surface database");
                failure(self.name, &cause)
            }
        })
    }

    /// Reads on a blocking thread, for a page of rows.
    ///
    /// # Errors
    /// As [`Database::read`].
    pub async fn read_blocking<T, F>(self: &Arc<Self>, read: F) -> Result<T, SurfaceError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Refused> + Send + 'static,
    {
        let database = Arc::clone(self);
        match tokio::task::spawn_blocking(move || database.read(read)).await {
            Ok(reply) => reply,
            Err(_) => Err(self.closed()),
        }
    }

    /// Reads on the low-priority pool, for long scans. Tenants take turns.
    ///
    /// # Errors
    /// As [`Database::read`].
    pub async fn read_long<T, F>(self: &Arc<Self>, tenant: &Tenant, read: F) -> Result<T, SurfaceError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Refused> + Send + 'static,
    {
        let database = Arc::clone(self);
        match scan_pool::run(tenant, move || database.read(read)).await {
            Some(reply) => reply,
            None => Err(self.closed()),
        }
    }

    fn closed(&self) -> SurfaceError {
        let message = format!("the {} store is shutting down; retry later", self.name);
        SurfaceError::new(Code::SurfaceUnavailable, message)
    }
}

/// Converts an SQLite error. Its message names tables, but no values.
fn failure(name: &str, cause: &rusqlite::Error) -> SurfaceError {
    let message = format!("the {name} store failed: {cause}; {}", retry_advice(cause));
    SurfaceError::new(Code::SurfaceUnavailable, message)
}
