//! Records the spans of a test.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The spans that one crate opens on one thread, a line each.
#[derive(Clone)]
pub(crate) struct Spans {
    of_crate: &'static str,
    lines: Arc<Mutex<Vec<String>>>,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().split("::").next() == Some(self.of_crate)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(span.metadata().name().to_owned());
        span.record(&mut line);
        self.lines.lock().unwrap().push(line.0);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line("recorded".to_owned());
        values.record(&mut line);
        self.lines.lock().unwrap().push(line.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Spans {
    pub(crate) fn of(of_crate: &'static str) -> Self {
        Self { of_crate, lines: Arc::default() }
    }

    /// The span with this name and these fields.
    pub(crate) fn find(&self, name: &str, fields: &[&str]) -> String {
        let lines = self.lines.lock().unwrap();
        let found = lines.iter().find(|line| {
            line.split(' ').next() == Some(name) && fields.iter().all(|field| line.contains(field))
        });
        found.unwrap_or_else(|| panic!("{name} with {fields:?} is not in {lines:#?}")).clone()
    }

    pub(crate) fn assert_silent_about(&self, secret: &str) {
        for line in self.lines.lock().unwrap().iter() {
            assert!(!line.contains(secret), "{line}");
        }
    }
}
