//! Whom there is no point in calling for a while.

use canon::time::Timestamp;

use std::collections::VecDeque;

/// After how many failures in a row nobody is called any more.
pub const FAILURES: u32 = 4;
/// For how long, in milliseconds.
pub const OPEN_MS: u64 = 60 * 60 * 1000;
/// After how many failures within [`WINDOW_MS`] a subscription is given up.
pub const GIVEN_UP: usize = 100;
/// A week.
pub const WINDOW_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// How often each attempt is made again, and after how long, in milliseconds.
const PAUSES_MS: [u64; 7] = [1000, 5000, 30_000, 120_000, 600_000, 1_800_000, 3_600_000];

/// When to try again after so many attempts; nothing when there were enough.
pub fn next_attempt(attempts: u32, now: Timestamp) -> Option<Timestamp> {
    let pause = usize::try_from(attempts).ok()?.checked_sub(1)?;
    PAUSES_MS.get(pause).map(|pause| now.plus(*pause))
}

/// What is known of how calls to one subscriber went.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    in_a_row: u32,
    open_until: Option<Timestamp>,
    failures: VecDeque<Timestamp>,
}

impl Breaker {
    /// Until when nobody is called; nothing when a call may be made. After the time one call may, as a probe.
    pub fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.open_until.filter(|until| *until > now)
    }

    /// A call went well.
    pub fn succeeded(&mut self) {
        self.in_a_row = 0;
        self.open_until = None;
    }

    /// A call failed. Says whether the subscription is given up.
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
