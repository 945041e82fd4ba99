//! Checks a requested tool call: the tool is offered and the arguments are valid.

use canon::json::Limits;
use serde_json::{Value, json};

use super::marked;
use super::returned::Status;
use super::toolbox::{OfferedTool, Toolbox};
use crate::provider::ToolCall;
use crate::schema;

/// The maximum nesting depth of arguments.
const MAX_DEPTH: usize = 64;
/// The maximum length of an unknown tool name in events, in characters.
const MAX_SHOWN: usize = 128;

/// The result of the check.
pub(super) enum CallCheck<'t> {
    Valid { tool: &'t OfferedTool, arguments: Value },
    Rejected(RejectedCall),
}

/// Why a call is not executed.
pub(super) struct RejectedCall {
    pub(super) status: Status,
    pub(super) code: &'static str,
    /// A message for the model and for people, without text of others.
    pub(super) message: String,
    /// The schema violations. The schema may come from another server.
    detail: Option<String>,
}

impl RejectedCall {
    const fn of(code: &'static str, message: String) -> Self {
        Self { status: Status::Error, code, message, detail: None }
    }

    pub(super) fn truncated() -> Self {
        Self::of(
            "reply_cut_off",
            "the reply was truncated inside its tool calls; reply with fewer or shorter calls".to_owned(),
        )
    }

    pub(super) fn too_many(limit: usize) -> Self {
        Self::of(
            "too_many_calls",
            format!(
                "at most {limit} tool calls are allowed per round; make the remaining calls in the \
                next round"
            ),
        )
    }

    /// The message for the model.
    pub(super) fn for_model(&self, tool: &str) -> String {
        let said = json!({"error": self.code, "message": self.message}).to_string();
        match &self.detail {
            None => said,
            Some(detail) => format!("{said}\n{}", marked(tool, detail)),
        }
    }
}

pub(super) fn judge<'t>(toolbox: &'t Toolbox, call: &ToolCall, limit: usize) -> CallCheck<'t> {
    let Some(tool) = toolbox.find(&call.name) else {
        let names: Vec<&str> = toolbox.names().collect();
        let message = format!("this tool is not allowed here; the allowed tools are {}", names.join(", "));
        return CallCheck::Rejected(RejectedCall {
            status: Status::Forbidden,
            ..RejectedCall::of("forbidden", message)
        });
    };
    let size = call.arguments.len();
    if size > limit {
        let message = format!("the arguments are {size} bytes; the limit is {limit}");
        return CallCheck::Rejected(RejectedCall::of("invalid_arguments", message));
    }
    let Some(arguments @ Value::Object(_)) = read(&call.arguments, limit) else {
        let message = format!("the arguments must be a JSON object with at most {MAX_DEPTH} levels");
        return CallCheck::Rejected(RejectedCall::of("invalid_arguments", message));
    };
    let issues = tool.schema.issues(&arguments);
    if issues.is_empty() {
        return CallCheck::Valid { tool, arguments };
    }
    let message = "the arguments do not match the tool's schema".to_owned();
    let detail = Some(schema::summary(&issues));
    CallCheck::Rejected(RejectedCall { detail, ..RejectedCall::of("invalid_arguments", message) })
}

/// Parses arguments. An empty string means no arguments.
pub(super) fn read(text: &str, limit: usize) -> Option<Value> {
    if text.trim().is_empty() {
        return Some(json!({}));
    }
    canon::json::read(text.as_bytes(), &Limits::DEFAULT.max_bytes(limit).max_depth(MAX_DEPTH)).ok()
}

/// The name of an unknown tool, shortened for events.
pub(super) fn shown(name: &str) -> String {
    let name: String = name.chars().filter(|letter| !letter.is_control()).take(MAX_SHOWN).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}
