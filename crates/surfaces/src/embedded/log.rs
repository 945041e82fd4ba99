//! When the write-ahead log is checkpointed.
//!
//! By default SQLite checkpoints inside the commit that makes the log long, which delays the callers of that commit.
//! Here it runs after the replies are sent: once no change arrived for a few milliseconds, or under constant load every
//! [`LONG`] frames.

use disk::sqlite::{LogFrames, copy_log};
use rusqlite::Connection;

/// Log size in frames from which an idle checkpoint is worthwhile: 4 MiB.
const WORTH_IT: u32 = 1024;
/// Log size in frames from which a checkpoint runs in any case: 32 MiB, which is recovered in well under a second after
/// a crash.
const LONG: u32 = 8192;

pub(super) struct Log {
    frames: LogFrames,
    /// The log size at the last checkpoint, until the log restarts.
    tried_at: u32,
}

impl Log {
    pub(super) fn watch(writer: &mut Connection) -> rusqlite::Result<Self> {
        let frames = LogFrames::watch(writer)?;
        Ok(Self { frames, tried_at: 0 })
    }

    /// The number of frames since the last checkpoint attempt.
    fn new_frames(&mut self) -> u32 {
        let frames = self.frames.get();
        // The log was restarted.
        if frames < self.tried_at {
            self.tried_at = 0;
        }
        frames - self.tried_at
    }

    /// Whether to checkpoint when idle.
    pub(super) fn is_worth_copying(&mut self) -> bool {
        self.new_frames() >= WORTH_IT
    }

    /// Whether to checkpoint even if callers wait.
    pub(super) fn is_long(&mut self) -> bool {
        self.new_frames() >= LONG
    }

    pub(super) fn copy(&mut self, writer: &Connection) {
        // A checkpoint that fails, or is blocked by an old snapshot, is retried when the log is longer.
        copy_log(writer);
        self.tried_at = self.frames.get();
    }
}
