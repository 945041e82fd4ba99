//! The process ends at any time, and another one continues.

use std::sync::Arc;

use flow::event::EventKind;
use flow::id::{NodeId, RunId};
use ports::runs::prelude::*;
use ports::runs::{Change, Commit};
use runs::{Direct, RefusalKind, Runs};
use serde_json::{Value, json};
use storage::sqlite::SqliteRuns;
use system::ManualClock;

use super::{
    Host, Setup, begin, caller, create, events, keep_time, kinds, open, snapshot, status, to_the_end, until,
};
use crate::runs::requests::new_run;

/// Drops everything in memory, and opens the same folder again.
async fn restarted(host: Host) -> Host {
    let Host { runs, store, folder } = host;
    drop((runs, store));
    // Tasks of the first host may still hold it for a moment; SQLite allows a second connection meanwhile.
    let (runs, store) = open(folder.path(), Setup::default());
    runs.engine().recover().await.unwrap();
    keep_time(&runs);
    Host { runs, store, folder }
}

/// Runs a host in its own runtime, so that its tasks end with it, like with a process.
fn in_a_process<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

#[test]
fn a_run_that_waits_for_a_person_keeps_waiting_and_does_not_record_the_restart() {
    let (host, run_id) = in_a_process(async {
        let host = Host::start().await;
        let run_id = begin(&host.runs, "gated").await;
        assert_eq!(status(&host.runs, &run_id), "waiting-approval");
        (host, run_id)
    });
    in_a_process(async {
        let before = events(&host.runs, "acme", &run_id);
        let host = restarted(host).await;
        assert_eq!(events(&host.runs, "acme", &run_id), before);
        let token = snapshot(&host.runs, &caller("acme"), &run_id)["interrupt"]["interruptToken"].clone();
        host.runs
            .commands()
            .resolve_token(token.as_str().unwrap(), json!({"action": "accept"}), Direct)
            .await
            .unwrap();
        to_the_end(&host.runs, &run_id).await;
        assert_eq!(status(&host.runs, &run_id), "completed");
    });
}

#[test]
fn a_timer_that_was_set_before_the_stop_fires_after_it() {
    let (host, run_id) = in_a_process(async {
        // No clock runs here: the timer is only in the database.
        let folder = tempfile::tempdir().unwrap();
        let (runs, store) = open(folder.path(), Setup::default());
        for workflow in super::workflows() {
            runs.definitions().register(&caller("acme"), &workflow).await.unwrap();
        }
        let run_id = begin(&runs, "short").await;
        (Host { runs, store, folder }, run_id)
    });
    in_a_process(async {
        let host = restarted(host).await;
        let events = to_the_end(&host.runs, &run_id).await;
        assert_eq!(
            kinds(&events),
            ["run.started", "node.started", "run.resumed", "node.completed", "run.completed"]
        );
    });
}

#[test]
fn a_parent_and_its_child_find_each_other_again() {
    let (host, run_id) = in_a_process(async {
        let host = Host::start().await;
        let run_id = begin(&host.runs, "parent").await;
        until(&host.runs, &run_id, |event| event.kind == EventKind::NodeDispatched).await.unwrap();
        (host, run_id)
    });
    in_a_process(async {
        let host = restarted(host).await;
        let children = host.store.children(&run_id).wait().unwrap();
        let child = match children.first() {
            Some(child) => child.clone(),
            // The first process ended before it started the child. The second one started it with the same id.
            None => until_child(&host, &run_id).await,
        };
        until(&host.runs, &child, |event| event.kind == EventKind::InterruptRequested).await.unwrap();
        host.runs
            .commands()
            .resolve(&caller("acme"), &child, &NodeId::new("gate"), json!({"action": "accept"}), Direct)
            .await
            .unwrap();
        to_the_end(&host.runs, &run_id).await;
        assert_eq!(status(&host.runs, &run_id), "completed");
        assert_eq!(host.store.children(&run_id).wait().unwrap().len(), 1, "started once");
    });
}

