//! Limits how many nodes work at once, for each run and for the host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use flow::id::RunId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// The maximum number of nodes that work at once. Further nodes wait. Each may hold a response of a few megabytes.
pub const MAX_AT_WORK: usize = 256;
/// The maximum number of nodes of one run that work at once, so that a run with thousands of parallel nodes does not delay others.
pub const MAX_AT_WORK_FOR_A_RUN: usize = 32;

/// The work permits.
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
    /// Waits for a permit: first of the run and then of the host, so that a run at its own limit holds no permits of the host. `None` if
    /// the semaphores are closed, which never happens.
    pub(super) async fn take(&self, run_id: &RunId) -> Option<WorkPermit<'_>> {
        let of_run = {
            let mut of_runs = self.of_runs.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Semaphore::new(MAX_AT_WORK_FOR_A_RUN));
            Arc::clone(of_runs.entry(run_id.to_owned()).or_insert_with(new))
        };
        // Created before the wait, so that a dropped task leaves no entry behind.
        let mut place = WorkPermit { places: self, run_id: run_id.to_owned(), of_run: None, of_host: None };
        place.of_run = Some(of_run.acquire_owned().await.ok()?);
        place.of_host = Some(self.of_host.acquire().await.ok()?);
        Some(place)
    }

    /// Waits until no node is working.
    pub(super) async fn idle(&self) {
        let all = u32::try_from(MAX_AT_WORK).unwrap_or(u32::MAX);
        let _all = self.of_host.acquire_many(all).await;
    }
}

/// A work permit, until it is dropped.
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
        // Held and awaited permits have a reference to the semaphore. If there are none, the map has the last reference.
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
