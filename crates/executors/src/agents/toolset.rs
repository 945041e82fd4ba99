//! The tools of one task: their descriptions for the model, and the execution of calls.
//!
//! Other servers are asked for the descriptions of their tools once, and the replies are recorded, because the conversation depends on them. A
//! call is claimed under its own id before it is executed, and its result is recorded before the model gets it, so that the result survives a
//! crash. A call that was claimed but not recorded is executed again only if it is idempotent: a surface remembers the id, and a
//! tool of another server declares it. Otherwise the task fails with `effect_outcome_unknown`.

use std::time::{Duration, Instant};

use ai::redact::{Redactor, Secret};
use ai::schema::Schema;
use ai::tools::{
    Bounds, MAX_DESCRIPTION_BYTES, OfferedTool, PendingToolCall, Status, ToolResult, Toolbox, Transport,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flow::definition::CalledType;
use flow::engine::NodeCall;
use flow::failure::FailureCode;
use flow::id::{EffectId, Tenant};
use flow::state::RunError;
use packs::agents::may_use;
use serde_json::{Map, Value, json};

use super::super::ledger::{Claim, Unwritable};
use super::super::mcp::{self, Invocation, Servers};
use super::super::reach::Reach;
use super::super::{NodeRequest, Performed, not_served, surfaces};
use super::tools::{Declared, Implementation, ToolContext};
use super::{Agent, inputs};
use crate::failure::ExecutorErrorCode;

/// The timeout of a tool of another server.
const TOOL_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of the schema of a tool of another server, in bytes.
const MAX_SCHEMA_BYTES: usize = 64 << 10;

/// The tools of one task.
pub(in super::super) struct Toolset<'b> {
    agent: &'b Agent,
    tool_context: ToolContext<'b>,
    declared: Vec<Declared>,
    /// The descriptions from other servers, by tool id.
    described: Map<String, Value>,
}

impl<'b> Toolset<'b> {
    /// The tools with their descriptions: those of other servers are requested, or read from the record.
    pub(super) async fn prepare(
        agent: &'b Agent,
        tool_context: ToolContext<'b>,
        declared: Vec<Declared>,
        asked: NodeRequest<'_>,
    ) -> Result<Self, RunError> {
        let mut toolset = Self { agent, tool_context, declared, described: Map::new() };
        let is_foreign = |tool: &Declared| matches!(tool.implementation, Implementation::Mcp { .. });
        if !toolset.declared.iter().any(is_foreign) {
            return Ok(toolset);
        }
        // After an answer of a person, the same tools are used as before.
        let began = asked
            .saved_state
            .and_then(|kept| kept.get("began")?.as_str())
            .unwrap_or(asked.invocation.as_str());
        let id = format!("{began}.tools");
        // Asking again has no effect, so a claim without a record counts as none.
        if let Claim::Done(recorded) = asked.ledger.claim(&id, Reach::Nothing).await.map_err(unrecorded)? {
            toolset.described = serde_json::from_slice(&recorded).unwrap_or_default();
            return Ok(toolset);
        }
        let mut lists = Map::new();
        for tool in &toolset.declared {
            if let Implementation::Mcp { server, tool: name } = &tool.implementation {
                let found = toolset.describe(asked.tenant, server.as_deref(), name, &mut lists).await?;
                toolset.described.insert(tool.id.clone(), found);
            }
        }
        let record = Value::Object(toolset.described.clone()).to_string().into_bytes();
        asked.ledger.finish(&id, record).await.map_err(unrecorded)?;
        Ok(toolset)
    }

