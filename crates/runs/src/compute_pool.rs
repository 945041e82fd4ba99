//! Compute threads for work that takes long, separate from the threads that serve requests.
//!
//! A decision on a small run takes microseconds and happens on the thread of the request. A decision on a large run may take up to a
//! second, within its budget, and happens on a compute thread. There are fewer compute permits than processors, and a tenant gets
//! at most half of them, so the work of one tenant does not block the requests of others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;

use flow::definition::Definition;
use flow::engine::Input;
use flow::event::payload_bytes;
use flow::id::Tenant;
use flow::state::RunState;
use ports::runs::StoredRun;
use serde_json::Value;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::{ApiCode, Refusal};

/// The maximum number of steps of a decision on the thread of the request.
const INLINE_STEPS: u64 = 8_000_000;
/// How many bytes of JSON are processed on the thread of the request.
pub(super) const INLINE_BYTES: usize = 64 << 10;

/// The permits for compute threads.
pub(super) struct ComputePool {
    places: Arc<Semaphore>,
    /// A separate permit for urgent work: cancelling a run.
    urgent: Semaphore,
    of_a_tenant: usize,
    tenants: Mutex<HashMap<Tenant, Arc<Semaphore>>>,
}

impl Default for ComputePool {
    fn default() -> Self {
        let places = available_parallelism().map_or(1, |threads| threads.get().saturating_sub(1)).max(1);
        Self {
            places: Arc::new(Semaphore::new(places)),
            urgent: Semaphore::new(1),
            of_a_tenant: places.div_ceil(2),
            tenants: Mutex::default(),
        }
    }
}

/// A permit for a compute thread, until it is dropped.
pub(super) struct ComputePermit {
    _own: OwnedSemaphorePermit,
    _shared: OwnedSemaphorePermit,
}

impl ComputePool {
    /// The permits of a tenant. Entries of idle tenants are removed.
    fn of(&self, tenant: &Tenant) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.retain(|_, places| Arc::strong_count(places) > 1);
        let places =
            tenants.entry(tenant.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.of_a_tenant)));
        Arc::clone(places)
    }
}

/// Whether a decision on a run may take long. In the worst case, it evaluates all data for each node and each part of a condition.
pub(super) fn is_heavy(definition: &Definition, state: &RunState) -> bool {
    // The first event contains the inputs.
    let inputs = if state.next_sequence == 0 { payload_bytes(&state.genesis.inputs) } else { 0 };
    let bytes = state.bytes.saturating_add(definition.bytes).saturating_add(inputs);
    definition.weight.saturating_mul(bytes) > INLINE_STEPS
}

/// Like [`is_heavy`], from what is known before the run is loaded.
pub(super) fn may_be_heavy(definition: &Definition, row: &StoredRun) -> bool {
    let read = u64::try_from(row.snapshot.len().saturating_add(row.genesis.len())).unwrap_or(u64::MAX);
    definition.weight.saturating_mul(definition.bytes.saturating_add(read)) > INLINE_STEPS
}

/// Whether an input has much data to validate and record.
pub(super) fn is_large_input(input: &Input) -> bool {
    match input {
        Input::Resolve { resume_value, .. } => is_large(resume_value),
        Input::ActivityDone { reports, outcome, .. } => {
            outcome.as_ref().is_ok_and(is_large)
                || reports.iter().any(|report| report.payload().values().any(is_large))
        }
        Input::ActivityReports { reports, .. } => {
            reports.iter().any(|report| report.payload().values().any(is_large))
        }
        Input::ChildEnded { variables, .. } | Input::Assign { variables } => variables.values().any(is_large),
        // The data of a guided session is bounded by its own log. The other inputs have no data.
        Input::GuideStarted { .. }
        | Input::GuideEnded { .. }
        | Input::Begin
        | Input::Create
        | Input::Recover
        | Input::Fork
        | Input::TimerDue { .. }
        | Input::RunDeadline
        | Input::ChildWaits { .. }
        | Input::ChildRefused { .. }
        | Input::Cancel { .. }
        | Input::Pause { .. }
        | Input::Resume { .. } => false,
    }
}

/// Whether a value has more than approximately [`INLINE_BYTES`].
pub(super) fn is_large(value: &Value) -> bool {
    are_large([value])
}

/// Whether values together have more than approximately [`INLINE_BYTES`].
pub(super) fn are_large<'v>(values: impl IntoIterator<Item = &'v Value>) -> bool {
    let mut left = INLINE_BYTES;
    let mut rest: Vec<&Value> = values.into_iter().collect();
    while let Some(value) = rest.pop() {
        let size = match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 4,
            Value::String(text) => text.len() + 4,
            Value::Array(items) => {
                rest.extend(items.iter().take(left));
                4
            }
            Value::Object(members) => {
                rest.extend(members.values().take(left));
                members.keys().take(left).map(|name| name.len() + 4).sum()
            }
        };
        match left.checked_sub(size) {
            Some(less) => left = less,
            None => return true,
        }
    }
    false
}

impl ComputePool {
    /// Runs work on a compute thread, once a permit is available. If the caller stops waiting, the work completes and its result is
    /// discarded.
    pub(super) async fn beside<T: Send + 'static>(
        &self,
        tenant: &Tenant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let _place = self.place(tenant).await?;
        on_a_thread(work).await
    }

    /// Acquires a compute permit for a tenant.
    pub(super) async fn place(&self, tenant: &Tenant) -> Result<ComputePermit, Refusal> {
        let own = self.of(tenant).acquire_owned().await.map_err(closed)?;
        let shared = Arc::clone(&self.places).acquire_owned().await.map_err(closed)?;
        Ok(ComputePermit { _own: own, _shared: shared })
    }

    /// Runs urgent work on a compute thread, ahead of all work that waits for a permit.
    pub(super) async fn beside_at_once<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let _place = self.urgent.acquire().await.map_err(closed)?;
        on_a_thread(work).await
    }
}

fn closed(_: AcquireError) -> Refusal {
    Refusal::unavailable("the host is shutting down", 5)
}

pub(super) async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "work on a run failed");
        Refusal::new(ApiCode::InternalError, "the run could not be advanced; see the log of the host")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn large_values_are_detected_without_reading_all_of_them() {
        let cases = [
            (json!(null), false),
            (json!("x".repeat(1000)), false),
            (json!("x".repeat(INLINE_BYTES)), true),
            (json!(vec![1; 1000]), false),
            (json!(vec![1; INLINE_BYTES]), true),
            (json!({"a": {"b": ["x".repeat(INLINE_BYTES / 2), "y".repeat(INLINE_BYTES / 2)]}}), true),
        ];
        for (value, large) in cases {
            assert_eq!(is_large(&value), large);
        }
    }

    #[tokio::test]
    async fn one_tenant_does_not_take_the_places_of_others() {
        let heavy = ComputePool { of_a_tenant: 2, ..ComputePool::default() };
        let (a, b) = (heavy.of(&Tenant::new("a")), heavy.of(&Tenant::new("b")));
        let _held = (a.try_acquire().unwrap(), a.try_acquire().unwrap());
        assert!(a.try_acquire().is_err() && heavy.of(&Tenant::new("a")).try_acquire().is_err());
        assert!(b.try_acquire().is_ok());
        drop(b);
        heavy.of(&Tenant::new("c"));
        assert_eq!(heavy.tenants.lock().unwrap().len(), 2, "nothing is kept of tenants that are done");
    }
}
