//! Timers of runs.

use canon::time::Timestamp;
use flow::id::RunId;

use super::ReadFuture;

/// Reads timers.
pub trait Timers {
    /// The timers that are due at a time, earliest first.
    fn due_timers(&self, at: Timestamp, limit: usize) -> ReadFuture<'_, Vec<Timer>>;

    /// The earliest timer.
    fn next_timer(&self) -> ReadFuture<'_, Option<Timer>>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct Timer {
    pub run_id: RunId,
    /// What the timer is for, encoded by the host.
    pub key: String,
    pub at: Timestamp,
}
