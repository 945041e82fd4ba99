//! Conditions on the context of a run.
//!
//! ```text
//! cond := {} | {var, op} | {var} | {and:[cond…]} | {or:[cond…]} | {not:cond}
//!       | {kind:"condition_ref", conditionId}
//! op   := equals | not_equals | gt | gte | lt | lte | contains
//!       | startsWith | endsWith | matches | in
//! ```
//!
//! `{}` always holds. `{var}` holds if the variable is truthy in the sense of JavaScript: set, and not
//! `null`, `false`, `0` or the empty string. `var` is a context key or a path, such as
//! `review.findings.0.severity`; a key that contains the dots itself takes precedence. A missing variable is
//! treated as `null` and is not an error.
//!
//! Equality is lenient, because values come from language models: strings are compared trimmed and
//! case-insensitively, a numeric string equals its number, and `true 1 yes` and `false 0 no` equal the
//! booleans. The ordering operators hold only between numbers. Everything else is exact.
//!
//! [`check`] rejects invalid conditions when a workflow is loaded, so [`evaluate`] can fail only for a
//! condition that was not checked. The compiler replaces references to named conditions by those conditions;
//! a compiled workflow contains references only in its loops.

mod compare;
mod partial;
mod words;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

pub(crate) use compare::equal;
pub(crate) use partial::evaluate_knowing;
pub use words::words;

use super::{
    compiled::Condition,
    problem::{item, member, quoted},
};

/// The maximum nesting depth of an author's conditions.
pub const MAX_DEPTH: usize = 32;
/// The maximum nesting depth of a compiled condition: the compiler inserts named conditions and joins those
/// of calls and steps.
const MAX_COMPILED_DEPTH: usize = 3 * MAX_DEPTH;
/// The maximum number of parts of one condition.
pub const MAX_PARTS: usize = 256;
/// The maximum length of a pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 1024;
/// The maximum memory of one compiled pattern, in bytes.
const MAX_PATTERN_MEMORY: usize = 1 << 20;
/// The maximum length of `var`, in bytes.
const MAX_VARIABLE_BYTES: usize = 256;

/// The operators, in the order of the grammar.
pub const OPERATORS: [&str; 11] =
    ["equals", "not_equals", "gt", "gte", "lt", "lte", "contains", "startsWith", "endsWith", "matches", "in"];

/// A problem in a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConditionFault {
    /// The path below the condition; empty for the condition itself.
    pub path: String,
    pub message: String,
    pub fix: String,
}

/// Why a condition or criteria cannot be evaluated. The author must fix it: a retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be evaluated: {reason}")]
pub struct EvaluationError {
    pub what: String,
    pub reason: String,
}

/// Checks a condition against the grammar.
///
/// # Errors
/// All problems, in the order of the text.
pub fn check(condition: &Value) -> Result<(), Vec<ConditionFault>> {
    let mut checker = Checker { faults: Vec::new(), parts: 0 };
    checker.condition(condition, "", 1);
    if checker.faults.is_empty() { Ok(()) } else { Err(checker.faults) }
}

/// Whether a condition holds in a context. A missing variable is not an error.
///
/// # Errors
/// The condition is not valid.
pub fn evaluate(condition: &Condition, context: &Map<String, Value>) -> Result<bool, EvaluationError> {
    holds(&condition.0, context, 1)
}

/// Compiles an author's pattern, with an engine that runs in linear time.
///
/// # Errors
/// A description of the problem.
pub(crate) fn pattern(text: &str, flags: &str) -> Result<Regex, String> {
    if text.len() > MAX_PATTERN_BYTES {
        return Err(format!("the pattern has {} bytes; the limit is {MAX_PATTERN_BYTES}", text.len()));
    }
    let mut builder = RegexBuilder::new(text);
    builder.size_limit(MAX_PATTERN_MEMORY).dfa_size_limit(MAX_PATTERN_MEMORY).nest_limit(64);
    for flag in flags.chars() {
        match flag {
            'i' => builder.case_insensitive(true),
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            'x' => builder.ignore_whitespace(true),
            // Searching for any match is the default, and strings are always Unicode.
            'g' | 'u' => &mut builder,
            _ => return Err(format!("unknown flag {flag:?}; use `i`, `m`, `s`, `x`, `g` or `u`")),
        };
    }
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => {
            format!("the compiled pattern exceeds the limit of {limit} bytes")
        }
        // The last line has the reason; those before it mark the position with spaces and carets.
        other => quoted(other.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ")),
    })
}

/// Whether a condition can never hold, in any context.
pub(crate) fn never_holds(condition: &Value) -> bool {
    constant(condition, 1) == Some(false)
}

