//! Forks: replays and branches.

use flow::event::EventKind;
use flow::id::{NodeId, RunId};
use ports::runs::prelude::*;
use runs::{ApiCode, Direct, RefusalKind};
use serde_json::{Value, json};

use super::{Host, begin, caller, create, events, keyed, kinds, snapshot, status, to_the_end, until};
use crate::runs::requests::{new_fork, recorded};

/// The parts of a log that are the same in a repetition.
fn shape(events: &[Value]) -> Vec<(String, Value)> {
    events.iter().map(|event| (event["type"].as_str().unwrap().to_owned(), event["nodeId"].clone())).collect()
}

async fn fork(host: &Host, run_id: &RunId, request: &Value) -> RunId {
    host.runs.commands().fork(&caller("acme"), run_id, new_fork(request), Direct).await.unwrap().run_id
}

/// A completed run of each kind, with answers and children if needed.
async fn ended(host: &Host, workflow_id: &str) -> RunId {
    let request = json!({"workflowId": workflow_id, "inputs": {"payload": {"a": 1}}, "tags": ["t"]});
    let run_id = create(&host.runs, &caller("acme"), &request).await;
    if workflow_id == "gated" {
        host.runs
            .commands()
            .resolve(
                &caller("acme"),
                &run_id,
                &NodeId::new("gate"),
                json!({"action": "accept", "feedback": "good"}),
                Direct,
            )
            .await
            .unwrap();
    }
    to_the_end(&host.runs, &run_id).await;
    run_id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_says_what_its_source_said_and_two_replays_say_the_same() {
    let host = Host::start().await;
    for workflow_id in ["echo", "chain", "gated", "short", "fails", "patient"] {
        let source = ended(&host, workflow_id).await;
        let before = events(&host.runs, "acme", &source);
        for from in [0, 1, before.len() / 2, before.len() - 1] {
            let request = json!({"mode": "replay", "fromSeq": from});
            let (first, second) =
                (fork(&host, &source, &request).await, fork(&host, &source, &request).await);
            let (first_log, second_log) =
                (to_the_end(&host.runs, &first).await, to_the_end(&host.runs, &second).await);
            assert_eq!(shape(&first_log), shape(&before), "{workflow_id} from {from}");
            assert_eq!(shape(&second_log), shape(&first_log));
            for (copy, original) in first_log.iter().zip(&before).take(from) {
                assert_eq!(copy["payload"], original["payload"], "{workflow_id} from {from}");
            }
            assert_eq!(status(&host.runs, &first), status(&host.runs, &source));
        }
        assert_eq!(events(&host.runs, "acme", &source), before, "the source is as it was");
        assert_eq!(
            host.store.children(&source).await.unwrap().len(),
            usize::from(workflow_id == "patient"),
            "a replay starts no child"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_goes_its_own_way_with_options_of_its_own() {
    let host = Host::start().await;
    let by = caller("acme");
    let source = ended(&host, "gated").await;
    let log = events(&host.runs, "acme", &source);
    let asked = kinds(&log).iter().position(|kind| *kind == "interrupt.resolved").unwrap();
    let request = json!({
        "mode": "branch",
        "fromSeq": asked,
        "runOptionsOverlay": {"tags": ["other"], "metadata": {"why": "what if"}, "configurable": {"recursionLimit": 50}},
    });
    let branch = fork(&host, &source, &request).await;
    assert_eq!(status(&host.runs, &branch), "waiting-approval", "it asks its own person");
    let shown = snapshot(&host.runs, &by, &branch);
    assert_eq!(shown["tags"], json!(["other"]));
    assert_eq!(shown["metadata"]["why"], "what if");
    host.runs
        .commands()
        .resolve(&by, &branch, &NodeId::new("gate"), json!({"action": "reject"}), Direct)
        .await
        .unwrap();
    to_the_end(&host.runs, &branch).await;
    assert_eq!(
        (status(&host.runs, &branch), status(&host.runs, &source)),
        ("failed".into(), "completed".into())
    );
    assert_eq!(events(&host.runs, "acme", &source), log);
    let difference = host.runs.queries().difference(&by, &source, &branch).await.unwrap();
    assert_eq!(difference.diverged_at, Some(asked as u64));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_from_every_place_of_a_log_comes_to_an_end() {
    let host = Host::start().await;
    let by = caller("acme");
    for workflow_id in ["chain", "short", "fails", "gated"] {
        let source = ended(&host, workflow_id).await;
        let log = events(&host.runs, "acme", &source);
        for from in 0..log.len() {
            let branch = fork(&host, &source, &json!({"mode": "branch", "fromSeq": from})).await;
            if status(&host.runs, &branch) == "waiting-approval" {
                let answer = json!({"action": "accept"});
                host.runs
                    .commands()
                    .resolve(&by, &branch, &NodeId::new("gate"), answer, Direct)
                    .await
                    .unwrap();
            }
            let events = to_the_end(&host.runs, &branch).await;
            assert_eq!(status(&host.runs, &branch), status(&host.runs, &source), "{workflow_id} from {from}");
            let sequences: Vec<_> = events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
            assert_eq!(sequences, (0..events.len() as u64).collect::<Vec<_>>(), "dense");
            assert!(events.iter().all(|event| event["runId"] == branch.as_str()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_a_fork_is_a_fork() {
    let host = Host::start().await;
    let source = ended(&host, "gated").await;
    let first = fork(&host, &source, &json!({"mode": "replay", "fromSeq": 2})).await;
    to_the_end(&host.runs, &first).await;
    let second = fork(&host, &first, &json!({"mode": "replay"})).await;
    let log = to_the_end(&host.runs, &second).await;
    assert_eq!(shape(&log), shape(&events(&host.runs, "acme", &source)));
    let branch = fork(&host, &second, &json!({"mode": "branch", "fromSeq": 1})).await;
    until(&host.runs, &branch, |event| event.kind == EventKind::InterruptRequested).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_waits_for_the_child_of_its_source_gets_its_end_and_does_not_affect_it() {
    let host = Host::start().await;
    let by = caller("acme");
    let source = begin(&host.runs, "parent").await;
    until(&host.runs, &source, |event| event.kind == EventKind::NodeDispatched).await.unwrap();
    let child = loop {
        let children = host.store.children(&source).await.unwrap();
        if let Some(child) = children.first() {
            break child.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    };
    // A branch from before the start of the child shares it as well, and only waits for it.
    let request = json!({"mode": "branch", "fromSeq": 3});
    let (waits, ends) = (fork(&host, &source, &request).await, fork(&host, &source, &request).await);
    host.runs.commands().cancel(&by, &ends, None, Direct).await.unwrap();
    until(&host.runs, &child, |event| event.kind == EventKind::InterruptRequested).await.unwrap();
    assert_eq!(status(&host.runs, &child), "waiting-approval", "the child is not the fork's to end");
    host.runs
        .commands()
        .resolve(&by, &child, &NodeId::new("gate"), json!({"action": "accept"}), Direct)
        .await
        .unwrap();
    to_the_end(&host.runs, &source).await;
    to_the_end(&host.runs, &waits).await;
    assert_eq!(status(&host.runs, &waits), "completed");
    assert_eq!(status(&host.runs, &ends), "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_that_are_refused() {
    let host = Host::start().await;
    let source = ended(&host, "chain").await;
    let cases = [
        (
            json!({"mode": "branch", "fromSeq": 1, "runOptionsOverlay": {"configurable": {"recursionLimit": 0}}}),
            RefusalKind::Invalid,
        ),
        (json!({"mode": "branch", "fromSeq": 1, "runOptionsOverlay": {"tags": [""]}}), RefusalKind::Invalid),
        (json!({"mode": "branch", "fromSeq": 999_999}), RefusalKind::Unprocessable),
        (json!({"mode": "replay", "fromSeq": 999_999}), RefusalKind::Unprocessable),
        (json!({"mode": "replay", "fromSeq": u64::MAX}), RefusalKind::Unprocessable),
    ];
    for (request, expected) in cases {
        let refused = host
            .runs
            .commands()
            .fork(&caller("acme"), &source, new_fork(&request), Direct)
            .await
            .unwrap_err();
        assert_eq!(refused.code.kind(), expected, "{request}: {refused}");
    }
    let unknown = host
        .runs
        .commands()
        .fork(&caller("acme"), &RunId::new("run_x"), new_fork(&json!({"mode": "replay"})), Direct)
        .await
        .unwrap_err();
    assert_eq!(unknown.code, ApiCode::RunNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_with_a_key_is_made_once() {
    let host = Host::start().await;
    let by = caller("acme");
    let source = ended(&host, "chain").await;
    let request = json!({"mode": "replay"});
    let key = keyed(&by, "POST fork", "k", &request);
    let first = host.runs.commands().fork(&by, &source, new_fork(&request), recorded(&key)).await.unwrap();
    let second = host.runs.commands().fork(&by, &source, new_fork(&request), recorded(&key)).await.unwrap();
    assert!(!first.replayed && second.replayed);
    assert_eq!(first.body, second.body);
}
