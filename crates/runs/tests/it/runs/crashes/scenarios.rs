//! The work during which the host dies.

use std::ops::RangeInclusive;
use std::pin::Pin;

use flow::engine::DrainPolicy;
use flow::event::EventKind;
use flow::id::RunId;
use ports::runs::RunStore;
use runs::Runs;
use serde_json::{Value, json};

use super::super::{caller, until, workflow};
use super::client::Client;
use super::receiver::Receiver;
use crate::runs::requests::{new_fork, new_note, new_webhook, written};

/// The environment of a scenario.
pub(super) struct Scene<'a> {
    pub(super) client: &'a mut Client,
    pub(super) runs: &'a Runs,
    pub(super) store: &'a dyn RunStore,
    pub(super) receiver: &'a Receiver,
}

/// A scenario can be repeated from its start by another host, because every request has a key.
pub(super) struct Scenario {
    /// The final number of runs.
    pub(super) runs: RangeInclusive<usize>,
    /// The number of executed effects.
    pub(super) effects: usize,
    pub(super) play: for<'a> fn(Scene<'a>) -> Playing<'a>,
}

/// A scenario in progress.
pub(super) type Playing<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// The workflows that only these scenarios use.
pub(super) fn workflows() -> Vec<Value> {
    let edge = |from: &str, to: &str| json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to});
    let effect = "core.conformance.side-effect";
    // Two end without input and one does not; the first to end cancels the others.
    let plan = json!({"mockDispatchPlan": [
        {"kind": "next-worker", "nextWorkerIds": ["echo", "gated", "brief"]},
        {"kind": "terminate", "reason": "goal-reached"},
    ]});
    let dispatch = json!({"fanOutPolicy": "parallel", "joinPolicy": {"mode": "race"}});
    vec![
        workflow("brief", &json!([["wait", "core.delay", {"delayMs": 2}]]), &json!([]), &json!([])),
        workflow(
            "conformance-effects",
            &json!([["one", effect, {}], ["two", effect, {}]]),
            &json!([edge("one", "two")]),
            &json!([]),
        ),
        workflow(
            "race",
            &json!([
                ["decide", "core.orchestrator.supervisor", plan],
                ["dispatch", "core.dispatch", dispatch]
            ]),
            &json!([edge("decide", "dispatch"), edge("dispatch", "decide")]),
            &json!([]),
        ),
    ]
}

pub(super) async fn at_once(scene: Scene<'_>) {
    let run_id = scene.client.create(scene.runs, "create", "echo").await;
    scene.client.end(scene.runs, &run_id, "run.completed").await;
}

pub(super) async fn approval(scene: Scene<'_>) {
    let run_id = scene.client.create(scene.runs, "create", "gated").await;
    scene.client.accept(scene.runs, "accept", &run_id).await;
    scene.client.end(scene.runs, &run_id, "run.completed").await;
}

pub(super) async fn timer(scene: Scene<'_>) {
    let run_id = scene.client.create(scene.runs, "create", "brief").await;
    scene.client.end(scene.runs, &run_id, "run.completed").await;
}

pub(super) async fn effects(scene: Scene<'_>) {
    let run_id = scene.client.create(scene.runs, "create", "conformance-effects").await;
    scene.client.end(scene.runs, &run_id, "run.completed").await;
}

/// The only child of a run, as soon as it waits for an answer.
async fn waiting_child(scene: &Scene<'_>, run_id: &RunId) -> RunId {
    let child = loop {
        match scene.store.children(run_id).await.unwrap().pop() {
            Some(child) => break child,
            None => tokio::task::yield_now().await,
        }
    };
    until(scene.runs, &child, |event| event.kind == EventKind::InterruptRequested).await.unwrap();
    child
}

pub(super) async fn child(scene: Scene<'_>) {
    let run_id = scene.client.create(scene.runs, "create", "parent").await;
    let child = waiting_child(&scene, &run_id).await;
    scene.client.accept(scene.runs, "accept", &child).await;
    scene.client.end(scene.runs, &child, "run.completed").await;
    scene.client.end(scene.runs, &run_id, "run.completed").await;
}

pub(super) async fn race(scene: Scene<'_>) {
    let run_id = scene.client.create(scene.runs, "create", "race").await;
    scene.client.end(scene.runs, &run_id, "run.completed").await;
    // A worker that was not joined is cancelled, too. One that was never started does not exist.
    while !scene.store.open_runs(None, 1).await.unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    for child in scene.store.children(&run_id).await.unwrap() {
        scene.client.look(scene.runs, &child);
    }
}

