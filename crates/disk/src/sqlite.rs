//! An SQLite file with one writer thread and concurrent readers.
//!
//! ```text
//!   job  ─► queue ─► writer thread: BEGIN · job, job, job · COMMIT (one fsync) ─► done, done, done
//!   read ─► a pooled connection with its own snapshot of the file
//! ```
//!
//! WAL mode with `synchronous = FULL`: an acknowledged commit survives a power failure.

mod connection;
mod log;
mod readers;
mod version;
mod writer;

pub use self::connection::{BUSY_TIMEOUT, OpenError, Settings, open_writer, restrict};
pub use self::log::{LogFrames, copy_log};
pub use self::readers::Readers;
pub use self::version::{check_version, migrate};
pub use self::writer::{MAX_BATCH, Panicked, Refused, Work, Writer, in_savepoint};

/// Whether SQLite reports that the file is damaged, so that only a backup helps.
pub fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}
