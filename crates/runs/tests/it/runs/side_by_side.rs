//! The effects of one decision: executed concurrently, within limits, and never before the cancellations of a run.

use flow::id::NodeId;
use ports::runs::prelude::*;
use runs::Direct;
use runs::MAX_AT_WORK_FOR_A_RUN;
use serde_json::{Value, json};

use super::models::executors;
use super::provider::{ModelServer, reply};
use super::{Host, Setup, begin, caller, events, kinds, snapshot, status, to_the_end, until, workflow};

fn call(id: &str) -> Value {
    let messages = json!([{"role": "user", "content": format!("I am {id}.")}]);
    json!([id, "core.ai.callPrompt", {}, {"messages": {"type": "static", "value": messages}}])
}

/// A workflow of independent calls.
fn calls(id: &str, count: usize) -> Value {
    let nodes: Vec<_> = (0..count).map(|place| call(&format!("n{place}"))).collect();
    workflow(id, &json!(nodes), &json!([]), &json!([]))
}

async fn asking(server: &ModelServer, workflows: &[Value]) -> (Host, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { executors: Some(executors(folder.path(), Some(&server.base))), ..Setup::default() };
    let host = Host::with(setup).await;
    for workflow in workflows {
        host.runs.definitions().register(&caller("acme"), workflow).await.unwrap();
    }
    (host, folder)
}

/// The node of the n-th request.
fn asker(server: &ModelServer, place: usize) -> String {
    let body = server.requests()[place].body.to_string();
    let from = body.find("I am ").unwrap() + "I am ".len();
    body[from..].split('.').next().unwrap().to_owned()
}

/// Two calls of one decision were made sequentially (finding 2 of the code review): the second request was sent after the first reply. Here
/// no reply is sent before both requests have arrived.
#[tokio::test]
async fn independent_calls_are_concurrent() {
    let server = ModelServer::held(vec![reply("yes")]);
    let (host, _folder) = asking(&server, &[calls("two", 2)]).await;
    let run_id = begin(&host.runs, "two").await;
    server.asked().await;
    server.asked().await;
    server.let_go();
    server.let_go();
    let events = to_the_end(&host.runs, &run_id).await;
    assert_eq!(snapshot(&host.runs, &caller("acme"), &run_id)["status"], "completed", "{events:?}");
    assert_eq!(server.count(), 2, "each was asked once");
}

/// Results of calls are appended as they arrive, and the ids of their effects do not depend on the order.
#[tokio::test]
async fn outcomes_are_appended_as_they_arrive() {
    let server = ModelServer::held(vec![reply("yes")]);
    let (host, _folder) = asking(&server, &[calls("two", 2)]).await;
    let run_id = begin(&host.runs, "two").await;
    server.asked().await;
    server.asked().await;
    // The server replies in the order of the requests.
    for place in 0..2 {
        server.let_go();
        let node = asker(&server, place);
        let ended = until(&host.runs, &run_id, |event| {
            event.kind.as_str() == "node.completed"
                && event.node_id.as_ref().map(NodeId::as_str) == Some(&*node)
        });
        ended.await.expect("its node ends");
    }
    let events = to_the_end(&host.runs, &run_id).await;
    let completed = events.iter().filter(|event| event["type"] == "node.completed");
    let completed: Vec<_> = completed.map(|event| event["nodeId"].as_str().unwrap().to_owned()).collect();
    assert_eq!(completed, [asker(&server, 0), asker(&server, 1)]);
}

/// A model that did not reply delayed the child and the other nodes of the same decision.
#[tokio::test]
async fn a_child_and_other_nodes_do_not_wait_for_a_call() {
    let server = ModelServer::held(vec![reply("yes")]);
    let mixed = workflow(
        "mixed",
        &json!([call("asks"), ["child", "core.subWorkflow", {"workflowId": "chain"}], ["other", "core.noop", {}]]),
        &json!([]),
        &json!([]),
    );
    let (host, _folder) = asking(&server, &[mixed]).await;
    let run_id = begin(&host.runs, "mixed").await;
    for node in ["child", "other"] {
        let ended = until(&host.runs, &run_id, |event| {
            event.kind.as_str() == "node.completed"
                && event.node_id.as_ref().map(NodeId::as_str) == Some(node)
        });
        assert!(ended.await.is_some(), "{node} ends while the model is silent");
    }
    assert_eq!(status(&host.runs, &run_id), "running");
    server.let_go();
    to_the_end(&host.runs, &run_id).await;
    assert_eq!(status(&host.runs, &run_id), "completed");
}

