//! What a caller may ask of a run, checked before it exists.

use serde_json::{Map, Value};

use crate::definition::{Definition, VariableKind};

/// The most tags of a run.
pub const MAX_TAGS: usize = 100;
/// The longest tag, in characters.
pub const MAX_TAG_CHARACTERS: usize = 256;
/// The deepest nesting of a caller's metadata.
pub const MAX_METADATA_DEPTH: usize = 4;
/// The most bytes of a caller's metadata.
pub const MAX_METADATA_BYTES: usize = 8192;
/// The most bytes of the inputs of a run: they become variables, and stand in every snapshot.
pub const MAX_INPUT_BYTES: usize = 1 << 20;

/// The longest name of a model, in bytes.
pub const MAX_MODEL_BYTES: usize = 256;

/// Something that a caller may not ask for: where, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct OptionProblem {
    /// Where, as a JSON pointer into the request.
    pub path: String,
    /// What would be right.
    pub message: String,
}

fn problem(path: impl Into<String>, message: impl Into<String>) -> OptionProblem {
    OptionProblem { path: path.into(), message: message.into() }
}

/// Checks the inputs against the variables of a workflow.
pub fn check_inputs(definition: &Definition, inputs: &Map<String, Value>, problems: &mut Vec<OptionProblem>) {
    let size = Value::Object(inputs.clone()).to_string().len();
    if size > MAX_INPUT_BYTES {
        problems.push(problem("/inputs", format!("at most {MAX_INPUT_BYTES} bytes, and there are {size}")));
    }
    for variable in &definition.variables {
        match inputs.get(&variable.name) {
            None if variable.required && variable.default.is_none() => {
                problems.push(problem(format!("/inputs/{}", variable.name), "required"));
            }
            Some(value) if !is_of(value, variable.kind) => {
                let kind = kind(variable.kind);
                problems.push(problem(format!("/inputs/{}", variable.name), format!("expected {kind}")));
            }
            _ => {}
        }
    }
}

fn is_of(value: &Value, kind: VariableKind) -> bool {
    match kind {
        VariableKind::String => value.is_string(),
        VariableKind::Number => value.is_number(),
        VariableKind::Boolean => value.is_boolean(),
        VariableKind::Object => value.is_object(),
        VariableKind::Array => value.is_array(),
    }
}

const fn kind(kind: VariableKind) -> &'static str {
    match kind {
        VariableKind::String => "a string",
        VariableKind::Number => "a number",
        VariableKind::Boolean => "true or false",
        VariableKind::Object => "an object",
        VariableKind::Array => "a list",
    }
}

/// The keys of an overlay that the protocol has given a meaning. Those of vendors have a dot in them.
const RESERVED: [&str; 13] = [
    "recursionLimit",
    "runTimeoutMs",
    "maxLoopIterations",
    "model",
    "temperature",
    "maxTokens",
    "promptOverrides",
    "ai",
    "mockProvider",
    "escalationThreshold",
    "reasoningVerbosity",
    "budget",
    "distillation",
];

/// Leaves out what a caller did not set. Typed clients send options that are not set as `null`, also those of `ai`, and an empty `extras`
/// for keys of their own. A credential stays, whatever it is: to name one is refused.
pub fn drop_unset(configurable: &mut Map<String, Value>) {
    configurable.retain(|name, value| !value.is_null() || name == "ai.credentialRef");
    if let Some(Value::Object(ai)) = configurable.get_mut("ai") {
        ai.retain(|name, value| !value.is_null() || name == "credentialRef");
    }
    if configurable.get("extras").and_then(Value::as_object).is_some_and(Map::is_empty) {
        configurable.remove("extras");
    }
}

/// Refuses keys that mean nothing, where the workflow does not say itself which there are: most often they are misspelt.
pub fn check_keys(
    definition: &Definition,
    configurable: &Map<String, Value>,
    problems: &mut Vec<OptionProblem>,
) {
    if definition.configurable_schema.is_some() {
        return;
    }
    for key in configurable.keys().filter(|key| !key.contains('.') && !RESERVED.contains(&key.as_str())) {
        let message = "unknown; keys of your own have a dot in them, such as `acme.x`";
        problems.push(problem(format!("/configurable/{}", pointed(key)), message));
    }
}

