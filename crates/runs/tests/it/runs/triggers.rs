//! Messages and records that start runs.

mod nats;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use canon::time::Timestamp;
use flow::id::{RunId, WorkflowId};
use ports::Cause;
use ports::PortFuture;
use ports::runs::prelude::*;
use ports::runs::{Change, Commit, CommitError, CommitFuture, RunFilter, RunStore};
use ports::wrapper::Wrapper;
use runs::Runs;
use serde_json::{Value, json};
use storage::sqlite::SqliteRuns;
use surfaces::queue::{Consume, Queue};
use surfaces::{Scope, Tenant};
use tokio::task::JoinHandle;
use triggers::{TriggerEvent, TriggerObserver, keep_listening};

use super::executors::stores;
use super::{Host, Setup, caller, on, open, workflow};
use crate::wait::Wait as _;

pub(super) fn quiet() -> TriggerObserver {
    Arc::new(|_| {})
}

/// Starts the triggers of a host.
pub(super) fn listen(runs: &Runs) -> JoinHandle<()> {
    let runs = runs.clone();
    tokio::spawn(async move { keep_listening(&runs, quiet()).await })
}

fn of(node: &str, output: &str) -> Value {
    json!({"type": "connection", "nodeId": node, "outputKey": output})
}

/// A workflow that messages start, and that outputs them.
pub(super) fn on_queue(id: &str, topic: &str, config: &Value) -> Value {
    let nodes = json!([
        ["take", "core.messaging.consume", {"topic": topic}],
        ["end", "core.end", {}, {"payload": of("take", "payload"), "id": of("take", "messageId")}],
    ]);
    let edges = json!([{"id": "e", "sourceNodeId": "take", "targetNodeId": "end"}]);
    let mut document = workflow(id, &nodes, &edges, &json!([]));
    document["triggers"] = json!([{"id": "messages", "type": "event", "nodeId": "take", "config": config}]);
    document
}

/// A workflow that records start, and that outputs them.
pub(super) fn on_stream(id: &str, stream: &str, from_beginning: bool) -> Value {
    let nodes = json!([
        ["follow", "core.messaging.stream-subscribe", {"stream": stream, "fromBeginning": from_beginning}],
        ["end", "core.end", {}, {"payload": of("follow", "record"), "id": of("follow", "offset")}],
    ]);
    let edges = json!([{"id": "e", "sourceNodeId": "follow", "targetNodeId": "end"}]);
    let mut document = workflow(id, &nodes, &edges, &json!([]));
    document["triggers"] = json!([{"id": "records", "type": "event", "nodeId": "follow"}]);
    document
}

pub(super) fn scope(tenant: &str) -> Scope {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Scope::new(Tenant::new(tenant).unwrap(), Timestamp(u64::try_from(now.as_millis()).unwrap()))
}

pub(super) fn queue_of(runs: &Runs) -> Arc<dyn Queue> {
    Arc::clone(runs.features().executors().unwrap().surfaces().unwrap().queue())
}

pub(super) async fn publish(runs: &Runs, tenant: &str, topic: &str, payload: Value) -> String {
    queue_of(runs).publish(&scope(tenant), topic.into(), payload).await.unwrap()
}

/// Waits for a condition without a notification.
pub(super) async fn wait_for<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looked = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), looked).await.unwrap_or_else(|_| panic!("{what}"))
}

/// The ended runs of a workflow, by what started them, oldest first, with their outputs.
pub(super) fn ended(runs: &Runs, tenant: &str, workflow_id: &str) -> Vec<(String, Value)> {
    let filter = RunFilter { workflow_id: Some(WorkflowId::new(workflow_id)), ..RunFilter::default() };
    let snapshots = runs.queries().list(&caller(tenant), &filter, 200).wait().unwrap().runs;
    let run_ids = snapshots.iter().rev().map(|snapshot| {
        let snapshot: Value = serde_json::from_slice(snapshot).unwrap();
        RunId::new(snapshot["runId"].as_str().unwrap())
    });
    let mut ended = Vec::new();
    for run_id in run_ids {
        let events = super::events(runs, tenant, &run_id);
        let started = &events[0];
        let message = started["payload"]["trigger"]["messageId"].as_str().unwrap().to_owned();
        assert_eq!(started["causationId"], message.as_str());
        let end = events.last().unwrap();
        if end["type"] == "run.completed" {
            ended.push((message, end["payload"]["outputs"]["payload"].clone()));
        }
    }
    ended
}

