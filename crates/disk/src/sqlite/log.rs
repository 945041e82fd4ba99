//! The write-ahead log. Each store decides when to checkpoint.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::Wal;

/// The number of log frames as of the last commit of one connection.
#[derive(Clone, Debug)]
pub struct LogFrames(Arc<AtomicU32>);

impl LogFrames {
    /// Starts counting. This also disables SQLite's automatic checkpoints.
    ///
    /// # Errors
    /// SQLite errors.
    pub fn watch(writer: &mut Connection) -> rusqlite::Result<Self> {
        let frames = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&frames);
        writer.wal_hook(Some(move |_: &mut Wal, count: c_int| {
            counted.store(u32::try_from(count).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self(frames))
    }

    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Checkpoints as much as possible without waiting for readers. Returns whether that was everything.
pub fn copy_log(connection: &Connection) -> bool {
    let copied = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        Ok(row.get::<_, i64>(0)? == 0 && row.get::<_, i64>(1)? == row.get::<_, i64>(2)?)
    });
    copied.unwrap_or_else(|error| {
        // Retried when the log is longer, and nothing is lost; but a log that only grows fills the disk.
        tracing::warn!(%error, "cannot checkpoint the write-ahead log");
        false
    })
}
