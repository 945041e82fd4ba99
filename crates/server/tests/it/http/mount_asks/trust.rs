//! Who may answer what: MCP clients cannot answer approvals, and only the client that was asked can answer.

use std::collections::BTreeSet;

use runs::Scope;
use serde_json::{Value, json};

use super::super::service::{Host, KEY, OTHER, TESTER, noop};
use super::client::{BOTH, Client, run_of};
use super::{SECOND, colour, put_key, questions, resolve, status, tool};

/// All interrupts that require a trusted person: the tool, the waiting node, and the answer of a person.
fn gates() -> Vec<(Value, &'static str, Value)> {
    let accept = json!({"action": "accept"});
    let one = |id: &str, type_id: &str, config: Value| tool(id, &[("gate", type_id, config)]);
    let auth = json!({"kind": "clarification", "profile": "openwop-interrupt-auth-required", "data": {"questions": [{"id": "q", "question": "?"}]}});
    let unsure =
        json!({"kind": "low-confidence", "data": {"agentId": "an.agent", "threshold": 0.7, "observed": 0.2}});
    let custom = json!({"kind": "custom", "data": {"customKind": "signature"}});
    let plan =
        json!([{"kind": "next-worker", "nextWorkerIds": ["noop"], "confidence": 0.1}, {"kind": "terminate"}]);
    let mut dispatched = tool(
        "dispatched",
        &[
            ("plan", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
            ("gate", "core.dispatch", json!({})),
        ],
    );
    dispatched["nodes"].as_array_mut().unwrap().pop();
    dispatched["edges"] = json!([
        {"id": "1", "sourceNodeId": "says", "targetNodeId": "plan"}, {"id": "2", "sourceNodeId": "plan", "targetNodeId": "gate"},
        {"id": "3", "sourceNodeId": "gate", "targetNodeId": "plan"},
    ]);
    let mut secret = tool("secret", &[questions(&json!([{"id": "pin", "question": "Which number?"}]))]);
    secret["nodes"][1]["outputSensitivity"] = json!({"answers": true});
    vec![
        (secret, "ask", json!({"answers": {"pin": "1"}})),
        (one("approval", "core.approvalGate", json!({"title": "Pay?"})), "gate", accept.clone()),
        (one("quorum", "core.approvalGate", json!({"requiredApprovals": 2})), "gate", accept.clone()),
        (one("governed", "core.openwop.governance.approvalGate", json!({})), "gate", accept.clone()),
        (one("auth", "core.interrupt", auth), "gate", json!({"answers": {"q": "a"}})),
        (one("unsure", "core.interrupt", unsure), "gate", accept),
        (one("custom", "core.interrupt", custom), "gate", json!({"signed": true})),
        (dispatched, "gate", json!({"answers": {"proceed": "yes"}})),
    ]
}

#[tokio::test]
async fn a_client_cannot_answer_what_waits_for_a_trusted_person() {
    let host = Host::start().await;
    host.register(&noop()).await;
    put_key(&host, SECOND, "second", Scope::ALL.to_vec()).await;
    let client = Client::asking(&host, KEY).await;
    for (gate, node, answer) in gates() {
        let name = gate["id"].as_str().unwrap().to_owned();
        host.register(&gate).await;
        for said in [
            json!({"action": "accept", "content": {"action": "accept", "answers": {"q": "a", "proceed": "yes"}}}),
            json!({"action": "accept", "content": answer}),
            json!({"action": "accept"}),
            json!({"action": "decline"}),
            json!({"action": "cancel"}),
        ] {
            let mut calling = client.call(&name).await;
            let asked = calling.asked().await;
            let run_id = run_of(&asked);
            let params = &asked["params"];
            assert_eq!(params["requestedSchema"], json!({"type": "object", "properties": {}}), "{name}");
            let message = params["message"].as_str().unwrap();
            let place = format!("http://host.test/v1/runs/{run_id}/interrupts/{node}");
            assert!(
                message.contains(&run_id) && message.contains(node) && message.contains(&place),
                "{message}"
            );
            assert!(!message.contains("/v1/interrupts/"), "no token that would answer it: {message}");
            let before = host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
            assert!(before["status"].as_str().unwrap().starts_with("waiting"), "{before}");
            assert_eq!(client.reply(&asked, said.clone()).await.status, 202);
            if said["action"] == "accept" {
                // The call keeps waiting until people have decided elsewhere.
                let people = if name == "quorum" { &[TESTER, SECOND][..] } else { &[TESTER] };
                for person in people {
                    let person = format!("Bearer {person}");
                    let path = format!("/v1/runs/{run_id}/interrupts/{node}");
                    let body = json!({"resumeValue": answer});
                    let resolved = host.post_with(&path, &[("authorization", &person)], &body).await;
                    assert_eq!(resolved.status, 200, "{name} {said}: {}", resolved.text());
                }
                assert_eq!(calling.answered().await["isError"], false, "{name} {said}");
                let reply = host.get(&format!("/v1/runs/{run_id}/events/poll?timeout=0")).await.expect(200);
                for event in reply["events"].as_array().unwrap() {
                    for by in ["resolvedBy", "decidedBy", "answeredBy", "principal"] {
                        assert_ne!(event["payload"][by], "full", "{name} {said}: {event}");
                    }
                }
                assert!(reply.to_string().contains("\"resolvedBy\":\""), "{reply}");
            } else {
                assert_eq!(calling.waits(node).await, run_id);
                let after = host.get(&format!("/v1/runs/{run_id}")).await.expect(200);
                assert_eq!(after["interrupt"], before["interrupt"], "{name} {said}");
            }
        }
    }
}

#[tokio::test]
async fn only_the_asked_client_can_answer() {
    let host = Host::start().await;
    host.register(&colour()).await;
    put_key(&host, SECOND, "second", Scope::ALL.to_vec()).await;
    let client = Client::asking(&host, KEY).await;
    let mut calling = client.call("colour").await;
    let asked = calling.asked().await;
    let run_id = run_of(&asked);
    let session = client.session.clone();
    let with = |key: &str, session: &str| Client {
        host: &host,
        key: format!("Bearer {key}"),
        session: session.to_owned(),
    };
    let mut refusals = BTreeSet::new();
    let other_session = Client::asking(&host, KEY).await.session;
    for (key, session) in [
        (OTHER, session.as_str()),
        (SECOND, &session),
        (TESTER, &session),
        (KEY, &other_session),
        (KEY, "none"),
        (KEY, ""),
    ] {
        let answer =
            with(key, session).reply(&asked, json!({"action": "accept", "content": {"colour": "red"}})).await;
        answer.refused(400, "validation_error");
        refusals.insert(answer.text());
    }
    for id in [json!("elicitation-0"), json!(1), json!(null), json!(run_id)] {
        let answer =
            client.reply(&json!({"id": id}), json!({"action": "accept", "content": {"colour": "red"}})).await;
        refusals.insert(answer.text());
    }
    assert_eq!(refusals.len(), 1, "all are refused with the same bytes: {refusals:?}");
    assert_eq!(status(&host, &run_id).await, "waiting-input");
    client.accept(&asked, json!({"colour": "blue"})).await;
    assert_eq!(calling.answered().await["isError"], false);
    assert_eq!(
        host.end_of(&run_id).await["nodeStates"]["ask"]["outputs"]["answers"],
        json!({"colour": "blue"})
    );
    // Two tenants concurrently: each gets its own questions and answers.
    let key = format!("Bearer {OTHER}");
    host.post_with("/v1/workflows", &[("authorization", &key)], &colour()).await.expect(201);
    let theirs = Client::asking(&host, OTHER).await;
    let (mut ours_calling, mut their_calling) = (client.call("colour").await, theirs.call("colour").await);
    let (ours_asked, their_asked) = (ours_calling.asked().await, their_calling.asked().await);
    assert_eq!(theirs.reply(&ours_asked, json!({"action": "decline"})).await.status, 400);
    assert_eq!(client.reply(&their_asked, json!({"action": "decline"})).await.status, 400);
    theirs.accept(&their_asked, json!({"colour": "red"})).await;
    client.accept(&ours_asked, json!({"colour": "blue"})).await;
    assert_eq!(ours_calling.answered().await["isError"], false);
    assert_eq!(their_calling.answered().await["isError"], false);
    let run = host.end_of(&run_of(&ours_asked)).await;
    assert_eq!(run["nodeStates"]["ask"]["outputs"]["answers"], json!({"colour": "blue"}));
    host.get(&format!("/v1/runs/{}", run_of(&their_asked))).await.refused(404, "run_not_found");
}

#[tokio::test]
async fn clients_without_elicitation_get_the_waiting_result() {
    let host = Host::start().await;
    host.register(&colour()).await;
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "colour"}});
    let asking = Client::asking(&host, KEY).await;
    let stolen = Client { host: &host, key: format!("Bearer {TESTER}"), session: asking.session.clone() };
    let changed = Client { host: &host, key: asking.key.clone(), session: format!("{}A", asking.session) };
    let long = Client { host: &host, key: asking.key.clone(), session: "x".repeat(5000) };
    let mut clients = vec![(asking, "application/json"), (stolen, BOTH), (changed, BOTH), (long, BOTH)];
    for capabilities in [
        json!({}),
        json!({"elicitation": null}),
        json!({"elicitation": true}),
        json!({"elicitation": {"url": {}}}),
        json!(null),
        json!([]),
    ] {
        clients.push((Client::begin(&host, KEY, capabilities).await, BOTH));
    }
    for (client, accept) in clients {
        let answer = client.send(accept, &message).await;
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let result = answer.expect(200)["result"].clone();
        assert_eq!(result["isError"], true);
        assert!(result["content"][0]["text"].as_str().unwrap().contains("run_waiting"), "{result}");
    }
}

