//! The embedded store of runs: one SQLite file.
//!
//! ```text
//!   commit ─► queue ─► writer thread: BEGIN … commit, commit, commit … COMMIT (one fsync) ─► done, done, done
//!   read   ─► a connection of the pool, its own snapshot of the file, never waits for the writer
//! ```
//!
//! The writer never waits for company: what queues up during one transaction is the next one. The log is in WAL mode
//! with `synchronous = FULL`, so a commit that was acknowledged survives a power cut.
//!
//! An append is one row: the texts of its events, one to a line, as streams and polls will send them. The folded
//! snapshot stands beside it in the run's own row, so reading a run folds nothing.

mod audit;
mod changes;
mod ended;
mod inspection;
mod listening;
mod memory;
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
use flow::id::{RunId, Tenant};
use flow::store::{Answer, AnswerKey, Cause, Commit, CommitError, Done, Read, ReadError, RunRow, RunStore};
use rusqlite::{Connection, OpenFlags};

pub use self::inspection::{Damage, Inspection};
use self::memory::Memory;
use self::seen::Loading;
use self::wal::WriteAheadLog;
use self::writer::{Commits, Writer};

const SETTINGS: Settings =
    Settings { cache_kib: 32 << 10, statements: 64, idle_readers: 16, prepare: |_| Ok(()) };

/// Why the database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// SQLite, or the disk below it.
    #[error("the database of runs cannot be opened")]
    Sqlite(#[from] rusqlite::Error),
    /// It was written by a newer version of this program.
    #[error("the database of runs has version {found}, and this program knows up to {known}")]
    Newer {
        /// Its version.
        found: i64,
        /// The newest version that is known.
        known: i64,
    },
    /// The file could not be created, or not be opened for writing.
    #[error("the database of runs cannot be created")]
    File(#[source] std::io::Error),
    /// The writer could not be started.
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
    /// Whether the file is there and is not what SQLite wrote, so that only a copy helps.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_damage(error))
    }
}

/// The runs of one data directory.
pub struct SqliteRuns {
    path: PathBuf,
    // Closed before the writer: the connection that is closed last copies the log into the file and removes it, and one that may
    // only read cannot.
    _loading: Loading,
    readers: Readers,
    writer: Writer,
    memory: Arc<Memory>,
    /// Whether SQLite found the file damaged while it read.
    damaged: AtomicBool,
}

impl fmt::Debug for SqliteRuns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SqliteRuns").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Copies any database of SQLite as it is at one moment, while somebody else uses it.
///
/// # Errors
/// Those of SQLite and of the disk.
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
        // A few megabytes at a time, so that progress can be told.
        let step = backup.step(1024)?;
        let told = backup.progress();
        let pages = |count: std::ffi::c_int| u64::try_from(count).unwrap_or(0);
        progress(pages(told.pagecount).saturating_sub(pages(told.remaining)), pages(told.pagecount));
        if step == rusqlite::backup::StepResult::Done {
            break;
        }
    }
    drop(backup);
    // What was copied is in the file of the copy alone, and on the disk.
    target.pragma_update(None, "journal_mode", "DELETE")?;
    target.pragma_update(None, "synchronous", "FULL")?;
    Ok(())
}

impl SqliteRuns {
    /// Opens the database, which is made or brought up to date where needed.
    ///
    /// # Errors
    /// When it cannot be opened, or is of a newer version.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let mut connection = writer(path)?;
        schema::migrate(&mut connection)?;
        let beside = writer(path)?;
        let log = WriteAheadLog::watch(&mut connection, beside, wal::LONG).map_err(OpenError::Thread)?;
        let memory = Arc::new(Memory::default());
        memory.seen.notice_others(&connection)?;
        let commits = Commits::new(log, Arc::clone(&memory));
        let writer = Writer::start("runs", connection, commits).map_err(OpenError::Thread)?;
        let readers = Readers::new(path, SETTINGS);
        let loading = Loading::start(&memory, readers.open()?).map_err(OpenError::Thread)?;
        Ok(Self {
            path: path.to_owned(),
            _loading: loading,
            readers,
            writer,
            memory,
            damaged: AtomicBool::new(false),
        })
    }

    /// Copies the database as it is at one moment, while it is used.
    ///
    /// # Errors
    /// Those of SQLite and of the disk.
    pub fn back_up(&self, to: &Path, progress: &dyn Fn(u64, u64)) -> Result<(), OpenError> {
        copy(&self.readers.open()?, to, progress)
    }

    /// Reads with a connection of the pool.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, ReadError> {
        self.readers.read(read).map_err(|error| {
            if is_damage(&error) {
                self.damaged.store(true, Ordering::Relaxed);
            }
            ReadError(Cause::new(error))
        })
    }

    fn submit(&self, commit: Commit, done: Done) {
        if let Err((_, done)) = self.writer.submit((commit, done)) {
            done(Err(CommitError::Closed));
        }
    }
}

fn writer(path: &Path) -> Result<Connection, OpenError> {
    let connection = open_writer(path, &SETTINGS)?;
    connection.pragma_update(None, "foreign_keys", "OFF")?;
    Ok(connection)
}

/// The contract of [`RunStore`], method by method; the queries are in `reads`.
impl RunStore for SqliteRuns {
    fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    fn commit(&self, commit: Commit, done: Done) {
        self.submit(commit, done);
    }

    fn run(&self, tenant: Option<&Tenant>, run_id: &RunId) -> Read<Option<RunRow>> {
        if let Some(known) = self.memory.ended.get(tenant, run_id) {
            return Ok(known);
        }
        let deletions = self.memory.ended.deletions();
        let row = self.read(|connection| reads::run(connection, tenant, run_id))?;
        if let Some(row) = &row {
            self.memory.ended.keep_read(row, deletions);
        }
        Ok(row)
    }

    fn answer(&self, key: &AnswerKey) -> Read<Option<Answer>> {
        let hash = reads::answer_hash(key);
        if !self.memory.seen.maybe(hash) {
            return Ok(None);
        }
        self.read(|connection| reads::answer_at(connection, hash, key))
    }

    reads::delegate!();
}
