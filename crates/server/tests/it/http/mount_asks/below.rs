//! Questions of child runs.

use runs::Scope;
use serde_json::{Value, json};
use server::http::Settings;

use super::super::service::{Host, KEY, TESTER, workflow};
use super::client::{BOTH, Client, run_of};
use super::{colour, put_key, questions, resolve, status, tool, until_it_waits, waiting_run};

/// A tool that runs another workflow, and returns its result.
fn calling(id: &str, child: &str) -> Value {
    let mut calling = tool(id, &[("call", "core.subWorkflow", json!({"workflowId": child}))]);
    calling["nodes"][2]["typeId"] = json!("core.end");
    calling["nodes"][2]["inputs"] =
        json!({"became": {"type": "connection", "nodeId": "call", "outputKey": "childStatus"}});
    calling
}

/// A host with a parent workflow whose child asks for a colour, and with a parent of the parent.
async fn family() -> Host {
    let host = Host::start_with(Settings { test_seams: true, ..Settings::default() }).await;
    for workflow in [colour(), calling("parent", "colour"), calling("grandparent", "parent")] {
        host.register(&workflow).await;
    }
    host
}

async fn parent_of(host: &Host, run_id: &str) -> String {
    let ancestry = host.get(&format!("/v1/runs/{run_id}/ancestry")).await.expect(200);
    ancestry["parent"]["runId"].as_str().unwrap().to_owned()
}

/// The result of a tool.
fn given(result: &Value) -> Value {
    assert_eq!(result["isError"], false, "{result}");
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

/// The reply to a call whose run waits for a child run: it names both runs, and where a person answers.
fn waits_below(result: &Value, child: &str, node: &str) -> String {
    assert_eq!(result["isError"], true, "{result}");
    let reply: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(reply["error"], "run_waiting", "{reply}");
    let run_id = reply["runId"].as_str().unwrap().to_owned();
    let message = reply["message"].as_str().unwrap();
    for part in [
        format!("its child run {child}"),
        format!("`{node}`"),
        format!("http://host.test/v1/runs/{child}/interrupts/{node}"),
        format!("http://host.test/v1/runs/{run_id}"),
    ] {
        assert!(message.contains(&part), "{part}: {message}");
    }
    assert!(!message.contains("/v1/interrupts/"), "no token that would answer it: {message}");
    run_id
}

#[tokio::test]
async fn a_question_of_a_child_reaches_the_client_and_the_call_gives_what_the_parent_gives() {
    let host = family().await;
    let client = Client::asking(&host, KEY).await;
    let mut calling = client.call("parent").await;
    let asked = calling.asked().await;
    assert_eq!(asked["params"]["message"], "Which colour?");
    assert_eq!(asked["params"]["_meta"]["nodeId"], "ask");
    let child = run_of(&asked);
    let parent = parent_of(&host, &child).await;
    assert_eq!(status(&host, &child).await, "waiting-input");
    until_it_waits(&host, &parent).await;
    // An invalid answer is asked for again, as with the run itself.
    client.accept(&asked, json!({"colour": "green"})).await;
    let again = calling.asked().await;
    assert_eq!(run_of(&again), child);
    client.accept(&again, json!({"colour": "red"})).await;
    assert_eq!(given(&calling.answered().await)["became"], "completed");
    let run = host.end_of(&child).await;
    assert_eq!(run["nodeStates"]["ask"]["outputs"]["answers"], json!({"colour": "red"}));
    assert_eq!(
        run["metadata"]["trustBoundary"], "untrusted",
        "what was answered is as untrusted as the rest"
    );
    assert_eq!(host.end_of(&parent).await["status"], "completed");
}

#[tokio::test]
async fn a_question_of_a_child_of_a_child_reaches_the_client_too() {
    let host = family().await;
    let client = Client::asking(&host, KEY).await;
    let mut calling = client.call("grandparent").await;
    let asked = calling.asked().await;
    let child = run_of(&asked);
    let grandparent = parent_of(&host, &parent_of(&host, &child).await).await;
    client.accept(&asked, json!({"colour": "blue"})).await;
    assert_eq!(given(&calling.answered().await)["became"], "completed");
    assert_eq!(
        host.end_of(&child).await["nodeStates"]["ask"]["outputs"]["answers"],
        json!({"colour": "blue"})
    );
    assert_eq!(host.end_of(&grandparent).await["workflowId"], "grandparent");
}

#[tokio::test]
async fn workers_of_a_dispatch_ask_the_client_one_after_the_other() {
    let host = family().await;
    let word = questions(&json!([{"id": "word", "question": "Which word?"}]));
    host.register(&workflow("word", &[word], &json!([]))).await;
    let plan = json!([{"kind": "next-worker", "nextWorkerIds": ["colour", "word"]}, {"kind": "terminate"}]);
    let supervisor = ("plan", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan}));
    let dispatch = ("work", "core.dispatch", json!({"fanOutPolicy": "parallel"}));
    let mut dispatching = tool("dispatching", &[supervisor, dispatch]);
    dispatching["nodes"].as_array_mut().unwrap().pop();
    dispatching["edges"][2] = json!({"id": "back", "sourceNodeId": "work", "targetNodeId": "plan"});
    host.register(&dispatching).await;
    let client = Client::asking(&host, KEY).await;
    let mut calling = client.call("dispatching").await;
    let first = calling.asked().await;
    assert_eq!(first["params"]["message"], "Which colour?");
    client.accept(&first, json!({"colour": "red"})).await;
    let second = calling.asked().await;
    assert_eq!(second["params"]["message"], "Which word?");
    client.accept(&second, json!({"word": "tea"})).await;
    given(&calling.answered().await);
    assert_eq!(parent_of(&host, &run_of(&first)).await, parent_of(&host, &run_of(&second)).await);
}