/// The cancellation of a child waited for a call that the same decision requested before it. Here the call is not made, because its run has failed.
#[tokio::test]
async fn a_child_ends_with_its_run_whatever_else_the_decision_requested() {
    let server = ModelServer::held(vec![reply("yes")]);
    let next = |from: &str, to: &str| json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to});
    let doomed = workflow(
        "doomed",
        &json!([
            ["child", "core.subWorkflow", {"workflowId": "slow"}],
            ["gate", "core.approvalGate", {"title": "Gate", "actions": ["accept", "reject"]}],
            call("asks"),
            ["fails", "core.fail", {"code": "meant", "message": "meant"}],
        ]),
        &json!([next("gate", "asks"), next("gate", "fails")]),
        &json!([]),
    );
    let (host, _folder) = asking(&server, &[doomed]).await;
    let by = caller("acme");
    let run_id = begin(&host.runs, "doomed").await;
    let child = loop {
        if let Some(child) = host.store.children(&run_id).await.unwrap().pop() {
            break child;
        }
        tokio::task::yield_now().await;
    };
    host.runs
        .commands()
        .resolve(&by, &run_id, &NodeId::new("gate"), json!({"action": "accept"}), Direct)
        .await
        .unwrap();
    let events = to_the_end(&host.runs, &run_id).await;
    let started = events.iter().filter(|event| event["type"] == "node.started");
    assert!(
        started.clone().any(|event| event["nodeId"] == "asks"),
        "the decision asked for the call: {events:?}"
    );
    let cancelled = until(&host.runs, &child, |event| event.kind.as_str() == "run.cancelled").await;
    assert!(cancelled.is_some(), "no answer was let go");
    host.runs.drain().await;
    assert_eq!(server.count(), 0);
}

/// The number of concurrent calls of a run is limited. The others wait, unclaimed, and are not made after the run has ended.
#[tokio::test]
async fn the_concurrent_calls_of_a_run_are_limited_and_waiting_calls_end_with_it() {
    let server = ModelServer::held(vec![reply("yes")]);
    let (host, _folder) = asking(&server, &[calls("many", MAX_AT_WORK_FOR_A_RUN + 3), calls("two", 2)]).await;
    let run_id = begin(&host.runs, "many").await;
    for _ in 0..MAX_AT_WORK_FOR_A_RUN {
        server.asked().await;
    }
    // Another run does not wait for this one.
    let other = begin(&host.runs, "two").await;
    server.asked().await;
    server.asked().await;
    assert_eq!(server.count(), MAX_AT_WORK_FOR_A_RUN + 2);
    host.runs.commands().cancel(&caller("acme"), &run_id, None, Direct).await.unwrap();
    for _ in 0..MAX_AT_WORK_FOR_A_RUN + 2 {
        server.let_go();
    }
    to_the_end(&host.runs, &other).await;
    host.runs.drain().await;
    assert_eq!(server.count(), MAX_AT_WORK_FOR_A_RUN + 2, "those that waited were not made");
    let kept = events(&host.runs, "acme", &run_id);
    assert_eq!(kinds(&kept).last(), Some(&"run.cancelled"));
}

/// A run that is paused during two calls requests both again on resume, and each is made once.
#[tokio::test]
async fn calls_that_a_pause_meets_are_made_once() {
    let server = ModelServer::held(vec![reply("yes")]);
    let (host, _folder) = asking(&server, &[calls("two", 2)]).await;
    let by = caller("acme");
    let run_id = begin(&host.runs, "two").await;
    server.asked().await;
    server.asked().await;
    let policy = flow::engine::DrainPolicy::Immediate;
    host.runs.commands().pause(&by, &run_id, None, policy, Direct).await.unwrap();
    server.let_go();
    host.runs.commands().resume(&by, &run_id, None, Direct).await.unwrap();
    server.let_go();
    to_the_end(&host.runs, &run_id).await;
    assert_eq!((status(&host.runs, &run_id).as_str(), server.count()), ("completed", 2));
}
