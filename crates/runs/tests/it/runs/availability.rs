//! The runs of one tenant stop neither the host nor its next start (findings H3 and H4).

use flow::engine::Limits;
use flow::id::NodeId;
use ports::runs::prelude::*;
use runs::Direct;
use runs::RecoveryProgress;
use serde_json::{Value, json};

use super::{Host, Setup, caller, create, events, keep_time, kinds, open, snapshot, status, to_the_end};

/// A delay, and then an edge whose condition exceeds the step limit of a decision.
fn poison() -> Value {
    let nodes = json!([["wait", "core.delay", {"delayMs": 60_000}], ["next", "core.noop", {}]]);
    let mut document = super::workflow(
        "poison",
        &nodes,
        &json!([{"id": "e", "sourceNodeId": "wait", "targetNodeId": "next"}]),
        &json!([]),
    );
    let expression = ["list==list"; 300].join("&&");
    document["edges"][0]["condition"] = json!({"type": "expression", "expression": expression});
    document["variables"] = json!([{"name": "list", "type": "array", "defaultValue": vec![7; 100_000]}]);
    document
}

fn limited(limits: Limits) -> Setup {
    Setup { limits, ..Setup::default() }
}

/// Finding H4a: a run that would record gigabytes fails with both values, and its log is within the limit.
#[tokio::test]
async fn a_run_that_would_record_too_much_fails() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { max_append_bytes: 64 << 10, ..Limits::default() };
    let (runs, _store) = open(folder.path(), limited(limits));
    let nodes: Vec<Value> = (0..200).map(|place| json!([format!("n{place}"), "core.identity", {}])).collect();
    let mut document = super::workflow("wide", &json!(nodes), &json!([]), &json!([]));
    for node in document["nodes"].as_array_mut().unwrap() {
        node["inputs"] = json!({"x": {"type": "variable", "variableName": "v"}});
    }
    document["variables"] = json!([{"name": "v", "type": "string", "defaultValue": "x".repeat(10_000)}]);
    runs.definitions().register(&caller("acme"), &document).await.unwrap();
    let run_id = create(&runs, &caller("acme"), &json!({"workflowId": "wide"})).await;
    let shown = snapshot(&runs, &caller("acme"), &run_id);
    assert_eq!(
        (&shown["status"], &shown["error"]["code"]),
        (&json!("failed"), &json!("append_limit_exceeded"))
    );
    assert_eq!(shown["error"]["details"]["limit"], 64 << 10);
    let log = events(&runs, "acme", &run_id);
    let bytes: usize = log.iter().map(|event| event.to_string().len()).sum();
    assert!(bytes < 80 << 10, "{bytes}");
    assert!(kinds(&log).ends_with(&["cap.breached", "node.cancelled", "run.failed"]), "{:?}", kinds(&log));
}

/// Finding H4b: a workflow whose patterns are too large is refused, and a stored one does not affect others.
#[tokio::test]
async fn patterns_beyond_the_limit_are_refused_and_stored_ones_fail_their_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut document = super::workflow(
        "patterns",
        &json!([["wait", "core.delay", {"delayMs": 60_000}], ["next", "core.noop", {}]]),
        &json!([{"id": "e", "sourceNodeId": "wait", "targetNodeId": "next"}]),
        &json!([]),
    );
    document["edges"][0]["condition"] = json!({"type": "regex", "left": "x", "right": r"\w{20}"});
    let (run_id, digest) = {
        let (runs, store) = open(folder.path(), Setup::default());
        let definition = runs.definitions().register(&caller("acme"), &document).await.unwrap();
        let run_id = create(&runs, &caller("acme"), &json!({"workflowId": "patterns"})).await;
        drop(store);
        (run_id, definition.digest)
    };
    let limits = Limits { max_pattern_bytes: 100 << 10, ..Limits::default() };
    let (runs, store) = open(folder.path(), limited(limits));
    assert!(store.definition_by_digest(digest).await.unwrap().is_some());
    let refused = runs.definitions().register(&caller("acme"), &document).await.unwrap_err();
    assert!(refused.message.contains("the limit is 102400"), "{}", refused.message);
    runs.engine().recover().await.unwrap();
    let shown = snapshot(&runs, &caller("acme"), &run_id);
    assert_eq!(
        (&shown["status"], &shown["error"]["code"]),
        (&json!("failed"), &json!("pattern_limit_exceeded"))
    );
    assert_eq!(shown["error"]["details"]["limit"], 100 << 10);
}