    /// The description of a tool, with its server. Each server is asked once.
    async fn describe(
        &self,
        tenant: &Tenant,
        server: Option<&str>,
        tool: &str,
        lists: &mut Map<String, Value>,
    ) -> Result<Value, RunError> {
        let servers = self.tool_context.servers.ok_or_else(|| not_served("core.agents.run"))?;
        let candidates = server.map_or_else(|| servers.of(tenant), |server| vec![server]);
        let mut failure = None;
        for server in candidates {
            if !lists.contains_key(server) {
                match servers.tools(tenant, server, TOOL_TIMEOUT).await {
                    Ok(listed) => drop(lists.insert(server.to_owned(), listed.into())),
                    // Another server may have the tool.
                    Err(error) => {
                        failure = Some(error);
                        continue;
                    }
                }
            }
            let listed = lists.get(server).and_then(Value::as_array);
            if let Some(found) = listed.into_iter().flatten().find(|listed| listed["name"] == tool) {
                let mut schema =
                    found.get("inputSchema").cloned().unwrap_or_else(|| json!({"type": "object"}));
                if let Some(members) = schema.as_object_mut() {
                    // Many servers declare an older dialect. The keywords that they use have the same meaning in ours.
                    members.remove("$schema");
                }
                if schema.to_string().len() > MAX_SCHEMA_BYTES {
                    let message = format!(
                        "the schema of `{tool}` of server `{server}` has more than {MAX_SCHEMA_BYTES} bytes"
                    );
                    return Err(RunError::of(ExecutorErrorCode::ToolSchemaUnusable, message));
                }
                let about = found["description"].as_str().unwrap_or_default();
                let about = canon::budget::truncate(about, MAX_DESCRIPTION_BYTES);
                let declares = |hint: &str| found["annotations"][hint] == true;
                let repeatable = declares("readOnlyHint") || declares("idempotentHint");
                return Ok(json!({
                    "server": server, "description": about, "schema": schema, "repeatable": repeatable,
                }));
            }
        }
        let message = format!("no available MCP server has the tool `{tool}`");
        Err(failure.unwrap_or_else(|| RunError::of(ExecutorErrorCode::McpToolNotFound, message)))
    }

    /// The tools as offered to a model.
    pub(in super::super) fn toolbox(&self) -> Result<Toolbox, RunError> {
        let unusable = |message: String| RunError::of(ExecutorErrorCode::ToolSchemaUnusable, message);
        let mut offered = Vec::new();
        for tool in &self.declared {
            let (description, schema, transport) = match &tool.implementation {
                Implementation::Mcp { .. } => {
                    let described = self.described.get(&tool.id).unwrap_or(&Value::Null);
                    // The description of another server is untrusted, like the output of the tool.
                    let theirs =
                        mcp::marked("tool", &tool.id, described["description"].as_str().unwrap_or_default());
                    let description = match &tool.description {
                        Some(ours) => format!("{ours}\n{theirs}"),
                        None => theirs,
                    };
                    (description, described["schema"].clone(), Transport::Mcp)
                }
                Implementation::Surface { called, config } => {
                    let schema = inputs::schema(*called, config).unwrap_or_default();
                    let description = tool.description.clone().unwrap_or_else(|| called.summary().to_owned());
                    (description, schema, Transport::Native)
                }
            };
            let schema = Schema::compile(&schema)
                .map_err(|error| unusable(format!("the schema of `{}` cannot be used: {error}", tool.id)))?;
            offered.push(OfferedTool { id: tool.id.clone(), description, schema, transport });
        }
        Toolbox::new(offered).map_err(|error| unusable(error.to_string()))
    }

    /// The secrets of the used servers. They must be redacted from the results of tools.
    pub(in super::super) fn secrets(&self, tenant: &Tenant) -> Vec<Secret> {
        let Some(servers) = self.tool_context.servers else { return Vec::new() };
        let used = self.described.values().filter_map(|described| described["server"].as_str());
        used.filter_map(|server| servers.secret(tenant, server)).collect()
    }

    /// Executes a call, at most once.
    pub(in super::super) async fn call(
        &self,
        asked: NodeRequest<'_>,
        due: &PendingToolCall,
        redactor: &Redactor,
    ) -> Result<ToolResult, RunError> {
        let declared = self.declared.iter().find(|tool| tool.id == due.tool);
        let Some(tool) = declared.filter(|_| may_use(&self.agent.manifest, &due.tool)) else {
            return Ok(ToolResult::forbidden());
        };
        let reach = match &tool.implementation {
            Implementation::Mcp { .. } => Reach::Outside { provider_key: None },
            Implementation::Surface { called, .. } => Reach::of_type(*called, &due.call_id),
        };
        let again = match asked.ledger.claim(&due.call_id, reach).await.map_err(unrecorded)? {
            Claim::New => false,
            Claim::Unknown => true,
            Claim::Done(recorded) => {
                let record: Value = serde_json::from_slice(&recorded).unwrap_or_default();
                return ToolResult::from_record(&record, due).ok_or_else(|| {
                    let message = "the record of this call belongs to another call; it is not executed again";
                    RunError::of(FailureCode::EffectOutcomeUnknown, message)
                });
            }
        };
        let begun = Instant::now();
        let returned = match &tool.implementation {
            Implementation::Mcp { tool, .. } => self.call_server(asked, due, tool, again).await,
            Implementation::Surface { called, config } => {
                self.call_surface(asked, due, *called, config, again).await
            }
        };
        let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let returned = match returned {
            Ok((status, text)) => {
                ToolResult { status, text, code: None, duration_ms: Some(took), cut_from: None }
            }
            // It is unknown whether the call happened, so the task cannot continue.
            Err(error) if error.has_code(FailureCode::EffectOutcomeUnknown) => return Err(error),
            Err(error) => ToolResult {
                status: Status::Error,
                text: self.failure_text(due, &error),
                code: Some(error.code),
                duration_ms: Some(took),
                cut_from: None,
            },
        };
        // Secrets are redacted before truncation, because half a secret would not be recognized.
        let returned = returned.redacted(redactor).cut(Bounds::default().result_bytes);
        let record = returned.to_record(due).to_string().into_bytes();
        asked.ledger.finish(&due.call_id, record).await.map_err(unrecorded)?;
        Ok(returned)
    }

