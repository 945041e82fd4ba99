//! Events and spans that test seams record outside of the logs of runs, by tenant and run, until they are reset.
//!
//! They are not durable, and runs cannot see them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use canon::time::Timestamp;
use flow::event::wire::RawEvent;
use flow::event::{EventKind, event_id};
use flow::id::{NodeId, RunId};
use serde::{Serialize, Serializer};
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
    events: Vec<SeamEvent>,
    spans: Vec<Value>,
}

/// An event as seams show it: one of the log of a run, or one that was recorded here. The fields are sorted by their JSON names.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SeamEvent {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) causation_id: Option<String>,
    /// Only recorded here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content_trust: Option<String>,
    pub(super) event_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_id: Option<NodeId>,
    pub(super) payload: Value,
    run_id: RunId,
    sequence: u64,
    #[serde(serialize_with = "rfc3339")]
    timestamp: Timestamp,
    #[serde(rename = "type", serialize_with = "name")]
    pub(super) kind: EventKind,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn rfc3339<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_rfc3339())
}

fn name<S: Serializer>(kind: &EventKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.as_str())
}

impl SeamEvent {
    /// An event of the log of a run.
    pub(super) fn logged(run_id: &RunId, event: RawEvent) -> Self {
        Self {
            causation_id: event.causation_id,
            content_trust: None,
            event_id: event_id(run_id, event.sequence),
            node_id: event.node_id,
            payload: Value::Object(event.payload),
            run_id: run_id.clone(),
            sequence: event.sequence,
            timestamp: event.timestamp,
            kind: event.kind,
        }
    }
}

/// An event that a seam records.
pub(super) struct TestEvent<'e> {
    pub(super) kind: EventKind,
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
    pub(super) fn append(
        &self,
        tenant: &str,
        run_id: &str,
        event: TestEvent<'_>,
        now: Timestamp,
    ) -> SeamEvent {
        let bytes = event.payload.to_string().len();
        self.recorded().change(tenant, run_id, bytes, |of_run| {
            let sequence = of_run.events.len() as u64;
            let recorded = SeamEvent {
                causation_id: event.cause.map(str::to_owned),
                content_trust: event.trust.map(str::to_owned),
                event_id: format!("test:{run_id}:{sequence}"),
                node_id: event.node.map(NodeId::new),
                payload: event.payload,
                run_id: RunId::new(run_id),
                sequence,
                timestamp: now,
                kind: event.kind,
            };
            of_run.events.push(recorded.clone());
            recorded
        })
    }

    pub(super) fn span(&self, tenant: &str, run_id: &str, name: &str, attributes: &Value) {
        let span = json!({"name": name, "attributes": attributes, "events": []});
        let bytes = span.to_string().len();
        self.recorded().change(tenant, run_id, bytes, |of_run| of_run.spans.push(span));
    }

    pub(super) fn events(&self, tenant: &str, run_id: &str) -> Vec<SeamEvent> {
        self.recorded().of(tenant, run_id).events
    }

    pub(super) fn spans(&self, tenant: &str, run_id: &str) -> Vec<Value> {
        self.recorded().of(tenant, run_id).spans
    }

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

    fn event(kind: &str) -> TestEvent<'static> {
        TestEvent {
            kind: EventKind::parse(kind),
            payload: json!({}),
            cause: Some("c"),
            node: None,
            trust: None,
        }
    }

    #[test]
    fn what_one_tenant_records_no_other_reads() {
        let log = TestLog::default();
        let first = log.append("a", "r", event("x"), Timestamp(0));
        let second = log.append("a", "r", event("y"), Timestamp(0));
        assert_eq!((first.sequence, second.sequence), (0, 1));
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
            log.append("a", &place.to_string(), TestEvent { payload, ..event("x") }, Timestamp(0));
        }
        let recorded = log.recorded();
        assert!((1..=16).contains(&recorded.runs.len()) && recorded.bytes <= MAX_BYTES, "{}", recorded.bytes);
    }
}