pub(super) async fn cancelled_parent(scene: Scene<'_>) {
    let run_id = scene.client.create(scene.runs, "create", "parent").await;
    let child = waiting_child(&scene, &run_id).await;
    let cancel = json!({});
    scene
        .client
        .ask("cancel", &cancel, async |keyed| {
            scene.runs.commands().cancel(&caller("acme"), &run_id, None, written(keyed)).await
        })
        .await;
    for run_id in [&run_id, &child] {
        scene.client.end(scene.runs, run_id, "run.cancelled").await;
    }
}

pub(super) async fn halt(scene: Scene<'_>) {
    let run_id = scene.client.create(scene.runs, "create", "slow").await;
    let (by, nothing) = (caller("acme"), json!({}));
    let policy = DrainPolicy::default();
    scene
        .client
        .ask("pause", &nothing, async |keyed| {
            scene.runs.commands().pause(&by, &run_id, None, policy, written(keyed)).await
        })
        .await;
    scene
        .client
        .ask("resume", &nothing, async |keyed| {
            scene.runs.commands().resume(&by, &run_id, None, written(keyed)).await
        })
        .await;
    scene
        .client
        .ask("cancel", &nothing, async |keyed| {
            scene.runs.commands().cancel(&by, &run_id, None, written(keyed)).await
        })
        .await;
    scene.client.end(scene.runs, &run_id, "run.cancelled").await;
}

pub(super) async fn forks(scene: Scene<'_>) {
    let by = caller("acme");
    let run_id = scene.client.create(scene.runs, "create", "gated").await;
    scene.client.accept(scene.runs, "accept", &run_id).await;
    scene.client.end(scene.runs, &run_id, "run.completed").await;
    let (replay, branch) = (json!({"mode": "replay"}), json!({"mode": "branch", "fromSeq": 3}));
    let replayed = scene
        .client
        .ask("replay", &replay, async |keyed| {
            scene.runs.commands().fork(&by, &run_id, new_fork(&replay), written(keyed)).await
        })
        .await;
    scene.client.end(scene.runs, &RunId::new(replayed["runId"].as_str().unwrap()), "run.completed").await;
    let branched = scene
        .client
        .ask("branch", &branch, async |keyed| {
            scene.runs.commands().fork(&by, &run_id, new_fork(&branch), written(keyed)).await
        })
        .await;
    let branched = branched["runId"].as_str().unwrap();
    scene.client.accept(scene.runs, "accept the branch", &RunId::new(branched)).await;
    scene.client.end(scene.runs, &RunId::new(branched), "run.completed").await;
}

pub(super) async fn subscription(scene: Scene<'_>) {
    let request = json!({
        "url": format!("http://{}/", scene.receiver.address),
        "events": ["run.started", "node.completed", "run.completed"],
    });
    scene
        .client
        .ask("subscribe", &request, async |keyed| {
            scene.runs.webhooks().register(&caller("acme"), new_webhook(&request), written(keyed)).await
        })
        .await;
    let run_id = scene.client.create(scene.runs, "create", "chain").await;
    scene.client.end(scene.runs, &run_id, "run.completed").await;
    // Delivered messages leave the queue.
    while scene.store.next_delivery().await.unwrap().is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let reported = scene.receiver.reported(&run_id);
    let kinds: Vec<&str> = reported.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["run.started", "node.completed", "node.completed", "node.completed", "run.completed"],
        "every event was delivered"
    );
}

pub(super) async fn definition_and_note(scene: Scene<'_>) {
    let by = caller("acme");
    let document = workflow("fresh", &json!([["only", "core.noop", {}]]), &json!([]), &json!([]));
    scene
        .client
        .ask("register", &document, async |keyed| {
            scene.runs.definitions().register_for(&by, &document, written(keyed)).await
        })
        .await;
    let run_id = scene.client.create(scene.runs, "create", "fresh").await;
    let note = json!({"signal": {"kind": "flag"}});
    scene
        .client
        .ask("annotate", &note, async |keyed| {
            scene.runs.annotations().add(&by, &run_id, new_note(&note), written(keyed)).await
        })
        .await;
    let notes = scene.runs.annotations().list(&by, &run_id).await.unwrap();
    assert_eq!(notes.len(), 1, "{notes:?}");
}

pub(super) async fn many_cancelled(scene: Scene<'_>) {
    let first = scene.client.create(scene.runs, "create the first", "slow").await;
    let second = scene.client.create(scene.runs, "create the second", "gated").await;
    let request = json!({"runIds": [first, second]});
    let ended = scene
        .client
        .ask("cancel", &request, async |keyed| {
            let ids = [first.clone(), second.clone()];
            scene.runs.commands().cancel_many(&caller("acme"), &ids, None, written(keyed)).await
        })
        .await;
    assert_eq!(ended, json!([{"status": "cancelled"}, {"status": "cancelled"}]));
    for run_id in [&first, &second] {
        scene.client.end(scene.runs, run_id, "run.cancelled").await;
    }
}
