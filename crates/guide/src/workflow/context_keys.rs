//! The context keys that steps declare: those that a step requires, and those that it must send.
//!
//! A declaration is a name and one of four types. More is not needed: a context contains the few facts that
//! decide which steps run, and documents belong in artifacts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::condition;

/// Declared keys by name.
pub type ContextKeys = BTreeMap<String, ContextType>;

/// The allowed values of a context key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub enum ContextType {
    /// A type, such as `{"type": "string"}`.
    #[serde(rename = "type")]
    Plain(PlainType),
    /// `{"enum": ["fix", "report"]}`: one of these values, in the author's order.
    #[serde(rename = "enum")]
    OneOf(Vec<String>),
}

/// A type without further restrictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlainType {
    /// A string that is not blank.
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list. Only the program declares it, for the metrics of a run.
    #[schemars(skip)]
    List,
}

impl PlainType {
    /// The types that an author may declare, with their names in a workflow file.
    pub const ALL: &'static [(&'static str, Self)] =
        &[("boolean", Self::Boolean), ("number", Self::Number), ("string", Self::String)];
}

impl ContextType {
    /// Whether a value is allowed. An unchanged placeholder does not count as a string.
    ///
    /// Enum values are compared as in conditions: trimmed, case-insensitively, and `true` equals `yes`.
    pub fn accepts(&self, key: &str, value: &Value) -> bool {
        match (self, value) {
            (Self::Plain(PlainType::String), Value::String(text)) => {
                !text.trim().is_empty() && text.trim() != self.placeholder(key)
            }
            (Self::Plain(PlainType::Number), Value::Number(_))
            | (Self::Plain(PlainType::Boolean), Value::Bool(_))
            | (Self::Plain(PlainType::List), Value::Array(_)) => true,
            (Self::OneOf(_), value) => self.choice(value).is_some(),
            (Self::Plain(_), _) => false,
        }
    }

    /// The enum value that a value matches, if the type is an enum.
    pub fn choice(&self, value: &Value) -> Option<&str> {
        let Self::OneOf(allowed) = self else { return None };
        let counts_as = |one: &&String| condition::equal(value, &Value::String((*one).clone()));
        allowed.iter().find(counts_as).map(String::as_str)
    }

    /// A description of the allowed values: `one of "fix", "report"`.
    pub fn words(&self) -> String {
        match self {
            Self::Plain(PlainType::String) => "text".to_owned(),
            Self::Plain(PlainType::Number) => "a number".to_owned(),
            Self::Plain(PlainType::Boolean) => "true or false".to_owned(),
            Self::Plain(PlainType::List) => "a list".to_owned(),
            Self::OneOf(allowed) => {
                let quoted: Vec<String> = allowed.iter().map(|one| format!("{one:?}")).collect();
                format!("one of {}", quoted.join(", "))
            }
        }
    }

    /// The placeholder for a value in an offered call. It is never an allowed value itself.
    pub fn placeholder(&self, key: &str) -> String {
        match self {
            Self::Plain(PlainType::String) => format!("<{key}: text>"),
            Self::Plain(PlainType::Number) => format!("<{key}: a number>"),
            Self::Plain(PlainType::Boolean) => "<true | false>".to_owned(),
            Self::Plain(PlainType::List) => format!("<{key}: a list>"),
            Self::OneOf(allowed) => format!("<{}>", allowed.join(" | ")),
        }
    }
}

/// A declared key whose value is missing, not allowed, or from an earlier visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextFault {
    /// The key, as the author wrote it.
    pub key: String,
    /// A description of the allowed values.
    pub expected: String,
    pub kind: FaultKind,
    /// The placeholder for the value in an offered call.
    pub placeholder: String,
}

/// What is wrong with the value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    Missing,
    /// The value is not allowed.
    Invalid {
        /// The value, shortened.
        found: String,
    },
    /// The value is allowed, but an earlier visit of the step, another step or another branch sent it.
    Earlier {
        /// The value, shortened.
        value: String,
    },
}

/// How many characters of a value a message repeats.
const SHOWN: usize = 60;

