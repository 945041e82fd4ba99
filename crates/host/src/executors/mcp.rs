//! Nodes that use other MCP servers: their tools, resources and prompts.
//!
//! The operator names the servers, and for whom they are; a workflow names one of them, and never an address. Whatever comes back is
//! from outside: it is marked as such in the outputs, in the events and in the text that a model may be shown.

mod session;
mod tool;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ai::node::McpCall;
use ai::redact::Secret;
use flow::definition::CalledType;
use flow::id::Tenant;
use flow::state::RunError;
use outbound::{Client, Reach, Target, TargetError};
use serde_json::{Map, Value, json};

use self::session::Session;
pub use self::tool::{Invocation, invoke};
use super::{Asked, Performed, not_served};
use crate::executors::failure::ExecutorErrorCode;
use crate::runs::secrets::Secrets;

/// How long a request may take, in milliseconds: where nobody says, and the bounds of what may be said.
const TIME_OUT_MS: u64 = 30_000;
const LEAST_MS: u64 = 100;
const MOST_MS: u64 = 300_000;
/// How many pages of a list are read.
const MAX_PAGES: usize = 20;

/// A server that nodes may use.
#[derive(Clone, Debug)]
struct Server {
    target: Target,
    /// The secret that is sent as a bearer, by its name.
    secret: Option<String>,
    /// For whom it is; for everybody where nobody is named.
    tenants: Vec<String>,
}

/// The servers that nodes may use.
#[derive(Clone)]
pub struct Servers {
    servers: BTreeMap<String, Server>,
    client: Client,
    secrets: Arc<dyn Secrets>,
}

impl fmt::Debug for Servers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Servers").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Servers {
    /// No server yet. The addresses are the operator's, so all may be called.
    pub fn new(secrets: Arc<dyn Secrets>) -> Self {
        Self { servers: BTreeMap::new(), client: Client::new(Reach::Anywhere), secrets }
    }

    /// With one more server: its address, the name of the secret that opens it, and for which tenants it is (all, if none is named).
    ///
    /// # Errors
    /// When the address is none.
    pub fn with(
        mut self,
        id: &str,
        url: &str,
        secret: Option<String>,
        tenants: Vec<String>,
    ) -> Result<Self, TargetError> {
        let target = self.client.check(url)?;
        self.servers.insert(id.to_owned(), Server { target, secret, tenants });
        Ok(self)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Whether there is one of that id, for whomever.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.servers.contains_key(id)
    }

    /// The secret that opens a server for a tenant, where it has one.
    pub(super) fn secret(&self, tenant: &Tenant, id: &str) -> Option<Secret> {
        let name = self.servers.get(id)?.secret.as_deref()?;
        let value = self.secrets.resolve(tenant, name).ok()?;
        Some(Secret::new(name, value.expose()))
    }

    /// The ids of the servers of a tenant, sorted.
    pub fn of(&self, tenant: &Tenant) -> Vec<&str> {
        let is_for = |server: &Server| {
            server.tenants.is_empty() || server.tenants.iter().any(|known| tenant == known.as_str())
        };
        self.servers.iter().filter(|(_, server)| is_for(server)).map(|(id, _)| id.as_str()).collect()
    }

    /// Begins to talk to a server. One that is for others is not there.
    async fn open(&self, tenant: &Tenant, id: &str) -> Result<Session<'_>, RunError> {
        let known = self.of(tenant).contains(&id);
        let Some(server) = self.servers.get(id).filter(|_| known) else {
            let message =
                "no MCP server of this id is registered here; the settings name them under `mcp.servers`";
            return Err(RunError::of(ExecutorErrorCode::McpServerNotRegistered, message));
        };
        let bearer = match &server.secret {
            None => None,
            Some(secret) => {
                let value = self.secrets.resolve(tenant, secret);
                let value = value.map_err(|error| {
                    RunError::of(ExecutorErrorCode::CredentialRequired, error.to_string())
                })?;
                Some(format!("Bearer {}", value.expose()))
            }
        };
        Session::open(&self.client, &server.target, bearer).await
    }

    /// The tools of a server, as it lists them.
    ///
    /// # Errors
    /// When it does not.
    pub async fn tools(&self, tenant: &Tenant, id: &str, patience: Duration) -> Result<Vec<Value>, RunError> {
        within(patience, async {
            let mut session = self.open(tenant, id).await?;
            let tools = list_tools(&mut session).await;
            session.close().await;
            tools
        })
        .await
    }
}

/// Calls a tool in the place of a model, for a node that would ask one. What the node gives is what the tool said, marked.
pub(super) async fn call_instead(servers: &Servers, tool: &McpCall, asked: Asked<'_>) -> Performed {
    let mut performed = invoke(
        servers,
        Invocation {
            tenant: asked.tenant,
            server: tool.server.as_deref(),
            tool: &tool.tool,
            args: Value::Object(tool.arguments.clone()),
            patience: Duration::from_millis(TIME_OUT_MS),
            agent_id: agent_of(asked),
            call_id: asked.invocation.as_str(),
            again: asked.again,
        },
    )
    .await;
    if let Ok(Value::Object(outputs)) = &mut performed.outcome {
        let said = outputs.get("markedContent").cloned().unwrap_or_default();
        outputs.insert("content".to_owned(), said);
    }
    performed
}

/// Who calls: the agent that the node is pinned to, or the node.
fn agent_of(asked: Asked<'_>) -> String {
    let pinned = asked.call.agent.as_ref().and_then(|agent| agent["agentId"].as_str());
    pinned.map_or_else(|| format!("node:{}", asked.node_id), str::to_owned)
}

