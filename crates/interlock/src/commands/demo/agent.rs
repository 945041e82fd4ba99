//! A stand-in for an agent: it says what its script says, over the protocol that agents speak.

use std::error::Error;
use std::sync::Arc;

use canon::error::Envelope;
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Map, Value, json};

use super::{fact, folder, refusal, text};
use crate::failure::{CommandErrorCode, Failure};

/// The file that the agent hands over, in the folder of its deliverables.
const NOTES: &str = "deliverables/release-notes.md";

/// What it answers to each step, in order. The first answer to the first step is too little, and is refused: a step cannot be
/// talked away.
const SCRIPT: [(&str, &[&str]); 3] = [
    (
        "read",
        &[
            "Looks fine to me.",
            "- c1: whoever restarts the host while somebody thinks about an answer\n\
             - c2: whoever clicks twice\n\
             - c3: everybody who approves",
        ],
    ),
    ("risks", &["Surprises: none. No default changed, no option was renamed, and no file moved."]),
    (
        "write",
        &["# Release 1.4.0\n\n\
           Nothing in here breaks what worked before.\n\n\
           ## New\n\n\
           - One page shows what waits for whom.\n\n\
           ## Fixed\n\n\
           - A run that waits for an answer survives a restart.\n\
           - An answer that arrives twice counts once."],
    ),
];

/// Walks the session to its end.
pub(super) async fn walk(connect: &Value) -> Result<(), Failure> {
    let endpoint = text(&connect["endpoint"]);
    let config = StreamableHttpClientTransportConfig::with_uri(endpoint).auth_header(text(&connect["key"]));
    let http = http().map_err(|error| unreachable_host(&error))?;
    let connected = ().serve(StreamableHttpClientTransport::with_client(http, config)).await;
    let agent = Agent { connection: connected.map_err(|error| unreachable_host(&error))? };
    let mut place =
        agent.call(json!({"continueToken": connect["continueToken"], "intent": "rehydrate"})).await?;
    for (step, answers) in SCRIPT {
        for &notes in answers {
            if step == "write" {
                hand_over(connect, notes)?;
            }
            let title = text(&place["pending"]["title"]);
            let output = json!({"notesMarkdown": notes});
            let call =
                json!({"continueToken": place["continueToken"], "intent": "advance", "output": output});
            place = agent.call(call).await?;
            let blocked = place["kind"] == "blocked";
            fact(if blocked { "agent tries" } else { "agent did" }, &title)?;
            if blocked {
                refusal(&format!("refused: {}", text(&place["blockers"]["blockers"][0]["message"])))?;
            }
        }
    }
    let _ = agent.connection.cancel().await;
    Ok(())
}

/// The client that the protocol's library speaks through. The host is this machine: no proxy, and no authority to ask.
fn http() -> Result<reqwest::Client, Box<dyn Error + Send + Sync>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Ok(reqwest::Client::builder().no_proxy().tls_backend_preconfigured(tls).build()?)
}

/// Writes the deliverable, as an agent with hands would.
fn hand_over(connect: &Value, notes: &str) -> Result<(), Failure> {
    let path = folder(connect).join(NOTES);
    std::fs::write(&path, format!("{notes}\n"))
        .map_err(|cause| Failure::Unwritable { name: path.display().to_string(), cause })
}

struct Agent {
    connection: RunningService<RoleClient, ()>,
}

impl Agent {
    async fn call(&self, arguments: Value) -> Result<Value, Failure> {
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        let call = CallToolRequestParams::new("continue_workflow").with_arguments(arguments);
        let result = self.connection.call_tool(call).await.map_err(|error| unreachable_host(&error))?;
        Ok(result.structured_content.unwrap_or_default())
    }
}

fn unreachable_host(error: &dyn std::fmt::Display) -> Failure {
    Envelope::new(CommandErrorCode::ServerUnreachable, format!("the agent cannot reach the host: {error}"))
        .suggest("Try again; if it stays so, start `interlock serve` and look at its log.")
        .into()
}