#[tokio::test]
async fn clients_without_elicitation_get_the_waiting_child_run() {
    let host = family().await;
    let client = Client::begin(&host, KEY, json!({})).await;
    for name in ["parent", "grandparent"] {
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name}});
        let answer = client.send(BOTH, &message).await;
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let result = answer.expect(200)["result"].clone();
        let child = waiting_run(&host, "colour").await;
        let run_id = waits_below(&result, &child, "ask");
        until_it_waits(&host, &run_id).await;
        resolve(&host, &child, "ask", json!({"answers": {"colour": "red"}})).await.expect(200);
        assert_eq!(host.end_of(&run_id).await["status"], "completed");
    }
}

#[tokio::test]
async fn declining_the_question_of_a_child_leaves_both_runs_waiting() {
    let host = family().await;
    let client = Client::asking(&host, KEY).await;
    let mut calling = client.call("parent").await;
    let asked = calling.asked().await;
    assert_eq!(client.reply(&asked, json!({"action": "decline"})).await.status, 202);
    let child = run_of(&asked);
    let parent = waits_below(&calling.answered().await, &child, "ask");
    assert_eq!(parent, parent_of(&host, &child).await);
    assert_eq!(status(&host, &child).await, "waiting-input");
    resolve(&host, &child, "ask", json!({"answers": {"colour": "red"}})).await.expect(200);
    assert_eq!(host.end_of(&parent).await["status"], "completed");
}