    /// The message of a failed call. If the call may nevertheless have been executed, it warns the model, which would otherwise retry.
    fn failure_text(&self, due: &PendingToolCall, error: &RunError) -> String {
        let repeatable =
            self.described.get(&due.tool).is_some_and(|described| described["repeatable"] == true);
        let sent = [
            ExecutorErrorCode::McpTimeout,
            ExecutorErrorCode::McpUnreachable,
            ExecutorErrorCode::McpBadAnswer,
        ];
        let sent = sent.iter().any(|code| error.has_code(*code));
        match sent && !repeatable {
            true => format!(
                "{}; the call may nevertheless have been executed, so do not repeat it",
                error.message
            ),
            false => error.message.clone(),
        }
    }

    async fn call_server(
        &self,
        asked: NodeRequest<'_>,
        due: &PendingToolCall,
        tool: &str,
        again: bool,
    ) -> Result<(Status, String), RunError> {
        let servers: &Servers = self.tool_context.servers.ok_or_else(|| not_served("core.agents.run"))?;
        let server = self.described.get(&due.tool).and_then(|described| described["server"].as_str());
        let Performed { outcome, .. } = mcp::invoke(
            servers,
            Invocation {
                tenant: asked.tenant,
                server,
                tool,
                args: due.arguments.clone(),
                patience: TOOL_TIMEOUT,
                agent_id: self.agent.manifest.agent_id.clone(),
                call_id: &due.call_id,
                again: again.then_some(asked.ledger),
            },
        )
        .await;
        let answer = outcome?;
        let status = if answer["isError"] == true { Status::Error } else { Status::Ok };
        let text = answer["result"].as_str().map_or_else(|| answer["result"].to_string(), str::to_owned);
        Ok((status, text))
    }

    async fn call_surface(
        &self,
        asked: NodeRequest<'_>,
        due: &PendingToolCall,
        called: CalledType,
        config: &Map<String, Value>,
        again: bool,
    ) -> Result<(Status, String), RunError> {
        let surfaces = self.tool_context.surfaces.ok_or_else(|| not_served(called.as_str()))?;
        let Value::Object(inputs) = due.arguments.clone() else {
            return Err(RunError::of(FailureCode::ValidationError, "the arguments must be an object"));
        };
        let call = NodeCall {
            type_id: called.as_str().to_owned(),
            config: config.clone(),
            inputs,
            ..asked.call.clone()
        };
        let invocation = EffectId::new(due.call_id.as_str());
        let asked = NodeRequest { invocation: &invocation, again, call: &call, ..asked };
        let mut answer = surfaces::perform(surfaces, called, asked).await.outcome?;
        if called == CalledType::FilesRead {
            decode_text(&mut answer);
        }
        Ok((Status::Ok, answer.to_string()))
    }
}

/// Decodes the content of a text file, because models do not read Base64.
fn decode_text(answer: &mut Value) {
    let decoded = answer["contentBase64"].as_str().and_then(|content| STANDARD.decode(content).ok());
    if let (Some(text), Some(members)) =
        (decoded.and_then(|bytes| String::from_utf8(bytes).ok()), answer.as_object_mut())
    {
        members.remove("contentBase64");
        members.insert("content".to_owned(), text.into());
    }
}

fn unrecorded(error: Unwritable) -> RunError {
    RunError::of(FailureCode::NodeFailed, format!("no tool was called: {error}"))
}
