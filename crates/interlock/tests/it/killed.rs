//! The server is killed with `kill -9` in the middle of its work, repeatedly.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::serve::{KEY, Served};

const ROUNDS: u64 = 6;
const CLIENTS: usize = 6;

/// A request with an idempotency key, and its response.
struct Acknowledged {
    key: String,
    path: String,
    body: Value,
    answer: Value,
}

fn node(id: &str, type_id: &str, config: &Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}})
}

/// All kinds of work that must survive: timers, answers, effects.
fn write_workflows(folder: &Path) {
    let effect = "core.conformance.side-effect";
    let gate = json!({"title": "Go on?", "actions": ["accept", "reject"]});
    let workflows = [
        (
            "timed",
            vec![node("wait", "core.delay", &json!({"delayMs": 25})), node("end", "core.noop", &json!({}))],
        ),
        ("gated", vec![node("gate", "core.approvalGate", &gate), node("end", "core.noop", &json!({}))]),
        ("conformance-effects", vec![node("one", effect, &json!({})), node("two", effect, &json!({}))]),
    ];
    for (id, nodes) in workflows {
        let edge = json!({"id": "e", "sourceNodeId": nodes[0]["id"], "targetNodeId": nodes[1]["id"]});
        let document = json!({
            "id": id, "name": id, "version": "1", "nodes": nodes, "edges": [edge],
            "triggers": [], "variables": [], "metadata": {}, "settings": {},
        });
        std::fs::write(folder.join(format!("{id}.json")), document.to_string()).unwrap();
    }
}

/// Sends requests until the server is gone, and returns what was acknowledged.
async fn ask_on(url: String, client: String, message: UnboundedSender<Acknowledged>) {
    let http = reqwest::Client::new();
    let ask = async |key: String, path: String, body: Value| -> Option<Value> {
        let request = http.post(format!("{url}{path}")).bearer_auth(KEY).header("Idempotency-Key", &key);
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        let response = request.send().await.ok()?;
        // A partial response is not an acknowledgement.
        let (status, bytes) = (response.status(), response.bytes().await.ok()?);
        let answer: Value = serde_json::from_slice(&bytes).ok()?;
        assert!(status.is_success(), "{key}: {status} {answer}");
        message.send(Acknowledged { key, path, body, answer: answer.clone() }).ok()?;
        Some(answer)
    };
    for number in 0.. {
        for workflow in ["timed", "gated", "conformance-effects"] {
            let (key, body) = (format!("{client}-{number}-{workflow}"), json!({"workflowId": workflow}));
            let Some(created) = ask(key.clone(), "/v1/runs".to_owned(), body).await else { return };
            if workflow == "gated" {
                let path = format!("/v1/runs/{}/interrupts/gate", created["runId"].as_str().unwrap());
                let accept = json!({"resumeValue": {"action": "accept"}});
                if ask(format!("{key}-accept"), path, accept).await.is_none() {
                    return;
                }
            }
        }
    }
}

/// Checks a log: no gaps, one end, no node completed twice, no request answered twice.
async fn check_log(served: &Served, run_id: &str) {
    let path = format!("/v1/runs/{run_id}/events/poll");
    let (_, log) = served.ask("GET", &path, None, KEY, None).await;
    let mut seen = BTreeMap::<String, usize>::new();
    for (place, event) in log["events"].as_array().unwrap().iter().enumerate() {
        assert_eq!(event["sequence"], place, "{log}");
        let kind = event["type"].as_str().unwrap();
        if ["run.started", "run.completed", "node.completed", "interrupt.resolved"].contains(&kind) {
            *seen.entry(format!("{kind} {}", event["nodeId"])).or_default() += 1;
        }
    }
    assert!(seen.values().all(|count| *count == 1), "{seen:?}");
    assert_eq!(log["isComplete"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_work_survives_repeated_kills_exactly_once() {
    let (data, workflows) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    write_workflows(workflows.path());
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        let served =
            Served::with_environment(data.path(), workflows.path(), &[("OPENWOP_TEST_SEAM_ENABLED", "true")]);
        let (message, mut hears) = unbounded_channel();
        let asking = (0..CLIENTS)
            .map(|client| ask_on(served.url.clone(), format!("{round}-{client}"), message.clone()));
        let asking: Vec<_> = asking.map(tokio::spawn).collect();
        drop(message);
        // At an arbitrary moment under load.
        for _ in 0..10 + RandomState::new().hash_one(round) % 40 {
            acknowledged.push(hears.recv().await.unwrap());
        }
        served.kill();
        for client in asking {
            client.await.unwrap();
        }
        while let Some(more) = hears.recv().await {
            acknowledged.push(more);
        }
    }
    let served =
        Served::with_environment(data.path(), workflows.path(), &[("OPENWOP_TEST_SEAM_ENABLED", "true")]);
    for Acknowledged { key, path, body, answer } in &acknowledged {
        let (_, again) = served.ask("POST", path, Some(body.clone()), KEY, Some(key)).await;
        assert_eq!(&again, answer, "{key}: the key still returns its response");
    }
    let mut page = String::new();
    let mut found = Vec::new();
    loop {
        let (_, listed) = served.ask("GET", &format!("/v1/runs?limit=200{page}"), None, KEY, None).await;
        found.extend(listed["runs"].as_array().unwrap().iter().cloned());
        let Some(cursor) = listed["nextCursor"].as_str() else { break };
        page = format!("&cursor={cursor}");
    }
    let known = |run_id: &Value| found.iter().any(|run| run["runId"] == *run_id);
    assert!(acknowledged.iter().all(|made| known(&made.answer["runId"])), "no run is lost");
    for run in found {
        let run_id = run["runId"].as_str().unwrap();
        let mut settled = served.settled(run_id).await;
        // Created, and the server died before the approval was answered.
        if settled["status"] == "waiting-approval" {
            let is_accepted =
                |made: &Acknowledged| made.path.contains("/interrupts/") && made.answer["runId"] == *run_id;
            assert!(!acknowledged.iter().any(is_accepted), "{run_id}: an answer is lost");
            let path = format!("/v1/runs/{run_id}/interrupts/gate");
            let accept = json!({"resumeValue": {"action": "accept"}});
            assert_eq!(served.ask("POST", &path, Some(accept), KEY, None).await.0, 200);
            settled = served.settled(run_id).await;
        }
        assert_eq!(settled["status"], "completed", "{settled}");
        check_log(&served, run_id).await;
    }
    let (_, audit) = served.ask("GET", "/v1/audit/verify", None, KEY, None).await;
    assert_eq!(audit["chainValid"], true, "{audit}");
}
