//! The write-ahead log. Each store decides when it is copied into the file.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::Wal;

/// How many frames the log has, as of the last commit of one connection.
#[derive(Clone, Debug)]
pub struct LogFrames(Arc<AtomicU32>);

impl LogFrames {
    /// Counts from now on. This also ends SQLite's own copying.
    ///
    /// # Errors
    /// SQLite's.
    pub fn watch(writer: &mut Connection) -> rusqlite::Result<Self> {
        let frames = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&frames);
        writer.wal_hook(Some(move |_: &mut Wal, count: c_int| {
            counted.store(u32::try_from(count).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self(frames))
    }

    /// The count.
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Copies as much of the log as can be copied without waiting for readers. Says whether that was all of it.
pub fn copy_log(connection: &Connection) -> bool {
    let copied = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        Ok(row.get::<_, i64>(0)? == 0 && row.get::<_, i64>(1)? == row.get::<_, i64>(2)?)
    });
    copied.unwrap_or_else(|error| {
        // It is tried again when the log is longer, and nothing is lost; but a log that only grows fills the disk.
        tracing::warn!(%error, "the write-ahead log could not be copied into the database");
        false
    })
}
