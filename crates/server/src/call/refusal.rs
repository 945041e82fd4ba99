//! Calls that cannot be read, and how to mend them.

use canon::canonical;
use canon::error::Envelope;
use canon::nearest::nearest;
use serde_json::{Map, Value, json};

use crate::tool::parameter::{Kind, Mistake, Parameter, check_value};
use crate::tool::{Definition, Tool};

canon::error_codes! {
    /// What the surface itself refuses.
    pub enum SurfaceErrorCode {
        /// A parameter is missing, misspelt, too large or of the wrong form.
        Validation => "VALIDATION_ERROR",
        /// The caller may not.
        Forbidden => "FORBIDDEN",
        /// Something that must hold does not. The input is not at fault.
        Internal => "INTERNAL_ERROR",
    }
}

/// How many mistakes are told at once.
const SHOWN: usize = 8;
/// The longest message of one mistake in the details.
const MISTAKE_BYTES: usize = 512;
/// The largest value of the caller's that an example repeats, as canonical JSON.
const ECHO_BYTES: usize = 256;

/// A call with mistakes. Says each of them, and what the call was probably meant to be.
pub(super) fn mistaken(
    definition: &Definition,
    arguments: &Map<String, Value>,
    mistakes: &[Mistake],
) -> Envelope {
    let name = definition.tool.name();
    let mut message = match mistakes.len() {
        1 => format!("{name} was called with a mistake."),
        count => format!("{name} was called with {count} mistakes."),
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
            "Nothing was done. Mend what details.issues names and call {name} again; details.example is the call as it \
             was probably meant."
        ))
        .detail("issues", issues)
        .detail("example", json!({"name": name, "arguments": mended(definition, arguments, mistakes)}))
}

/// The call as it was probably meant: what is right stays, slips of the pen are corrected, and what
/// is missing comes from the example of the definition.
fn mended(definition: &Definition, arguments: &Map<String, Value>, mistakes: &[Mistake]) -> Value {
    let mut call = Map::new();
    for parameter in definition.parameters {
        if let Some(value) = given(parameter, arguments, mistakes) {
            call.insert(parameter.name.to_owned(), value);
        } else if parameter.required {
            call.insert(parameter.name.to_owned(), example_of(parameter));
        }
    }
    if definition.tool == Tool::ContinueWorkflow {
        complete_continue(definition, &mut call);
    }
    call.into()
}

/// The caller's value of a parameter, under its name or under one near to it, if it is worth repeating.
fn given(
    parameter: &'static Parameter,
    arguments: &Map<String, Value>,
    mistakes: &[Mistake],
) -> Option<Value> {
    let misspelt = || {
        let slip = mistakes.iter().find(|mistake| {
            mistake.nearest == Some(parameter.name) && arguments.contains_key(&mistake.path)
        })?;
        arguments.get(&slip.path)
    };
    let value = arguments.get(parameter.name).or_else(misspelt).filter(|value| !value.is_null())?;
    let mut wrong = Vec::new();
    check_value(parameter.kind, parameter.name, value, &mut wrong);
    if wrong.is_empty() && canonical::string_of(value).len() <= ECHO_BYTES {
        return Some(value.clone());
    }
    // A choice that was nearly hit is repeated as it was meant.
    match (parameter.kind, wrong.first().and_then(|mistake| mistake.nearest)) {
        (Kind::Choice(_), Some(near)) => Some(near.into()),
        _ => Some(example_of(parameter)),
    }
}

/// A handle and an intent: what the list of parameters alone cannot ask for.
fn complete_continue(definition: &Definition, call: &mut Map<String, Value>) {
    if call.contains_key("continueToken") {
        call.remove("stateToken");
        call.remove("ackToken");
    } else if !call.contains_key("stateToken") {
        call.remove("ackToken");
        insert_example(definition, "continueToken", call);
    }
    if !call.contains_key("intent") {
        let state_alone = call.contains_key("stateToken") && !call.contains_key("ackToken");
        let rehydrates = state_alone && !call.contains_key("output");
        call.insert("intent".to_owned(), if rehydrates { "rehydrate" } else { "advance" }.into());
    }
    if call["intent"] == "rehydrate" {
        for name in ["output", "context", "preferences"] {
            call.remove(name);
        }
        return;
    }
    insert_example(definition, "output", call);
    if call.contains_key("stateToken") {
        insert_example(definition, "ackToken", call);
    }
}

fn insert_example(definition: &Definition, name: &str, call: &mut Map<String, Value>) {
    let parameter = definition.parameters.iter().find(|parameter| parameter.name == name);
    if let Some(parameter) = parameter {
        call.entry(name).or_insert_with(|| example_of(parameter));
    }
}

fn example_of(parameter: &Parameter) -> Value {
    serde_json::from_str(parameter.example)
        .expect("the example of a parameter is JSON; a test reads every one")
}

/// Arguments over the bound.
pub(super) fn too_large(tool: Tool, measured: usize, maximum: usize) -> Envelope {
    Envelope::new(
        SurfaceErrorCode::Validation,
        format!(
            "The arguments of {} have {measured} bytes of canonical JSON, and at most {maximum} are allowed.",
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

/// A tool that does not exist.
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
                .detail("example", json!({"name": tool.name(), "arguments": definition.example_arguments()}))
        }
        None => envelope.suggest(format!("The tools are {}.", names.join(", "))),
    }
    .detail("tools", json!(names))
}

/// Arguments that are no object.
pub fn arguments_not_an_object(tool: Tool) -> Envelope {
    let definition = crate::tool::definition(tool);
    let name = tool.name();
    Envelope::new(SurfaceErrorCode::Validation, format!("The arguments of {name} are not an object."))
        .suggest("Nothing was done. Send the arguments as a JSON object, not as text and not as a list.")
        .detail("issues", json!([{"path": "", "message": "`arguments` has to be an object."}]))
        .detail("example", json!({"name": name, "arguments": definition.example_arguments()}))
}

/// A call in which the program itself failed.
pub fn panicked(tool: Tool) -> Envelope {
    Envelope::new(SurfaceErrorCode::Internal, format!("{} failed inside the program.", tool.name())).suggest(
        "Your input is not at fault. Make the call once more; what was recorded before is safe. If it fails again, tell \
         the user to look at the program's error output and to run `interlock doctor`.",
    )
}
