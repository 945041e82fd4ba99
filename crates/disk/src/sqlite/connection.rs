//! Opening connections.

use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

/// How long a statement waits for another process, such as a backup, before it fails as busy.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The size to which the log file is truncated on restart, after an old reader made it longer.
const LOG_FILE_BYTES: i64 = 64 << 20;

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The page cache size of the writer.
    pub cache_kib: u32,
    /// Prepared statements per connection.
    pub statements: usize,
    /// Idle reader connections. More are opened on demand and closed afterwards.
    pub idle_readers: usize,
    /// Called for every connection, before its first statement.
    pub prepare: fn(&Connection) -> rusqlite::Result<()>,
}

/// Why a database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot create {}", path.display())]
    Create {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// It was written by a newer version of this program.
    #[error("the database has version {found}; this program supports versions up to {known}")]
    Newer {
        found: i64,
        /// The newest supported version.
        known: i64,
    },
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Opens a writer connection. A new file is created owner-only before it has content; SQLite gives its journal files
/// the same mode.
///
/// # Errors
/// The file cannot be created, or SQLite cannot use it.
pub fn open_writer(path: &Path, settings: &Settings) -> Result<Connection, OpenError> {
    let created = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    created.map_err(|source| OpenError::Create { path: path.to_owned(), source })?;
    restrict(path);
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Negative means kibibytes, positive means pages.
    connection.pragma_update(None, "cache_size", -i64::from(settings.cache_kib))?;
    // The store runs checkpoints when no commit waits.
    connection.pragma_update(None, "wal_autocheckpoint", 0_i64)?;
    connection.pragma_update(None, "journal_size_limit", LOG_FILE_BYTES)?;
    settle(&connection, settings)?;
    Ok(connection)
}

/// The common settings of readers and writers.
pub(super) fn settle(connection: &Connection, settings: &Settings) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(settings.statements);
    // Statements are planned once. By default SQLite replans a statement whenever a bound value could enable a partial
    // index; the stores write such values as literals.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    (settings.prepare)(connection)
}

/// Makes a file owner-only. Its directory is already protected, so a file system without permissions only causes a
/// warning.
pub fn restrict(path: &Path) {
    if let Err(error) = std::fs::set_permissions(path, Permissions::from_mode(0o600)) {
        tracing::warn!(path = %path.display(), %error, "cannot restrict the permissions of the database");
    }
}
