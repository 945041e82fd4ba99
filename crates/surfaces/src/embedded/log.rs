//! When the write-ahead log is copied into the file.
//!
//! Left to itself, SQLite copies the log inside the commit that makes it long, and whoever waits for that commit waits for the copy. Here
//! it is copied after the answers are out: as soon as nobody came for a few milliseconds, or, under a load that never pauses, once for
//! every [`LONG`] frames.

use disk::sqlite::{LogFrames, copy_log};
use rusqlite::Connection;

/// From how many frames on the log is copied when nobody waits: 4 MiB.
const WORTH_IT: u32 = 1024;
/// From how many frames on the log is copied in any case: 32 MiB, which is read back in well under a second after a crash.
const LONG: u32 = 8192;

pub(super) struct Log {
    frames: LogFrames,
    /// How many frames it had when it was copied last, as long as it has not begun anew since.
    tried_at: u32,
}

impl Log {
    pub(super) fn watch(writer: &mut Connection) -> rusqlite::Result<Self> {
        let frames = LogFrames::watch(writer)?;
        Ok(Self { frames, tried_at: 0 })
    }

    /// How many frames it has that were not tried to be copied.
    fn new_frames(&mut self) -> u32 {
        let frames = self.frames.get();
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
        // A copy that fails, or that a reader of an old snapshot holds back, is made again when the log is longer.
        copy_log(writer);
        self.tried_at = self.frames.get();
    }
}
