//! The result of a node.

use canon::{budget, json};
use serde_json::{Map, Value};

use crate::Fault;

/// The maximum length of a failed node's code and message.
const CODE_BYTES: usize = 128;
const MESSAGE_BYTES: usize = 2048;

/// The result of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeOutcome {
    Completed {
        output: Value,
    },
    /// It waits for a person.
    Suspended {
        /// The request to the person.
        interrupt: Value,
    },
    Failed {
        code: String,
        message: String,
        details: Option<Value>,
    },
}

/// Parses JSON from a module, with limits.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, Fault> {
    json::read(bytes, &json::Limits::DEFAULT).map_err(|error| {
        Fault::misbehaved(format!(
            "its result is not valid JSON: {}",
            budget::truncate(&error.to_string(), 300)
        ))
    })
}

/// The result of an ABI node.
pub(crate) fn outcome(bytes: &[u8]) -> Result<NodeOutcome, Fault> {
    let Value::Object(mut answer) = parse(bytes)? else {
        return Err(Fault::misbehaved("its result is not an object"));
    };
    match answer.get("outcome").and_then(Value::as_str) {
        Some("completed") => {
            // `output` is optional.
            Ok(NodeOutcome::Completed { output: answer.remove("output").unwrap_or(Value::Null) })
        }
        Some("suspended") => match answer.remove("interrupt") {
            Some(interrupt @ Value::Object(_)) => Ok(NodeOutcome::Suspended { interrupt }),
            _ => Err(Fault::misbehaved("it suspends without an interrupt")),
        },
        Some("failed") => match answer.remove("error") {
            Some(Value::Object(error)) => failed(error),
            _ => Err(Fault::misbehaved("it fails without an error")),
        },
        _ => Err(Fault::misbehaved("`outcome` must be `completed`, `suspended` or `failed`")),
    }
}

fn failed(mut error: Map<String, Value>) -> Result<NodeOutcome, Fault> {
    let mut text = |key: &str, most: usize| match error.remove(key) {
        Some(Value::String(text)) => Some(budget::truncate(&text, most).into_owned()),
        _ => None,
    };
    let (code, message) = (text("code", CODE_BYTES), text("message", MESSAGE_BYTES));
    let Some(code) = code.filter(|code| !code.is_empty()) else {
        return Err(Fault::misbehaved("its error has no code"));
    };
    Ok(NodeOutcome::Failed { code, message: message.unwrap_or_default(), details: error.remove("details") })
}
