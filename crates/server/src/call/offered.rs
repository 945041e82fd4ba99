//! The example call in an error: the caller's arguments, with the certain corrections.
//!
//! It must not invent values. Every value is either the caller's own, decoded if it was sent as JSON in a
//! string, or a placeholder that is rejected if it is sent unchanged. So the example either says what the
//! caller said, or is not accepted.

use canon::canonical;
use canon::json::{self as strict, Limits};
use serde_json::{Map, Value};

use crate::tool::parameter::{Kind, Parameter, check_value, nearest_name};
use crate::tool::{Definition, Tool};

/// How much of the caller's values an error repeats, as canonical JSON. The details of an error are limited.
const ECHO_BYTES: usize = 2048;

/// The arguments of the example.
pub(super) fn arguments(definition: &Definition, given: &Map<String, Value>) -> Map<String, Value> {
    let mut offer = Offer { room: ECHO_BYTES };
    let mut call = offer.members(definition.parameters, given);
    if definition.tool == Tool::ContinueWorkflow {
        complete_continue(definition, &mut call);
    }
    call
}

/// The arguments of an example with placeholders only.
pub(super) fn blank(definition: &Definition) -> Map<String, Value> {
    arguments(definition, &Map::new())
}

struct Offer {
    /// How many bytes of the caller's values may still be repeated.
    room: usize,
}

impl Offer {
    fn members(
        &mut self,
        parameters: &'static [Parameter],
        given: &Map<String, Value>,
    ) -> Map<String, Value> {
        let mut call = Map::new();
        for parameter in parameters {
            let value = given.get(parameter.name).or_else(|| misspelt(parameter, parameters, given));
            match value.filter(|value| !value.is_null()) {
                Some(value) => {
                    call.insert(parameter.name.to_owned(), self.value(parameter, value));
                }
                None if parameter.required => {
                    call.insert(parameter.name.to_owned(), parameter.placeholder().into());
                }
                None => {}
            }
        }
        call
    }

    fn value(&mut self, parameter: &'static Parameter, value: &Value) -> Value {
        let mut wrong = Vec::new();
        check_value(parameter.kind, parameter.name, value, &mut wrong);
        if wrong.is_empty() {
            return self.echo(parameter, value.clone());
        }
        match (parameter.kind, value) {
            // A misspelled choice is repeated with its correct spelling.
            (Kind::Choice(_), _) => match wrong.first().and_then(|mistake| mistake.nearest) {
                Some(near) => near.into(),
                None => parameter.placeholder().into(),
            },
            (Kind::Group(members), Value::Object(given)) => Value::Object(self.members(members, given)),
            (Kind::Group(_) | Kind::Object | Kind::Objects { .. } | Kind::Names(_), Value::String(text)) => {
                match parsed(text) {
                    Some(value @ (Value::Object(_) | Value::Array(_))) => self.value(parameter, &value),
                    _ => self.text_of_group(parameter, text),
                }
            }
            (Kind::Objects { .. }, Value::Array(items)) => {
                let meant: Vec<Value> = items
                    .iter()
                    .map(|item| item.as_str().and_then(parsed).unwrap_or_else(|| item.clone()))
                    .collect();
                let mut wrong = Vec::new();
                let meant = Value::Array(meant);
                check_value(parameter.kind, parameter.name, &meant, &mut wrong);
                if wrong.is_empty() { self.echo(parameter, meant) } else { parameter.placeholder().into() }
            }
            _ => parameter.placeholder().into(),
        }
    }

    /// A string in place of a group is meant for the first text field of the group.
    fn text_of_group(&mut self, parameter: &'static Parameter, text: &str) -> Value {
        if let Kind::Group([first @ Parameter { kind: Kind::Text { .. }, .. }, ..]) = parameter.kind
            && !text.trim().is_empty()
        {
            let mut group = Map::new();
            group.insert(first.name.to_owned(), self.value(first, &Value::String(text.to_owned())));
            return group.into();
        }
        parameter.placeholder().into()
    }

    /// The caller's value, if there is room for it.
    fn echo(&mut self, parameter: &Parameter, value: Value) -> Value {
        let bytes = canonical::string_of(&value).len();
        match self.room.checked_sub(bytes) {
            Some(rest) => {
                self.room = rest;
                value
            }
            None => parameter.placeholder().into(),
        }
    }
}

/// The value that was sent under a misspelled name of the parameter, if no other parameter is closer.
fn misspelt<'v>(
    parameter: &Parameter,
    parameters: &'static [Parameter],
    given: &'v Map<String, Value>,
) -> Option<&'v Value> {
    let names = parameters.iter().map(|parameter| parameter.name);
    // A hostile call could have a million names; a typo is among the first.
    let strangers = given.iter().take(64).filter(|(name, _)| !names.clone().any(|known| known == **name));
    strangers
        .filter(|(name, _)| nearest_name(name, names.clone()) == Some(parameter.name))
        .map(|(_, value)| value)
        .next()
}

/// Parses JSON in a string.
fn parsed(text: &str) -> Option<Value> {
    let looks_like_json = text.trim_start().starts_with(['{', '[']);
    (looks_like_json && text.len() <= 2 * ECHO_BYTES)
        .then(|| strict::read(text.as_bytes(), &Limits::DEFAULT).ok())
        .flatten()
}

/// Adds a token and an intent, which the list of parameters alone does not require.
fn complete_continue(definition: &Definition, call: &mut Map<String, Value>) {
    let placeholder = |name: &str| -> Option<Value> {
        let parameter = definition.parameters.iter().find(|parameter| parameter.name == name);
        parameter.map(|parameter| parameter.placeholder().into())
    };
    let insert = |call: &mut Map<String, Value>, name: &str| {
        if let Some(value) = placeholder(name).filter(|_| !call.contains_key(name)) {
            call.insert(name.to_owned(), value);
        }
    };
    if call.contains_key("continueToken") {
        call.remove("stateToken");
        call.remove("ackToken");
    } else if !call.contains_key("stateToken") {
        call.remove("ackToken");
        insert(call, "continueToken");
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
    // The example must not be an advance that the caller did not request, or one without notes.
    let wordless = call.get("output").is_none_or(|output| output.as_object().is_some_and(Map::is_empty));
    if wordless {
        call.insert("output".to_owned(), serde_json::json!({"notesMarkdown": guide::placeholder::NOTES}));
    }
    if call.contains_key("stateToken") {
        insert(call, "ackToken");
    }
}
