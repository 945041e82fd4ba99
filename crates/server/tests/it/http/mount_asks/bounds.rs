//! How waiting ends: by another answer, a disconnect, a timeout, or the shutdown of the host.

use std::time::Duration;

use flow::id::{Principal, RunId, Tenant};
use runs::Scope;
use serde_json::{Value, json};
use server::http::Settings;

use super::super::service::{Host, KEY};
use super::client::{BOTH, Client, run_of};
use super::{colour, questions, resolve, status, tool, waiting_run};

#[tokio::test]
async fn a_request_is_cancelled_when_another_client_answers() {
    let host = Host::start().await;
    host.register(&colour()).await;
    let approval = tool("approval", &[("ask", "core.approvalGate", json!({}))]);
    host.register(&approval).await;
    let client = Client::asking(&host, KEY).await;
    for (name, answer) in
        [("colour", json!({"answers": {"colour": "red"}})), ("approval", json!({"action": "accept"}))]
    {
        let mut calling = client.call(name).await;
        let asked = calling.asked().await;
        resolve(&host, &run_of(&asked), "ask", answer).await.expect(200);
        let mut message = calling.next().await.unwrap();
        // The run may end before the stream checks it.
        if message["method"] == "notifications/cancelled" {
            assert_eq!(message["params"]["requestId"], asked["id"]);
            message = calling.next().await.unwrap();
        }
        assert_eq!((&message["id"], &message["result"]["isError"]), (&json!(7), &json!(false)), "{message}");
        assert_eq!(calling.next().await, None);
        client.reply(&asked, json!({"action": "decline"})).await.refused(400, "validation_error");
    }
    // While the call waits for another answer, the client gets a cancellation of this question.
    let both = json!([{"id": "one", "question": "One?"}]);
    let mut two = tool("two", &[questions(&both)]);
    two["nodes"].as_array_mut().unwrap().push(json!({
        "id": "gate", "typeId": "core.approvalGate", "name": "gate", "position": {"x": 0, "y": 0}, "config": {}, "inputs": {},
    }));
    two["edges"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": "g", "sourceNodeId": "says", "targetNodeId": "gate"}));
    host.register(&two).await;
    let mut calling = client.call("two").await;
    let asked = calling.asked().await;
    assert_eq!(asked["params"]["message"], "One?", "what can be answered comes first");
    let run_id = run_of(&asked);
    resolve(&host, &run_id, "ask", json!({"answers": {"one": "a"}})).await.expect(200);
    let cancelled = calling.next().await.unwrap();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
    let reply = calling.asked().await;
    assert!(reply["params"]["message"].as_str().unwrap().contains("an approval at `gate`"), "{reply}");
    resolve(&host, &run_id, "gate", json!({"action": "accept"})).await.expect(200);
    let mut last = calling.next().await.unwrap();
    if last["method"] == "notifications/cancelled" {
        last = calling.next().await.unwrap();
    }
    assert_eq!(last["result"]["isError"], false, "{last}");
}

#[tokio::test]
async fn an_event_from_outside_is_only_waited_for() {
    let host = Host::start().await;
    let event = json!({"kind": "external-event", "data": {"eventType": "paid", "correlation": {"id": 1}}});
    host.register(&tool("event", &[("event", "core.interrupt", event)])).await;
    let client = Client::asking(&host, KEY).await;
    let mut calling = client.call("event").await;
    let arrives = async {
        let run = waiting_run(&host, "event").await;
        resolve(&host, &run, "event", json!({"id": 1})).await.expect(200);
    };
    let (result, ()) = tokio::join!(calling.answered(), arrives);
    assert_eq!(result["isError"], false, "{result}");
}

#[tokio::test]
async fn a_client_that_disconnects_while_it_is_asked_leaves_only_the_run_waiting() {
    let host = Host::start_with(Settings { max_streams: 1, ..Settings::default() }).await;
    host.register(&colour()).await;
    let client = Client::asking(&host, KEY).await;
    let mut calling = client.call("colour").await;
    let asked = calling.asked().await;
    let run_id = run_of(&asked);
    drop(calling);
    // The permit is free once the host has noticed the disconnect; only then can another call start.
    let mut again = loop {
        let message = json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": "colour", "arguments": []}});
        match client.send("application/json", &message).await.status {
            503 => tokio::task::yield_now().await,
            _ => break client.call("colour").await,
        }
    };
    client
        .reply(&asked, json!({"action": "accept", "content": {"colour": "red"}}))
        .await
        .refused(400, "validation_error");
    assert_eq!(status(&host, &run_id).await, "waiting-input");
    resolve(&host, &run_id, "ask", json!({"answers": {"colour": "red"}})).await.expect(200);
    assert_eq!(host.end_of(&run_id).await["status"], "completed");
    // Cancelling the call during a question cancels the run.
    let asked = again.asked().await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    assert_eq!(client.send(BOTH, &cancel).await.status, 202);
    let result = again.answered().await;
    assert!(result["content"][0]["text"].as_str().unwrap().contains("tool_canceled"), "{result}");
    assert_eq!(host.end_of(&run_of(&asked)).await["status"], "cancelled");
}

#[tokio::test]
async fn a_call_times_out_and_reports_progress_until_then() {
    let settings = Settings {
        mount_timeout: Duration::from_millis(400),
        keep_alive: Duration::from_millis(20),
        ..Settings::default()
    };
    let host = Host::start_with(settings).await;
    host.register(&tool("approval", &[("gate", "core.approvalGate", json!({}))])).await;
    host.register(&colour()).await;
    let client = Client::asking(&host, KEY).await;
    for (name, node) in [("approval", "gate"), ("colour", "ask")] {
        let mut calling = client.call_with(name, json!({"_meta": {"progressToken": "t"}})).await;
        let (mut before, mut asked, mut beats, mut withdrawn) = (0.0, 0, 0, 0);
        let last = loop {
            let message = calling.next().await.unwrap();
            match message["method"].as_str() {
                Some("notifications/progress") => {
                    let progress = message["params"]["progress"].as_f64().unwrap();
                    assert!(progress > before, "{message}");
                    before = progress;
                    beats += usize::from(progress.fract() > 0.0);
                }
                Some("elicitation/create") => asked += 1,
                Some("notifications/cancelled") => withdrawn += 1,
                _ => break message,
            }
        };
        assert!(asked == 1 && beats > 0, "{asked} {beats}");
        assert_eq!(withdrawn, 1, "the request to the client is cancelled");
        let text = last["result"]["content"][0]["text"].as_str().unwrap();
        let reply: Value = serde_json::from_str(text).unwrap();
        assert_eq!(reply["error"], "run_waiting", "{reply}");
        let run = host.get(&format!("/v1/runs/{}", reply["runId"].as_str().unwrap())).await.expect(200);
        assert_eq!(run["interrupt"]["nodeId"], node);
    }
}

#[tokio::test]
async fn a_shutdown_ends_the_call_but_not_the_run() {
    let mut host = Host::start().await;
    host.register(&colour()).await;
    let client = Client::asking(&host, KEY).await;
    let mut calling = client.call("colour").await;
    let run_id = run_of(&calling.asked().await);
    host.stop().await;
    assert_eq!(calling.waits("ask").await, run_id);
    let caller = runs::Caller {
        tenant: Tenant::new("a"),
        principal: Principal::new("full"),
        scopes: Scope::ALL.to_vec(),
        test: false,
    };
    let open = host.runs.queries().open_interrupts(&caller, &RunId::new(run_id)).await.unwrap();
    assert_eq!(open[0].node_id, "ask");
}
