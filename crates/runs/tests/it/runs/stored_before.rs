//! Workflows that an earlier version registered and this one would refuse: they are read, run, and reported.

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{Tenant, WorkflowId};
use ports::runs::prelude::*;
use ports::runs::{Change, Commit};
use serde_json::{Value, json};

use super::{Host, begin, to_the_end, workflow};

/// Stores a document like an earlier version, without validating it.
fn store_as_before(host: &Host, document: &Value) {
    let put = Change::PutDefinition {
        tenant: Tenant::new("acme"),
        workflow_id: WorkflowId::new(document["id"].as_str().unwrap()),
        digest: Digest::of_canonical(document).unwrap(),
        document: document.to_string().into_bytes().into(),
        at: Timestamp(0),
    };
    host.store.commit(Commit { changes: vec![put] }).wait().unwrap();
}

/// Finding 2 of the current suite: a workflow with a trigger that never fires stays runnable, and the host can name it.
#[tokio::test]
async fn a_workflow_with_a_trigger_that_never_fires_runs_and_is_named() {
    let host = Host::start().await;
    let mut silent = workflow("nightly", &json!([["n", "core.noop", {}]]), &json!([]), &json!([]));
    silent["triggers"] = json!([
        {"id": "manual", "type": "manual"},
        {"id": "night", "type": "schedule", "config": {"cron": "0 3 * * *"}},
        {"id": "hook", "type": "webhook", "enabled": true},
        {"id": "off", "type": "webhook", "enabled": false},
    ]);
    // The text alone does not make a trigger.
    let mut only_words = workflow("words", &json!([["n", "core.noop", {}]]), &json!([]), &json!([]));
    only_words["metadata"] = json!({"tags": ["schedule", "webhook"]});
    for document in [&silent, &only_words] {
        store_as_before(&host, document);
    }
    let found = host.runs.definitions().silent_triggers().await.unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|found| (found.tenant.as_str(), found.workflow_id.as_str(), found.trigger.id.as_str()))
        .collect();
    assert_eq!(found, [("acme", "nightly", "night"), ("acme", "nightly", "hook")]);
    let run_id = begin(&host.runs, "nightly").await;
    let events = to_the_end(&host.runs, &run_id).await;
    assert_eq!(events.last().unwrap()["type"], "run.completed");
}

/// Finding A1: an explicit port with an undeclared name was accepted before, and can still be read.
#[tokio::test]
async fn a_workflow_with_a_port_that_its_node_does_not_declare_is_read() {
    let host = Host::start().await;
    let edge = json!({"id": "e", "sourceNodeId": "a", "targetNodeId": "b", "targetInput": "input"});
    let nodes = json!([["a", "core.noop", {}], ["b", "core.storage.kv-set", {}]]);
    store_as_before(&host, &workflow("ported", &nodes, &json!([edge]), &json!([])));
    let run_id = begin(&host.runs, "ported").await;
    let events = to_the_end(&host.runs, &run_id).await;
    assert!(events.iter().any(|event| event["type"] == "node.completed" && event["nodeId"] == "a"));
}