/// Waits until a workflow has had a number of runs, and returns what started them and their outputs.
pub(super) async fn after(
    runs: &Runs,
    tenant: &str,
    workflow_id: &str,
    count: usize,
) -> Vec<(String, Value)> {
    wait_for("the runs of the messages", async || {
        let found = ended(runs, tenant, workflow_id);
        (found.len() >= count).then_some(found)
    })
    .await
}

/// Waits until a queue is empty.
pub(super) async fn is_empty(runs: &Runs, tenant: &str, topic: &str) {
    let queue = queue_of(runs);
    wait_for("the queue to be empty", async || {
        queue.due(&scope(tenant), topic).await.unwrap().is_none().then_some(())
    })
    .await;
}

async fn host() -> (Host, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::with(Setup { executors: Some(stores(folder.path())), ..Setup::default() }).await;
    (host, folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_starts_exactly_one_run() {
    let (host, _folder) = host().await;
    let mut published = BTreeMap::new();
    for n in 0..64 {
        if n == 32 {
            // Half of them are published before a trigger listens.
            host.runs
                .definitions()
                .register(&caller("acme"), &on_queue("takes", "jobs", &json!({})))
                .await
                .unwrap();
            listen(&host.runs);
        }
        published.insert(publish(&host.runs, "acme", "jobs", json!({"n": n})).await, json!({"n": n}));
    }
    let found = after(&host.runs, "acme", "takes", 64).await;
    is_empty(&host.runs, "acme", "jobs").await;
    assert_eq!(found.len(), 64);
    assert_eq!(ended(&host.runs, "acme", "takes").len(), 64, "and no more");
    assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), published);
    host.runs.drain().await;
    let database = rusqlite::Connection::open(host.folder.path().join("runs.sqlite3")).unwrap();
    let claims =
        || database.query_row("SELECT count(*) FROM claimed_messages", [], |row| row.get::<_, u64>(0));
    wait_for("claims to be forgotten", async || (claims().unwrap() == 0).then_some(())).await;
}

#[tokio::test]
async fn a_message_of_a_tenant_starts_no_run_of_another() {
    let (host, _folder) = host().await;
    for tenant in ["acme", "other"] {
        host.runs
            .definitions()
            .register(&caller(tenant), &on_queue("takes", "jobs", &json!({})))
            .await
            .unwrap();
        host.runs.definitions().register(&caller(tenant), &on_stream("follows", "log", true)).await.unwrap();
    }
    listen(&host.runs);
    let queue = queue_of(&host.runs);
    for n in 0..8 {
        publish(&host.runs, "acme", "jobs", json!(n)).await;
        queue.stream_publish(&scope("acme"), "log".into(), json!({"n": n})).await.unwrap();
    }
    after(&host.runs, "acme", "takes", 8).await;
    after(&host.runs, "acme", "follows", 8).await;
    // Messages of the other tenant start runs too, and the earlier ones would have been first.
    publish(&host.runs, "other", "jobs", json!("last")).await;
    queue.stream_publish(&scope("other"), "log".into(), json!({"n": "last"})).await.unwrap();
    let payloads =
        |found: Vec<(String, Value)>| found.into_iter().map(|(_, payload)| payload).collect::<Vec<_>>();
    assert_eq!(payloads(after(&host.runs, "other", "takes", 1).await), [json!("last")]);
    assert_eq!(payloads(after(&host.runs, "other", "follows", 1).await), [json!({"n": "last"})]);
    assert_eq!(ended(&host.runs, "acme", "takes").len(), 8);
}

