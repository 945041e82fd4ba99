//! What the notes of a step have to keep.
//!
//! Criteria are a list of rules, all of which have to pass, or rules joined by `and`, `or` and `not` in any
//! depth. A rule is about the text of the notes:
//!
//! | `type` | keeps |
//! |---|---|
//! | `contains` | `value` stands in the notes |
//! | `regex` | `pattern` matches somewhere; `flags` are of `i m s x` |
//! | `length` | from `min` to `max` characters |
//! | `schema` | the notes are JSON that keeps a JSON Schema without references; with `block`, their fenced block of that name |
//!
//! Each has the author's `message` for when it fails. A rule whose `condition` does not hold takes no
//! part: it neither passes nor fails, and a junction of such rules takes no part either.
//!
//! [`check`] refuses at load what could not be evaluated; [`evaluate`] names every leaf that failed, and
//! [`requirements`] says beforehand, in words, what will be asked.

mod evaluate;
mod words;

use serde_json::{Map, Value};

use super::{
    condition::{self, PATTERN_FIX, pattern},
    problem::{item, member, quoted},
};

pub use evaluate::{CriteriaFailure, CriteriaVerdict, FailureKind, evaluate};
pub use words::{Requirement, requirements};

/// How deep criteria may nest.
pub const MAX_DEPTH: usize = 16;
/// How many rules and junctions there may be.
pub const MAX_PARTS: usize = 64;
/// The longest schema, as canonical JSON: it is compiled again for every check of a step's notes.
pub const MAX_SCHEMA_BYTES: usize = 16_384;
/// The longest text of a `contains` rule, in characters: that of the longest notes.
const MAX_VALUE_CHARACTERS: usize = 1024;
/// The longest name of a block of the notes.
const MAX_BLOCK_CHARACTERS: usize = 64;
/// The longest message, in characters.
const MAX_MESSAGE_CHARACTERS: usize = 512;

/// What is wrong with criteria.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CriteriaFault {
    /// Where, below the criteria; empty for themselves.
    pub path: String,
    /// Whether it is a condition that is at fault.
    pub in_condition: bool,
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

/// Checks criteria against the grammar, patterns and schemas included.
///
/// # Errors
/// Everything that is wrong, in the order of the text.
pub fn check(criteria: &Value) -> Result<(), Vec<CriteriaFault>> {
    let mut checker = Checker { faults: Vec::new(), parts: 0 };
    match criteria {
        Value::Array(rules) => checker.list(rules, "", 1),
        node => checker.node(node, "", 1),
    }
    if checker.faults.is_empty() { Ok(()) } else { Err(checker.faults) }
}

/// Whether a flag such as `done = true` would satisfy the criteria: they ask for no evidence.
pub(crate) fn is_flag_only(criteria: &Value) -> bool {
    const FLAGS: [&str; 8] = ["complete", "done", "true", "yes", "ready", "finished", "ok", "passed"];
    let mut rules = 0;
    let mut waiting = vec![criteria];
    while let Some(next) = waiting.pop() {
        match next {
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) if members.contains_key("type") => {
                let value = members.get("value").and_then(Value::as_str).unwrap_or_default().to_lowercase();
                let is_flag = members["type"] == "contains"
                    && value.len() <= 60
                    && value
                        .split(|c: char| !c.is_alphanumeric())
                        .any(|word| FLAGS.iter().any(|flag| word.ends_with(flag)));
                if !is_flag {
                    return false;
                }
                rules += 1;
            }
            Value::Object(members) => waiting.extend(members.values()),
            _ => return false,
        }
    }
    rules > 0
}

/// Every condition of the criteria, for whoever wants to put something in its place.
pub(crate) fn conditions_mut<'c>(criteria: &'c mut Value, found: &mut Vec<&'c mut Value>) {
    let mut waiting = vec![criteria];
    while let Some(next) = waiting.pop() {
        match next {
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => {
                if members.contains_key("type") {
                    found.extend(members.get_mut("condition"));
                } else {
                    waiting.extend(members.values_mut());
                }
            }
            _ => {}
        }
    }
}