/// Finding H3: a run whose decision exceeds the step limit fails after a restart like before, and does not affect others.
#[tokio::test]
async fn a_poisoned_run_fails_after_a_restart_and_others_continue() {
    let folder = tempfile::tempdir().unwrap();
    let (poisoned, waiting) = {
        let (runs, _store) = open(folder.path(), Setup::default());
        for document in super::workflows().into_iter().chain([poison()]) {
            runs.definitions().register(&caller("acme"), &document).await.unwrap();
        }
        let poisoned = create(&runs, &caller("acme"), &json!({"workflowId": "poison"})).await;
        let waiting = create(&runs, &caller("acme"), &json!({"workflowId": "short"})).await;
        (poisoned, waiting)
    };
    // The delay has passed, and the condition is evaluated, when the next process starts.
    let clock = system::ManualClock::at(system::Clock::now_ms(&system::SystemClock) + 120_000);
    let setup = Setup { clock: std::sync::Arc::new(clock), ..Setup::default() };
    let (runs, _store) = open(folder.path(), setup);
    keep_time(&runs);
    assert_eq!(runs.engine().find_unrecovered().await.unwrap(), 2);
    assert_eq!(runs.engine().recovering(), Some(RecoveryProgress { recovered: 0, total: 2 }));
    assert!(!runs.is_ready().await);
    runs.engine().recover_found().await;
    assert_eq!((runs.engine().recovering(), runs.is_ready().await), (None, true));
    to_the_end(&runs, &waiting).await;
    to_the_end(&runs, &poisoned).await;
    assert_eq!((status(&runs, &waiting), status(&runs, &poisoned)), ("completed".into(), "failed".into()));
    let shown = snapshot(&runs, &caller("acme"), &poisoned);
    assert_eq!(shown["error"]["code"], "decision_budget_exceeded");
}

/// Finding H3: before a run is recovered, it can be read and cancelled, and stays cancelled. New runs can be created.
#[tokio::test]
async fn a_run_that_is_not_recovered_yet_can_be_read_and_cancelled() {
    let Host { runs, store, folder } = Host::start().await;
    let run_ids = [
        create(&runs, &caller("acme"), &json!({"workflowId": "gated"})).await,
        create(&runs, &caller("acme"), &json!({"workflowId": "parent"})).await,
        create(&runs, &caller("acme"), &json!({"workflowId": "gated"})).await,
    ];
    drop((runs, store));
    let (runs, _store) = open(folder.path(), Setup::default());
    let found = runs.engine().find_unrecovered().await.unwrap();
    assert!(found >= 3, "{found}");
    for run_id in &run_ids {
        snapshot(&runs, &caller("acme"), run_id);
    }
    let [cancelled, parent, answered] = &run_ids;
    for run_id in [cancelled, parent] {
        runs.commands().cancel(&caller("acme"), run_id, None, Direct).await.unwrap();
        assert_eq!(status(&runs, run_id), "cancelled");
    }
    // Any other input recovers the run first.
    runs.commands()
        .resolve(&caller("acme"), answered, &NodeId::new("gate"), json!({"action": "accept"}), Direct)
        .await
        .unwrap();
    to_the_end(&runs, answered).await;
    let created = create(&runs, &caller("acme"), &json!({"workflowId": "echo"})).await;
    assert_eq!(status(&runs, &created), "completed");
    assert_eq!(runs.engine().recovering().map(|progress| progress.recovered), Some(0));
    let logs = run_ids.clone().map(|run_id| events(&runs, "acme", &run_id));
    runs.engine().recover_found().await;
    assert_eq!(runs.engine().recovering(), None);
    assert_eq!(run_ids.map(|run_id| events(&runs, "acme", &run_id)), logs, "nothing is added to what ended");
}
