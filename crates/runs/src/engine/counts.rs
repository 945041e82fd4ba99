//! Counters of runs, for monitoring.
//!
//! Only durable changes are counted. The counters have no labels for runs or tenants, so their number is constant.

use std::sync::atomic::{AtomicU64, Ordering};

use flow::event::{Event, EventData};
use flow::run::RunStatus;
use flow::state::RunState;

/// The upper bounds of the duration buckets, in milliseconds.
pub const DURATION_BOUNDS_MS: [u64; 10] =
    [10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000];

/// What one decision adds to the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    attempts: u32,
    interrupts: u32,
    caps: u32,
    /// Tokens of models: input and output.
    tokens: (u64, u64),
    /// The durations of completed nodes.
    nodes: Durations,
    /// How the run ended and after how many milliseconds, if it ended.
    ended: Option<(RunStatus, u64)>,
}

impl Tally {
    pub(super) fn of(events: &[Event], state: &RunState) -> Self {
        let mut tally = Self::default();
        for event in events {
            match &event.data {
                EventData::NodeStarted(_) => tally.attempts += 1,
                EventData::NodeCompleted(completed) => tally.nodes.add(completed.duration_ms),
                EventData::ProviderUsage(usage) => {
                    tally.tokens.0 = tally.tokens.0.saturating_add(usage.input_tokens);
                    tally.tokens.1 = tally.tokens.1.saturating_add(usage.output_tokens);
                }
                EventData::InterruptRequested(_) => tally.interrupts += 1,
                EventData::CapBreached(_) => tally.caps += 1,
                _ => {}
            }
        }
        if !events.is_empty() && state.status.is_terminal() {
            let took = state.completed_at.zip(state.started_at).map(|(end, start)| end.since(start));
            tally.ended = Some((state.status, took.unwrap_or(0)));
        }
        tally
    }
}

/// A histogram of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// The number of durations.
    pub count: u64,
    /// Their sum, in milliseconds.
    pub sum_ms: u64,
    /// How many of them are at most each of [`DURATION_BOUNDS_MS`].
    pub within: [u64; DURATION_BOUNDS_MS.len()],
}

impl Durations {
    fn add(&mut self, took: u64) {
        self.count += 1;
        self.sum_ms = self.sum_ms.saturating_add(took);
        for (within, bound) in self.within.iter_mut().zip(DURATION_BOUNDS_MS) {
            *within += u64::from(took <= bound);
        }
    }
}

/// [`Durations`] with atomic counters.
#[derive(Debug, Default)]
struct Histogram {
    count: AtomicU64,
    sum_ms: AtomicU64,
    within: [AtomicU64; DURATION_BOUNDS_MS.len()],
}

impl Histogram {
    fn add(&self, durations: &Durations) {
        if durations.count > 0 {
            add(&self.count, durations.count);
            add(&self.sum_ms, durations.sum_ms);
            self.within.iter().zip(durations.within).for_each(|(within, number)| add(within, number));
        }
    }

    fn now(&self) -> Durations {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Durations {
            count: read(&self.count),
            sum_ms: read(&self.sum_ms),
            within: std::array::from_fn(|place| read(&self.within[place])),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    created: AtomicU64,
    /// Runs that were active at the start.
    recovered: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    attempts: AtomicU64,
    interrupts: AtomicU64,
    caps: AtomicU64,
    conflicts: AtomicU64,
    tokens_in: AtomicU64,
    tokens_out: AtomicU64,
    runs: Histogram,
    nodes: Histogram,
    activities: Histogram,
}

/// The values of the counters since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs that were created, including forks and children.
    pub created: u64,
    /// Runs that are active.
    pub active: u64,
    /// Runs that completed.
    pub completed: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Runs that were cancelled.
    pub cancelled: u64,
    /// Attempts of nodes.
    pub attempts: u64,
    /// Interrupts that were raised.
    pub interrupts: u64,
    /// Limits that were exceeded.
    pub caps: u64,
    /// Decisions that were repeated after a conflict with another writer.
    pub conflicts: u64,
    /// Input tokens of models, as reported by their providers.
    pub tokens_in: u64,
    /// Output tokens of models.
    pub tokens_out: u64,
    /// The durations of ended runs.
    pub runs: Durations,
    /// The durations of completed nodes.
    pub nodes: Durations,
    /// The durations of performed effects.
    pub activities: Durations,
}

/// Adds without synchronization: the counters may briefly be inconsistent with each other.
fn add(counter: &AtomicU64, number: u64) {
    if number > 0 {
        counter.fetch_add(number, Ordering::Relaxed);
    }
}

impl Counters {
    pub(super) fn created(&self) {
        add(&self.created, 1);
    }

    pub(super) fn recovered(&self, number: usize) {
        add(&self.recovered, u64::try_from(number).unwrap_or(0));
    }

    pub(super) fn conflict(&self) {
        add(&self.conflicts, 1);
    }

    /// Counts an effect that took this number of milliseconds.
    pub(super) fn activity(&self, took: u64) {
        let mut one = Durations::default();
        one.add(took);
        self.activities.add(&one);
    }

    pub(super) fn add(&self, tally: Tally) {
        add(&self.attempts, tally.attempts.into());
        add(&self.interrupts, tally.interrupts.into());
        add(&self.caps, tally.caps.into());
        add(&self.tokens_in, tally.tokens.0);
        add(&self.tokens_out, tally.tokens.1);
        self.nodes.add(&tally.nodes);
        let Some((status, took)) = tally.ended else { return };
        let counter = match status {
            RunStatus::Completed => &self.completed,
            RunStatus::Failed => &self.failed,
            _ => &self.cancelled,
        };
        add(counter, 1);
        let mut one = Durations::default();
        one.add(took);
        self.runs.add(&one);
    }

    pub(super) fn now(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (completed, failed, cancelled) =
            (read(&self.completed), read(&self.failed), read(&self.cancelled));
        let begun = read(&self.created) + read(&self.recovered);
        Counts {
            created: read(&self.created),
            active: begun.saturating_sub(completed + failed + cancelled),
            completed,
            failed,
            cancelled,
            attempts: read(&self.attempts),
            interrupts: read(&self.interrupts),
            caps: read(&self.caps),
            conflicts: read(&self.conflicts),
            tokens_in: read(&self.tokens_in),
            tokens_out: read(&self.tokens_out),
            runs: self.runs.now(),
            nodes: self.nodes.now(),
            activities: self.activities.now(),
        }
    }
}
