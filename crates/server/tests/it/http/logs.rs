//! What is logged, and what must never be.

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

/// One event or span, with its fields.
#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Log {
    fn push(&self, line: Line) {
        self.0.lock().unwrap().push_str(&(line.0 + "\n"));
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        ["server", "host", "storage"].iter().any(|room| metadata.target().starts_with(room))
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line::default();
        span.record(&mut line);
        self.push(line);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line::default();
        values.record(&mut line);
        self.push(line);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("{} ", event.metadata().level()));
        event.record(&mut line);
        self.push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The log of all tests. A callsite caches whether it has a subscriber, so there is one subscriber from the start.
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
    for error_body in
        ["http.route=\"/v1/runs/{runId}\"", "http.status=201", "key.id=\"full\"", "tenant=\"a\"", "trace.id="]
    {
        assert!(text.contains(error_body), "{error_body} in {text}");
    }
    for secret in [KEY, token, "a-private-word", "in-the-query", "a-key-of-the-caller"] {
        assert!(!text.contains(secret), "{secret}");
    }
}

/// A client that got a 500 gives its correlation id to an operator, who finds the error of SQLite in the log.
#[tokio::test]
async fn the_cause_of_a_500_is_logged_under_the_id_that_the_client_was_given() {
    let host = Host::start().await;
    host.register(&gate()).await;
    let run_id = host.create("gate").await;
    // Another program overwrites the database while it is in use.
    for name in ["runs.sqlite3", "runs.sqlite3-wal"] {
        let file = host.database().with_file_name(name);
        let length = std::fs::metadata(&file).unwrap().len();
        let garbage = vec![0xA5; usize::try_from(length).unwrap()];
        let mut opened = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
        std::io::Write::write_all(&mut opened, &garbage).unwrap();
    }
    let asked = [
        ("GET", format!("/v1/runs/{run_id}"), None, "/v1/runs/{runId}", true),
        ("GET", "/v1/runs".to_owned(), None, "/v1/runs", false),
        ("POST", format!("/v1/runs/{run_id}/cancel"), Some(json!({})), "/v1/runs/{runId}/cancel", true),
    ];
    for (method, path, body, route, names_run) in asked {
        let headers =
            [("authorization", format!("Bearer {KEY}")), ("content-type", "application/json".into())];
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let body = body.map(|body| body.to_string().into_bytes());
        let answer = host.send(method, &path, &headers, body.as_deref()).await;
        let error_body = answer.refused(500, "internal_error");
        let correlation = error_body["details"]["correlationId"].as_str().unwrap();
        let text = log().text();
        let lines: Vec<_> =
            text.lines().filter(|line| line.starts_with("ERROR ") && line.contains(correlation)).collect();
        let [line] = lines[..] else { panic!("logged once: {lines:?}") };
        let said = ["database disk image is malformed", "file is not a database"];
        assert!(said.iter().any(|said| line.contains(said)), "{method} {path}: {line}");
        assert!(
            !said.iter().any(|said| answer.text().contains(said)),
            "not for the client: {}",
            answer.text()
        );
        assert!(line.contains(&format!("http.route=\"{route}\"")), "{line}");
        assert_eq!(line.contains(&run_id), names_run, "{line}");
    }
}