#[tokio::test]
async fn a_message_starts_one_run_though_two_workflows_listen() {
    let (host, _folder) = host().await;
    for id in ["one", "two"] {
        host.runs.definitions().register(&caller("acme"), &on_queue(id, "jobs", &json!({}))).await.unwrap();
    }
    listen(&host.runs);
    for n in 0..20 {
        publish(&host.runs, "acme", "jobs", json!(n)).await;
    }
    let both = || ended(&host.runs, "acme", "one").len() + ended(&host.runs, "acme", "two").len();
    wait_for("all runs", async || (both() >= 20).then_some(())).await;
    is_empty(&host.runs, "acme", "jobs").await;
    assert_eq!(both(), 20);
}

/// A workflow that accepts only numbers.
fn numbers(trigger: &Value) -> Value {
    let variables = json!([{"name": "n", "type": "number", "required": true}]);
    let given = json!({"payload": {"type": "variable", "variableName": "n"}});
    let mut document = workflow("numbers", &json!([["end", "core.end", {}, given]]), &json!([]), &variables);
    document["triggers"] = json!([trigger]);
    document
}

#[tokio::test]
async fn a_message_that_no_run_can_be_started_for_is_a_dead_letter_with_the_reason() {
    let (host, _folder) = host().await;
    let config =
        json!({"topic": "numbers", "maxAttempts": 3, "retryDelayMs": 1, "inputs": {"n": "/payload/value"}});
    let trigger = json!({"id": "t", "type": "event", "eventType": "queue.message", "config": config});
    host.runs.definitions().register(&caller("acme"), &numbers(&trigger)).await.unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (runs, hears) = (host.runs.clone(), Arc::clone(&heard));
    tokio::spawn(async move {
        keep_listening(&runs, Arc::new(move |reported| hears.lock().unwrap().push(reported))).await;
    });
    let bad = publish(&host.runs, "acme", "numbers", json!({"value": "five"})).await;
    publish(&host.runs, "acme", "numbers", json!({"value": 5})).await;
    let found = after(&host.runs, "acme", "numbers", 1).await;
    assert_eq!(found[0].1, json!(5), "others are not kept waiting");
    let queue = queue_of(&host.runs);
    let letter = wait_for("the dead letter", async || {
        queue.consume(&scope("acme"), Consume::of("numbers.dlq")).await.unwrap()
    })
    .await;
    assert_eq!(letter.payload["original"], json!({"value": "five"}));
    let reason = letter.payload["deadLetterReason"].as_str().unwrap();
    assert_eq!(reason, "validation_error: /inputs/n: expected a number");
    is_empty(&host.runs, "acme", "numbers").await;
    let reported = wait_for("the word of it", async || {
        let heard = heard.lock().unwrap();
        heard.iter().find(|reported| matches!(reported, TriggerEvent::DeadLetter { .. })).cloned()
    });
    assert!(matches!(reported.await, TriggerEvent::DeadLetter { message_id, .. } if message_id == bad));
    assert_eq!(ended(&host.runs, "acme", "numbers").len(), 1);
}

#[tokio::test]
async fn a_record_without_a_possible_run_is_dead_lettered_and_the_stream_continues() {
    let (host, _folder) = host().await;
    let config = json!({"stream": "numbers", "fromBeginning": true, "maxAttempts": 2, "retryDelayMs": 1});
    let trigger = json!({"id": "t", "type": "event", "eventType": "stream.record", "config": config});
    host.runs.definitions().register(&caller("acme"), &numbers(&trigger)).await.unwrap();
    listen(&host.runs);
    let queue = queue_of(&host.runs);
    for record in [json!({"n": 1}), json!({"n": "two"}), json!({"n": 3})] {
        queue.stream_publish(&scope("acme"), "numbers".into(), record).await.unwrap();
    }
    let found = after(&host.runs, "acme", "numbers", 2).await;
    assert_eq!(found.into_iter().map(|(_, n)| n).collect::<Vec<_>>(), [json!(1), json!(3)]);
    let letter = queue.consume(&scope("acme"), Consume::of("numbers.dlq")).await.unwrap().unwrap();
    assert_eq!(letter.payload["original"], json!({"n": "two"}));
    assert_eq!(queue.consume(&scope("acme"), Consume::of("numbers.dlq")).await.unwrap(), None);
}

