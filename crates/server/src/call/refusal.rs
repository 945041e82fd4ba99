//! Errors of calls that cannot be read.

use canon::error::Envelope;
use canon::nearest::nearest;
use serde_json::{Map, Value, json};

use super::offered;
use crate::tool::parameter::Mistake;
use crate::tool::{Definition, Tool};

canon::error_codes! {
    /// The error codes of this layer.
    pub enum SurfaceErrorCode {
        /// A parameter is missing, unknown, too large or invalid.
        Validation => "VALIDATION_ERROR",
        /// The caller does not have permission.
        Forbidden => "FORBIDDEN",
        /// An invariant is violated. The input is not the cause.
        Internal => "INTERNAL_ERROR",
    }
}

/// How many mistakes are reported at once.
const SHOWN: usize = 8;
/// The maximum length of one message in the details, in bytes.
const MISTAKE_BYTES: usize = 512;

/// The error for a call with mistakes: it lists them, and has an example with the caller's values.
pub(super) fn mistaken(
    definition: &Definition,
    arguments: &Map<String, Value>,
    mistakes: &[Mistake],
) -> Envelope {
    let name = definition.tool.name();
    let mut message = match mistakes.len() {
        1 => format!("One argument of {name} is invalid."),
        count => format!("{count} arguments of {name} are invalid."),
    };
    for mistake in mistakes.iter().take(SHOWN) {
        message.push(' ');
        message.push_str(&mistake.message);
    }
    let issues: Vec<Value> = mistakes
        .iter()
        .take(SHOWN)
        .map(|mistake| {
            let text = canon::budget::truncate(&mistake.message, MISTAKE_BYTES);
            let mut issue = json!({"path": mistake.path, "message": text});
            if let Some(near) = mistake.nearest {
                issue["nearest"] = near.into();
            }
            issue
        })
        .collect();
    Envelope::new(SurfaceErrorCode::Validation, message)
        .suggest(format!(
            "Nothing was done. Fix the arguments in details.issues and call {name} again. details.example \
             contains your valid values; replace each placeholder in angle brackets."
        ))
        .detail("issues", issues)
        .detail("example", json!({"name": name, "arguments": offered::arguments(definition, arguments)}))
}

/// The error for arguments over the size limit.
pub(super) fn too_large(tool: Tool, measured: usize, maximum: usize) -> Envelope {
    Envelope::new(
        SurfaceErrorCode::Validation,
        format!(
            "The arguments of {} are {measured} bytes of canonical JSON; the limit is {maximum}.",
            tool.name()
        ),
    )
    .suggest(
        "Nothing was done. Send less: keep documents in files, and put their paths into notes or context.",
    )
    .detail("measuredBytes", measured)
    .detail("maximumBytes", maximum)
    .detail("method", "canonical JSON, UTF-8 bytes")
}

pub fn unknown_tool(name: &str) -> Envelope {
    let names = Tool::ALL.map(Tool::name);
    let near = nearest(name, names, 1).pop();
    let shown: String = name.chars().take(60).collect();
    let envelope = Envelope::new(SurfaceErrorCode::Validation, format!("There is no tool {shown:?}."));
    match near.and_then(Tool::parse) {
        Some(tool) => {
            let definition = crate::tool::definition(tool);
            envelope
                .suggest(format!("Did you mean {}?", tool.name()))
                .detail("nearest", tool.name())
                .detail("example", json!({"name": tool.name(), "arguments": offered::blank(definition)}))
        }
        None => envelope.suggest(format!("The tools are {}.", names.join(", "))),
    }
    .detail("tools", json!(names))
}

/// The error for arguments that are not an object.
pub fn arguments_not_an_object(tool: Tool) -> Envelope {
    let definition = crate::tool::definition(tool);
    let name = tool.name();
    Envelope::new(SurfaceErrorCode::Validation, format!("The arguments of {name} are not an object."))
        .suggest("Nothing was done. Send the arguments as a JSON object, not as text and not as a list.")
        .detail("issues", json!([{"path": "", "message": "`arguments` must be an object."}]))
        .detail("example", json!({"name": name, "arguments": offered::blank(definition)}))
}

/// The error for a call that failed inside the program.
pub fn panicked(tool: Tool) -> Envelope {
    Envelope::new(SurfaceErrorCode::Internal, format!("{} failed with an internal error.", tool.name())).suggest(
        "Your input is not the cause, and everything recorded before is safe. Make the call once more. If \
         it fails again, tell \
         the user to look at the program's error output and to run `interlock doctor`.",
    )
}
