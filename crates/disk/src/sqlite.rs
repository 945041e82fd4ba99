//! A SQLite file with one thread that writes, and readers that never wait for it.
//!
//! ```text
//!   job  ─► queue ─► writer thread: BEGIN · job, job, job · COMMIT (one fsync) ─► done, done, done
//!   read ─► a connection of the pool: its own snapshot of the file
//! ```
//!
//! The log is in WAL mode with `synchronous = FULL`, so a commit that was acknowledged survives a power cut.

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

/// Whether SQLite says that the file is not what it wrote, so that only a copy helps.
pub fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}
