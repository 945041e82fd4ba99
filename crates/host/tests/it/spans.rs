//! Spans contain the ids of the unit of work, and no data of callers or workflows.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::guided::Desk;
use crate::runs::{Host, caller, create, to_the_end};

/// The spans of one thread, a line each.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("host")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(span.metadata().name().to_owned());
        span.record(&mut line);
        self.0.lock().unwrap().push(line.0);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line("recorded".to_owned());
        values.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Spans {
    /// The span with this name and these fields.
    fn find(&self, name: &str, fields: &[&str]) -> String {
        let lines = self.0.lock().unwrap();
        let found = lines.iter().find(|line| {
            line.split(' ').next() == Some(name) && fields.iter().all(|field| line.contains(field))
        });
        found.unwrap_or_else(|| panic!("{name} with {fields:?} is not in {lines:#?}")).clone()
    }

    fn assert_silent_about(&self, secret: &str) {
        for line in self.0.lock().unwrap().iter() {
            assert!(!line.contains(secret), "{line}");
        }
    }
}

#[tokio::test]
async fn advancing_a_run_and_its_effects_are_spans() {
    let spans = Spans::default();
    let _default = tracing::subscriber::set_default(spans.clone());
    let host = Host::start().await;
    let request = json!({"workflowId": "conformance-secret", "inputs": {"note": "in-the-input"}});
    let run_id = create(&host.runs, &caller("acme"), &request).await;
    to_the_end(&host.runs, &run_id).await;
    let run = format!("run.id=\"{run_id}\"");
    spans.find("run.effect", &[&run, "node.id=\"resolve\"", "effect.id=\"", "attempt=0"]);
    // The first events are those of the creation; the result of the effect follows.
    let advance = spans.find("run.advance", &[&run, "attempt=1"]);
    assert!(advance.contains("run.seq=") && !advance.contains("run.seq=0"), "{advance}");
    spans.assert_silent_about("in-the-input");
    spans.assert_silent_about("canary");
}

#[test]
fn advancing_a_session_is_a_span() {
    let spans = Spans::default();
    let _default = tracing::subscriber::set_default(spans.clone());
    let desk = Desk::new();
    let started = desk.start("project.triage", "in-the-goal");
    desk.advance(&started.continue_token.unwrap(), "in-the-notes");
    spans.find("session.advance", &["session.id=\"sess_", "node.id=\"node_"]);
    spans.assert_silent_about("in-the-goal");
    spans.assert_silent_about("in-the-notes");
}
