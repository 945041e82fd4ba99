//! MCP clients that get the questions of their runs: with raw requests and with the library's client.

mod answers;
mod below;
mod bounds;
mod client;
mod library;
mod trust;

use flow::id::Tenant;
use runs::Scope;
use runs::keys::{self, ApiKey};
use serde_json::{Value, json};

use super::client::Answer;
use super::service::{Host, workflow};

/// Another key of the same tenant, with all scopes.
const SECOND: &str = "ilk_live_000000000000000000000009";

/// A tool of that name, with sequential nodes.
fn tool(id: &str, nodes: &[(&str, &str, Value)]) -> Value {
    let mut all = vec![("says", "core.openwop.mcp.expose-tool", json!({"name": id}))];
    all.extend(nodes.iter().cloned());
    all.push(("end", "core.identity", json!({})));
    workflow(id, &all, &json!([]))
}

fn questions(questions: &Value) -> (&'static str, &'static str, Value) {
    ("ask", "core.clarificationGate", json!({"questions": questions}))
}

/// A tool that asks for a colour.
fn colour() -> Value {
    let schema = json!({"type": "string", "enum": ["red", "blue"]});
    tool("colour", &[questions(&json!([{"id": "colour", "question": "Which colour?", "schema": schema}]))])
}

async fn status(host: &Host, run_id: &str) -> String {
    host.get(&format!("/v1/runs/{run_id}")).await.expect(200)["status"].as_str().unwrap().to_owned()
}

/// Waits until a run waits for an answer, its own or that of a child run.
async fn until_it_waits(host: &Host, run_id: &str) {
    while status(host, run_id).await != "waiting-input" {
        tokio::task::yield_now().await;
    }
}

/// Resolves an interrupt with a key, as a person would.
async fn resolve(host: &Host, run_id: &str, node: &str, value: Value) -> Answer {
    host.post(&format!("/v1/runs/{run_id}/interrupts/{node}"), &json!({"resumeValue": value})).await
}

/// Waits until a run of the workflow waits.
async fn waiting_run(host: &Host, workflow_id: &str) -> String {
    loop {
        let listed = host.get(&format!("/v1/runs?workflowId={workflow_id}")).await.expect(200);
        let mut runs = listed["runs"].as_array().unwrap().iter();
        if let Some(run) = runs.find(|run| run["status"].as_str().unwrap().starts_with("waiting")) {
            return run["runId"].as_str().unwrap().to_owned();
        }
        tokio::task::yield_now().await;
    }
}

async fn put_key(host: &Host, text: &str, id: &str, scopes: Vec<Scope>) {
    let key = ApiKey {
        id: id.to_owned(),
        tenant: Tenant::new("a"),
        scopes,
        test: false,
        created_at: 0,
        expires_at: None,
        revoked_at: None,
        session: None,
    };
    host.runs.keys().put(keys::hash(text), &key).await.unwrap();
}
