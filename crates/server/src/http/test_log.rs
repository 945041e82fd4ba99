//! Events and spans that test seams record outside of the logs of runs, by tenant and run, until they are reset.
//!
//! They are not durable, and runs cannot see them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use canon::time::Timestamp;
use serde_json::{Value, json};

/// The maximum size of all events and spans together, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// The overhead of each entry, in bytes.
const OVERHEAD_BYTES: usize = 512;

#[derive(Default)]
pub(super) struct TestLog(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    runs: BTreeMap<(String, String), OfRun>,
    bytes: usize,
}

#[derive(Clone, Default)]
struct OfRun {
    events: Vec<Value>,
    spans: Vec<Value>,
}

/// An event that a seam records.
pub(super) struct TestEvent<'e> {
    pub(super) kind: &'e str,
    pub(super) payload: Value,
    pub(super) cause: Option<&'e str>,
    pub(super) node: Option<&'e str>,
    pub(super) trust: Option<&'e str>,
}

impl TestLog {
    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event, and returns it as it is read later.
    pub(super) fn append(&self, tenant: &str, run_id: &str, event: &TestEvent<'_>, now: Timestamp) -> Value {
        let bytes = event.payload.to_string().len();
        self.recorded().change(tenant, run_id, bytes, |of_run| {
            let sequence = of_run.events.len();
            let mut document = json!({
                "eventId": format!("test:{run_id}:{sequence}"), "runId": run_id, "type": event.kind,
                "payload": event.payload, "timestamp": now.to_rfc3339(), "sequence": sequence,
            });
            let members =
                [("causationId", event.cause), ("nodeId", event.node), ("contentTrust", event.trust)];
            for (name, text) in members {
                if let Some(text) = text {
                    document[name] = text.into();
                }
            }
            of_run.events.push(document.clone());
            document
        })
    }

    pub(super) fn span(&self, tenant: &str, run_id: &str, name: &str, attributes: &Value) {
        let span = json!({"name": name, "attributes": attributes, "events": []});
        let bytes = span.to_string().len();
        self.recorded().change(tenant, run_id, bytes, |of_run| of_run.spans.push(span));
    }

    pub(super) fn events(&self, tenant: &str, run_id: &str) -> Vec<Value> {
        self.recorded().of(tenant, run_id).events
    }

    pub(super) fn spans(&self, tenant: &str, run_id: &str) -> Vec<Value> {
        self.recorded().of(tenant, run_id).spans
    }

    /// Deletes all entries.
    pub(super) fn clear(&self) {
        *self.recorded() = Recorded::default();
    }
}

impl Recorded {
    fn of(&self, tenant: &str, run_id: &str) -> OfRun {
        self.runs.get(&(tenant.to_owned(), run_id.to_owned())).cloned().unwrap_or_default()
    }

    /// Changes the entries of a run. If the size limit is exceeded, all entries of all runs are deleted first, which is acceptable
    /// in tests.
    fn change<T>(
        &mut self,
        tenant: &str,
        run_id: &str,
        bytes: usize,
        change: impl FnOnce(&mut OfRun) -> T,
    ) -> T {
        let bytes = bytes + OVERHEAD_BYTES;
        if self.bytes + bytes > MAX_BYTES {
            *self = Self::default();
        }
        self.bytes += bytes;
        change(self.runs.entry((tenant.to_owned(), run_id.to_owned())).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str) -> TestEvent<'_> {
        TestEvent { kind, payload: json!({}), cause: Some("c"), node: None, trust: None }
    }

    #[test]
    fn what_one_tenant_records_no_other_reads() {
        let log = TestLog::default();
        let first = log.append("a", "r", &event("x"), Timestamp(0));
        let second = log.append("a", "r", &event("y"), Timestamp(0));
        assert_eq!((&first["sequence"], &second["sequence"]), (&json!(0), &json!(1)));
        log.span("a", "r", "s", &json!({}));
        assert_eq!(log.events("a", "r"), [first, second]);
        assert_eq!((log.events("b", "r"), log.spans("b", "r")), (Vec::new(), Vec::new()));
        log.clear();
        assert_eq!((log.events("a", "r"), log.spans("a", "r")), (Vec::new(), Vec::new()));
    }

    #[test]
    fn it_never_holds_more_than_it_may() {
        let log = TestLog::default();
        for place in 0..40 {
            let payload = json!("x".repeat(1 << 20));
            log.append("a", &place.to_string(), &TestEvent { payload, ..event("x") }, Timestamp(0));
        }
        let recorded = log.recorded();
        assert!((1..=16).contains(&recorded.runs.len()) && recorded.bytes <= MAX_BYTES, "{}", recorded.bytes);
    }
}
