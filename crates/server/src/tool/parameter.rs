//! The parameters of tools, and their validation.

use std::path::Path;

use canon::nearest::nearest;
use serde_json::{Map, Value, json};

/// The maximum length of a path, in bytes, as on Linux.
pub const PATH_BYTES: usize = 4096;
/// The maximum length of a token, in bytes. Tokens of this program are much shorter.
pub const TOKEN_BYTES: usize = 4096;

/// The maximum number of reported mistakes. A model does not fix more at once, and a hostile call could
/// contain a million.
pub const MAX_MISTAKES: usize = 16;
/// The maximum number of names in a list.
pub const MAX_NAMES: usize = 32;

#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub kind: Kind,
    /// Whether it is required.
    pub required: bool,
    pub about: &'static str,
    /// The placeholder for a value in an example call, in angle brackets. It is rejected if it is sent
    /// unchanged.
    pub placeholder: &'static str,
}

impl Parameter {
    /// The placeholder for a value in an example call; for a choice, it lists the choices.
    pub fn placeholder(&self) -> String {
        match self.kind {
            Kind::Choice(choices) => format!("<{}>", choices.join(" | ")),
            Kind::Text { .. }
            | Kind::Path
            | Kind::Flag
            | Kind::Names(_)
            | Kind::Object
            | Kind::Objects { .. }
            | Kind::Group(_) => self.placeholder.to_owned(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A string that is not empty.
    Text {
        /// The maximum length.
        max_bytes: usize,
    },
    /// The absolute path of a folder.
    Path,
    /// One of these values.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A list of names from a closed set.
    Names(fn() -> Vec<&'static str>),
    /// Any object.
    Object,
    /// A list of objects.
    Objects {
        /// The maximum number of objects.
        max_items: usize,
    },
    /// An object with parameters of its own.
    Group(&'static [Parameter]),
}

/// One mistake in the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The path, such as `output.notesMarkdown` or `tags[2]`.
    pub path: String,
    pub message: String,
    /// The name that was probably meant.
    pub nearest: Option<&'static str>,
}

impl Mistake {
    /// A mistake without a suggestion.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), nearest: None }
    }
}

/// All mistakes in `arguments`. An optional parameter may also be `null`.
///
/// `also` are further names that are accepted here and handled elsewhere.
pub fn check(
    parameters: &'static [Parameter],
    also: &[&'static str],
    arguments: &Map<String, Value>,
) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    check_members(parameters, also, "", arguments, &mut mistakes);
    mistakes.truncate(MAX_MISTAKES);
    mistakes
}

fn check_members(
    parameters: &'static [Parameter],
    also: &[&'static str],
    prefix: &str,
    arguments: &Map<String, Value>,
    mistakes: &mut Vec<Mistake>,
) {
    for name in arguments.keys() {
        if mistakes.len() >= MAX_MISTAKES {
            return;
        }
        if parameters.iter().any(|parameter| parameter.name == name) || also.contains(&name.as_str()) {
            continue;
        }
        let names = parameters.iter().map(|parameter| parameter.name);
        let near = nearest_name(name, names.clone());
        let shown = shorten(name);
        let message = match near {
            Some(near) => {
                format!("`{prefix}{shown}` is not a parameter; did you mean `{prefix}{near}`?")
            }
            None => format!(
                "`{prefix}{shown}` is not a parameter. {}.",
                listed(&names.map(|name| format!("{prefix}{name}")).collect::<Vec<_>>())
            ),
        };
        mistakes.push(Mistake { path: format!("{prefix}{shown}"), message, nearest: near });
    }
    for parameter in parameters {
        let path = format!("{prefix}{}", parameter.name);
        match arguments.get(parameter.name) {
            None | Some(Value::Null) if parameter.required => {
                mistakes.push(Mistake::new(
                    path.clone(),
                    format!("`{path}` is missing; send {}.", parameter.kind.words()),
                ));
            }
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if text.trim() == parameter.placeholder() => {
                mistakes.push(Mistake::new(
                    path.clone(),
                    format!("`{path}` is still the placeholder {text:?}; send {}.", parameter.kind.words()),
                ));
            }
            Some(value) => check_value(parameter.kind, &path, value, mistakes),
        }
    }
}

pub fn check_value(kind: Kind, path: &str, value: &Value, mistakes: &mut Vec<Mistake>) {
    let mut wrong = |message: String| mistakes.push(Mistake::new(path, message));
    match (kind, value) {
        (Kind::Text { .. } | Kind::Path, Value::String(text)) if text.trim().is_empty() => {
            wrong(format!("`{path}` is empty; send {}.", kind.words()));
        }
        (Kind::Text { max_bytes }, Value::String(text)) if text.len() > max_bytes => {
            wrong(format!("`{path}` is {} bytes; the limit is {max_bytes}.", text.len()));
        }
        (Kind::Path, Value::String(text)) if text.len() > PATH_BYTES => {
            wrong(format!("`{path}` is {} bytes; the limit is {PATH_BYTES}.", text.len()));
        }
        (Kind::Path, Value::String(text)) if !Path::new(text).is_absolute() => {
            wrong(format!("`{path}` is {:?}, which is not an absolute path.", shorten(text)));
        }
        (Kind::Choice(choices), Value::String(text)) if !choices.contains(&text.as_str()) => {
            mistakes.push(not_among(path, text, choices));
        }
        (Kind::Names(names), Value::Array(items)) => {
            let names = names();
            if items.len() > MAX_NAMES {
                wrong(format!("`{path}` has {} items; the limit is {MAX_NAMES}.", items.len()));
            }
            for (index, item) in items.iter().take(MAX_NAMES).enumerate() {
                let path = format!("{path}[{index}]");
                match item {
                    Value::String(text) if names.contains(&text.as_str()) => {}
                    Value::String(text) => mistakes.push(not_among(&path, text, &names)),
                    other => mistakes.push(Mistake::new(
                        path.clone(),
                        format!("`{path}` is {}; it must be a string.", kind_of(other)),
                    )),
                }
            }
        }
        (Kind::Objects { max_items }, Value::Array(items)) => {
            if items.len() > max_items {
                wrong(format!("`{path}` has {} items; the limit is {max_items}.", items.len()));
            }
            for (index, item) in
                items.iter().take(max_items).enumerate().filter(|(_, item)| !item.is_object())
            {
                mistakes.push(Mistake::new(
                    format!("{path}[{index}]"),
                    format!("`{path}[{index}]` is {}; it must be an object.", kind_of(item)),
                ));
            }
        }
        (Kind::Group(members), Value::Object(object)) => {
            check_members(members, &[], &format!("{path}."), object, mistakes);
        }
        (Kind::Text { .. } | Kind::Path | Kind::Choice(_), Value::String(_))
        | (Kind::Flag, Value::Bool(_))
        | (Kind::Object, Value::Object(_)) => {}
        // Agents often send an object as JSON in a string, so the message names this mistake.
        (Kind::Object | Kind::Group(_) | Kind::Objects { .. } | Kind::Names(_), Value::String(text))
            if text.trim_start().starts_with(['{', '[']) =>
        {
            wrong(format!("`{path}` is JSON in a string; send the value itself, {}.", kind.words()));
        }
        (kind, other) => wrong(format!("`{path}` is {}; it must be {}.", kind_of(other), kind.words())),
    }
}

fn not_among(path: &str, text: &str, choices: &[&'static str]) -> Mistake {
    let near = nearest_name(text, choices.iter().copied());
    let hint = near.map_or_else(String::new, |near| format!(" Did you mean `{near}`?"));
    let names: Vec<String> = choices.iter().map(|choice| (*choice).to_owned()).collect();
    Mistake {
        path: path.to_owned(),
        message: format!("`{path}` is {:?}, which is not allowed. {}.{hint}", shorten(text), listed(&names)),
        nearest: near,
    }
}

/// The name that was probably meant. Another notation of the same words is a perfect match: `continue_token`
/// is `continueToken`.
pub fn nearest_name(name: &str, names: impl Iterator<Item = &'static str> + Clone) -> Option<&'static str> {
    let folded = |text: &str| -> String {
        text.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    if name.len() > 512 {
        return None;
    }
    let wanted = folded(name);
    let same = names.clone().find(|candidate| folded(candidate) == wanted);
    same.or_else(|| nearest(name, names, 1).pop())
}

impl Kind {
    /// A description of the allowed values.
    fn words(self) -> String {
        match self {
            Self::Text { .. } => "a string".to_owned(),
            Self::Path => "the absolute path of a folder".to_owned(),
            Self::Choice(choices) => format!("one of {}", quoted(choices)),
            Self::Flag => "true or false".to_owned(),
            Self::Names(names) => format!("a list with values from {}", quoted(&names())),
            Self::Object => "an object".to_owned(),
            Self::Objects { .. } => "a list of objects".to_owned(),
            Self::Group(members) => {
                let names: Vec<&str> = members.iter().map(|member| member.name).collect();
                format!("an object with {}", quoted(&names))
            }
        }
    }

    fn schema(self) -> Value {
        match self {
            Self::Text { .. } | Self::Path => json!({"type": "string", "minLength": 1}),
            Self::Choice(choices) => json!({"type": "string", "enum": choices}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Names(names) => {
                json!({"type": "array", "maxItems": MAX_NAMES, "items": {"type": "string", "enum": names()}})
            }
            Self::Object => json!({"type": "object"}),
            Self::Objects { max_items } => {
                json!({"type": "array", "maxItems": max_items, "items": {"type": "object"}})
            }
            Self::Group(members) => Value::Object(schema(members)),
        }
    }
}

/// The schema of an object with these parameters.
pub fn schema(parameters: &[Parameter]) -> Map<String, Value> {
    let mut properties = Map::new();
    for parameter in parameters {
        let mut property = parameter.kind.schema();
        property["description"] = parameter.about.into();
        properties.insert(parameter.name.to_owned(), property);
    }
    let required: Vec<&str> = parameters.iter().filter(|one| one.required).map(|one| one.name).collect();
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), properties.into());
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    schema.insert("additionalProperties".into(), false.into());
    schema
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn listed(names: &[String]) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names.len() {
        0 => "No parameters are allowed".to_owned(),
        _ => format!("Allowed: {}", quoted(&names)),
    }
}

/// The caller's text for a message, shortened.
fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
