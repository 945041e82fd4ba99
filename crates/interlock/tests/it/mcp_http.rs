//! Agents on the real server over HTTP.

use std::fs;
use std::path::Path;

use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::home::TINY;
use crate::program::{interlock, run_command, text};
use crate::serve::{KEY, Served};

struct Agent(RunningService<RoleClient, ()>);

impl Agent {
    async fn connect(served: &Served, key: &str) -> Self {
        let config =
            StreamableHttpClientTransportConfig::with_uri(format!("{}/mcp", served.url)).auth_header(key);
        Self(().serve(StreamableHttpClientTransport::from_config(config)).await.unwrap())
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> Value {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let called = self.0.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await;
        called.unwrap().structured_content.unwrap()
    }
}

fn new_key(data: &Path, arguments: &[&str]) -> std::process::Output {
    let mut command = interlock(&["key", "new-api-key", "--json", "--data-dir"]);
    run_command(command.arg(data).args(arguments), b"")
}

fn key_of(made: &std::process::Output) -> String {
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    serde_json::from_slice::<Value>(&made.stdout).unwrap()["key"].as_str().unwrap().to_owned()
}

fn advance(reply: &Value) -> Value {
    json!({
        "continueToken": reply["continueToken"], "intent": "advance",
        "output": {
            "notesMarkdown": "Looked, and it is fine.",
            "artifacts": [{
                "kind": "wr.gate_verdict", "version": 1, "verdict": "approved", "confidence": "high",
                "rationale": "The walls stand and the roof is dry in all three rooms.",
            }],
        },
    })
}

#[tokio::test]
async fn a_session_key_works_across_a_server_kill() {
    let (data, workflows) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(workflows.path().join("tiny.json"), TINY).unwrap();
    let served = Served::on(data.path(), workflows.path());
    let owner = Agent::connect(&served, KEY).await;
    let first =
        owner.call("start_workflow", json!({"workflowId": "project.tiny", "goal": "the house"})).await;
    assert_eq!(first["pending"]["stepId"], "look", "{first}");
    let session = first["run"]["sessionId"].as_str().unwrap();
    let key = key_of(&new_key(data.path(), &["--session", session, "--expires", "1d"]));
    assert_eq!(served.ask("GET", "/v1/runs", None, &key, None).await.0, 403);
    let second = Agent::connect(&served, &key).await.call("continue_workflow", advance(&first)).await;
    assert_eq!(second["pending"]["stepId"], "judge", "{second}");
    served.kill();

    let served = Served::on(data.path(), workflows.path());
    let agent = Agent::connect(&served, &key).await;
    let last = agent.call("continue_workflow", advance(&second)).await;
    assert_eq!(last["isComplete"], true, "{last}");
    let refused = agent.call("start_workflow", json!({"workflowId": "project.tiny", "goal": "more"})).await;
    assert_eq!(refused["code"], "FORBIDDEN");
}

#[tokio::test]
async fn guided_workflow_files_are_reloaded_on_change() {
    let (data, workflows) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = workflows.path().join("tiny.json");
    fs::write(&file, TINY).unwrap();
    let served = Served::on(data.path(), workflows.path());
    let agent = Agent::connect(&served, KEY).await;
    let inspect = json!({"workflowId": "project.tiny", "mode": "metadata"});
    assert_eq!(agent.call("inspect_workflow", inspect.clone()).await["compiled"]["name"], "Tiny");
    fs::write(&file, TINY.replace("\"Tiny\"", "\"Tiny, fixed\"")).unwrap();
    assert_eq!(agent.call("inspect_workflow", inspect).await["compiled"]["name"], "Tiny, fixed");
}

#[test]
fn a_key_for_an_unknown_session_is_rejected() {
    let data = TempDir::new().unwrap();
    for (arguments, code) in [
        (&["--session", "sess_aaaaaaaaaaaaaaaaaaaaaaaaaa"][..], "SESSION_UNKNOWN"),
        (&["--session", "../sess"], "INPUT_UNREADABLE"),
        (&["--tenant", "../x"], "INPUT_UNREADABLE"),
    ] {
        let refused = new_key(data.path(), arguments);
        assert_ne!(refused.status.code(), Some(0), "{arguments:?}");
        assert!(text(&refused.stdout).contains(code), "{arguments:?}: {}", text(&refused.stdout));
    }
    let both = new_key(data.path(), &["--session", "sess_a", "--scope", "runs:read"]);
    assert_eq!(both.status.code(), Some(2));
}
