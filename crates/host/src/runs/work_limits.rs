//! How much of the work of nodes is under way at once: so much of each run, and so much of all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use flow::id::RunId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// How many nodes the host works for at once; more wait for their turn. Each may hold an answer of a few megabytes.
pub const MAX_AT_WORK: usize = 256;
/// How many nodes of one run it works for at once: a run with thousands of parallel nodes does not keep the others waiting.
pub const MAX_AT_WORK_FOR_A_RUN: usize = 32;

/// The places at work.
pub(super) struct WorkLimits {
    of_host: Semaphore,
    of_runs: Mutex<HashMap<RunId, Arc<Semaphore>>>,
}

impl Default for WorkLimits {
    fn default() -> Self {
        Self { of_host: Semaphore::new(MAX_AT_WORK), of_runs: Mutex::default() }
    }
}

impl WorkLimits {
    /// Waits for a place. First among those of the run, so that a run which waits for itself does not hold a place of others. Nothing
    /// once the places are closed, which no host does.
    pub(super) async fn take(&self, run_id: &RunId) -> Option<WorkPermit<'_>> {
        let of_run = {
            let mut of_runs = self.of_runs.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Semaphore::new(MAX_AT_WORK_FOR_A_RUN));
            Arc::clone(of_runs.entry(run_id.to_owned()).or_insert_with(new))
        };
        // Made before waiting, so that a task that is dropped meanwhile leaves nothing behind.
        let mut place = WorkPermit { places: self, run_id: run_id.to_owned(), of_run: None, of_host: None };
        place.of_run = Some(of_run.acquire_owned().await.ok()?);
        place.of_host = Some(self.of_host.acquire().await.ok()?);
        Some(place)
    }

    /// Waits until nobody is at work.
    pub(super) async fn idle(&self) {
        let all = u32::try_from(MAX_AT_WORK).unwrap_or(u32::MAX);
        let _all = self.of_host.acquire_many(all).await;
    }
}

/// A place at work, until it is dropped.
pub(super) struct WorkPermit<'a> {
    places: &'a WorkLimits,
    run_id: RunId,
    of_run: Option<OwnedSemaphorePermit>,
    of_host: Option<SemaphorePermit<'a>>,
}

impl Drop for WorkPermit<'_> {
    fn drop(&mut self) {
        let mut of_runs = self.places.of_runs.lock().unwrap_or_else(PoisonError::into_inner);
        self.of_run = None;
        // A place that is held or waited for has a share of the semaphore. The map has the last one when there is none.
        if of_runs.get(&self.run_id).is_some_and(|of_run| Arc::strong_count(of_run) == 1) {
            of_runs.remove(&self.run_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_run_has_so_many_places_and_leaves_the_rest_to_others() {
        let places = WorkLimits::default();
        let mut held = Vec::new();
        for _ in 0..MAX_AT_WORK_FOR_A_RUN {
            held.push(places.take(&RunId::new("a")).await.unwrap());
        }
        let waits = tokio::time::timeout(Duration::from_millis(1), places.take(&RunId::new("a"))).await;
        assert!(waits.is_err(), "the run has all that it may have");
        drop(places.take(&RunId::new("b")).await.unwrap());
        held.pop();
        held.push(places.take(&RunId::new("a")).await.unwrap());
        drop(held);
        assert!(places.of_runs.lock().unwrap().is_empty(), "and nothing stays behind");
        places.idle().await;
    }

    #[tokio::test]
    async fn all_runs_together_have_so_many_places() {
        let places = WorkLimits::default();
        let mut held = Vec::new();
        for place in 0..MAX_AT_WORK {
            held.push(places.take(&RunId::new((place / MAX_AT_WORK_FOR_A_RUN).to_string())).await.unwrap());
        }
        for run in ["0", "another"] {
            let waits = tokio::time::timeout(Duration::from_millis(1), places.take(&RunId::new(run))).await;
            assert!(waits.is_err(), "{run}");
        }
        drop(held);
        places.idle().await;
        assert!(places.of_runs.lock().unwrap().is_empty());
    }
}