/// A validator of notes, which needs nothing but the schema itself.
fn validator(schema: &Value) -> Result<jsonschema::Validator, String> {
    jsonschema::options()
        // The other engine backtracks: a pattern of an author could run for ever.
        .with_pattern_options(jsonschema::PatternOptions::regex().size_limit(1 << 20).dfa_size_limit(1 << 20))
        .build(schema)
        .map_err(|error| quoted(&error.to_string()))
}

struct Checker {
    faults: Vec<CriteriaFault>,
    parts: usize,
}

impl Checker {
    fn fault(&mut self, path: &str, message: impl Into<String>, fix: impl Into<String>) {
        if self.faults.len() < 16 {
            self.faults.push(CriteriaFault {
                path: path.to_owned(),
                in_condition: false,
                message: message.into(),
                fix: fix.into(),
            });
        }
    }

    fn list(&mut self, rules: &[Value], path: &str, depth: usize) {
        if rules.is_empty() {
            return self.fault(path, "the list has no rules", "Add a rule, or leave the criteria out.");
        }
        for (index, rule) in rules.iter().enumerate() {
            self.node(rule, &item(path, index), depth + 1);
        }
    }

    fn node(&mut self, node: &Value, path: &str, depth: usize) {
        self.parts += 1;
        if self.parts > MAX_PARTS || depth > MAX_DEPTH {
            if self.parts == MAX_PARTS + 1 || depth > MAX_DEPTH {
                let message =
                    format!("criteria have at most {MAX_PARTS} parts, nested at most {MAX_DEPTH} deep");
                self.fault(path, message, "Ask for less, or split the step.");
            }
            return;
        }
        let Value::Object(members) = node else {
            let fix =
                "Write a rule, for example {\"type\": \"contains\", \"value\": \"…\", \"message\": \"…\"}.";
            return self.fault(path, "a rule is an object", fix);
        };
        if members.contains_key("type") {
            return self.rule(members, path);
        }
        let mut keys = members.iter();
        match (keys.next(), keys.next()) {
            (Some((join, value)), None) if join == "and" || join == "or" => match value {
                Value::Array(rules) => self.list(rules, &member(path, join), depth),
                _ => {
                    self.fault(
                        &member(path, join),
                        format!("`{join}` takes a list of rules"),
                        "Write [ … ].",
                    );
                }
            },
            (Some((join, value)), None) if join == "not" => self.node(value, &member(path, "not"), depth + 1),
            _ => self.fault(
                path,
                "neither a rule with a `type` nor one of `and`, `or`, `not`",
                "Give it a `type` of contains, regex, length or schema, or join rules with one of the three.",
            ),
        }
    }

    fn rule(&mut self, members: &Map<String, Value>, path: &str) {
        let kind = members["type"].as_str().unwrap_or_default();
        let own: &[&str] = match kind {
            "contains" => &["value"],
            "regex" => &["pattern", "flags"],
            "length" => &["min", "max"],
            "schema" => &["schema", "block"],
            _ => {
                let fix = match canon::nearest::nearest(kind, ["contains", "regex", "length", "schema"], 1)
                    .first()
                {
                    Some(name) => format!("Did you mean `{name}`?"),
                    None => "The types are contains, regex, length and schema.".to_owned(),
                };
                return self.fault(
                    &member(path, "type"),
                    format!("there is no type {:?}", quoted(kind)),
                    fix,
                );
            }
        };
        let shared = ["type", "message", "condition"];
        for key in
            members.keys().filter(|key| !shared.contains(&key.as_str()) && !own.contains(&key.as_str()))
        {
            let fix = match canon::nearest::nearest(key, own.iter().chain(&shared), 1).first() {
                Some(name) => format!("Did you mean `{name}`?"),
                None => format!("It has `message`, `condition`, and `{}`.", own.join("`, `")),
            };
            self.fault(&member(path, key), format!("a `{kind}` rule has no `{}`", quoted(key)), fix);
        }
        self.text(members, "message", MAX_MESSAGE_CHARACTERS, path);
        if let Some(condition) = members.get("condition") {
            let below = member(path, "condition");
            for fault in condition::check(condition).err().into_iter().flatten() {
                self.faults.push(CriteriaFault {
                    path: format!("{below}{}{}", dot(&fault.path), fault.path),
                    in_condition: true,
                    message: fault.message,
                    fix: fault.fix,
                });
            }
        }
        match kind {
            "contains" => {
                self.text(members, "value", MAX_VALUE_CHARACTERS, path);
            }
            "regex" => self.regex(members, path),
            "length" => self.length(members, path),
            _ => {
                self.block(members, path);
                self.schema(members.get("schema"), &member(path, "schema"));
            }
        }
    }