#[tokio::test]
async fn a_key_without_the_approval_scope_only_gets_a_notice() {
    const WEAK: &str = "ilk_live_000000000000000000000008";
    let host = Host::start().await;
    host.register(&colour()).await;
    put_key(&host, WEAK, "weak", vec![Scope::RunsCreate, Scope::ManifestRead]).await;
    let client = Client::asking(&host, WEAK).await;
    let mut calling = client.call("colour").await;
    let asked = calling.asked().await;
    assert_eq!(asked["params"]["requestedSchema"]["properties"], json!({}));
    assert_eq!(
        client.reply(&asked, json!({"action": "accept", "content": {"colour": "red"}})).await.status,
        202
    );
    let run_id = run_of(&asked);
    assert_eq!(status(&host, &run_id).await, "waiting-input");
    resolve(&host, &run_id, "ask", json!({"answers": {"colour": "blue"}})).await.expect(200);
    assert_eq!(calling.answered().await["isError"], false);
}

#[tokio::test]
async fn many_calls_of_one_session_are_asked_at_once_and_each_is_given_its_own_answer() {
    let host = Host::start().await;
    host.register(&tool("word", &[questions(&json!([{"id": "word", "question": "Which word?"}]))])).await;
    let client = Client::asking(&host, KEY).await;
    let mut calls = Vec::new();
    for _ in 0..30 {
        let mut calling = client.call("word").await;
        let asked = calling.asked().await;
        calls.push((calling, asked));
    }
    // In a different order than the questions.
    for (number, (_, asked)) in calls.iter().enumerate().rev() {
        client.accept(asked, json!({"word": format!("word {number}")})).await;
    }
    for (number, (mut calling, asked)) in calls.into_iter().enumerate() {
        assert_eq!(calling.answered().await["isError"], false);
        let run = host.end_of(&run_of(&asked)).await;
        let answers = json!({"word": format!("word {number}")});
        assert_eq!(run["nodeStates"]["ask"]["outputs"]["answers"], answers);
    }
}