fn records(found: Vec<(String, Value)>) -> Vec<u64> {
    found.into_iter().map(|(_, record)| record["n"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn every_record_starts_one_run_of_each_trigger_from_where_it_began_and_in_order() {
    let (host, folder) = host().await;
    let queue = queue_of(&host.runs);
    let put = async |from: u64, to: u64| {
        for n in from..to {
            queue.stream_publish(&scope("acme"), "log".into(), json!({"n": n})).await.unwrap();
        }
    };
    put(0, 20).await;
    host.runs.definitions().register(&caller("acme"), &on_stream("all", "log", true)).await.unwrap();
    host.runs.definitions().register(&caller("acme"), &on_stream("later", "log", false)).await.unwrap();
    // No trigger listens yet: records that are published after the registration count.
    put(20, 40).await;
    let listening = listen(&host.runs);
    assert_eq!(records(after(&host.runs, "acme", "all", 40).await), (0..40).collect::<Vec<_>>());
    assert_eq!(records(after(&host.runs, "acme", "later", 20).await), (20..40).collect::<Vec<_>>());
    host.runs.drain().await;
    listening.await.unwrap();
    put(40, 45).await;
    // The next process continues at the position of the last one.
    let (runs, _) =
        open(host.folder.path(), Setup { executors: Some(stores(folder.path())), ..Setup::default() });
    listen(&runs);
    assert_eq!(records(after(&runs, "acme", "all", 45).await), (0..45).collect::<Vec<_>>());
    assert_eq!(records(after(&runs, "acme", "later", 25).await), (20..45).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_workflow_that_is_registered_again_listens_to_what_it_says_now() {
    let (host, _folder) = host().await;
    let by = caller("acme");
    host.runs.definitions().register(&by, &on_queue("takes", "first", &json!({}))).await.unwrap();
    let listening = listen(&host.runs);
    publish(&host.runs, "acme", "first", json!(1)).await;
    after(&host.runs, "acme", "takes", 1).await;
    host.runs.definitions().register(&by, &on_queue("takes", "second", &json!({}))).await.unwrap();
    publish(&host.runs, "acme", "second", json!(2)).await;
    let kept = publish(&host.runs, "acme", "first", json!(3)).await;
    after(&host.runs, "acme", "takes", 2).await;
    let mut silent = on_queue("takes", "second", &json!({}));
    silent["triggers"][0]["enabled"] = json!(false);
    host.runs.definitions().register(&by, &silent).await.unwrap();
    publish(&host.runs, "acme", "second", json!(4)).await;
    // After the end of the old trigger, its messages still exist.
    host.runs.drain().await;
    listening.await.unwrap();
    let queue = queue_of(&host.runs);
    let waiting = queue.consume(&scope("acme"), Consume::of("first")).await.unwrap().unwrap();
    assert_eq!((waiting.id, waiting.payload), (kept, json!(3)));
    let silent = queue.consume(&scope("acme"), Consume::of("second")).await.unwrap();
    assert_eq!(silent.map(|delivery| delivery.payload), Some(json!(4)));
    let found = ended(&host.runs, "acme", "takes");
    assert_eq!(found.into_iter().map(|(_, payload)| payload).collect::<Vec<_>>(), [json!(1), json!(2)]);
}

#[tokio::test]
async fn each_message_starts_one_run_while_its_workflow_is_registered_repeatedly() {
    let (host, _folder) = host().await;
    let by = caller("acme");
    let document = |round: u64| on_queue("takes", "jobs", &json!({"retryDelayMs": 1 + round}));
    host.runs.definitions().register(&by, &document(0)).await.unwrap();
    listen(&host.runs);
    for round in 1..=16 {
        publish(&host.runs, "acme", "jobs", json!(round)).await;
        host.runs.definitions().register(&by, &document(round)).await.unwrap();
        publish(&host.runs, "acme", "jobs", json!(-1)).await;
    }
    after(&host.runs, "acme", "takes", 32).await;
    is_empty(&host.runs, "acme", "jobs").await;
    assert_eq!(ended(&host.runs, "acme", "takes").len(), 32);
}

#[tokio::test]
async fn a_tenant_whose_name_is_invalid_for_queues_is_refused() {
    let (host, _folder) = host().await;
    let refusal = host
        .runs
        .definitions()
        .register(&caller("a b"), &on_queue("takes", "jobs", &json!({})))
        .await
        .unwrap_err();
    assert_eq!(refusal.code.as_str(), "validation_error");
    assert!(refusal.message.contains("/triggers"), "{refusal}");
}

/// A store that temporarily cannot create runs.
#[derive(Debug)]
struct Tired {
    store: SqliteRuns,
    refuses: Mutex<u32>,
}

impl Wrapper for Tired {
    fn wrapped(&self) -> &dyn RunStore {
        &self.store
    }

    fn commit_wrapped(&self, commit: Commit) -> CommitFuture {
        let mut refuses = self.refuses.lock().unwrap();
        if *refuses > 0 && commit.changes.iter().any(|change| matches!(change, Change::CreateRun { .. })) {
            *refuses -= 1;
            return PortFuture::ready(Err(CommitError::Store(Cause::new("not now"))));
        }
        drop(refuses);
        self.store.commit(commit)
    }
}

fn tired(folder: &Path, refuses: u32) -> (Runs, Arc<Tired>) {
    let store = SqliteRuns::open(&folder.join("runs.sqlite3")).unwrap();
    let store = Arc::new(Tired { store, refuses: Mutex::new(refuses) });
    let setup = Setup { executors: Some(stores(folder)), ..Setup::default() };
    (on(Arc::clone(&store) as Arc<dyn RunStore>, setup), store)
}

#[tokio::test]
async fn a_trigger_waits_for_an_overloaded_host_and_this_is_not_an_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, store) = tired(folder.path(), 3);
    let config = json!({"maxAttempts": 1});
    runs.definitions().register(&caller("acme"), &on_queue("takes", "jobs", &config)).await.unwrap();
    listen(&runs);
    publish(&runs, "acme", "jobs", json!(1)).await;
    after(&runs, "acme", "takes", 1).await;
    assert_eq!(*store.refuses.lock().unwrap(), 0);
    is_empty(&runs, "acme", "jobs").await;
    assert_eq!(queue_of(&runs).due(&scope("acme"), "jobs.dlq").await.unwrap(), None);
}

#[tokio::test]
async fn a_host_that_stops_returns_the_messages_that_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, store) = tired(folder.path(), u32::MAX);
    runs.definitions().register(&caller("acme"), &on_queue("takes", "jobs", &json!({}))).await.unwrap();
    let listening = listen(&runs);
    publish(&runs, "acme", "jobs", json!(1)).await;
    wait_for("it to be tried", async || (*store.refuses.lock().unwrap() < u32::MAX).then_some(())).await;
    runs.drain().await;
    listening.await.unwrap();
    let back = queue_of(&runs).consume(&scope("acme"), Consume::of("jobs")).await.unwrap();
    assert_eq!(
        back.map(|delivery| delivery.payload),
        Some(json!(1)),
        "at once, and not when its lease is over"
    );
    assert!(ended(&runs, "acme", "takes").is_empty());
}
