//! The embedded store of runs: one SQLite file.
//!
//! ```text
//!   commit ─► queue ─► writer thread: BEGIN … commit, commit, commit … COMMIT (one fsync) ─► futures resolve
//!   read   ─► memory: answered immediately
//!          └► queue ─► a reader thread with its own connection, which never waits for the writer
//! ```
//!
//! The writer does not delay a transaction to collect more commits: commits that queue up during one transaction form the
//! next. The database is in WAL mode with `synchronous = FULL`, so an acknowledged commit survives a power failure.
//!
//! An append is one row: the texts of its events, one per line, as streams and polls send them. The snapshot is in the
//! row of the run, so reading a run requires no folding.

mod audit;
mod changes;
mod ended;
mod inspection;
mod listening;
mod memory;
mod query;
mod reader_threads;
mod reads;
mod retention;
mod schema;
mod seen;
mod wal;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use disk::sqlite::{self, BUSY_TIMEOUT, Readers, Settings, is_damage, open_writer, restrict};
use ports::runs::{Commit, CommitError, CommitFuture, Commits, Health, ReadError, ReadFuture};
use ports::{Cause, PortFuture};
use rusqlite::{Connection, OpenFlags};

pub use self::inspection::{Damage, Inspection};
use self::memory::Memory;
use self::reader_threads::ReaderThreads;
use self::seen::Loading;
use self::wal::WriteAheadLog;
use self::writer::{Batches, Writer};

const SETTINGS: Settings =
    Settings { cache_kib: 32 << 10, statements: 64, idle_readers: 0, prepare: |_| Ok(()) };

/// Why the database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An error of SQLite or of the disk.
    #[error("the database of runs cannot be opened")]
    Sqlite(#[from] rusqlite::Error),
    /// It was written by a newer version of this program.
    #[error("the database of runs has version {found}, and this program knows up to {known}")]
    Newer {
        /// The version of the database.
        found: i64,
        /// The newest supported version.
        known: i64,
    },
    /// The file could not be created, or could not be opened for writing.
    #[error("the database of runs cannot be created")]
    File(#[source] std::io::Error),
    /// The writer thread could not be started.
    #[error("the writer of the database could not be started")]
    Thread(#[source] std::io::Error),
}

impl From<sqlite::OpenError> for OpenError {
    fn from(error: sqlite::OpenError) -> Self {
        match error {
            sqlite::OpenError::Create { source, .. } => Self::File(source),
            sqlite::OpenError::Newer { found, known } => Self::Newer { found, known },
            sqlite::OpenError::Sqlite(error) => Self::Sqlite(error),
        }
    }
}

impl OpenError {
    /// Whether the file exists but is damaged, so that it must be restored from a backup.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_damage(error))
    }
}

/// The runs of one data directory.
pub struct SqliteRuns {
    path: PathBuf,
    // Fields are dropped in order. Read-only connections must close before the writer: the last connection to close
    // copies the log into the file and removes the log, which a read-only connection cannot do.
    _loading: Loading,
    readers: ReaderThreads,
    writer: Writer,
    memory: Arc<Memory>,
    /// Whether a read found the file damaged.
    damaged: Arc<AtomicBool>,
}

impl fmt::Debug for SqliteRuns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SqliteRuns").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Copies an SQLite database at one point in time, while it is in use.
///
/// # Errors
/// Errors of SQLite and of the disk.
pub fn copy_database(from: &Path, to: &Path) -> Result<(), OpenError> {
    let source = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    source.busy_timeout(BUSY_TIMEOUT)?;
    copy(&source, to, &|_, _| ())
}

fn copy(source: &Connection, to: &Path, progress: &dyn Fn(u64, u64)) -> Result<(), OpenError> {
    let mut target = Connection::open(to)?;
    restrict(to);
    let backup = rusqlite::backup::Backup::new(source, &mut target)?;
    loop {
        // A few megabytes at a time, so that progress can be reported.
        let step = backup.step(1024)?;
        let done = backup.progress();
        let pages = |count: std::ffi::c_int| u64::try_from(count).unwrap_or(0);
        progress(pages(done.pagecount).saturating_sub(pages(done.remaining)), pages(done.pagecount));
        if step == rusqlite::backup::StepResult::Done {
            break;
        }
    }
    drop(backup);
    // The copy is a single file, and synced.
    target.pragma_update(None, "journal_mode", "DELETE")?;
    target.pragma_update(None, "synchronous", "FULL")?;
    Ok(())
}

impl SqliteRuns {
    /// Opens the database. Creates or migrates it if necessary.
    ///
    /// # Errors
    /// It cannot be opened, or has a newer version.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let mut connection = writer(path)?;
        schema::migrate(&mut connection)?;
        let beside = writer(path)?;
        let log = WriteAheadLog::watch(&mut connection, beside, wal::LONG).map_err(OpenError::Thread)?;
        let memory = Arc::new(Memory::default());
        memory.seen.notice_others(&connection)?;
        let batches = Batches::new(log, Arc::clone(&memory));
        let writer = Writer::start("runs", connection, batches).map_err(OpenError::Thread)?;
        let connections = Readers::new(path, SETTINGS);
        let loading = Loading::start(&memory, connections.open()?).map_err(OpenError::Thread)?;
        let readers = ReaderThreads::start(connections).map_err(OpenError::Thread)?;
        Ok(Self {
            path: path.to_owned(),
            _loading: loading,
            readers,
            writer,
            memory,
            damaged: Arc::default(),
        })
    }

    /// Copies the database at one point in time, while it is in use.
    ///
    /// # Errors
    /// Errors of SQLite and of the disk.
    pub fn back_up(&self, to: &Path, progress: &dyn Fn(u64, u64)) -> Result<(), OpenError> {
        copy(&Readers::new(&self.path, SETTINGS).open()?, to, progress)
    }

    /// Runs a query on a reader thread.
    fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> ReadFuture<'_, T> {
        let (responder, result) =
            PortFuture::channel(|| Err(ReadError::Store(Cause::new("the query did not finish"))));
        let damaged = Arc::clone(&self.damaged);
        self.readers.submit(Box::new(move |connection| {
            // The caller may have dropped the future while the query was queued.
            if responder.is_abandoned() {
                return;
            }
            let read = connection.and_then(query).map_err(|error| {
                if is_damage(&error) {
                    damaged.store(true, Ordering::Relaxed);
                }
                ReadError::Store(Cause::new(error))
            });
            // The caller may have dropped the future while the query ran.
            let _ = responder.send(read);
        }));
        result
    }
}

fn writer(path: &Path) -> Result<Connection, OpenError> {
    let connection = open_writer(path, &SETTINGS)?;
    connection.pragma_update(None, "foreign_keys", "OFF")?;
    Ok(connection)
}

impl Commits for SqliteRuns {
    fn commit(&self, commit: Commit) -> CommitFuture {
        let (responder, outcome) = PortFuture::channel(|| {
            // The writer thread ended after it took the commit and before it reported the outcome.
            Err(CommitError::OutcomeUnknown(Cause::new("the writer of the database ended")))
        });
        match self.writer.submit((commit, responder)) {
            Ok(()) => outcome,
            Err(_) => PortFuture::ready(Err(CommitError::Closed)),
        }
    }
}

impl Health for SqliteRuns {
    fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }
}
