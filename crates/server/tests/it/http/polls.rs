//! Long polls.

use serde_json::{Value, json};

use super::service::{Host, noop, short, slow, workflow};

fn sequences(page: &Value) -> Vec<u64> {
    page["events"].as_array().unwrap().iter().map(|event| event["sequence"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn events_are_polled_from_where_the_reader_is() {
    let host = Host::start().await;
    host.register(&noop()).await;
    let run_id = host.create("noop").await;
    host.end_of(&run_id).await;
    let poll =
        async |query: &str| host.get(&format!("/v1/runs/{run_id}/events/poll{query}")).await.expect(200);
    let all = poll("").await;
    let known = sequences(&all);
    assert_eq!(known, (0..known.len() as u64).collect::<Vec<_>>());
    assert_eq!(all["isComplete"], true);
    for event in all["events"].as_array().unwrap() {
        for member in ["eventId", "runId", "type", "payload", "timestamp", "sequence"] {
            assert!(event.get(member).is_some(), "{member} of {event}");
        }
    }
    assert_eq!(poll("?lastSequence=-1").await, all);
    assert_eq!(sequences(&poll("?lastSequence=0").await), known[1..]);
    let cut = poll("?limit=1").await;
    assert_eq!((sequences(&cut), &cut["isComplete"]), (vec![0], &json!(false)));
    assert_eq!(poll("?lastSequence=99999").await, json!({"events": [], "isComplete": true}));
    assert_eq!(poll("?lastSequence=18446744073709551615").await["events"], json!([]));
    for query in ["lastSequence=x", "lastSequence=-2", "timeout=61", "timeout=-1", "limit=0"] {
        let answer = host.get(&format!("/v1/runs/{run_id}/events/poll?{query}")).await;
        answer.refused(400, "validation_error");
    }
    host.get("/v1/runs/none/events/poll").await.refused(404, "run_not_found");
}

#[tokio::test]
async fn a_small_log_fits_on_one_page_with_stable_bytes() {
    let host = Host::start().await;
    let ids: Vec<String> = (0..80).map(|place| format!("n{place:02}")).collect();
    let nodes: Vec<_> = ids.iter().map(|id| (id.as_str(), "core.noop", json!({}))).collect();
    host.register(&workflow("long", &nodes, &json!([]))).await;
    let run_id = host.create("long").await;
    host.end_of(&run_id).await;
    let poll = async || host.get(&format!("/v1/runs/{run_id}/events/poll")).await;
    let page = poll().await;
    let known = sequences(&page.expect(200));
    assert_eq!(known, (0..162).collect::<Vec<_>>());
    assert_eq!(page.json()["isComplete"], true);
    assert_eq!(poll().await.body, page.body);
    let events = page.json()["events"].clone();
    let done: Vec<_> =
        events.as_array().unwrap().iter().filter(|event| event["type"] == "node.completed").collect();
    assert!(done.iter().map(|event| event["nodeId"].as_str().unwrap()).eq(ids.iter().map(String::as_str)));
}

#[tokio::test]
async fn a_poll_waits_until_something_happens() {
    let host = Host::start().await;
    host.register(&short()).await;
    let run_id = host.create("short").await;
    let first = host.get(&format!("/v1/runs/{run_id}/events/poll")).await.expect(200);
    assert_eq!(first["isComplete"], false);
    let last = sequences(&first).last().copied().unwrap();
    let next =
        host.get(&format!("/v1/runs/{run_id}/events/poll?lastSequence={last}&timeout=30")).await.expect(200);
    assert_eq!(sequences(&next)[0], last + 1);
    assert_eq!(next["isComplete"], true);
    let nothing =
        host.get(&format!("/v1/runs/{run_id}/events/poll?lastSequence=9999&timeout=30")).await.expect(200);
    assert_eq!(nothing, json!({"events": [], "isComplete": true}));
    host.register(&slow()).await;
    let run_id = host.create("slow").await;
    let quiet =
        host.get(&format!("/v1/runs/{run_id}/events/poll?lastSequence=9999&timeout=1")).await.expect(200);
    assert_eq!(quiet, json!({"events": [], "isComplete": false}), "a poll ends though nothing happens");
}
