//! Tools in requests and replies: declarations, calls and results.

use serde_json::{Value, json};

/// The maximum number of tool calls in one reply.
pub const MAX_TOOL_CALLS: usize = 128;

#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// The name for the model: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    pub description: String,
    /// The schema of its arguments, an object.
    pub schema: Value,
}

impl Tool {
    /// The part of the tool in the [cache key](crate::cache_key).
    pub(super) fn semantic(&self) -> Value {
        json!({"name": self.name, "description": self.description, "parameters": self.schema})
    }
}

/// A tool call requested by a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: String,
    /// The tool name that the model wrote. It may be unknown.
    pub name: String,
    /// The arguments that the model wrote. They may be invalid JSON.
    pub arguments: String,
}

impl ToolCall {
    /// The call as stored.
    pub fn to_record(&self) -> Value {
        json!({"id": self.id, "name": self.name, "arguments": self.arguments})
    }

    /// Reads a stored call, or a call in the same form from a server. Arguments can be a string or a document.
    pub fn from_record(record: &Value) -> Self {
        let text = |name: &str| match record.get(name) {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            Some(other) => other.to_string(),
        };
        Self { id: text("id"), name: text("name"), arguments: text("arguments") }
    }

    /// The arguments as a document; an empty object if they are invalid.
    pub(super) fn input(&self) -> Value {
        let limits = canon::json::Limits::DEFAULT.max_depth(64);
        match canon::json::read(self.arguments.as_bytes(), &limits) {
            Ok(input @ Value::Object(_)) => input,
            _ => json!({}),
        }
    }
}

/// The tool part of a message.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Exchange {
    #[default]
    Words,
    /// Calls requested by the model.
    Calls(Vec<ToolCall>),
    /// The result of a call.
    Result {
        /// The provider's id of the call.
        call_id: String,
        /// Whether the call failed or was not made.
        is_error: bool,
    },
}