pub(super) async fn until_child(host: &Host, run_id: &RunId) -> RunId {
    loop {
        if let Some(child) = host.store.children(run_id).await.unwrap().first() {
            return child.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

/// Commits directly to the store: the data of a process that died between two commits.
fn commit(store: &SqliteRuns, changes: Vec<Change>) {
    store.commit(Commit { changes }).wait().unwrap();
}

#[test]
fn a_child_whose_parent_was_cancelled_before_the_stop_is_cancelled_after_it() {
    let (host, child) = in_a_process(async {
        let host = Host::start().await;
        let run_id = begin(&host.runs, "parent").await;
        let child = until_child(&host, &run_id).await;
        // The end of the parent is durable, and the process dies before the child is cancelled.
        let row = host.store.run(None, &run_id).wait().unwrap().unwrap();
        let event = json!({
            "eventId": format!("evt_{run_id}_{}", row.next_sequence), "runId": run_id, "type": "run.cancelled",
            "payload": {"cancelledBy": "me", "durationMs": 1}, "timestamp": "2026-01-01T00:00:00.000Z", "sequence": row.next_sequence,
        });
        commit(
            &host.store,
            vec![Change::Append {
                run_id: run_id.clone(),
                first: row.next_sequence,
                last: row.next_sequence,
                events: event.to_string().into_bytes().into(),
                status: flow::run::RunStatus::Cancelled,
                snapshot: row.snapshot,
                at: canon::time::Timestamp(1),
            }],
        );
        (host, child)
    });
    in_a_process(async {
        let host = restarted(host).await;
        let events = to_the_end(&host.runs, &child).await;
        let last = events.last().unwrap();
        assert_eq!(last["type"], "run.cancelled");
        assert_eq!(last["payload"]["reason"], "parent-cancelled");
        assert!(last["payload"]["parentRunId"].is_string());
    });
}

#[test]
fn recovering_twice_changes_nothing_for_waiting_runs() {
    in_a_process(async {
        let host = Host::start().await;
        let run_id = begin(&host.runs, "gated").await;
        let before = events(&host.runs, "acme", &run_id);
        host.runs.engine().recover().await.unwrap();
        host.runs.engine().recover().await.unwrap();
        assert_eq!(events(&host.runs, "acme", &run_id), before);
    });
}

#[test]
fn every_log_folds_to_its_stored_snapshot() {
    in_a_process(async {
        let host = Host::start().await;
        for workflow_id in ["echo", "chain", "gated", "short", "fails", "patient"] {
            let run_id = create(
                &host.runs,
                &caller("acme"),
                &json!({"workflowId": workflow_id, "inputs": {"payload": {"a": [1, null]}}}),
            )
            .await;
            if workflow_id != "gated" {
                to_the_end(&host.runs, &run_id).await;
            }
            let kept: Value =
                serde_json::from_slice(&host.store.run(None, &run_id).wait().unwrap().unwrap().snapshot)
                    .unwrap();
            let (fresh, _store) = open(host.folder.path(), Setup::default());
            let again = snapshot(&fresh, &caller("acme"), &run_id);
            for member in ["status", "variables", "channels", "nodeStates", "error"] {
                assert_eq!(kept.get(member), again.get(member), "{workflow_id} {member}");
            }
        }
    });
}

#[test]
fn a_drained_host_accepts_no_requests_and_its_clock_ends() {
    in_a_process(async {
        let host = Host::start().await;
        begin(&host.runs, "gated").await;
        let clock = {
            let runs = host.runs.clone();
            tokio::spawn(async move { runs.engine().keep_time().await })
        };
        let audit = {
            let runs = host.runs.clone();
            tokio::spawn(async move { runs.audit().keep_checkpoints().await })
        };
        host.runs.drain().await;
        clock.await.unwrap();
        audit.await.unwrap();
        let refused = host
            .runs
            .commands()
            .create(&caller("acme"), new_run(&json!({"workflowId": "echo"})), Default::default(), Direct)
            .await
            .unwrap_err();
        assert_eq!((refused.code.kind(), refused.retry_after), (RefusalKind::Unavailable, Some(5)));
    });
}

#[test]
fn a_stopped_clock_fires_nothing_and_an_advanced_clock_fires_due_timers() {
    in_a_process(async {
        let clock = Arc::new(ManualClock::at(1_000_000));
        let setup = || Setup { clock: Arc::clone(&clock) as _, ..Setup::default() };
        let host = Host::with(setup()).await;
        let run_id = begin(&host.runs, "slow").await;
        let due = host.store.next_timer().wait().unwrap().unwrap();
        assert_eq!(due.at.0, 1_000_000 + 600_000);
        assert_eq!(status(&host.runs, &run_id), "running");
        clock.advance(600_000);
        // Setting a timer makes the clock check again.
        begin(&host.runs, "slow").await;
        to_the_end(&host.runs, &run_id).await;
        assert_eq!(status(&host.runs, &run_id), "completed");
        let _: &Runs = &host.runs;
    });
}
