//! Long runs that wait are resumed from a checkpoint of their state.

use std::time::Duration;

use flow::id::{NodeId, RunId};
use ports::runs::prelude::*;
use runs::{Direct, Runs};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Setup, begin, caller, open, secrets, status, to_the_end, workflow};

/// The number of nodes with which the run has more than 256 events at its first gate.
const NODES: usize = 140;

/// A chain of nodes, and two gates at its end.
fn long() -> Value {
    chain("long", NODES)
}

fn chain(id: &str, nodes: usize) -> Value {
    let names: Vec<String> = (0..nodes).map(|place| format!("n{place}")).collect();
    let mut nodes: Vec<Value> = names.iter().map(|name| json!([name, "core.noop", {}])).collect();
    nodes.extend(["first", "second"].map(|gate| json!([gate, "core.approvalGate", {}])));
    let order: Vec<&str> = names.iter().map(String::as_str).chain(["first", "second"]).collect();
    let edges: Vec<Value> = order
        .windows(2)
        .map(
            |pair| json!({"id": format!("to-{}", pair[1]), "sourceNodeId": pair[0], "targetNodeId": pair[1]}),
        )
        .collect();
    workflow(id, &json!(nodes), &json!(edges), &json!([]))
}

/// A folder with a run that waits at its first gate. The host that started it is closed.
async fn waiting() -> (TempDir, RunId) {
    let folder = TempDir::new().unwrap();
    let (runs, _store) = open(folder.path(), Setup::default());
    runs.definitions().register(&caller("acme"), &long()).await.unwrap();
    let run_id = begin(&runs, "long").await;
    assert_eq!(status(&runs, &run_id), "waiting-approval");
    (folder, run_id)
}

async fn accept(runs: &Runs, run_id: &RunId, gate: &str) {
    let accept = json!({"action": "accept"});
    runs.commands().resolve(&caller("acme"), run_id, &NodeId::new(gate), accept, Direct).await.unwrap();
}

fn change(folder: &TempDir, sql: &str) {
    let connection = rusqlite::Connection::open(folder.path().join("runs.sqlite3")).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(connection.execute(sql, []).unwrap(), 1, "{sql}");
}

/// The run continues although its first events cannot be read any more, so they were not read.
#[tokio::test]
async fn a_waiting_run_is_resumed_without_its_first_events() {
    let (folder, run_id) = waiting().await;
    let saved = {
        let (runs, store) = open(folder.path(), Setup::default());
        let saved = store.run_checkpoint(&run_id).await.unwrap().expect("the run has a checkpoint");
        accept(&runs, &run_id, "first").await;
        saved
    };
    change(&folder, "UPDATE appends SET events = x'7b' WHERE first = 0");
    let (runs, store) = open(folder.path(), Setup::default());
    assert_eq!(store.run_checkpoint(&run_id).await.unwrap(), Some(saved), "too few events for another one");
    accept(&runs, &run_id, "second").await;
    assert_eq!(status(&runs, &run_id), "completed");
    assert_eq!(store.run_checkpoint(&run_id).await.unwrap(), None, "a run that ended needs none");
}

#[tokio::test]
async fn an_invalid_checkpoint_is_ignored() {
    for sql in ["DELETE FROM run_checkpoints", "UPDATE run_checkpoints SET checkpoint = x'7b7d0a7b7d'"] {
        let (folder, run_id) = waiting().await;
        change(&folder, sql);
        let (runs, _store) = open(folder.path(), Setup::default());
        accept(&runs, &run_id, "first").await;
        accept(&runs, &run_id, "second").await;
        assert_eq!(status(&runs, &run_id), "completed", "{sql}");
    }
}

/// Known secrets are removed from events before they are stored. The state in memory still contains them, so it is not stored.
#[tokio::test]
async fn no_checkpoint_is_stored_for_a_tenant_with_known_secrets() {
    let host = secrets::host().await;
    host.runs.definitions().register(&caller("acme"), &long()).await.unwrap();
    let known = begin(&host.runs, "conformance-secret").await;
    to_the_end(&host.runs, &known).await;
    let run_id = begin(&host.runs, "long").await;
    assert_eq!(status(&host.runs, &run_id), "waiting-approval");
    assert_eq!(host.store.run_checkpoint(&run_id).await.unwrap(), None);
}

/// A reader that folds many events saves the state that they fold to, which has no secrets: reading the run again does not fold its
/// whole log, although its tenant's secrets are known (issue 14, line 8).
#[tokio::test]
async fn the_first_reader_of_a_long_log_saves_a_checkpoint() {
    let host = secrets::host().await;
    host.runs.definitions().register(&caller("acme"), &chain("longer", 2 * NODES)).await.unwrap();
    let known = begin(&host.runs, "conformance-secret").await;
    to_the_end(&host.runs, &known).await;
    let run_id = begin(&host.runs, "longer").await;
    assert_eq!(host.store.run_checkpoint(&run_id).await.unwrap(), None);
    assert_eq!(status(&host.runs, &run_id), "waiting-approval");
    // Commits take effect in order, so the checkpoint is there once a later commit is.
    host.runs.definitions().register(&caller("acme"), &long()).await.unwrap();
    assert!(host.store.run_checkpoint(&run_id).await.unwrap().is_some());
    change(&host.folder, "UPDATE appends SET events = x'7b' WHERE first = 0 AND length(events) > 100000");
    assert_eq!(status(&host.runs, &run_id), "waiting-approval", "without the first events");
    accept(&host.runs, &run_id, "first").await;
    accept(&host.runs, &run_id, "second").await;
    assert_eq!(status(&host.runs, &run_id), "completed");
}
