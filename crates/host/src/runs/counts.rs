//! What is counted of runs, for whoever watches the host.
//!
//! Only what is durable counts. Nothing of a run or a tenant is told apart, so the numbers are few however much happens.

use std::sync::atomic::{AtomicU64, Ordering};

use flow::event::{Event, EventKind};
use flow::run::RunStatus;
use flow::state::RunState;

/// The upper bounds of the durations of runs that are told apart, in milliseconds.
pub const DURATION_BOUNDS_MS: [u64; 10] =
    [10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000];

/// What one decision adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    attempts: u32,
    nodes_completed: u32,
    interrupts: u32,
    caps: u32,
    /// How the run ended, and after how many milliseconds, where it did.
    ended: Option<(RunStatus, u64)>,
}

impl Tally {
    pub(super) fn of(events: &[Event], state: &RunState) -> Self {
        let mut tally = Self::default();
        for event in events {
            match event.kind {
                EventKind::NodeStarted => tally.attempts += 1,
                EventKind::NodeCompleted => tally.nodes_completed += 1,
                EventKind::InterruptRequested => tally.interrupts += 1,
                EventKind::CapBreached => tally.caps += 1,
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

/// The numbers.
#[derive(Debug, Default)]
pub(super) struct Counters {
    created: AtomicU64,
    /// Those that were found under way at the start.
    recovered: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    attempts: AtomicU64,
    nodes_completed: AtomicU64,
    interrupts: AtomicU64,
    caps: AtomicU64,
    conflicts: AtomicU64,
    activities: AtomicU64,
    duration_ms: AtomicU64,
    within: [AtomicU64; DURATION_BOUNDS_MS.len()],
}

/// The numbers at a moment, since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs that were created, forks and children included.
    pub created: u64,
    /// Runs that are under way.
    pub active: u64,
    /// Runs that completed.
    pub completed: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Runs that were cancelled.
    pub cancelled: u64,
    /// Attempts of nodes.
    pub attempts: u64,
    /// Nodes that completed.
    pub nodes_completed: u64,
    /// Questions that were asked.
    pub interrupts: u64,
    /// Limits that were reached.
    pub caps: u64,
    /// Decisions that were made again because somebody else was quicker.
    pub conflicts: u64,
    /// Effects that were made.
    pub activities: u64,
    /// How long the runs that ended took together, in milliseconds.
    pub duration_ms: u64,
    /// How many of them took no longer than each of [`DURATION_BOUNDS_MS`].
    pub within: [u64; DURATION_BOUNDS_MS.len()],
}

/// Adds without asking others: the numbers need not agree with each other at every moment.
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

    pub(super) fn activity(&self) {
        add(&self.activities, 1);
    }

    pub(super) fn add(&self, tally: Tally) {
        add(&self.attempts, tally.attempts.into());
        add(&self.nodes_completed, tally.nodes_completed.into());
        add(&self.interrupts, tally.interrupts.into());
        add(&self.caps, tally.caps.into());
        let Some((status, took)) = tally.ended else { return };
        let counter = match status {
            RunStatus::Completed => &self.completed,
            RunStatus::Failed => &self.failed,
            _ => &self.cancelled,
        };
        add(counter, 1);
        add(&self.duration_ms, took);
        for (within, bound) in self.within.iter().zip(DURATION_BOUNDS_MS) {
            add(within, u64::from(took <= bound));
        }
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
            nodes_completed: read(&self.nodes_completed),
            interrupts: read(&self.interrupts),
            caps: read(&self.caps),
            conflicts: read(&self.conflicts),
            activities: read(&self.activities),
            duration_ms: read(&self.duration_ms),
            within: std::array::from_fn(|place| read(&self.within[place])),
        }
    }
}