    fn text<'m>(
        &mut self,
        members: &'m Map<String, Value>,
        key: &str,
        most: usize,
        path: &str,
    ) -> Option<&'m str> {
        let text = members.get(key).and_then(Value::as_str);
        if !text.is_some_and(|text| (1..=most).contains(&text.chars().count())) {
            let message = format!("`{key}` is a text of 1 to {most} characters");
            self.fault(&member(path, key), message, format!("Write `{key}`."));
            return None;
        }
        text
    }

    fn regex(&mut self, members: &Map<String, Value>, path: &str) {
        let flags = match members.get("flags") {
            None => "",
            Some(Value::String(flags)) => flags,
            Some(_) => {
                return self.fault(
                    &member(path, "flags"),
                    "`flags` is a text",
                    "Write letters of `i m s x`.",
                );
            }
        };
        let most = condition::MAX_PATTERN_BYTES;
        let Some(text) = self.text(members, "pattern", most, path) else { return };
        if let Err(reason) = pattern(text, flags) {
            self.fault(&member(path, "pattern"), reason, PATTERN_FIX);
        }
    }

    fn length(&mut self, members: &Map<String, Value>, path: &str) {
        for key in ["min", "max"] {
            if members.get(key).is_some_and(|bound| bound.as_u64().is_none_or(|bound| bound > 1_000_000)) {
                let message = format!("`{key}` is a whole number from 0 to 1000000");
                self.fault(&member(path, key), message, "Count characters.");
                return;
            }
        }
        match (members.get("min").and_then(Value::as_u64), members.get("max").and_then(Value::as_u64)) {
            (None, None) => {
                self.fault(path, "a `length` rule has neither `min` nor `max`", "Give at least one.");
            }
            (Some(min), Some(max)) if min > max => {
                self.fault(
                    path,
                    format!("no text has from {min} to {max} characters"),
                    "Exchange `min` and `max`.",
                );
            }
            _ => {}
        }
    }

    fn block(&mut self, members: &Map<String, Value>, path: &str) {
        let Some(block) = members.get("block") else { return };
        let spelt = |name: &str| {
            (1..=MAX_BLOCK_CHARACTERS).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        };
        if !block.as_str().is_some_and(spelt) {
            let message =
                format!("`block` is a name of 1 to {MAX_BLOCK_CHARACTERS} letters, digits, `-` and `_`");
            self.fault(&member(path, "block"), message, "Use a name such as `findings`.");
        }
    }

    fn schema(&mut self, schema: Option<&Value>, path: &str) {
        let Some(schema) = schema else {
            return self.fault(path, "a `schema` rule has no `schema`", "Write a JSON Schema.");
        };
        let bytes = canon::canonical::to_vec(schema).map_or(usize::MAX, |bytes| bytes.len());
        if bytes > MAX_SCHEMA_BYTES {
            let message = format!("the schema is longer than the {MAX_SCHEMA_BYTES} bytes that are allowed");
            return self.fault(path, message, "Use a contract for large artifacts.");
        }
        if let Some(key) = reference_in(schema) {
            // A reference could reach the network, or itself: one schema, one tree, bounded work.
            let message = format!("`{key}` is not supported here");
            return self.fault(path, message, "Write the schema out in place.");
        }
        if let Err(reason) = validator(schema) {
            self.fault(path, format!("it is no JSON Schema: {reason}"), "Correct the schema.");
        }
    }
}

/// The separator between two paths of which the second may begin with an index.
fn dot(path: &str) -> &'static str {
    if path.is_empty() || path.starts_with('[') { "" } else { "." }
}

/// The first member that makes a schema refer to something, itself included.
fn reference_in(schema: &Value) -> Option<&'static str> {
    const REFERENCES: [&str; 4] = ["$ref", "$dynamicRef", "$recursiveRef", "$id"];
    let mut waiting = vec![schema];
    while let Some(next) = waiting.pop() {
        match next {
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => {
                if let Some(key) = REFERENCES.into_iter().find(|key| members.contains_key(*key)) {
                    return Some(key);
                }
                waiting.extend(members.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
