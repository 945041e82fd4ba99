//! Queue messages start runs, while the server is killed repeatedly.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::root;
use crate::serve::{KEY, Served};

const ORDERS: u64 = 64;

/// The runs that messages started, by message: how many completed.
async fn arrived(served: &Served) -> BTreeMap<u64, usize> {
    let (status, listed) =
        served.ask("GET", "/v1/runs?workflowId=order-arrived&limit=200", None, KEY, None).await;
    assert_eq!(status, 200, "{listed}");
    let mut arrived = BTreeMap::new();
    for run in listed["runs"].as_array().unwrap() {
        let path = format!("/v1/runs/{}/events/poll", run["runId"].as_str().unwrap());
        let (_, log) = served.ask("GET", &path, None, KEY, None).await;
        let events = log["events"].as_array().unwrap();
        let started = &events[0]["payload"]["trigger"];
        assert_eq!((&started["id"], &started["source"]), (&json!("orders"), &json!("orders")));
        let end = events.last().unwrap();
        if end["type"] == "run.completed" {
            let order = end["payload"]["outputs"]["order"]["n"].as_u64().unwrap();
            *arrived.entry(order).or_default() += 1;
        }
    }
    arrived
}

/// A generous timeout for work that should end soon.
async fn all_arrived(served: &Served) -> BTreeMap<u64, usize> {
    let looked = async {
        loop {
            let arrived = arrived(served).await;
            if arrived.len() as u64 == ORDERS {
                return arrived;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(240), looked).await.expect("every message starts its run")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_starts_one_run_across_server_kills() {
    let data = TempDir::new().unwrap();
    let workflows = root().join("examples/triggers");
    let mut placed = 0;
    for round in 1..=4 {
        let served = Served::on(data.path(), &workflows);
        while placed < ORDERS * round / 4 {
            let inputs: Value = json!({"order": {"n": placed}});
            let run_id = served.create("place-order", inputs).await;
            assert_eq!(served.settled(&run_id).await["status"], "completed");
            placed += 1;
        }
        // At any point of its work.
        served.kill();
    }
    let served = Served::on(data.path(), &workflows);
    let found = all_arrived(&served).await;
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), (0..ORDERS).collect::<Vec<_>>());
    assert!(found.values().all(|count| *count == 1), "{found:?}");
    let (_, audit) = served.ask("GET", "/v1/audit/verify", None, KEY, None).await;
    assert_eq!(audit["chainValid"], true, "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_trigger_is_rejected_on_registration() {
    let (data, workflows) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let served = Served::on(data.path(), workflows.path());
    let text = std::fs::read_to_string(root().join("examples/triggers/order-arrived.json")).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let (status, printed) = served.ask("POST", "/v1/workflows", Some(document.clone()), KEY, None).await;
    assert_eq!(status, 201, "{printed}");
    document["triggers"][0]["config"]["topic"] = json!("others");
    let (status, printed) = served.ask("POST", "/v1/workflows", Some(document), KEY, None).await;
    assert_eq!((status, &printed["error"]), (400, &json!("validation_error")), "{printed}");
    assert_eq!(printed["details"]["fields"][0]["path"], "/triggers/0/config/topic");
}
