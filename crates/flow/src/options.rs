//! Validates the options of a new run.

use serde_json::{Map, Value};

use crate::definition::{Definition, VariableKind};

/// The maximum number of tags of a run.
pub const MAX_TAGS: usize = 100;
/// The maximum length of a tag, in characters.
pub const MAX_TAG_CHARACTERS: usize = 256;
/// The maximum nesting of a caller's metadata.
pub const MAX_METADATA_DEPTH: usize = 4;
/// The maximum size of a caller's metadata, in bytes.
pub const MAX_METADATA_BYTES: usize = 8192;
/// The maximum size of the inputs of a run, in bytes. Inputs become variables, which every snapshot contains.
pub const MAX_INPUT_BYTES: usize = 1 << 20;

/// The maximum length of a model name, in bytes.
pub const MAX_MODEL_BYTES: usize = 256;

/// An invalid option of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct OptionProblem {
    /// The location, as a JSON pointer into the request.
    pub path: String,
    /// What is wrong, or what is expected.
    pub message: String,
}

fn problem(path: impl Into<String>, message: impl Into<String>) -> OptionProblem {
    OptionProblem { path: path.into(), message: message.into() }
}

/// Validates the inputs against the variables of a workflow.
pub fn check_inputs(definition: &Definition, inputs: &Map<String, Value>, problems: &mut Vec<OptionProblem>) {
    let size = Value::Object(inputs.clone()).to_string().len();
    if size > MAX_INPUT_BYTES {
        problems.push(problem("/inputs", format!("{size} bytes; the limit is {MAX_INPUT_BYTES}")));
    }
    for variable in &definition.variables {
        match inputs.get(&variable.name) {
            None if variable.required && variable.default.is_none() => {
                problems.push(problem(format!("/inputs/{}", variable.name), "required"));
            }
            Some(value) if !has_kind(value, variable.kind) => {
                let kind = kind_name(variable.kind);
                problems.push(problem(format!("/inputs/{}", variable.name), format!("expected {kind}")));
            }
            _ => {}
        }
    }
}

fn has_kind(value: &Value, kind: VariableKind) -> bool {
    match kind {
        VariableKind::String => value.is_string(),
        VariableKind::Number => value.is_number(),
        VariableKind::Boolean => value.is_boolean(),
        VariableKind::Object => value.is_object(),
        VariableKind::Array => value.is_array(),
    }
}

const fn kind_name(kind: VariableKind) -> &'static str {
    match kind {
        VariableKind::String => "a string",
        VariableKind::Number => "a number",
        VariableKind::Boolean => "true or false",
        VariableKind::Object => "an object",
        VariableKind::Array => "a list",
    }
}

/// The keys of `configurable` that the protocol defines. Keys of vendors contain a dot.
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

/// Removes unset options. Typed clients send unset options as `null`, also those inside `ai`, and an empty `extras` for additional keys.
/// A credential reference is never removed, because naming one is refused.
pub fn drop_unset(configurable: &mut Map<String, Value>) {
    configurable.retain(|name, value| !value.is_null() || name == "ai.credentialRef");
    if let Some(Value::Object(ai)) = configurable.get_mut("ai") {
        ai.retain(|name, value| !value.is_null() || name == "credentialRef");
    }
    if configurable.get("extras").and_then(Value::as_object).is_some_and(Map::is_empty) {
        configurable.remove("extras");
    }
}

/// Refuses unknown keys, which are usually misspelled, unless the workflow has a schema for its options.
pub fn check_keys(
    definition: &Definition,
    configurable: &Map<String, Value>,
    problems: &mut Vec<OptionProblem>,
) {
    if definition.configurable_schema.is_some() {
        return;
    }
    for key in configurable.keys().filter(|key| !key.contains('.') && !RESERVED.contains(&key.as_str())) {
        let message = "unknown key; vendor keys contain a dot, for example `acme.x`";
        problems.push(problem(format!("/configurable/{}", escape_pointer(key)), message));
    }
}

/// Escapes a key for a JSON pointer.
fn escape_pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Validates `configurable`: the reserved keys, and the schema of the workflow if it has one. A value above a limit of the host is not a
/// problem; the limit of the host applies instead. `providers` are the available model providers.
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
            problems.push(problem(at(name), "must be an integer of at least 1"));
        }
    }
    for (name, max) in [("temperature", 2.0), ("escalationThreshold", 1.0)] {
        if let Some(value) = configurable.get(name)
            && value.as_f64().is_none_or(|value| !(0.0..=max).contains(&value))
        {
            problems.push(problem(at(name), format!("must be a number from 0 to {max}")));
        }
    }
    if let Some(value) = configurable.get("reasoningVerbosity")
        && !value.as_str().is_some_and(|value| ["summary", "full", "off"].contains(&value))
    {
        problems.push(problem(at("reasoningVerbosity"), "must be one of summary, full, off"));
    }
    for name in ["budget", "distillation"] {
        if configurable.contains_key(name) {
            problems.push(problem(at(name), "not supported by this host"));
        }
    }
    if configurable.get("promptOverrides").is_some_and(|given| !given.is_object() && !given.is_null()) {
        problems.push(problem(at("promptOverrides"), "expected an object"));
    }
    check_model(configurable, providers, problems);
}

/// Validates the requested provider and model.
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
            Some(_) if providers.is_empty() => {
                problems.push(problem(path, "this host has no model provider"));
            }
            Some(value) if !is_known(value) => {
                problems.push(problem(path, format!("must be one of {}", providers.join(", "))));
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
            problems.push(problem(path, format!("must be a string of 1 to {MAX_MODEL_BYTES} bytes")));
        }
    }
}

/// Whether a caller names a credential. A caller who may start runs must not be able to send an arbitrary secret of the host to a
/// provider: the settings and the workflow decide which credential a provider gets.
pub fn names_credential(configurable: &Map<String, Value>) -> bool {
    let nested = configurable.get("ai").and_then(|ai| ai.get("credentialRef"));
    nested.or_else(|| configurable.get("ai.credentialRef")).is_some()
}

/// The provider that the caller requests.
pub fn named_provider(configurable: &Map<String, Value>) -> Option<&str> {
    let nested = configurable.get("ai").and_then(|ai| ai.get("provider"));
    nested.or_else(|| configurable.get("ai.provider"))?.as_str()
}

/// Validates tags and metadata.
pub fn check_labels(tags: &[String], metadata: &Map<String, Value>, problems: &mut Vec<OptionProblem>) {
    if tags.len() > MAX_TAGS {
        problems.push(problem("/tags", format!("{} tags; the limit is {MAX_TAGS}", tags.len())));
    }
    for (index, tag) in tags.iter().enumerate() {
        if !(1..=MAX_TAG_CHARACTERS).contains(&tag.chars().count()) {
            let message = format!("must be a string of 1 to {MAX_TAG_CHARACTERS} characters");
            problems.push(problem(format!("/tags/{index}"), message));
        }
    }
    let metadata = Value::Object(metadata.clone());
    if !canon::json::within_depth(&metadata, MAX_METADATA_DEPTH) {
        problems
            .push(problem("/metadata", format!("must be nested at most {MAX_METADATA_DEPTH} levels deep")));
    }
    let size = metadata.to_string().len();
    if size > MAX_METADATA_BYTES {
        problems.push(problem("/metadata", format!("{size} bytes; the limit is {MAX_METADATA_BYTES}")));
    }
}
