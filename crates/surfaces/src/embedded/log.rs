//! When the write-ahead log is copied into the file.
//!
//! Left to itself, SQLite copies the log inside the commit that makes it long, and whoever waits for that commit waits for the copy. Here
//! it is copied after the answers are out: as soon as nobody came for a few milliseconds, or, under a load that never pauses, once for
//! every [`LONG`] frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::Wal;

/// From how many frames on the log is copied when nobody waits: 4 MiB.
const WORTH_IT: u32 = 1024;
/// From how many frames on the log is copied in any case: 32 MiB, which is read back in well under a second after a crash.
const LONG: u32 = 8192;

pub(super) struct Log {
    frames: Arc<AtomicU32>,
    /// How many frames it had when it was copied last, as long as it has not begun anew since.
    tried_at: u32,
}

impl Log {
    pub(super) fn watch(writer: &mut Connection) -> rusqlite::Result<Self> {
        let frames = Arc::new(AtomicU32::new(0));
        let told = Arc::clone(&frames);
        writer.wal_hook(Some(move |_: &mut Wal, count: std::ffi::c_int| {
            told.store(u32::try_from(count).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { frames, tried_at: 0 })
    }

    /// How many frames it has that were not tried to be copied.
    fn new_frames(&mut self) -> u32 {
        let frames = self.frames.load(Ordering::Relaxed);
        // The log began anew since.
        if frames < self.tried_at {
            self.tried_at = 0;
        }
        frames - self.tried_at
    }

    /// Whether it is copied once nobody waits.
    pub(super) fn is_worth_copying(&mut self) -> bool {
        self.new_frames() >= WORTH_IT
    }

    /// Whether it is copied though somebody waits.
    pub(super) fn is_long(&mut self) -> bool {
        self.new_frames() >= LONG
    }

    /// Copies what it has.
    pub(super) fn copy(&mut self, writer: &Connection) {
        // One that fails, or that a reader of something old holds back, is made again when the log is longer; nothing is lost by it.
        let _ = writer.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        self.tried_at = self.frames.load(Ordering::Relaxed);
    }
}
