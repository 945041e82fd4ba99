//! A call of a tool of another server, and its events.

use std::time::{Duration, Instant};

use canon::digest::Digest;
use flow::engine::{Cause, Reported};
use flow::event::data::agent::{AgentToolCalled, AgentToolReturned};
use flow::failure::FailureCode;
use flow::id::Tenant;
use flow::state::RunError;
use serde_json::{Value, json};

use super::{Servers, list_tools, marked, milliseconds, within};
use crate::Performed;
use crate::failure::ExecutorErrorCode;
use crate::ledger::Ledger;

/// The maximum size of a result in an event, in bytes. The outputs of the node contain the complete result.
const MAX_RECORDED_BYTES: usize = 16 << 10;

/// A tool to call.
#[derive(Clone)]
pub struct Invocation<'i> {
    /// The tenant of the run.
    pub tenant: &'i Tenant,
    /// The server; if `None`, the first that has the tool.
    pub server: Option<&'i str>,
    pub tool: &'i str,
    pub args: Value,
    /// The timeout.
    pub patience: Duration,
    /// The agent that calls it.
    pub agent_id: String,
    pub call_id: &'i str,
    /// Where a further call is recorded, if the tool may have been called before, with an unknown result.
    pub again: Option<&'i dyn Ledger>,
}

/// Calls a tool, at most once per id, unless the tool declares that it is idempotent.
pub async fn invoke(servers: &Servers, call: Invocation<'_>) -> Performed {
    let begun = Instant::now();
    let outcome = within(call.patience, ask(servers, &call)).await;
    let took = milliseconds(begun);
    let called = AgentToolCalled {
        agent_id: call.agent_id.clone(),
        args_hash: Some(hash(&call.args)),
        arguments: None,
        call_id: call.call_id.to_owned(),
        inputs: Some(call.args.clone()),
        tool_id: call.tool.to_owned(),
        tool_name: call.tool.to_owned(),
        transport: Some("mcp".into()),
    };
    let mut returned = AgentToolReturned {
        agent_id: call.agent_id.clone(),
        call_id: call.call_id.to_owned(),
        content_trust: Some("untrusted".into()),
        duration_ms: Some(took),
        error: None,
        outcome: None,
        result: None,
        status: "error".into(),
        tool_id: call.tool.to_owned(),
        tool_name: call.tool.to_owned(),
        transport: Some("mcp".into()),
    };
    let outcome = match outcome {
        Ok(answer) => {
            let is_error = answer["isError"] == true;
            let result = result(&answer);
            let text = result.as_str().map_or_else(|| result.to_string(), str::to_owned);
            let shown = marked("tool", call.tool, &text);
            returned.status = if is_error { "error" } else { "ok" }.into();
            returned.outcome = Some(marked("tool", call.tool, truncated(&text)).into());
            Ok(json!({
                "result": result, "isError": is_error, "untrustedContent": true, "markedContent": shown, "durationMs": took,
            }))
        }
        Err(error) => {
            returned.error = Some(error.to_json());
            Err(error)
        }
    };
    let reports = vec![Reported::event(called), Reported::event(returned).because(Cause::Reported(0))];
    Performed { reports, outcome }
}

async fn ask(servers: &Servers, call: &Invocation<'_>) -> Result<Value, RunError> {
    let mut session = match call.server {
        Some(server) => servers.open(call.tenant, server).await?,
        None => {
            let mut found = None;
            for server in servers.of(call.tenant) {
                let mut session = servers.open(call.tenant, server).await?;
                if list_tools(&mut session).await?.iter().any(|tool| tool["name"] == call.tool) {
                    found = Some(session);
                    break;
                }
                session.close().await;
            }
            found.ok_or_else(|| {
                RunError::of(ExecutorErrorCode::McpToolNotFound, "no available MCP server has this tool")
            })?
        }
    };
    if let Some(ledger) = call.again {
        let tools = list_tools(&mut session).await?;
        let hints = tools.iter().find(|tool| tool["name"] == call.tool).map(|tool| &tool["annotations"]);
        let declares = |hint: &str| hints.is_some_and(|hints| hints[hint] == true);
        if !declares("readOnlyHint") && !declares("idempotentHint") {
            session.close().await;
            let message = "the tool may have been called before the host stopped, and it does not declare that it is idempotent";
            return Err(RunError::of(FailureCode::EffectOutcomeUnknown, message));
        }
        if let Err(error) = ledger.retry(call.call_id).await {
            session.close().await;
            return Err(error.into_failure());
        }
    }
    let answer = session.ask("tools/call", json!({"name": call.tool, "arguments": call.args})).await;
    session.close().await;
    answer
}

/// The result of a tool: its structured content, or its text, or all parts of its content.
fn result(answer: &Value) -> Value {
    if answer["structuredContent"].is_object() {
        return answer["structuredContent"].clone();
    }
    let parts = answer["content"].as_array().map_or(&[][..], Vec::as_slice);
    let texts: Option<Vec<&str>> =
        parts.iter().map(|part| part["text"].as_str().filter(|_| part["type"] == "text")).collect();
    match texts {
        Some(texts) => texts.join("\n").into(),
        None => answer["content"].clone(),
    }
}

fn hash(args: &Value) -> String {
    let bytes = canon::canonical::to_vec(args).unwrap_or_default();
    Digest::of_bytes(&bytes).to_hex()
}

fn truncated(text: &str) -> &str {
    let mut end = text.len().min(MAX_RECORDED_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
