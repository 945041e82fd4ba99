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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow::store::{Answer, AnswerKey, Cause, Commit, CommitError, Done, Read, ReadError, RunRow, RunStore};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

pub use self::inspection::{Damage, Inspection};
use self::memory::Memory;
use self::seen::Loading;
use self::wal::WriteAheadLog;
use self::writer::Writer;

/// How many idle connections are kept for readers. More are made when more read at once, and closed afterwards.
const IDLE_READERS: usize = 16;
/// How long a statement waits for another process, such as a backup, before it gives up.
const BUSY: Duration = Duration::from_secs(10);

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
    /// The writer could not be started.
    #[error("the writer of the database could not be started")]
    Thread(#[source] std::io::Error),
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
    readers: Mutex<Vec<Connection>>,
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
    source.busy_timeout(BUSY)?;
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
        let mut connection = Connection::open(path)?;
        restrict(path);
        configure(&connection)?;
        schema::migrate(&mut connection)?;
        let beside = Connection::open(path)?;
        configure(&beside)?;
        let log = WriteAheadLog::watch(&mut connection, beside, wal::LONG).map_err(OpenError::Thread)?;
        let memory = Arc::new(Memory::default());
        memory.seen.notice_others(&connection)?;
        let writer = Writer::start(connection, log, Arc::clone(&memory)).map_err(OpenError::Thread)?;
        let loading = Loading::start(&memory, reader(path)?).map_err(OpenError::Thread)?;
        Ok(Self {
            path: path.to_owned(),
            _loading: loading,
            readers: Mutex::default(),
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
        copy(&reader(&self.path)?, to, progress)
    }

    /// Reads with a connection of the pool.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, ReadError> {
        let idle = self.readers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
        let failed = |error: rusqlite::Error| {
            if is_damage(&error) {
                self.damaged.store(true, Ordering::Relaxed);
            }
            ReadError(Cause::new(error))
        };
        let connection = match idle {
            Some(connection) => connection,
            None => reader(&self.path).map_err(failed)?,
        };
        let result = read(&connection).map_err(failed);
        let mut readers = self.readers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if readers.len() < IDLE_READERS {
            readers.push(connection);
        }
        result
    }

    fn submit(&self, commit: Commit, done: Done) {
        if let Err(done) = self.writer.submit(commit, done) {
            done(Err(CommitError::Closed));
        }
    }
}

/// Whether SQLite says that the file is not what it wrote.
fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    plan_once(&connection)?;
    Ok(connection)
}

/// Keeps statements as they were planned. Without this SQLite plans a statement again whenever a value is bound that an index of some
/// rows could depend on; here such values are written out.
fn plan_once(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(64);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Owner-only, as everything in a data directory. The directory itself is closed to others already.
fn restrict(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    // A file system without permissions is not a reason to refuse, but the owner should know.
    if let Err(error) = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)) {
        tracing::warn!(path = %path.display(), %error, "the permissions of the database could not be restricted");
    }
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", "OFF")?;
    // 32 MiB for the pages of the writer; negative means kibibytes.
    connection.pragma_update(None, "cache_size", -32_768_i64)?;
    // The log is copied into the file by `wal`.
    connection.pragma_update(None, "wal_autocheckpoint", 0_i64)?;
    plan_once(connection)
}

/// The contract of [`RunStore`], method by method; the queries are in `reads`.
impl RunStore for SqliteRuns {
    fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    fn commit(&self, commit: Commit, done: Done) {
        self.submit(commit, done);
    }

    fn run(&self, tenant: Option<&str>, run_id: &str) -> Read<Option<RunRow>> {
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
