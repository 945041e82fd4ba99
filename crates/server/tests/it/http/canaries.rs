//! Credentials that are sent in the wrong place.

use serde_json::{Value, json};

use super::client::Answer;
use super::service::{Host, noop};

/// They have the format of widely used credentials, but none is valid.
pub(super) const CANARIES: [&str; 7] = [
    "sk-proj-CANARYabcdefghijklmnop",
    "sk-ant-api03-CANARYabcdefghijklmnop",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJDQU5BUlkifQ.c2lnbmF0dXJlQ0FOQVJZ",
    "AKIACANARYCANARY1234",
    "AIzaCANARYabcdefghijklmnopqrstuvwxyz012",
    "ghp_CANARYabcdefghijklmnopqrstuvwxyz0123",
    "xoxb-CANARY-abcdefghijklmnop",
];

/// Asserts that a reply does not echo the credential.
#[track_caller]
fn quiet(answer: &Answer, canary: &str) {
    let reply_text = format!("{:?} {}", answer.headers, answer.text());
    assert!(!reply_text.contains(canary), "{reply_text}");
}

/// Reads everything that a client can read about a run.
async fn read_everything(host: &Host, run_id: &str, canary: &str) {
    let path = format!("/v1/runs/{run_id}");
    for of_run in
        ["", "/events/poll", "/events", "/events?streamMode=values", "/debug-bundle", "/annotations"]
    {
        let answer = host.get(&format!("{path}{of_run}")).await;
        assert_eq!(answer.status, 200, "{of_run}");
        quiet(&answer, canary);
    }
    quiet(&host.get("/v1/runs").await, canary);
    quiet(&host.get(&format!("{path}:diff?against={run_id}")).await, canary);
}

#[tokio::test]
async fn a_credential_in_the_wrong_field_is_stored_and_shown_nowhere() {
    let host = Host::start().await;
    host.register(&noop()).await;
    for canary in CANARIES {
        let inputs = json!({"apiKey": canary, "nested": {"list": [canary], canary: 1}});
        let run_id = host.create_with(&json!({"workflowId": "noop", "inputs": inputs})).await;
        host.end_of(&run_id).await;
        read_everything(&host, &run_id, canary).await;

        let options = [json!({"ai.credentialRef": canary}), json!({"ai": {"credentialRef": canary}})];
        for configurable in options {
            let body = json!({"workflowId": "noop", "configurable": configurable});
            let answer = host.post("/v1/runs", &body).await;
            quiet(&answer, canary);
            if let Some(run_id) = answer.json()["runId"].as_str() {
                host.end_of(run_id).await;
                read_everything(&host, run_id, canary).await;
            }
        }
        let note = json!({"signal": {"kind": "correction", "correction": canary}, "note": canary});
        quiet(&host.post(&format!("/v1/runs/{run_id}/annotations"), &note).await, canary);
        read_everything(&host, &run_id, canary).await;

        let many = json!({"runIds": [canary]});
        let asked: [(&str, String, Value); 8] = [
            ("POST", "/v1/runs".to_owned(), json!({"workflowId": canary})),
            ("POST", "/v1/runs".to_owned(), json!({"workflowId": "noop", canary: canary})),
            ("POST", "/v1/runs".to_owned(), json!({"workflowId": "noop", "callbackUrl": canary})),
            ("POST", "/v1/workflows".to_owned(), json!({"id": canary, canary: canary})),
            ("POST", "/v1/runs:bulk-cancel".to_owned(), many),
            ("GET", format!("/v1/runs/{canary}"), json!({})),
            ("GET", format!("/v1/interrupts/{canary}"), json!({})),
            ("POST", format!("/v1/runs/{run_id}/interrupts/{canary}"), json!({"resumeValue": canary})),
        ];
        for (method, path, body) in asked {
            let key = format!("Bearer {}", super::service::KEY);
            let answer =
                host.send(method, &path, &[("authorization", &key)], Some(body.to_string().as_bytes())).await;
            quiet(&answer, canary);
        }
        quiet(&host.get_as(canary, "/v1/runs").await, canary);
    }
}
