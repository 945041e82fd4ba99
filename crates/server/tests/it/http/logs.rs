//! What the log says, and what it never does.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::service::{Host, KEY, gate};

/// Everything that was logged, as text.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<String>>);

impl Log {
    /// What was logged so far.
    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0.lock().unwrap(), "{field}={value:?} ");
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("server")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The log of all tests together. A place that logs remembers whether anybody listens, so there is one listener from the start.
pub(crate) fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        tracing::subscriber::set_global_default(log.clone()).unwrap();
        log
    })
}

#[tokio::test]
async fn requests_are_logged_by_route_and_key_id_and_never_with_what_they_carry() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let body = json!({"workflowId": "gate", "metadata": {"note": "a-private-word"}});
    let keyed = [("idempotency-key", "a-key-of-the-caller")];
    let created = host.post_with("/v1/runs", &keyed, &body).await.expect(201);
    let run_id = created["runId"].as_str().unwrap();
    let run = host.get(&format!("/v1/runs/{run_id}?secret=in-the-query")).await.expect(200);
    let token = run["interrupt"]["interruptToken"].as_str().unwrap();
    host.send("GET", &format!("/v1/interrupts/{token}"), &[], None).await.expect(200);
    let text = log().text();
    for told in
        ["http.route=\"/v1/runs/{runId}\"", "http.status=201", "key.id=\"full\"", "tenant=\"a\"", "trace.id="]
    {
        assert!(text.contains(told), "{told} in {text}");
    }
    for secret in [KEY, token, "a-private-word", "in-the-query", "a-key-of-the-caller"] {
        assert!(!text.contains(secret), "{secret}");
    }
}
