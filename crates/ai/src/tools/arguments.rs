//! Whether a call that a model wants may be made: the tool is offered, and the arguments fit.

use canon::json::Limits;
use serde_json::{Value, json};

use super::marked;
use super::returned::Status;
use super::toolbox::{Offered, Toolbox};
use crate::provider::ToolCall;
use crate::schema;

/// The deepest nesting of arguments.
const MAX_DEPTH: usize = 64;
/// The longest name of a tool that is shown where there is no such tool, in characters.
const MAX_SHOWN: usize = 128;

/// Whether a call may be made.
pub(super) enum Judged<'t> {
    /// It may.
    Fit { tool: &'t Offered, arguments: Value },
    /// It may not.
    Unfit(Unfit),
}

/// Why a call is not made.
pub(super) struct Unfit {
    pub(super) status: Status,
    pub(super) code: &'static str,
    /// For the model and for people, in our own words.
    pub(super) message: String,
    /// What a schema says, which may be of somebody else.
    detail: Option<String>,
}

impl Unfit {
    const fn of(code: &'static str, message: String) -> Self {
        Self { status: Status::Error, code, message, detail: None }
    }

    pub(super) fn cut_off() -> Self {
        Self::of(
            "reply_cut_off",
            "the reply was cut off in the middle of its calls; say less at once".to_owned(),
        )
    }

    pub(super) fn too_many(limit: usize) -> Self {
        Self::of(
            "too_many_calls",
            format!("at most {limit} tools are called in one round; call the rest in the next"),
        )
    }

    /// What the model is told.
    pub(super) fn for_model(&self, tool: &str) -> String {
        let said = json!({"error": self.code, "message": self.message}).to_string();
        match &self.detail {
            None => said,
            Some(detail) => format!("{said}\n{}", marked(tool, detail)),
        }
    }
}

/// Judges a call.
pub(super) fn judge<'t>(toolbox: &'t Toolbox, call: &ToolCall, limit: usize) -> Judged<'t> {
    let Some(tool) = toolbox.find(&call.name) else {
        let names: Vec<&str> = toolbox.names().collect();
        let message = format!("this tool may not be used here; those that may are {}", names.join(", "));
        return Judged::Unfit(Unfit { status: Status::Forbidden, ..Unfit::of("forbidden", message) });
    };
    let size = call.arguments.len();
    if size > limit {
        let message = format!("the arguments have {size} bytes; they have at most {limit}");
        return Judged::Unfit(Unfit::of("invalid_arguments", message));
    }
    let Some(arguments @ Value::Object(_)) = read(&call.arguments, limit) else {
        let message = format!("the arguments are no JSON object of at most {MAX_DEPTH} levels");
        return Judged::Unfit(Unfit::of("invalid_arguments", message));
    };
    let issues = tool.schema.issues(&arguments);
    if issues.is_empty() {
        return Judged::Fit { tool, arguments };
    }
    let message = "the arguments do not fit the schema of the tool; it says what is wrong".to_owned();
    let detail = Some(schema::summary(&issues));
    Judged::Unfit(Unfit { detail, ..Unfit::of("invalid_arguments", message) })
}

/// Arguments as a document. A model that has nothing to say may say nothing.
pub(super) fn read(text: &str, limit: usize) -> Option<Value> {
    if text.trim().is_empty() {
        return Some(json!({}));
    }
    canon::json::read(text.as_bytes(), &Limits::DEFAULT.max_bytes(limit).max_depth(MAX_DEPTH)).ok()
}

/// The name of a tool that is not there, as events have it.
pub(super) fn shown(name: &str) -> String {
    let name: String = name.chars().filter(|letter| !letter.is_control()).take(MAX_SHOWN).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}
