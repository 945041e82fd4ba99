//! Commits whose outcome is unknown: the store fails while it makes them durable, and they may have taken effect.

use std::sync::{Arc, Mutex};

use ports::runs::prelude::*;
use ports::runs::{Change, Commit, CommitError, CommitFuture, RunFilter, RunStore};
use ports::wrapper::Wrapper;
use ports::{Cause, PortFuture};
use runs::create::Creation;
use runs::{ApiCode, Direct, Runs};
use serde_json::json;
use storage::sqlite::SqliteRuns;
use tempfile::TempDir;

use super::requests::{new_run, recorded};
use super::{Setup, begin, body, caller, keep_time, keyed, kinds, on, to_the_end, workflows};

/// A store that loses the connection during some commits.
#[derive(Debug)]
struct Doubtful {
    store: SqliteRuns,
    doubts: Mutex<Option<Doubt>>,
}

/// Which commit is in doubt.
#[derive(Debug)]
struct Doubt {
    which: fn(&Change) -> bool,
    /// Whether the commit takes effect all the same.
    takes_effect: bool,
}

impl Wrapper for Doubtful {
    fn wrapped(&self) -> &dyn RunStore {
        &self.store
    }

    fn commit_wrapped(&self, commit: Commit) -> CommitFuture {
        let mut doubts = self.doubts.lock().unwrap();
        let Some(doubt) = doubts.take_if(|doubt| commit.changes.iter().any(doubt.which)) else {
            return self.store.commit(commit);
        };
        if doubt.takes_effect {
            self.store.commit(commit).wait().unwrap();
        }
        PortFuture::ready(Err(CommitError::OutcomeUnknown(Cause::new("connection lost"))))
    }
}

impl Doubtful {
    fn doubt(&self, takes_effect: bool, which: fn(&Change) -> bool) {
        *self.doubts.lock().unwrap() = Some(Doubt { which, takes_effect });
    }
}

async fn host(folder: &TempDir) -> (Runs, Arc<Doubtful>) {
    let store = SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap();
    let store = Arc::new(Doubtful { store, doubts: Mutex::default() });
    let runs = on(Arc::clone(&store) as Arc<dyn RunStore>, Setup::default());
    for workflow in workflows() {
        runs.definitions().register(&caller("acme"), &workflow).await.unwrap();
    }
    keep_time(&runs);
    (runs, store)
}

fn creates(change: &Change) -> bool {
    matches!(change, Change::CreateRun { .. })
}

async fn count(runs: &Runs) -> usize {
    runs.queries().list(&caller("acme"), &RunFilter::default(), 200).await.unwrap().runs.len()
}

/// Issue 14, line 8: a client that repeats the request gets one run, whatever became of the first commit.
#[tokio::test]
async fn a_creation_in_doubt_is_one_run_for_its_key() {
    let (by, request) = (caller("acme"), json!({"workflowId": "slow"}));
    for takes_effect in [true, false] {
        let folder = TempDir::new().unwrap();
        let (runs, store) = host(&folder).await;
        let keyed = keyed(&by, "POST /v1/runs", "key", &request);
        let create = || runs.commands().create(&by, new_run(&request), Creation::default(), recorded(&keyed));
        store.doubt(takes_effect, creates);
        let first = create().await;
        assert_eq!(first.is_ok(), takes_effect, "the log settles the doubt");
        let second = create().await.unwrap();
        assert_eq!(second.replayed, takes_effect);
        if let Ok(first) = first {
            assert_eq!(body(&first), body(&second));
        }
        assert_eq!(count(&runs).await, 1);
    }
}

#[tokio::test]
async fn a_request_with_unknown_outcome_says_what_to_do() {
    let folder = TempDir::new().unwrap();
    let (runs, store) = host(&folder).await;
    store.doubt(false, creates);
    let new = new_run(&json!({"workflowId": "slow"}));
    let refusal =
        runs.commands().create(&caller("acme"), new, Creation::default(), Direct).await.unwrap_err();
    assert_eq!((refusal.code, refusal.retry_after), (ApiCode::ServiceUnavailable, Some(5)));
    assert!(refusal.message.contains("outcome is unknown"), "{refusal}");
    assert!(refusal.message.contains("Idempotency-Key"), "{refusal}");
    assert!(!refusal.message.contains("connection lost"), "the cause is for the log");
    assert!(system::causes(&refusal).ends_with("connection lost"), "{}", system::causes(&refusal));
    assert_eq!(count(&runs).await, 0);
}

/// Background work reads the run again before it repeats anything.
#[tokio::test]
async fn a_timer_whose_commit_is_in_doubt_fires_once() {
    for takes_effect in [true, false] {
        let folder = TempDir::new().unwrap();
        let (runs, store) = host(&folder).await;
        store.doubt(takes_effect, |change| matches!(change, Change::ClearTimer { .. }));
        let run_id = begin(&runs, "short").await;
        let events = to_the_end(&runs, &run_id).await;
        let completed = kinds(&events).iter().filter(|kind| **kind == "node.completed").count();
        assert_eq!(completed, 1, "{takes_effect}: {events:?}");
        let sequences: Vec<_> = events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
        assert_eq!(sequences, (0..events.len() as u64).collect::<Vec<_>>());
        assert!(store.doubts.lock().unwrap().is_none(), "the doubt was met");
    }
}

/// A child is started once, though its parent does not know whether it was.
#[tokio::test]
async fn a_child_whose_creation_is_in_doubt_is_started_once() {
    for takes_effect in [true, false] {
        let folder = TempDir::new().unwrap();
        let (runs, store) = host(&folder).await;
        // The end of the child: its parent learns of it from the store.
        store.doubt(takes_effect, |change| match change {
            Change::Append { run_id, first, .. } => *first > 0 && run_id.as_str().contains('/'),
            _ => false,
        });
        let run_id = begin(&runs, "patient").await;
        let events = to_the_end(&runs, &run_id).await;
        assert_eq!(events.last().unwrap()["type"], "run.completed");
        assert_eq!(count(&runs).await, 2, "{takes_effect}");
    }
}
