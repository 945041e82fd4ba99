//! Circuit breaker for webhook deliveries.

use canon::time::Timestamp;

use std::collections::VecDeque;

/// After how many consecutive failures the circuit opens.
pub const FAILURES: u32 = 4;
/// How long the circuit stays open, in milliseconds.
pub const OPEN_MS: u64 = 60 * 60 * 1000;
/// After how many failures within [`WINDOW_MS`] a subscription is disabled.
pub const GIVEN_UP: usize = 100;
/// The window for counting failures, in milliseconds: one week.
pub const WINDOW_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// The pauses between attempts, in milliseconds.
const PAUSES_MS: [u64; 7] = [1000, 5000, 30_000, 120_000, 600_000, 1_800_000, 3_600_000];
/// How often a delivery is attempted.
pub const MAX_ATTEMPTS: usize = PAUSES_MS.len() + 1;

/// When to retry after this number of attempts. `None` if no attempts are left.
pub fn next_attempt(attempts: u32, now: Timestamp) -> Option<Timestamp> {
    let pause = usize::try_from(attempts).ok()?.checked_sub(1)?;
    PAUSES_MS.get(pause).map(|pause| now.plus(*pause))
}

/// The delivery failures of one subscriber.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    in_a_row: u32,
    open_until: Option<Timestamp>,
    failures: VecDeque<Timestamp>,
}

impl Breaker {
    /// Until when the circuit is open. `None` if a call is allowed. When the time is over, the next call is a probe.
    pub fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.open_until.filter(|until| *until > now)
    }

    /// Records a successful call.
    pub fn succeeded(&mut self) {
        self.in_a_row = 0;
        self.open_until = None;
    }

    /// Records a failed call. Returns whether the subscription must be disabled.
    pub fn failed(&mut self, now: Timestamp) -> bool {
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.in_a_row >= FAILURES {
            self.open_until = Some(now.plus(OPEN_MS));
        }
        self.failures.push_back(now);
        while self.failures.front().is_some_and(|first| now.since(*first) > WINDOW_MS) {
            self.failures.pop_front();
        }
        self.failures.len() >= GIVEN_UP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_failures_in_a_row_stop_the_calls_for_an_hour_and_then_one_is_tried() {
        let mut breaker = Breaker::default();
        for failure in 1..FAILURES {
            breaker.failed(Timestamp(u64::from(failure)));
            assert_eq!(breaker.closed_until(Timestamp(10)), None, "{failure}");
        }
        breaker.failed(Timestamp(10));
        let until = Timestamp(10 + OPEN_MS);
        assert_eq!(breaker.closed_until(Timestamp(11)), Some(until));
        assert_eq!(breaker.closed_until(until), None, "a probe");
        breaker.failed(until);
        assert_eq!(breaker.closed_until(until), Some(until.plus(OPEN_MS)), "that failed as well");
        breaker.succeeded();
        assert_eq!(breaker.closed_until(until), None);
        assert!(!breaker.failed(until));
        assert_eq!(breaker.closed_until(until), None, "counted anew");
    }

    #[test]
    fn a_hundred_failures_in_a_week_are_the_end_and_older_ones_do_not_count() {
        let fail = |step: u64| {
            let mut breaker = Breaker::default();
            (0..GIVEN_UP as u64).filter(|number| breaker.failed(Timestamp(number * step))).count()
        };
        assert_eq!(fail(WINDOW_MS / 100), 1);
        assert_eq!(fail(WINDOW_MS / 90), 0);
    }

    #[test]
    fn attempts_are_made_further_and_further_apart_and_then_no_more() {
        let pauses: Vec<_> =
            (0..10).map(|attempts| next_attempt(attempts, Timestamp(0)).map(|at| at.0)).collect();
        assert_eq!(pauses[0], None, "nothing was tried yet");
        assert_eq!(pauses[1..8].iter().flatten().copied().collect::<Vec<_>>(), PAUSES_MS);
        assert_eq!(pauses[8..], [None, None]);
    }
}