/// The variables that a condition reads, without duplicates, in the order of the text.
pub(crate) fn keys(condition: &Condition) -> Vec<&str> {
    let mut found = Vec::new();
    variables(&condition.0, &mut found);
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|key| seen.insert(*key));
    found
}

/// The variables that a condition reads, in the order of the text.
pub(crate) fn variables<'c>(condition: &'c Value, found: &mut Vec<&'c str>) {
    let mut waiting = vec![condition];
    while let Some(next) = waiting.pop() {
        let Value::Object(members) = next else { continue };
        if let Some(Value::String(variable)) = members.get("var") {
            found.push(variable);
        }
        for key in ["and", "or"] {
            if let Some(Value::Array(parts)) = members.get(key) {
                waiting.extend(parts.iter().rev());
            }
        }
        waiting.extend(members.get("not"));
    }
}

/// The id in `{kind:"condition_ref", conditionId}`.
pub(crate) fn reference(condition: &Value) -> Option<&str> {
    if condition.get("kind")?.as_str()? == "condition_ref" {
        condition.get("conditionId")?.as_str()
    } else {
        None
    }
}

struct Checker {
    faults: Vec<ConditionFault>,
    parts: usize,
}

impl Checker {
    fn fault(&mut self, path: &str, message: impl Into<String>, fix: impl Into<String>) {
        // Report each cause once, and limit the number of problems.
        if self.faults.len() < 16 {
            self.faults.push(ConditionFault {
                path: path.to_owned(),
                message: message.into(),
                fix: fix.into(),
            });
        }
    }

    fn condition(&mut self, condition: &Value, path: &str, depth: usize) {
        self.parts += 1;
        if self.parts == MAX_PARTS + 1 {
            let message = format!("the condition has more than {MAX_PARTS} parts");
            return self.fault("", message, "Split the step, or set one variable in an earlier step.");
        }
        if depth > MAX_DEPTH {
            let message = format!("conditions are nested deeper than {MAX_DEPTH} levels");
            return self.fault(path, message, "Flatten it: `and` and `or` accept any number of parts.");
        }
        if self.parts > MAX_PARTS {
            return;
        }
        let Value::Object(members) = condition else {
            let fix = "Write an object, for example {\"var\": \"rigor\", \"equals\": \"thorough\"}.";
            return self.fault(path, "a condition must be an object", fix);
        };
        if members.is_empty() {
            return;
        }
        if members.contains_key("kind") || members.contains_key("conditionId") {
            return self.reference(members, path);
        }
        let shape: Vec<&str> =
            ["var", "and", "or", "not"].into_iter().filter(|key| members.contains_key(*key)).collect();
        let known = |key: &str| ["var", "and", "or", "not"].contains(&key) || OPERATORS.contains(&key);
        if let Some(stranger) = members.keys().find(|key| !known(key)) {
            let names = OPERATORS.iter().chain(&["var", "and", "or", "not"]);
            let fix = match canon::nearest::nearest(stranger, names, 1).first() {
                Some(name) => format!("Did you mean `{name}`?"),
                None => format!("The operators are {}.", OPERATORS.join(", ")),
            };
            return self.fault(path, format!("unknown operator `{}`", quoted(stranger)), fix);
        }
        match shape[..] {
            ["var"] => self.comparison(members, path),
            [join @ ("and" | "or")] if members.len() == 1 => {
                let below = member(path, join);
                match &members[join] {
                    Value::Array(parts) => {
                        for (index, part) in parts.iter().enumerate() {
                            self.condition(part, &item(&below, index), depth + 1);
                        }
                    }
                    _ => {
                        self.fault(&below, format!("`{join}` requires a list of conditions"), "Write [ … ].");
                    }
                }
            }
            ["not"] if members.len() == 1 => self.condition(&members["not"], &member(path, "not"), depth + 1),
            [] => {
                self.fault(path, "an operator requires `var`", "Add the variable: {\"var\": …}.");
            }
            _ => self.fault(
                path,
                format!(
                    "`{}` cannot be combined in one object",
                    members.keys().map(String::as_str).collect::<Vec<_>>().join("`, `")
                ),
                "Write one test per object, and join them: {\"and\": [{…}, {…}]}.",
            ),
        }
    }

    fn reference(&mut self, members: &Map<String, Value>, path: &str) {
        let fix = "Write {\"kind\": \"condition_ref\", \"conditionId\": \"…\"} and nothing else.";
        let is_reference = members.get("kind").and_then(Value::as_str) == Some("condition_ref");
        if !is_reference || members.len() != 2 || !members.get("conditionId").is_some_and(Value::is_string) {
            self.fault(
                path,
                "a reference to a named condition must have exactly `kind` and `conditionId`",
                fix,
            );
        }
    }

