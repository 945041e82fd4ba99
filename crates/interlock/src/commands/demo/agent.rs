//! A scripted agent that connects over MCP like a real one.

use canon::error::Envelope;
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Map, Value, json};

use super::{fact, folder, refusal, text};
use crate::failure::{CommandErrorCode, Failure};

/// The deliverable, in the agent's output folder.
const NOTES: &str = "deliverables/release-notes.md";

/// The answers to each step, in order. The first answer to the first step is incomplete and
/// blocked, to show that steps cannot be skipped.
const SCRIPT: [(&str, &[&str]); 3] = [
    (
        "read",
        &[
            "Looks fine to me.",
            "- c1: operators who restart the host while an approval is pending\n\
             - c2: users who click twice\n\
             - c3: all approvers",
        ],
    ),
    ("risks", &["Surprises: none. No default changed, no option was renamed, and no file moved."]),
    (
        "write",
        &["# Release 1.4.0\n\n\
           Nothing in here breaks what worked before.\n\n\
           ## New\n\n\
           - One page shows all pending approvals.\n\n\
           ## Fixed\n\n\
           - A run that waits for an answer survives a restart.\n\
           - An answer that arrives twice counts once."],
    ),
];

/// Advances the session that the environment names: `serve` starts this program as the agent of a
/// node.
pub(super) async fn run() -> Result<(), Failure> {
    let variable = |name: &str| {
        std::env::var(name).map_err(|_| {
            Envelope::new(
                CommandErrorCode::KeyRequired,
                format!("the environment variable {name} is not set"),
            )
            .suggest("Let `interlock serve` start this command: see docs/how-to/run-an-agent.md.")
        })
    };
    let connect = json!({
        "endpoint": variable("INTERLOCK_MCP_URL")?,
        "key": variable("INTERLOCK_SESSION_KEY")?,
        "sessionId": variable("INTERLOCK_SESSION_ID")?,
        "workspaceRoot": variable("INTERLOCK_WORKSPACE")?,
    });
    walk(&connect).await
}

/// Advances the session to its end.
pub(super) async fn walk(connect: &Value) -> Result<(), Failure> {
    let endpoint = text(&connect["endpoint"]);
    let config = StreamableHttpClientTransportConfig::with_uri(endpoint).auth_header(text(&connect["key"]));
    let http = http().map_err(|error| unreachable_host(&error))?;
    let connected = ().serve(StreamableHttpClientTransport::with_client(http, config)).await;
    let agent = Agent { connection: connected.map_err(|error| unreachable_host(&error))? };
    // An agent that the host starts finds its session as its prompt says.
    let first = match connect["continueToken"].as_str() {
        Some(token) => json!({"continueToken": token, "intent": "rehydrate"}),
        None => {
            let found = agent.call("resume_session", json!({"sessionId": connect["sessionId"]})).await?;
            found["candidates"][0]["nextCall"]["params"].clone()
        }
    };
    let mut place = agent.call("continue_workflow", first).await?;
    for (step, answers) in SCRIPT {
        // Steps that an earlier agent of this session has done.
        if place["pending"]["stepId"] != step {
            continue;
        }
        for &notes in answers {
            if step == "write" {
                hand_over(connect, notes)?;
            }
            let title = text(&place["pending"]["title"]);
            let output = json!({"notesMarkdown": notes});
            let call =
                json!({"continueToken": place["continueToken"], "intent": "advance", "output": output});
            place = agent.call("continue_workflow", call).await?;
            let blocked = place["kind"] == "blocked";
            fact(if blocked { "agent tried" } else { "agent did" }, &title)?;
            if blocked {
                refusal(&format!("blocked: {}", text(&place["blockers"]["blockers"][0]["message"])))?;
            }
        }
    }
    let _ = agent.connection.cancel().await;
    Ok(())
}

/// The HTTP client of the MCP library. The host is local: no proxy and no TLS.
fn http() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder().no_proxy().build()
}

/// Writes the deliverable, as an agent would.
fn hand_over(connect: &Value, notes: &str) -> Result<(), Failure> {
    let path = folder(connect).join(NOTES);
    std::fs::write(&path, format!("{notes}\n"))
        .map_err(|cause| Failure::Unwritable { name: path.display().to_string(), cause })
}

struct Agent {
    connection: RunningService<RoleClient, ()>,
}

impl Agent {
    async fn call(&self, tool: &'static str, arguments: Value) -> Result<Value, Failure> {
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        let call = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = self.connection.call_tool(call).await.map_err(|error| unreachable_host(&error))?;
        Ok(result.structured_content.unwrap_or_default())
    }
}

fn unreachable_host(error: &dyn std::fmt::Display) -> Failure {
    Envelope::new(CommandErrorCode::ServerUnreachable, format!("the agent cannot reach the host: {error}"))
        .suggest("Try again. If the error persists, start `interlock serve` and check its log.")
        .into()
}