impl ContextFault {
    /// The fault of a key in a context, if any. `null` is the same as missing.
    pub fn of(key: &str, declared: &ContextType, context: &Map<String, Value>) -> Option<Self> {
        let kind = match context.get(key).filter(|value| !value.is_null()) {
            Some(value) if declared.accepts(key, value) => return None,
            Some(value) => FaultKind::Invalid { found: shortened(value) },
            None => FaultKind::Missing,
        };
        Some(Self::new(key, declared, kind))
    }

    /// The fault of a key whose value must be sent again.
    pub(crate) fn earlier(key: &str, declared: &ContextType, value: &Value) -> Self {
        Self::new(key, declared, FaultKind::Earlier { value: shortened(value) })
    }

    fn new(key: &str, declared: &ContextType, kind: FaultKind) -> Self {
        let (expected, placeholder) = (declared.words(), declared.placeholder(key));
        Self { key: key.to_owned(), expected, kind, placeholder }
    }

    /// Whether the key has a value that is not allowed.
    pub const fn is_invalid(&self) -> bool {
        matches!(self.kind, FaultKind::Invalid { .. })
    }
}

/// A value as JSON on one line, cut if it is long.
pub(crate) fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl std::fmt::Display for ContextFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, expected, kind, .. } = self;
        match kind {
            FaultKind::Missing => write!(f, "the context key `{key}` is missing; it must be {expected}"),
            FaultKind::Invalid { found } => {
                write!(f, "the context key `{key}` is {found}; it must be {expected}")
            }
            FaultKind::Earlier { value } => write!(
                f,
                "the context key `{key}` was not sent in this visit of the step; its value {value} is an earlier one, and \
                 it must be sent again: {expected}"
            ),
        }
    }
}

/// The faults of all given keys, in the order of their names.
pub fn faults(keys: &ContextKeys, context: &Map<String, Value>) -> Vec<ContextFault> {
    keys.iter().filter_map(|(key, declared)| ContextFault::of(key, declared, context)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one_of(allowed: &[&str]) -> ContextType {
        ContextType::OneOf(allowed.iter().map(|one| (*one).to_owned()).collect())
    }

    #[test]
    fn declarations_accept_their_values() {
        let string = ContextType::Plain(PlainType::String);
        let number = ContextType::Plain(PlainType::Number);
        let boolean = ContextType::Plain(PlainType::Boolean);
        let choice = one_of(&["fix", "report"]);
        for (name, declared, value, allowed) in [
            ("text", &string, json!("x"), true),
            ("blank text", &string, json!("  "), false),
            ("the placeholder of text", &string, json!("<key: text>"), false),
            ("a number as text", &string, json!(1), false),
            ("a number", &number, json!(0.5), true),
            ("digits", &number, json!("3"), false),
            ("a flag", &boolean, json!(false), true),
            ("yes as a flag", &boolean, json!("yes"), false),
            ("one of them", &choice, json!("fix"), true),
            ("one of them in another case", &choice, json!(" Fix"), true),
            ("not in the list", &choice, json!("fix it"), false),
            ("the placeholder of a choice", &choice, json!("<fix | report>"), false),
            ("a flag for a word of that meaning", &one_of(&["yes", "no"]), json!(false), true),
            ("a list", &choice, json!(["fix"]), false),
            ("null", &string, Value::Null, false),
        ] {
            assert_eq!(declared.accepts("key", &value), allowed, "{name}");
        }
    }

    #[test]
    fn a_placeholder_is_never_allowed() {
        for declared in [
            ContextType::Plain(PlainType::String),
            ContextType::Plain(PlainType::Number),
            ContextType::Plain(PlainType::Boolean),
            one_of(&["a", "b"]),
        ] {
            let placeholder = Value::String(declared.placeholder("key"));
            assert!(!declared.accepts("key", &placeholder), "{placeholder}");
        }
    }

    #[test]
    fn declarations_serialize_as_they_are_read() {
        for (declared, text) in [
            (ContextType::Plain(PlainType::Boolean), json!({"type": "boolean"})),
            (one_of(&["fix", "report"]), json!({"enum": ["fix", "report"]})),
        ] {
            assert_eq!(json!(declared), text);
            assert_eq!(serde_json::from_value::<ContextType>(text).unwrap(), declared);
        }
        assert!(serde_json::from_value::<ContextType>(json!({"type": "string", "enum": ["a"]})).is_err());
    }
}