/// Does the work of a node that uses another server.
pub(super) async fn perform(servers: &Servers, called: CalledType, asked: Asked<'_>) -> Performed {
    let (config, inputs) = (&asked.call.config, &asked.call.inputs);
    let server = config.get("serverId").and_then(Value::as_str).unwrap_or_default();
    let patience = patience(config);
    if called == CalledType::McpInvokeTool {
        let args =
            inputs.get("args").or_else(|| inputs.get("arguments")).cloned().unwrap_or_else(|| json!({}));
        return invoke(
            servers,
            Invocation {
                tenant: asked.tenant,
                server: Some(server),
                tool: config.get("toolName").and_then(Value::as_str).unwrap_or_default(),
                args,
                patience,
                agent_id: agent_of(asked),
                call_id: asked.invocation.as_str(),
                again: asked.again,
            },
        )
        .await;
    }
    // The rest only reads, so again is the same.
    let begun = Instant::now();
    let read = within(patience, async {
        let mut session = servers.open(asked.tenant, server).await?;
        let answer = read(&mut session, called, config, inputs).await;
        session.close().await;
        answer
    });
    Performed::plain(match (called, read.await) {
        (CalledType::McpPing, Err(error)) if !error.has_code(ExecutorErrorCode::McpServerNotRegistered) => {
            Ok(json!({"ok": false, "roundtripMs": null, "reason": error.code}))
        }
        (CalledType::McpPing, Ok(_)) => Ok(json!({"ok": true, "roundtripMs": milliseconds(begun)})),
        (_, outcome) => outcome,
    })
}

async fn read(
    session: &mut Session<'_>,
    called: CalledType,
    config: &Map<String, Value>,
    inputs: &Map<String, Value>,
) -> Result<Value, RunError> {
    let cursor =
        inputs.get("cursor").filter(|cursor| cursor.is_string()).map(|cursor| json!({"cursor": cursor}));
    let page = cursor.unwrap_or_else(|| json!({}));
    let untrusted = |result: Value| json!({"result": result, "untrustedContent": true});
    match called {
        CalledType::McpListTools => {
            let tools = list_tools(session).await?;
            Ok(json!({"count": tools.len(), "tools": tools, "untrustedContent": true}))
        }
        CalledType::McpListResources => session.ask("resources/list", page).await.map(untrusted),
        CalledType::McpListPrompts => session.ask("prompts/list", page).await.map(untrusted),
        CalledType::McpReadResource => {
            let uri = config.get("uri").and_then(Value::as_str).unwrap_or_default();
            let read = session.ask("resources/read", json!({"uri": uri})).await?;
            Ok(content(uri, &read))
        }
        CalledType::McpGetPrompt => {
            let name = config.get("name").or_else(|| inputs.get("name")).cloned().unwrap_or_default();
            let arguments = inputs.get("arguments").cloned().unwrap_or_else(|| json!({}));
            session.ask("prompts/get", json!({"name": name, "arguments": arguments})).await.map(untrusted)
        }
        CalledType::McpPing => session.ask("ping", json!({})).await,
        other => Err(not_served(other.as_str())),
    }
}

/// The content of a resource, as the node gives it: the first of its parts, and all of them where there are more.
fn content(uri: &str, read: &Value) -> Value {
    let parts = read["contents"].as_array().map_or(&[][..], Vec::as_slice);
    let first = parts.first().unwrap_or(&Value::Null);
    let (content, encoding) = match (first["text"].as_str(), first["blob"].as_str()) {
        (Some(text), _) => (json!(text), "utf-8"),
        (None, Some(blob)) => (json!(blob), "base64"),
        (None, None) => (Value::Null, "utf-8"),
    };
    let mut given = json!({
        "uri": uri, "content": content, "encoding": encoding,
        "mimeType": first["mimeType"].as_str().unwrap_or_default(), "untrustedContent": true,
    });
    if encoding == "utf-8" {
        given["markedContent"] = marked("resource", uri, first["text"].as_str().unwrap_or_default()).into();
    }
    if parts.len() > 1 {
        given["contents"] = parts.to_vec().into();
    }
    given
}

async fn list_tools(session: &mut Session<'_>) -> Result<Vec<Value>, RunError> {
    let (mut tools, mut params) = (Vec::new(), json!({}));
    for _ in 0..MAX_PAGES {
        let page = session.ask("tools/list", params).await?;
        tools.extend(page["tools"].as_array().into_iter().flatten().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => params = json!({"cursor": next}),
            None => break,
        }
    }
    Ok(tools)
}

fn patience(config: &Map<String, Value>) -> Duration {
    let asked = config.get("timeoutMs").and_then(Value::as_u64).unwrap_or(TIME_OUT_MS);
    Duration::from_millis(asked.clamp(LEAST_MS, MOST_MS))
}

async fn within<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, RunError>>,
) -> Result<T, RunError> {
    let late = |_| {
        let message = format!("the MCP server did not answer within {} ms", patience.as_millis());
        RunError::of(ExecutorErrorCode::McpTimeout, message)
    };
    tokio::time::timeout(patience, work).await.map_err(late)?
}

fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Text from outside, marked so that a model and its readers can tell where it came from.
pub(super) fn marked(kind: &str, name: &str, text: &str) -> String {
    ai::trust::wrap_with(text, &BTreeMap::from([(kind.to_owned(), name.to_owned())]))
}