    fn comparison(&mut self, members: &Map<String, Value>, path: &str) {
        let below = member(path, "var");
        match &members["var"] {
            Value::String(name) if is_variable(name) => {}
            Value::String(name) => self.fault(
                &below,
                format!("{:?} is not a valid variable name", quoted(name)),
                "Write a context key, or keys joined by dots.",
            ),
            _ => self.fault(&below, "`var` must be a variable name", "Write a string."),
        }
        let operators: Vec<&str> = OPERATORS.into_iter().filter(|key| members.contains_key(*key)).collect();
        let operator = match operators[..] {
            [] => return,
            [operator] => operator,
            _ => {
                let message = format!("`{}` cannot be combined in one object", operators.join("`, `"));
                let fix = "Write one operator per object, and join them: {\"and\": [{…}, {…}]}.";
                return self.fault(path, message, fix);
            }
        };
        let (below, operand) = (member(path, operator), &members[operator]);
        match operator {
            "gt" | "gte" | "lt" | "lte" if !operand.is_number() => {
                self.fault(
                    &below,
                    format!("`{operator}` requires a number"),
                    "Write a number without quotes.",
                );
            }
            "startsWith" | "endsWith" if !operand.is_string() => {
                self.fault(&below, format!("`{operator}` requires a string"), "Write a string.");
            }
            "in" if !operand.is_array() => {
                self.fault(&below, "`in` requires a list of values", "Write [ … ].");
            }
            "matches" => match operand.as_str().map(|text| pattern(text, "")) {
                None => self.fault(&below, "`matches` requires a pattern", "Write a string."),
                Some(Err(reason)) => self.fault(&below, reason, PATTERN_FIX),
                Some(Ok(_)) => {}
            },
            _ => {}
        }
    }
}

/// How to fix a rejected pattern.
pub(crate) const PATTERN_FIX: &str =
    "Remove look-around and back-references: patterns must run in linear time.";

/// Whether a string is a valid variable name: non-empty parts, joined by dots.
fn is_variable(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_VARIABLE_BYTES
        && text.split('.').all(|part| {
            !part.is_empty()
                && !part.contains(|character: char| character.is_whitespace() || character.is_control())
        })
}

fn malformed(reason: &str) -> EvaluationError {
    EvaluationError { what: "the condition".into(), reason: reason.into() }
}

fn holds(condition: &Value, context: &Map<String, Value>, depth: usize) -> Result<bool, EvaluationError> {
    if depth > MAX_COMPILED_DEPTH {
        return Err(malformed(&format!("it is nested deeper than {MAX_COMPILED_DEPTH} levels")));
    }
    let Value::Object(members) = condition else { return Err(malformed("it is not an object")) };
    if members.is_empty() {
        return Ok(true);
    }
    if let Some(variable) = members.get("var") {
        let variable = variable.as_str().ok_or_else(|| malformed("`var` is not a string"))?;
        return compare::compare(lookup(context, variable), members);
    }
    for (join, until) in [("and", false), ("or", true)] {
        let Some(parts) = members.get(join) else { continue };
        for part in parts.as_array().ok_or_else(|| malformed("`and` and `or` require lists"))? {
            if holds(part, context, depth + 1)? == until {
                return Ok(until);
            }
        }
        return Ok(!until);
    }
    match members.get("not") {
        Some(part) => Ok(!holds(part, context, depth + 1)?),
        None => Err(malformed("it has neither `var`, `and`, `or` nor `not`")),
    }
}

/// The value of a variable: the key itself, else the path of its dots.
fn lookup<'c>(context: &'c Map<String, Value>, variable: &str) -> &'c Value {
    if let Some(value) = context.get(variable) {
        return value;
    }
    let mut parts = variable.split('.');
    let first = parts.next().and_then(|key| context.get(key));
    parts
        .fold(first, |value, part| match value? {
            Value::Object(members) => members.get(part),
            Value::Array(items) => part.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        })
        .unwrap_or(&Value::Null)
}

/// The value of a condition if it does not depend on any variable.
fn constant(condition: &Value, depth: usize) -> Option<bool> {
    let members = condition.as_object()?;
    if members.is_empty() {
        return Some(true);
    }
    if depth > MAX_COMPILED_DEPTH {
        return None;
    }
    if let Some(Value::Array(choices)) = members.get("in") {
        return choices.is_empty().then_some(false);
    }
    for (join, until) in [("and", false), ("or", true)] {
        let Some(Value::Array(parts)) = members.get(join) else { continue };
        let values: Vec<Option<bool>> = parts.iter().map(|part| constant(part, depth + 1)).collect();
        if values.contains(&Some(until)) {
            return Some(until);
        }
        return values.iter().all(Option::is_some).then_some(!until);
    }
    constant(members.get("not")?, depth + 1).map(|value| !value)
}

#[cfg(test)]
mod tests;
