//! The log of background work.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use ports::Cause;
use ports::PortFuture;
use ports::runs::prelude::*;
use ports::runs::{Change, Commit, CommitError, CommitFuture, RunStore};
use ports::wrapper::Wrapper;
use runs::Direct;
use serde_json::json;
use storage::sqlite::SqliteRuns;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::{Host, Setup, begin, caller, keep_time, on, status, to_the_end, workflows};
use crate::runs::requests::new_webhook;

/// The warnings of one thread, a line each.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        ["runs", "triggers", "guided_node"].contains(&metadata.target().split("::").next().unwrap())
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("{} ", event.metadata().level()));
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A store that fails a few times to record events of existing child runs.
#[derive(Debug)]
struct Unlucky {
    store: SqliteRuns,
    failures: Mutex<u32>,
}

impl Wrapper for Unlucky {
    fn wrapped(&self) -> &dyn RunStore {
        &self.store
    }

    fn commit_wrapped(&self, commit: Commit) -> CommitFuture {
        let creates = commit.changes.iter().any(|change| matches!(change, Change::CreateRun { .. }));
        let is_of_child = |change: &Change| match change {
            Change::Append { run_id, .. } => {
                let row = self.store.run(None, run_id).wait().unwrap();
                row.is_some_and(|row| String::from_utf8_lossy(&row.genesis).contains("\"parent\":{"))
            }
            _ => false,
        };
        let mut failures = self.failures.lock().unwrap();
        if *failures > 0 && !creates && commit.changes.iter().any(is_of_child) {
            *failures -= 1;
            return PortFuture::ready(Err(CommitError::Store(Cause::new("disk I/O error"))));
        }
        drop(failures);
        self.store.commit(commit)
    }
}

/// Retries in the background were silent (finding 1 of the code review): a run that waited for a broken disk looked like any
/// other.
#[tokio::test]
async fn each_retry_is_a_warning_with_its_cause_and_its_run() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap();
    let runs = on(Arc::new(Unlucky { store, failures: Mutex::new(2) }), Setup::default());
    for workflow in workflows() {
        runs.definitions().register(&caller("acme"), &workflow).await.unwrap();
    }
    keep_time(&runs);
    let run_id = begin(&runs, "patient").await;
    to_the_end(&runs, &run_id).await;
    assert_eq!(status(&runs, &run_id), "completed");
    let lines = log.0.lock().unwrap().clone();
    let retries: Vec<_> = lines.iter().filter(|line| line.contains("retrying")).collect();
    assert_eq!(retries.len(), 2, "{lines:?}");
    for (attempt, line) in (1..).zip(retries) {
        for reported in [
            "WARN ".to_owned(),
            format!("run.id=\"{run_id}\""),
            format!("attempt={attempt} "),
            "the store failed: disk I/O error".to_owned(),
        ] {
            assert!(line.contains(&reported), "{reported} in {line}");
        }
    }
}

#[tokio::test]
async fn a_failed_delivery_is_a_warning_with_its_cause_and_without_its_address() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let outbound = outbound::Client::new(outbound::Reach::Loopback);
    let host = Host::with(Setup { outbound, ..Setup::default() }).await;
    // No server listens there any more.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let subscription =
        json!({"url": format!("http://127.0.0.1:{port}/?key=in-the-url"), "events": ["run.completed"]});
    host.runs.webhooks().register(&caller("acme"), new_webhook(&subscription), Direct).await.unwrap();
    begin(&host.runs, "chain").await;
    let failed = || log.0.lock().unwrap().iter().find(|line| line.contains("a delivery failed")).cloned();
    let line = tokio::select! {
        () = host.runs.webhooks().keep_delivering() => unreachable!("the host is not drained"),
        line = async {
            loop {
                match failed() {
                    Some(line) => break line,
                    None => tokio::task::yield_now().await,
                }
            }
        } => line,
    };
    assert!(line.contains("cannot connect: Connection refused"), "{line}");
    assert!(!line.contains("in-the-url") && !line.contains(&port.to_string()), "{line}");
}
