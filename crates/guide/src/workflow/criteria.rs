//! Validation rules for the notes of a step.
//!
//! Criteria are a list of rules that must all pass, or rules joined by `and`, `or` and `not` at any depth. A
//! rule checks the text of the notes:
//!
//! | `type` | passes if |
//! |---|---|
//! | `contains` | the notes contain `value` |
//! | `regex` | `pattern` matches somewhere; `flags` are of `i m s x` |
//! | `length` | the notes have `min` to `max` characters |
//! | `schema` | the notes are JSON that matches a JSON Schema without references; with `block`, their fenced
//! block of that name |
//!
//! Each has the author's `message` for when it fails. A rule whose `condition` does not hold is ignored: it
//! neither passes nor fails, and a junction of ignored rules is ignored too.
//!
//! [`check`] rejects criteria that could not be evaluated; [`evaluate`] reports every rule that failed, and
//! [`requirements`] describes the rules beforehand.

mod evaluate;
mod words;

use serde_json::{Map, Value};

use super::{
    condition::{self, PATTERN_FIX, pattern},
    problem::{item, member, quoted},
};

pub use evaluate::{CriteriaFailure, CriteriaVerdict, FailureKind, evaluate};
pub use words::{Requirement, requirements};

/// The maximum nesting depth.
pub const MAX_DEPTH: usize = 16;
/// The maximum number of rules and junctions.
pub const MAX_PARTS: usize = 64;
/// The maximum length of a schema, as canonical JSON: it is compiled again for every check.
pub const MAX_SCHEMA_BYTES: usize = 16_384;
/// The maximum length of the text of a `contains` rule, in characters.
const MAX_VALUE_CHARACTERS: usize = 1024;
/// The maximum length of the name of a block.
const MAX_BLOCK_CHARACTERS: usize = 64;
/// The maximum length of a message, in characters.
const MAX_MESSAGE_CHARACTERS: usize = 512;

/// A problem in criteria.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CriteriaFault {
    /// The path below the criteria; empty for the criteria themselves.
    pub path: String,
    /// Whether the problem is in a condition.
    pub in_condition: bool,
    pub message: String,
    pub fix: String,
}

/// Checks criteria against the grammar, including patterns and schemas.
///
/// # Errors
/// All problems, in the order of the text.
pub fn check(criteria: &Value) -> Result<(), Vec<CriteriaFault>> {
    let mut checker = Checker { faults: Vec::new(), parts: 0 };
    match criteria {
        Value::Array(rules) => checker.list(rules, "", 1),
        node => checker.node(node, "", 1),
    }
    if checker.faults.is_empty() { Ok(()) } else { Err(checker.faults) }
}

/// Whether a flag such as `done = true` would satisfy the criteria, so that they require no evidence.
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

/// All conditions of the criteria, so that the compiler can replace references.
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

/// A validator of notes that depends only on the schema itself.
fn validator(schema: &Value) -> Result<jsonschema::Validator, String> {
    jsonschema::options()
        // The default engine backtracks, so an author's pattern could take exponential time.
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
            return self.fault(path, "the list has no rules", "Add a rule, or omit the criteria.");
        }
        for (index, rule) in rules.iter().enumerate() {
            self.node(rule, &item(path, index), depth + 1);
        }
    }

    fn node(&mut self, node: &Value, path: &str, depth: usize) {
        self.parts += 1;
        if self.parts > MAX_PARTS || depth > MAX_DEPTH {
            if self.parts == MAX_PARTS + 1 || depth > MAX_DEPTH {
                let message = format!(
                    "criteria may have at most {MAX_PARTS} parts, nested at most {MAX_DEPTH} levels deep"
                );
                self.fault(path, message, "Use fewer rules, or split the step.");
            }
            return;
        }
        let Value::Object(members) = node else {
            let fix =
                "Write a rule, for example {\"type\": \"contains\", \"value\": \"…\", \"message\": \"…\"}.";
            return self.fault(path, "a rule must be an object", fix);
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
                        format!("`{join}` requires a list of rules"),
                        "Write [ … ].",
                    );
                }
            },
            (Some((join, value)), None) if join == "not" => self.node(value, &member(path, "not"), depth + 1),
            _ => self.fault(
                path,
                "a rule requires a `type` or one of `and`, `or`, `not`",
                "Add a `type` (contains, regex, length or schema), or join rules with `and`, `or` or `not`.",
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
                return self.fault(&member(path, "type"), format!("unknown type {:?}", quoted(kind)), fix);
            }
        };
        let shared = ["type", "message", "condition"];
        for key in
            members.keys().filter(|key| !shared.contains(&key.as_str()) && !own.contains(&key.as_str()))
        {
            let fix = match canon::nearest::nearest(key, own.iter().chain(&shared), 1).first() {
                Some(name) => format!("Did you mean `{name}`?"),
                None => format!("Allowed: `message`, `condition`, `{}`.", own.join("`, `")),
            };
            self.fault(
                &member(path, key),
                format!("`{}` is not allowed in a `{kind}` rule", quoted(key)),
                fix,
            );
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
            let message = format!("`{key}` must be a string of 1 to {most} characters");
            self.fault(&member(path, key), message, format!("Add `{key}`."));
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
                    "`flags` must be a string",
                    "Use the letters `i`, `m`, `s` and `x`.",
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
                let message = format!("`{key}` must be a whole number from 0 to 1000000");
                self.fault(&member(path, key), message, "Write the number of characters.");
                return;
            }
        }
        match (members.get("min").and_then(Value::as_u64), members.get("max").and_then(Value::as_u64)) {
            (None, None) => {
                self.fault(path, "a `length` rule requires `min` or `max`", "Add at least one.");
            }
            (Some(min), Some(max)) if min > max => {
                self.fault(
                    path,
                    format!("`min` ({min}) is greater than `max` ({max})"),
                    "Swap `min` and `max`.",
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
                format!("`block` must be a name of 1 to {MAX_BLOCK_CHARACTERS} letters, digits, `-` and `_`");
            self.fault(&member(path, "block"), message, "Use a name such as `findings`.");
        }
    }

    fn schema(&mut self, schema: Option<&Value>, path: &str) {
        let Some(schema) = schema else {
            return self.fault(path, "a `schema` rule requires a `schema`", "Write a JSON Schema.");
        };
        let bytes = canon::canonical::to_vec(schema).map_or(usize::MAX, |bytes| bytes.len());
        if bytes > MAX_SCHEMA_BYTES {
            let message = format!("the schema is longer than {MAX_SCHEMA_BYTES} bytes");
            return self.fault(path, message, "Use a contract for large artifacts.");
        }
        if let Some(key) = reference_in(schema) {
            // A reference could access the network or be circular.
            let message = format!("`{key}` is not supported here");
            return self.fault(path, message, "Write the schema inline.");
        }
        if let Err(reason) = validator(schema) {
            self.fault(path, format!("it is not a valid JSON Schema: {reason}"), "Fix the schema.");
        }
    }
}

/// The separator between two paths, where the second may start with an index.
fn dot(path: &str) -> &'static str {
    if path.is_empty() || path.starts_with('[') { "" } else { "." }
}

/// The first member that makes a schema refer to another one or to itself.
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
