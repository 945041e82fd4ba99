//! A client that survives its host: it repeats unanswered requests with the same key.

use std::collections::BTreeMap;

use flow::id::{NodeId, RunId};
use runs::create::Creation;
use runs::{Keyed, Refusal, Runs, StoredReply};
use serde_json::{Value, json};

use super::super::{body, caller, events, keyed, to_the_end};
use crate::runs::requests::{new_run, written};

/// The knowledge of the client, which outlives the host.
#[derive(Default)]
pub(super) struct Client {
    /// The received replies, by key.
    heard: BTreeMap<String, Value>,
    /// The received events, by run.
    seen: BTreeMap<RunId, Vec<Value>>,
}

impl Client {
    /// Sends a request with a key. The reply to a key never changes.
    pub(super) async fn ask(
        &mut self,
        key: &str,
        request: &Value,
        call: impl AsyncFnOnce(Option<&Keyed>) -> Result<StoredReply, Refusal>,
    ) -> Value {
        let keyed = keyed(&caller("acme"), "test", key, request);
        let reply = call(Some(&keyed)).await.unwrap_or_else(|refusal| panic!("{key}: {refusal}"));
        let answer = json!([reply.status, body(&reply)]);
        if let Some(before) = self.heard.insert(key.to_owned(), answer.clone()) {
            assert!(reply.replayed, "{key}: the record of the key is lost");
            assert_eq!(before, answer, "{key}");
        }
        answer[1].clone()
    }

    /// Creates a run, and returns its id.
    pub(super) async fn create(&mut self, runs: &Runs, key: &str, workflow_id: &str) -> RunId {
        let request = json!({"workflowId": workflow_id});
        let created = self
            .ask(key, &request, async |keyed| {
                runs.commands()
                    .create(&caller("acme"), new_run(&request), Creation::default(), written(keyed))
                    .await
            })
            .await;
        let run_id = RunId::new(created["runId"].as_str().unwrap());
        self.look(runs, &run_id);
        run_id
    }

    /// Accepts the approval of a node.
    pub(super) async fn accept(&mut self, runs: &Runs, key: &str, run_id: &RunId) {
        let answer = json!({"action": "accept"});
        self.ask(key, &answer, async |keyed| {
            runs.commands()
                .resolve(&caller("acme"), run_id, &NodeId::new("gate"), answer.clone(), written(keyed))
                .await
        })
        .await;
        self.look(runs, run_id);
    }

    /// Reads the events of a run. Events that were seen before still exist.
    pub(super) fn look(&mut self, runs: &Runs, run_id: &RunId) {
        let now = events(runs, "acme", run_id);
        let before = self.seen.insert(run_id.to_owned(), now.clone()).unwrap_or_default();
        assert_eq!(now.get(..before.len()), Some(&before[..]), "{run_id}: events that were shown are gone");
    }

    /// Waits for the expected end of a run.
    pub(super) async fn end(&mut self, runs: &Runs, run_id: &RunId, expected: &str) {
        let log = to_the_end(runs, run_id).await;
        self.look(runs, run_id);
        assert_eq!(log.last().unwrap()["type"], expected, "{run_id}: {log:?}");
    }

    /// The number of received replies.
    pub(super) fn answers(&self) -> usize {
        self.heard.len()
    }
}