/// A key as a part of a JSON pointer.
fn pointed(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Checks the overlay: against the schema of the workflow where it has one, and the reserved keys always. Values above
/// a limit of the host are no problem: the limit then counts. `providers` are those of models that are served.
pub fn check_configurable(
    definition: &Definition,
    configurable: &Map<String, Value>,
    providers: &[&str],
    problems: &mut Vec<OptionProblem>,
) {
    if let Some(schema) = &definition.configurable_schema {
        let value = Value::Object(configurable.clone());
        for error in schema.iter_errors(&value) {
            problems.push(problem(format!("/configurable{}", error.instance_path()), error.to_string()));
        }
    }
    let at = |name: &str| format!("/configurable/{name}");
    for name in ["recursionLimit", "runTimeoutMs", "maxLoopIterations", "maxTokens"] {
        if let Some(value) = configurable.get(name)
            && value.as_u64().is_none_or(|value| value < 1)
        {
            problems.push(problem(at(name), "an integer from 1"));
        }
    }
    for (name, max) in [("temperature", 2.0), ("escalationThreshold", 1.0)] {
        if let Some(value) = configurable.get(name)
            && value.as_f64().is_none_or(|value| !(0.0..=max).contains(&value))
        {
            problems.push(problem(at(name), format!("a number from 0 to {max}")));
        }
    }
    if let Some(value) = configurable.get("reasoningVerbosity")
        && !value.as_str().is_some_and(|value| ["summary", "full", "off"].contains(&value))
    {
        problems.push(problem(at("reasoningVerbosity"), "one of summary, full, off"));
    }
    for name in ["budget", "distillation"] {
        if configurable.contains_key(name) {
            problems.push(problem(at(name), "not served here"));
        }
    }
    if configurable.get("promptOverrides").is_some_and(|given| !given.is_object() && !given.is_null()) {
        problems.push(problem(at("promptOverrides"), "expected an object"));
    }
    check_model(configurable, providers, problems);
}

/// Checks which model a caller asks for.
fn check_model(configurable: &Map<String, Value>, providers: &[&str], problems: &mut Vec<OptionProblem>) {
    let nested = configurable.get("ai");
    if nested.is_some_and(|ai| !ai.is_object()) {
        problems.push(problem("/configurable/ai", "expected an object"));
    }
    for (path, value) in [
        ("/configurable/ai/provider", nested.and_then(|ai| ai.get("provider"))),
        ("/configurable/ai.provider", configurable.get("ai.provider")),
    ] {
        let is_known = |value: &Value| value.as_str().is_some_and(|name| providers.contains(&name));
        match value {
            Some(_) if providers.is_empty() => problems.push(problem(path, "no model is served here")),
            Some(value) if !is_known(value) => {
                problems.push(problem(path, format!("one of {}", providers.join(", "))));
            }
            _ => {}
        }
    }
    for (path, value) in [
        ("/configurable/model", configurable.get("model")),
        ("/configurable/ai/model", nested.and_then(|ai| ai.get("model"))),
        ("/configurable/ai.model", configurable.get("ai.model")),
    ] {
        let fits = |value: &Value| {
            value.as_str().is_some_and(|name| (1..=MAX_MODEL_BYTES).contains(&name.len())) || value.is_null()
        };
        if value.is_some_and(|value| !fits(value)) {
            problems.push(problem(path, format!("a text of 1 to {MAX_MODEL_BYTES} bytes")));
        }
    }
}

/// Whether a caller names a credential. Whoever may start a run may not thereby send any secret of the host to a provider: which one a
/// provider gets, the settings and the workflow say.
pub fn names_credential(configurable: &Map<String, Value>) -> bool {
    let nested = configurable.get("ai").and_then(|ai| ai.get("credentialRef"));
    nested.or_else(|| configurable.get("ai.credentialRef")).is_some()
}

/// The provider that a caller names.
pub fn named_provider(configurable: &Map<String, Value>) -> Option<&str> {
    let nested = configurable.get("ai").and_then(|ai| ai.get("provider"));
    nested.or_else(|| configurable.get("ai.provider"))?.as_str()
}

/// Checks tags and metadata.
pub fn check_labels(tags: &[String], metadata: &Map<String, Value>, problems: &mut Vec<OptionProblem>) {
    if tags.len() > MAX_TAGS {
        problems.push(problem("/tags", format!("at most {MAX_TAGS}, and there are {}", tags.len())));
    }
    for (place, tag) in tags.iter().enumerate() {
        if !(1..=MAX_TAG_CHARACTERS).contains(&tag.chars().count()) {
            let message = format!("a text of 1 to {MAX_TAG_CHARACTERS} characters");
            problems.push(problem(format!("/tags/{place}"), message));
        }
    }
    let metadata = Value::Object(metadata.clone());
    if !canon::json::within_depth(&metadata, MAX_METADATA_DEPTH) {
        problems.push(problem("/metadata", format!("nested at most {MAX_METADATA_DEPTH} levels deep")));
    }
    let size = metadata.to_string().len();
    if size > MAX_METADATA_BYTES {
        problems
            .push(problem("/metadata", format!("at most {MAX_METADATA_BYTES} bytes, and there are {size}")));
    }
}
