//! Runs that start runs.

use canon::digest::Digest;
use flow::id::{NodeId, RunId, Shard, Tenant};
use flow::run::RunStatus;
use ports::runs::RunFilter;
use ports::runs::prelude::*;
use runs::create::Creation;
use runs::{Direct, MAX_FAMILY, Runs, Waiting};
use serde_json::{Value, json};

use super::{
    Host, Setup, begin, caller, create, events, keep_time, kinds, open, snapshot, status, to_the_end,
    workflow,
};
use crate::runs::requests::{new_run, recorded};
use crate::wait::Wait as _;

/// A workflow whose nodes each start another workflow, in parallel.
fn calling(id: &str, children: &[&str]) -> Value {
    let nodes = children.iter().enumerate().map(|(place, child)| {
        json!([format!("n{place}"), "core.subWorkflow", {"workflowId": child, "onChildFailure": "absorb"}])
    });
    workflow(id, &nodes.collect(), &json!([]), &json!([]))
}

/// What a run waits for, checked again after each notification of its feed.
async fn waiting(runs: &Runs, run_id: &RunId) -> Vec<Waiting> {
    let mut following = runs.queries().follow(&Tenant::new("acme"), run_id, 0).await.unwrap().with_below();
    while following.stored().await.unwrap().is_some() {}
    loop {
        let waiting = runs.queries().waiting(&caller("acme"), run_id).await.unwrap();
        if !waiting.is_empty() {
            return waiting;
        }
        assert!(following.next().await.unwrap().is_some(), "the run does not wait");
    }
}

