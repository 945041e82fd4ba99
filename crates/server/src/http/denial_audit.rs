//! Who was turned away, in the audit log.
//!
//! Every 401 and 403 is recorded, up to a number in each minute: more come from a program that tries keys, or from one that
//! wants the disk full, and one line with their count says as much as a line for each.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many are recorded in a window. Each is a line of some 300 bytes, and takes part in one fsync.
const RECORDED: u32 = 120;
/// How long a window is.
const WINDOW: Duration = Duration::from_secs(60);

/// Counts what is recorded and what is not.
#[derive(Debug, Default)]
pub(super) struct DenialAudit(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    since: Option<Instant>,
    recorded: u32,
    left_out: u64,
}

impl DenialAudit {
    /// Whether a denial is recorded, and how many before it were not.
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
    fn what_a_flood_leaves_out_is_counted() {
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
