//! Tools in requests and replies: what a model is offered, what it wants to be called, and what it is told came of
//! that.

use serde_json::{Value, json};

/// The most calls of one reply that are looked at.
pub const MAX_TOOL_CALLS: usize = 128;

/// A tool that a model is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// What the model calls it: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What its arguments have to fit: a schema of an object.
    pub schema: Value,
}

impl Tool {
    /// What the [cache key](crate::cache_key) of a request has of it.
    pub(super) fn semantic(&self) -> Value {
        json!({"name": self.name, "description": self.description, "parameters": self.schema})
    }
}

/// A call that a model wants to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// What the provider calls it.
    pub id: String,
    /// The tool, by the name that the model was told; or by any other.
    pub name: String,
    /// The arguments, as the model wrote them: JSON, if it is as it has to be.
    pub arguments: String,
}

impl ToolCall {
    /// The call as it is recorded.
    pub fn to_record(&self) -> Value {
        json!({"id": self.id, "name": self.name, "arguments": self.arguments})
    }

    /// The call that was recorded, or that a server of another protocol describes so. Arguments may be a text or a
    /// document.
    pub fn from_record(record: &Value) -> Self {
        let text = |name: &str| match record.get(name) {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            Some(other) => other.to_string(),
        };
        Self { id: text("id"), name: text("name"), arguments: text("arguments") }
    }

    /// The arguments as a document; an empty object where they are none.
    pub(super) fn input(&self) -> Value {
        let limits = canon::json::Limits::DEFAULT.max_depth(64);
        match canon::json::read(self.arguments.as_bytes(), &limits) {
            Ok(input @ Value::Object(_)) => input,
            _ => json!({}),
        }
    }
}

/// What a message has to do with tools.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Exchange {
    /// Nothing.
    #[default]
    Words,
    /// The model wants these to be called.
    Calls(Vec<ToolCall>),
    /// What came of a call.
    Result {
        /// Which one, by the provider's id of it.
        call_id: String,
        /// Whether it failed, or was not made.
        is_error: bool,
    },
}