#[tokio::test]
async fn a_client_cannot_answer_an_approval_of_a_child() {
    const WEAK: &str = "ilk_live_000000000000000000000008";
    let host = family().await;
    put_key(&host, WEAK, "weak", vec![Scope::RunsCreate, Scope::ManifestRead]).await;
    host.register(&workflow("gated", &[("gate", "core.approvalGate", json!({}))], &json!([]))).await;
    host.register(&calling("approved", "gated")).await;
    // A key that may not answer is notified of questions in the same way.
    for (key, name, node, answer) in [
        (KEY, "approved", "gate", json!({"action": "accept"})),
        (WEAK, "parent", "ask", json!({"answers": {"colour": "red"}})),
    ] {
        let client = Client::asking(&host, key).await;
        for said in [json!({"action": "accept", "content": answer}), json!({"action": "decline"})] {
            let mut calling = client.call(name).await;
            let asked = calling.asked().await;
            assert_eq!(asked["params"]["requestedSchema"]["properties"], json!({}));
            let child = run_of(&asked);
            let message = asked["params"]["message"].as_str().unwrap();
            let place = format!("http://host.test/v1/runs/{child}/interrupts/{node}");
            assert!(message.contains(&child) && message.contains(&place), "{message}");
            assert_eq!(client.reply(&asked, said.clone()).await.status, 202);
            let waits = said["action"] == "accept";
            if !waits {
                waits_below(&calling.answered().await, &child, node);
            }
            assert!(status(&host, &child).await.starts_with("waiting"), "{name} {said}");
            let path = format!("/v1/runs/{child}/interrupts/{node}");
            let person = format!("Bearer {TESTER}");
            let body = json!({"resumeValue": answer});
            host.post_with(&path, &[("authorization", &person)], &body).await.expect(200);
            if waits {
                assert_eq!(given(&calling.answered().await)["became"], "completed");
            }
            let reply = host.get(&format!("/v1/runs/{child}/events/poll?timeout=0")).await.expect(200);
            assert!(reply.to_string().contains("\"resolvedBy\":\"tester\""), "{reply}");
        }
    }
}

#[tokio::test]
async fn a_request_for_a_child_is_cancelled_when_another_client_answers() {
    let host = family().await;
    let one = questions(&json!([{"id": "one", "question": "One?"}]));
    let gate = ("gate", "core.approvalGate", json!({}));
    host.register(&workflow("both", &[one, gate], &json!([]))).await;
    host.register(&calling("asking", "both")).await;
    let client = Client::asking(&host, KEY).await;
    let mut calling = client.call("asking").await;
    let asked = calling.asked().await;
    let child = run_of(&asked);
    resolve(&host, &child, "ask", json!({"answers": {"one": "a"}})).await.expect(200);
    let cancelled = calling.next().await.unwrap();
    assert_eq!(cancelled["method"], "notifications/cancelled", "{cancelled}");
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
    let reply = calling.asked().await;
    assert!(reply["params"]["message"].as_str().unwrap().contains("an approval at `gate`"), "{reply}");
    assert_eq!(run_of(&reply), child);
    resolve(&host, &child, "gate", json!({"action": "accept"})).await.expect(200);
    assert_eq!(given(&calling.answered().await)["became"], "completed");
}

#[tokio::test]
async fn a_client_that_disconnects_while_a_child_asks_leaves_both_runs_waiting() {
    let host = Host::start_with(Settings { max_streams: 1, ..Settings::default() }).await;
    for workflow in [colour(), calling("parent", "colour")] {
        host.register(&workflow).await;
    }
    let client = Client::asking(&host, KEY).await;
    let mut calling = client.call("parent").await;
    let asked = calling.asked().await;
    let child = run_of(&asked);
    drop(calling);
    // The permit is free once the host has noticed the disconnect.
    loop {
        let message = json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": "parent", "arguments": []}});
        match client.send("application/json", &message).await.status {
            503 => tokio::task::yield_now().await,
            _ => break,
        }
    }
    client.reply(&asked, json!({"action": "decline"})).await.refused(400, "validation_error");
    let parent = parent_of(&host, &child).await;
    assert_eq!(status(&host, &child).await, "waiting-input");
    until_it_waits(&host, &parent).await;
    resolve(&host, &child, "ask", json!({"answers": {"colour": "red"}})).await.expect(200);
    assert_eq!(host.end_of(&parent).await["status"], "completed");
}