/// The child run of a node, as soon as it exists.
async fn child_of(host: &Host, run_id: &RunId, node: &str) -> RunId {
    loop {
        for child in host.store.children(run_id).await.unwrap() {
            let row = host.store.run(None, &child).await.unwrap().unwrap();
            let genesis: Value = serde_json::from_slice(&row.genesis).unwrap();
            if genesis["parent"]["nodeId"] == node {
                return child;
            }
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_run_waits_for_people_when_all_that_it_waits_for_below_does() {
    let host = Host::start().await;
    let by = caller("acme");
    for (id, children) in [("inner", &["gated", "slow"][..]), ("outer", &["inner", "gated"])] {
        host.runs.definitions().register(&by, &calling(id, children)).await.unwrap();
    }
    let run_id = begin(&host.runs, "outer").await;
    let inner = child_of(&host, &run_id, "n0").await;
    let (deep, slow) = (child_of(&host, &inner, "n0").await, child_of(&host, &inner, "n1").await);
    let near = child_of(&host, &run_id, "n1").await;
    assert_eq!(waiting(&host.runs, &deep).await[0].run_id, deep, "one that waits itself");
    assert_eq!(waiting(&host.runs, &near).await[0].run_id, near);
    assert_eq!(host.runs.queries().waiting(&by, &run_id).await.unwrap(), [], "one of them works");
    // The end of the active child changes neither the parent nor the waiting children.
    let (looked, ()) = tokio::join!(waiting(&host.runs, &run_id), async {
        host.runs.commands().cancel(&by, &slow, None, Direct).await.unwrap();
    });
    let ids: Vec<&str> = looked.iter().map(|run| run.run_id.as_str()).collect();
    assert_eq!(ids, [deep.as_str(), near.as_str()]);
    assert!(looked.iter().all(|run| run.status.as_str() == "waiting-approval"));
    assert_eq!(
        host.runs.queries().waiting(&caller("other"), &run_id).await.unwrap(),
        [],
        "of another tenant"
    );
    host.runs.commands().pause(&by, &near, None, flow::engine::DrainPolicy::Immediate, Direct).await.unwrap();
    assert_eq!(host.runs.queries().waiting(&by, &run_id).await.unwrap(), [], "one of them is halted");
    host.runs.commands().resume(&by, &near, None, Direct).await.unwrap();
    for run in [&deep, &near] {
        host.runs
            .commands()
            .resolve(&by, run, &NodeId::new("gate"), json!({"action": "accept"}), Direct)
            .await
            .unwrap();
    }
    to_the_end(&host.runs, &run_id).await;
    assert_eq!(status(&host.runs, &run_id), "completed");
    assert_eq!(host.runs.queries().waiting(&by, &run_id).await.unwrap(), []);
}

#[tokio::test]
async fn a_run_that_asks_beside_a_child_that_does_is_among_those_that_wait() {
    let host = Host::start().await;
    let nodes = json!([
        ["gate", "core.approvalGate", {}],
        ["call", "core.subWorkflow", {"workflowId": "gated"}],
    ]);
    let both = workflow("both", &nodes, &json!([]), &json!([]));
    host.runs.definitions().register(&caller("acme"), &both).await.unwrap();
    let run_id = begin(&host.runs, "both").await;
    let child = child_of(&host, &run_id, "call").await;
    until_status(&host.runs, &run_id, "waiting-approval").await;
    let found = waiting(&host.runs, &run_id).await;
    let found: Vec<_> = found.iter().map(|run| (run.run_id.as_str(), run.status.as_str())).collect();
    assert_eq!(found, [(run_id.as_str(), "waiting-approval"), (child.as_str(), "waiting-approval")]);
}

/// Watches a run until it has that status.
pub(super) async fn until_status(runs: &Runs, run_id: &RunId, wanted: &str) {
    let mut following = runs.queries().follow(&Tenant::new("acme"), run_id, 0).await.unwrap();
    while status(runs, run_id) != wanted {
        if following.stored().await.unwrap().is_none() {
            following.next().await.unwrap();
        }
    }
}

/// Finding 3 of the current suite: a parent was shown as running while its child waited, also in lists by status and after a restart.
#[tokio::test]
async fn a_parent_has_the_status_of_the_child_that_it_waits_for() {
    let host = Host::start().await;
    let by = caller("acme");
    for (id, child) in [("inner", "gated"), ("outer", "inner")] {
        host.runs.definitions().register(&by, &calling(id, &[child])).await.unwrap();
    }
    let run_id = begin(&host.runs, "outer").await;
    until_status(&host.runs, &run_id, "waiting-approval").await;
    let shown = snapshot(&host.runs, &by, &run_id);
    assert_eq!(shown["childRuns"][0]["status"], "waiting-approval");
    let listed = |runs: &Runs| {
        let filter = RunFilter { status: Some(RunStatus::WaitingApproval), ..RunFilter::default() };
        let found = runs.queries().list(&by, &filter, 10).wait().unwrap().runs;
        found
            .iter()
            .map(|run| serde_json::from_slice::<Value>(run).unwrap()["workflowId"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(listed(&host.runs), ["gated", "inner", "outer"]);
    // A restarted host finds the same status, and continues with the answer.
    let events = events(&host.runs, "acme", &run_id).len();
    host.runs.drain().await;
    let (runs, _store) = open(host.folder.path(), Setup::default());
    runs.engine().recover().await.unwrap();
    keep_time(&runs);
    assert_eq!(listed(&runs), ["gated", "inner", "outer"]);
    assert_eq!(super::events(&runs, "acme", &run_id).len(), events, "no event is recorded twice");
    let leaf = runs.queries().waiting(&by, &run_id).await.unwrap().remove(0);
    runs.commands()
        .resolve(&by, &leaf.run_id, &NodeId::new("gate"), json!({"action": "accept"}), Direct)
        .await
        .unwrap();
    to_the_end(&runs, &run_id).await;
    assert_eq!(status(&runs, &run_id), "completed");
}

/// Finding 4 of the current suite: an event named a run that could not be found.
#[tokio::test]
async fn a_child_that_an_event_names_can_be_read_and_cancelled() {
    let host = Host::start().await;
    let by = caller("acme");
    host.runs.definitions().register(&by, &calling("many", &["slow"; 20])).await.unwrap();
    for round in 0..5 {
        let run_id = begin(&host.runs, "many").await;
        let named = events(&host.runs, "acme", &run_id);
        let named = named.iter().filter_map(|event| event["payload"]["childRunId"].as_str());
        let named: Vec<_> = named.map(str::to_owned).collect();
        assert_eq!(named.len(), 20, "round {round}");
        let shown = snapshot(&host.runs, &by, &run_id);
        assert_eq!(shown["childRuns"].as_array().unwrap().len(), 20);
        for child in &named {
            assert_eq!(
                snapshot(&host.runs, &by, &RunId::new(child.as_str()))["parentRunId"],
                run_id.as_str()
            );
            assert_eq!(
                host.runs.commands().cancel(&by, &RunId::new(child.as_str()), None, Direct).await.unwrap(),
                RunStatus::Cancelled
            );
        }
        to_the_end(&host.runs, &run_id).await;
        for child in &named {
            let reported = events(&host.runs, "acme", &RunId::new(child.as_str()));
            assert_eq!(
                kinds(&reported).iter().filter(|kind| **kind == "run.started").count(),
                1,
                "{reported:?}"
            );
            assert_eq!(status(&host.runs, &RunId::new(child.as_str())), "cancelled");
        }
    }
}

#[tokio::test]
async fn more_runs_than_are_looked_through_count_as_under_way() {
    let host = Host::start().await;
    let by = caller("acme");
    // Including their parent.
    for (id, count) in [("some", MAX_FAMILY - 1), ("many", MAX_FAMILY)] {
        host.runs.definitions().register(&by, &calling(id, &vec!["gated"; count])).await.unwrap();
        let run_id = begin(&host.runs, id).await;
        while host.store.children(&run_id).await.unwrap().len() < count {
            tokio::task::yield_now().await;
        }
        for child in host.store.children(&run_id).await.unwrap() {
            waiting(&host.runs, &child).await;
        }
        let found = host.runs.queries().waiting(&by, &run_id).await.unwrap();
        assert_eq!(found.len(), if id == "some" { count } else { 0 });
    }
}

#[tokio::test]
async fn the_children_of_an_untrusted_run_are_untrusted() {
    let host = Host::start().await;
    let by = caller("acme");
    for (id, child) in [("inner", "gated"), ("outer", "inner")] {
        host.runs.definitions().register(&by, &calling(id, &[child])).await.unwrap();
    }
    for (given, has) in [
        (json!({"trustBoundary": "untrusted", "note": "its own"}), json!({"trustBoundary": "untrusted"})),
        (json!({"note": "its own"}), Value::Null),
    ] {
        let run_id = create(&host.runs, &by, &json!({"workflowId": "outer", "metadata": given})).await;
        let found = waiting(&host.runs, &run_id).await.remove(0);
        let metadata = snapshot(&host.runs, &by, &found.run_id)["metadata"].clone();
        assert_eq!(metadata["trustBoundary"], has["trustBoundary"]);
        assert_eq!(metadata["note"], Value::Null);
    }
}

#[tokio::test]
async fn a_workflow_that_starts_itself_reaches_a_limit() {
    let host = Host::start().await;
    let selfish = json!({
        "id": "selfish", "name": "Selfish", "version": "1",
        "nodes": [{
            "id": "again", "typeId": "core.subWorkflow", "name": "Again", "position": {"x": 0, "y": 0},
            "config": {"workflowId": "selfish"}, "inputs": {}
        }],
        "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {}
    });
    host.runs.definitions().register(&caller("acme"), &selfish).await.unwrap();
    let run_id = begin(&host.runs, "selfish").await;
    to_the_end(&host.runs, &run_id).await;
    assert_eq!(status(&host.runs, &run_id), "failed");
    let runs = host.runs.queries().list(&caller("acme"), &RunFilter::default(), 200).await.unwrap().runs;
    assert_eq!(runs.len(), 33, "the first, and one for each level");
}

/// A distributed store can keep a run with its recorded reply and its children: the shard is derived from tenant and key.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_its_key_and_its_children_are_in_one_shard() {
    let host = Host::start().await;
    let (by, request) = (caller("acme"), json!({"workflowId": "patient"}));
    for key in ["one", "two"] {
        let keyed = super::keyed(&by, "POST /v1/runs", key, &request);
        let reply = host
            .runs
            .commands()
            .create(&by, new_run(&request), Creation::default(), recorded(&keyed))
            .await
            .unwrap();
        let run_id = RunId::new(super::body(&reply)["runId"].as_str().unwrap());
        assert_eq!(run_id.shard(), Shard::of_key(&by.tenant, Digest::of_bytes(key.as_bytes())), "{run_id}");
        let child = child_of(&host, &run_id, "call").await;
        assert_eq!(child.shard(), run_id.shard(), "{child}");
        to_the_end(&host.runs, &run_id).await;
    }
    let mut shards = std::collections::BTreeSet::new();
    for _ in 0..20 {
        shards.insert(begin(&host.runs, "chain").await.shard());
    }
    assert!(shards.len() > 1, "without a key the shard is random");
}
