//! The attempts of effects, as callers see them.

use flow::id::RunId;
use ports::runs::{AttemptState, StoredAttempt};
use runs::Direct;
use serde_json::{Value, json};

use super::models::{document, executors};
use super::provider::{ModelServer, refused, reply};
use super::{Host, Setup, begin, caller, kinds, to_the_end, workflow};
use crate::runs::requests::new_fork;

async fn attempts(host: &Host, run_id: &RunId) -> Vec<StoredAttempt> {
    host.runs.queries().attempts(&caller("acme"), run_id, None, 100).await.unwrap()
}

/// The header of every request.
fn sent_keys(server: &ModelServer) -> Vec<String> {
    let key = |head: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("idempotency-key: "));
        line.unwrap().split_once(": ").unwrap().1.to_owned()
    };
    server.requests().iter().map(|request| key(&request.head)).collect()
}

/// Scenario `v2-effect-identity-business-key`: a transport retry is a further attempt of the same effect, with the same key.
#[tokio::test]
async fn v2_effect_identity_business_key() {
    let folder = tempfile::tempdir().unwrap();
    // A gateway may have passed on what it reports as failed; a provider that is unavailable has done nothing.
    for (status, state) in [(503, AttemptState::Released), (502, AttemptState::Claimed)] {
        let server = ModelServer::start(vec![refused(status), reply("{\"valid\": true}")]);
        let setup =
            Setup { executors: Some(executors(folder.path(), Some(&server.base))), ..Setup::default() };
        let host = Host::with(setup).await;
        host.runs.definitions().register(&caller("acme"), &document()).await.unwrap();
        let run_id = begin(&host.runs, "ask").await;
        let events = to_the_end(&host.runs, &run_id).await;
        assert_eq!(kinds(&events).last().copied(), Some("run.completed"), "{status}: {events:?}");
        let made = attempts(&host, &run_id).await;
        let found: Vec<_> = made
            .iter()
            .map(|made| (made.reached.node_id.as_str(), made.position.attempt, made.state))
            .collect();
        assert_eq!(found, [("ask", 1, state), ("ask", 2, AttemptState::Completed)], "{status}");
        assert_eq!(made[0].position.id, made[1].position.id);
        let recorded: Vec<_> = made.iter().map(|made| made.reached.provider_key.clone().unwrap()).collect();
        assert_eq!(recorded, sent_keys(&server), "the key in the list is the key that was sent");
        assert_eq!(recorded[0], recorded[1]);
        let other = host.runs.queries().attempts(&caller("other"), &run_id, None, 100).await;
        assert!(other.is_err(), "a run of another tenant is not found");
    }
}

/// Scenario `v2-effect-seam-no-refire`: a replay has no effects, so it has no attempts.
#[tokio::test]
async fn v2_effect_seam_no_refire() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start(vec![reply("{\"valid\": true}")]);
    let setup = Setup { executors: Some(executors(folder.path(), Some(&server.base))), ..Setup::default() };
    let host = Host::with(setup).await;
    host.runs.definitions().register(&caller("acme"), &document()).await.unwrap();
    let run_id = begin(&host.runs, "ask").await;
    let events = to_the_end(&host.runs, &run_id).await;
    assert_eq!(attempts(&host, &run_id).await.len(), 1);
    let fork = new_fork(&json!({"mode": "replay"}));
    let forked = host.runs.commands().fork(&caller("acme"), &run_id, fork, Direct).await.unwrap();
    let replayed = to_the_end(&host.runs, &forked.run_id).await;
    assert_eq!(kinds(&replayed), kinds(&events));
    assert_eq!(attempts(&host, &forked.run_id).await, []);
    assert_eq!(server.count(), 1);
}

/// Nodes that change something outside are listed, with the id that the store remembers; nodes that read are not.
#[tokio::test]
async fn changes_of_surfaces_are_listed_and_reads_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let executors = super::executors::stores(folder.path());
    let host = Host::with(Setup { executors: Some(executors), ..Setup::default() }).await;
    let given = |value: Value| json!({"type": "static", "value": value});
    let nodes = json!([
        ["set", "core.storage.kv-set", {}, {"key": given(json!("a")), "value": given(json!(1))}],
        ["get", "core.storage.kv-get", {}, {"key": given(json!("a"))}],
    ]);
    let edges = json!([{"id": "e", "sourceNodeId": "set", "targetNodeId": "get"}]);
    host.runs
        .definitions()
        .register(&caller("acme"), &workflow("stores", &nodes, &edges, &json!([])))
        .await
        .unwrap();
    let run_id = begin(&host.runs, "stores").await;
    to_the_end(&host.runs, &run_id).await;
    let made = attempts(&host, &run_id).await;
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!((made[0].reached.node_id.as_str(), made[0].state), ("set", AttemptState::Completed));
    assert_eq!(made[0].reached.provider_key.as_deref(), Some(made[0].position.id.as_str()));
}
