//! The trace of a batch: job count, duration, result and SQLite's message, without job data.

use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};

use disk::sqlite::{Refused, Settings, Work, Writer, open_writer};
use rusqlite::Connection;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// All trace lines.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Lines(AtomicU64);

struct Line(String);

impl Line {
    fn keep(self) {
        LINES.lock().unwrap().push(self.0);
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.0.fetch_add(1, Ordering::Relaxed);
        let mut line = Line(format!("span {id}: {} {}", span.metadata().level(), span.metadata().name()));
        span.record(&mut line);
        line.keep();
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut line = Line(format!("span {}:", span.into_u64()));
        values.record(&mut line);
        line.keep();
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        line.keep();
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// Inserts a text into a table.
struct Texts(mpsc::Sender<Result<(), String>>);

impl Work for Texts {
    type Job = String;
    type Error = String;

    fn apply(&mut self, connection: &Connection, text: &mut String) -> Result<(), Refused<String>> {
        connection.execute("INSERT INTO texts VALUES (?1)", [text.as_str()])?;
        Ok(())
    }

    fn failure(&self, error: rusqlite::Error) -> String {
        error.to_string()
    }

    fn panicked(&self, _job: &String) -> String {
        "panicked".to_owned()
    }

    fn done(&mut self, _job: String, outcome: Result<(), String>) {
        let _ = self.0.send(outcome);
    }
}

#[test]
fn batch_traces_have_the_cause_but_no_data() {
    tracing::subscriber::set_global_default(Lines(AtomicU64::new(1))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("traced.sqlite3");
    let settings = Settings { cache_kib: 64, statements: 16, idle_readers: 1, prepare: |_| Ok(()) };
    let connection = open_writer(&path, &settings).unwrap();
    connection.execute_batch("CREATE TABLE texts (text TEXT) STRICT").unwrap();
    let (sender, outcomes) = mpsc::channel();
    let writer = Writer::start("traced", connection, Texts(sender)).unwrap();
    let write = |text: &str| {
        writer.submit(text.to_owned()).unwrap();
        outcomes.recv().unwrap()
    };
    assert_eq!(write("secret-one"), Ok(()));
    // Another program drops the table: SQLite's message must be logged.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("DROP TABLE texts").unwrap();
    let refused = write("secret-two").unwrap_err();
    assert!(refused.contains("no such table"), "{refused}");
    drop(writer);
    // Other tests of this binary are traced too.
    let lines = LINES.lock().unwrap().clone();
    let mine = |line: &&String| line.contains("store=\"traced\"");
    let spans: Vec<_> = lines.iter().filter(mine).filter_map(|line| line.strip_prefix("span ")).collect();
    let spans: Vec<_> = spans.iter().filter_map(|line| line.split_once(':')).collect();
    assert_eq!(spans.len(), 2, "{lines:#?}");
    assert!(spans.iter().all(|(_, text)| text.contains("DEBUG store.batch") && text.contains("jobs=1")));
    let has = |at: usize, part: &str| {
        let span = format!("span {}:", spans[at].0);
        lines.iter().any(|line| line.starts_with(&span) && line.contains(part))
    };
    for (at, refused) in ["refused=0", "refused=1"].into_iter().enumerate() {
        assert!(has(at, refused) && has(at, "micros=") && has(at, "outcome=\"committed\""), "{lines:#?}");
    }
    let warned = |line: &String| line.starts_with("WARN") && mine(&line) && line.contains("no such table");
    assert!(lines.iter().any(warned), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("secret")), "{lines:#?}");
}
