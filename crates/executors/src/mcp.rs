//! Nodes that use other MCP servers: their tools, resources and prompts.
//!
//! The operator configures the servers and their tenants. A workflow names one of them, never an address. All results are untrusted and are
//! marked so in the outputs, in the events, and in text for models.

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
use system::secrets::Secrets;

use self::session::Session;
pub use self::tool::{Invocation, invoke};
use super::{NodeRequest, Performed, not_served};
use crate::failure::ExecutorErrorCode;

/// The timeout of a request, in milliseconds: the default, the minimum and the maximum.
const DEFAULT_TIMEOUT_MS: u64 = 30_000;
const MIN_TIMEOUT_MS: u64 = 100;
const MAX_TIMEOUT_MS: u64 = 300_000;
/// The maximum number of pages of a list.
const MAX_PAGES: usize = 20;

#[derive(Clone, Debug)]
struct Server {
    target: Target,
    /// The name of the secret that is sent as a bearer token.
    secret: Option<String>,
    /// The tenants that may use it; empty means all.
    tenants: Vec<String>,
}

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
    /// No servers. The operator chooses the addresses, so all of them are allowed.
    pub fn new(secrets: Arc<dyn Secrets>) -> Self {
        Self { servers: BTreeMap::new(), client: Client::new(Reach::Anywhere), secrets }
    }

    /// Adds a server: its address, the name of its secret, and its tenants (all, if empty).
    ///
    /// # Errors
    /// The address is invalid.
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

    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Whether a server with that id exists, for any tenant.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.servers.contains_key(id)
    }

    /// The secret of a server for a tenant, if it has one.
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

    /// Opens a session. A server of other tenants is treated as unknown.
    async fn open(&self, tenant: &Tenant, id: &str) -> Result<Session<'_>, RunError> {
        let known = self.of(tenant).contains(&id);
        let Some(server) = self.servers.get(id).filter(|_| known) else {
            let message =
                "no MCP server with this id is configured; the settings name servers under `mcp.servers`";
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

    /// The list of a server's tools.
    ///
    /// # Errors
    /// The server did not return it.
    pub async fn tools(&self, tenant: &Tenant, id: &str, timeout: Duration) -> Result<Vec<Value>, RunError> {
        within(timeout, async {
            let mut session = self.open(tenant, id).await?;
            let tools = list_tools(&mut session).await;
            session.close().await;
            tools
        })
        .await
    }
}

/// Calls a tool instead of a model. The output of the node is the marked result of the tool.
pub(super) async fn call_instead(servers: &Servers, tool: &McpCall, asked: NodeRequest<'_>) -> Performed {
    let mut performed = invoke(
        servers,
        Invocation {
            tenant: asked.tenant,
            server: tool.server.as_deref(),
            tool: &tool.tool,
            args: Value::Object(tool.arguments.clone()),
            patience: Duration::from_millis(DEFAULT_TIMEOUT_MS),
            agent_id: agent_of(asked),
            call_id: asked.invocation.as_str(),
            again: asked.again.then_some(asked.ledger),
        },
    )
    .await;
    if let Ok(Value::Object(outputs)) = &mut performed.outcome {
        let content = outputs.get("markedContent").cloned().unwrap_or_default();
        outputs.insert("content".to_owned(), content);
    }
    performed
}

/// The caller in events: the agent that the node is pinned to, or the node.
fn agent_of(asked: NodeRequest<'_>) -> String {
    let pinned = asked.call.agent.as_ref().and_then(|agent| agent["agentId"].as_str());
    pinned.map_or_else(|| format!("node:{}", asked.node_id), str::to_owned)
}

/// Executes a node that uses another server.
pub(super) async fn perform(servers: &Servers, called: CalledType, asked: NodeRequest<'_>) -> Performed {
    let (config, inputs) = (&asked.call.config, &asked.call.inputs);
    let server = config.get("serverId").and_then(Value::as_str).unwrap_or_default();
    let timeout = timeout(config);
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
                patience: timeout,
                agent_id: agent_of(asked),
                call_id: asked.invocation.as_str(),
                again: asked.again.then_some(asked.ledger),
            },
        )
        .await;
    }
    // The other operations only read, so they can be repeated.
    let begun = Instant::now();
    let read = within(timeout, async {
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

/// The content of a resource: its first part, and all parts if there are several.
fn content(uri: &str, read: &Value) -> Value {
    let parts = read["contents"].as_array().map_or(&[][..], Vec::as_slice);
    let first = parts.first().unwrap_or(&Value::Null);
    let (content, encoding) = match (first["text"].as_str(), first["blob"].as_str()) {
        (Some(text), _) => (json!(text), "utf-8"),
        (None, Some(blob)) => (json!(blob), "base64"),
        (None, None) => (Value::Null, "utf-8"),
    };
    let mut outputs = json!({
        "uri": uri, "content": content, "encoding": encoding,
        "mimeType": first["mimeType"].as_str().unwrap_or_default(), "untrustedContent": true,
    });
    if encoding == "utf-8" {
        outputs["markedContent"] = marked("resource", uri, first["text"].as_str().unwrap_or_default()).into();
    }
    if parts.len() > 1 {
        outputs["contents"] = parts.to_vec().into();
    }
    outputs
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

fn timeout(config: &Map<String, Value>) -> Duration {
    let requested = config.get("timeoutMs").and_then(Value::as_u64).unwrap_or(DEFAULT_TIMEOUT_MS);
    Duration::from_millis(requested.clamp(MIN_TIMEOUT_MS, MAX_TIMEOUT_MS))
}

async fn within<T>(
    timeout: Duration,
    work: impl Future<Output = Result<T, RunError>>,
) -> Result<T, RunError> {
    let late = |_| {
        let message = format!("the MCP server did not reply within {} ms", timeout.as_millis());
        RunError::of(ExecutorErrorCode::McpTimeout, message)
    };
    tokio::time::timeout(timeout, work).await.map_err(late)?
}

fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Marks untrusted text, so that models and readers can see where it comes from.
pub(super) fn marked(kind: &str, name: &str, text: &str) -> String {
    ai::trust::wrap_with(text, &BTreeMap::from([(kind.to_owned(), name.to_owned())]))
}
