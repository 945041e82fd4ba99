//! Growing delays between the attempts of background work.

use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Counts failed attempts. The caller logs each of them with its cause.
#[derive(Debug)]
pub struct Backoff {
    attempt: u32,
    pause: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

impl Backoff {
    pub const fn new() -> Self {
        Self { attempt: 0, pause: FIRST_PAUSE }
    }

    /// Counts a failed attempt. Returns its number, and the delay before the next.
    pub fn failed(&mut self) -> (u32, Duration) {
        let pause = self.pause;
        self.attempt = self.attempt.saturating_add(1);
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        (self.attempt, pause)
    }

    /// Like [`Backoff::failed`], with the delay that the other side requested, up to the maximum.
    pub fn failed_until(&mut self, retry_after: Option<u64>) -> (u32, Duration) {
        let (attempt, pause) = self.failed();
        (attempt, retry_after.map_or(pause, Duration::from_secs).min(LONGEST_PAUSE))
    }
}

/// A delay in milliseconds, for the log.
pub fn millis(pause: Duration) -> u64 {
    u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::new();
        let failed: Vec<_> = (0..9).map(|_| backoff.failed()).map(|(n, pause)| (n, millis(pause))).collect();
        let pauses = [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000];
        assert_eq!(failed, (1..).zip(pauses).collect::<Vec<_>>());
        assert_eq!(backoff.failed_until(Some(2)), (10, Duration::from_secs(2)));
        assert_eq!(backoff.failed_until(Some(3600)), (11, LONGEST_PAUSE));
    }
}
