//! How connections are opened.

use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

/// How long a statement waits for another process, such as a backup, before it fails as busy.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The length that the log's file is cut to when the log begins again, after a reader of an old snapshot made it longer.
const LOG_FILE_BYTES: i64 = 64 << 20;

/// What differs from one database to the next.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How much memory the writer uses for pages.
    pub cache_kib: u32,
    /// How many prepared statements each connection keeps.
    pub statements: usize,
    /// How many idle connections are kept for readers. More are opened when more read at once, and closed afterwards.
    pub idle_readers: usize,
    /// Called for every connection, before its first statement.
    pub prepare: fn(&Connection) -> rusqlite::Result<()>,
}

/// Why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be created, or not be opened for writing.
    #[error("{} cannot be created", path.display())]
    Create {
        /// Its path.
        path: PathBuf,
        /// What the system reports.
        #[source]
        source: io::Error,
    },
    /// It was written by a newer version of this program.
    #[error("the database has version {found}, and this program knows versions up to {known}")]
    Newer {
        /// Its version.
        found: i64,
        /// The newest version that is known.
        known: i64,
    },
    /// SQLite could not open it.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Opens a connection that may write. The file is created where it does not exist, readable by its owner alone before
/// anything is in it; SQLite gives its companions the same mode.
///
/// # Errors
/// When the file cannot be created, or SQLite cannot use it.
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
    // The log is copied into the file by the store, when no commit waits for it.
    connection.pragma_update(None, "wal_autocheckpoint", 0_i64)?;
    connection.pragma_update(None, "journal_size_limit", LOG_FILE_BYTES)?;
    settle(&connection, settings)?;
    Ok(connection)
}

/// What readers and writers have in common.
pub(super) fn settle(connection: &Connection, settings: &Settings) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(settings.statements);
    // Statements are planned once. Without this SQLite plans a statement again whenever a bound value could decide whether a
    // partial index applies; the stores write such values out.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    (settings.prepare)(connection)
}

/// Makes a file readable by its owner alone. The directory around it is closed to others already, so a file system without
/// permissions is a warning and not an error.
pub fn restrict(path: &Path) {
    if let Err(error) = std::fs::set_permissions(path, Permissions::from_mode(0o600)) {
        tracing::warn!(path = %path.display(), %error, "the permissions of the database could not be restricted");
    }
}
