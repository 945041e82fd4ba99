//! Records refused requests (401 and 403) in the audit log.
//!
//! At most a fixed number is recorded per minute. More than that comes from a program that guesses keys or tries to fill the disk,
//! and one entry with their count is enough.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of entries per window. Each is about 300 bytes and takes part in one fsync.
const RECORDED: u32 = 120;
/// The length of a window.
const WINDOW: Duration = Duration::from_secs(60);

/// Counts recorded and suppressed refusals.
#[derive(Debug, Default)]
pub(super) struct DenialAudit(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    since: Option<Instant>,
    recorded: u32,
    left_out: u64,
}

impl DenialAudit {
    /// Returns `Some` if a refusal is to be recorded, with the number of suppressed refusals before it.
    pub(super) fn admit(&self, now: Instant) -> Option<u64> {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = window.since.is_none_or(|since| now.duration_since(since) >= WINDOW);
        if is_over {
            window.since = Some(now);
            window.recorded = 0;
        }
        if window.recorded >= RECORDED {
            window.left_out += 1;
            return None;
        }
        window.recorded += 1;
        Some(std::mem::take(&mut window.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suppressed_audit_entries_are_counted() {
        let denials = DenialAudit::default();
        let start = Instant::now();
        for _ in 0..RECORDED {
            assert_eq!(denials.admit(start), Some(0));
        }
        for _ in 0..5 {
            assert_eq!(denials.admit(start + WINDOW / 2), None);
        }
        assert_eq!(denials.admit(start + WINDOW), Some(5));
        assert_eq!(denials.admit(start + WINDOW), Some(0));
    }
}
