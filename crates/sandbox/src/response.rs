//! What a node answers.

use canon::{budget, json};
use serde_json::{Map, Value};

use crate::Fault;

/// How much of a code and of a message of a failed node is kept.
const CODE_BYTES: usize = 128;
const MESSAGE_BYTES: usize = 2048;

/// How a node ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Completed {
        /// Its output.
        output: Value,
    },
    /// It waits for somebody.
    Suspended {
        /// What it wants to know.
        interrupt: Value,
    },
    /// It failed.
    Failed {
        /// The code it gave.
        code: String,
        /// What it said.
        message: String,
        /// What it said beside that.
        details: Option<Value>,
    },
}

/// JSON from a module, within bounds.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, Fault> {
    json::read(bytes, &json::Limits::DEFAULT).map_err(|error| {
        Fault::misbehaved(format!("its answer is no JSON: {}", budget::truncate(&error.to_string(), 300)))
    })
}

/// The answer of a node by the ABI.
pub(crate) fn outcome(bytes: &[u8]) -> Result<Outcome, Fault> {
    let Value::Object(mut answer) = parse(bytes)? else {
        return Err(Fault::misbehaved("its answer is no object"));
    };
    match answer.get("outcome").and_then(Value::as_str) {
        Some("completed") => {
            // A node with nothing to give may leave it out.
            Ok(Outcome::Completed { output: answer.remove("output").unwrap_or(Value::Null) })
        }
        Some("suspended") => match answer.remove("interrupt") {
            Some(interrupt @ Value::Object(_)) => Ok(Outcome::Suspended { interrupt }),
            _ => Err(Fault::misbehaved("it suspends without an interrupt")),
        },
        Some("failed") => match answer.remove("error") {
            Some(Value::Object(error)) => failed(error),
            _ => Err(Fault::misbehaved("it fails without an error")),
        },
        _ => Err(Fault::misbehaved("its `outcome` is none of `completed`, `suspended` and `failed`")),
    }
}

fn failed(mut error: Map<String, Value>) -> Result<Outcome, Fault> {
    let mut text = |key: &str, most: usize| match error.remove(key) {
        Some(Value::String(text)) => Some(budget::truncate(&text, most).into_owned()),
        _ => None,
    };
    let (code, message) = (text("code", CODE_BYTES), text("message", MESSAGE_BYTES));
    let Some(code) = code.filter(|code| !code.is_empty()) else {
        return Err(Fault::misbehaved("its error has no code"));
    };
    Ok(Outcome::Failed { code, message: message.unwrap_or_default(), details: error.remove("details") })
}
