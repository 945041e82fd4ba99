//! Checks a value against the declaration of an input.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use crate::manifest::model::{Constraints, Input};
use crate::manifest::vocabulary::InputType;

pub(in crate::manifest) const MAX_PATTERN: usize = 1024;

/// The limit of a compiled pattern, in bytes: nested repetitions are refused before they use the
/// memory.
const MAX_COMPILED: usize = 1 << 16;

/// The longest matched string. Matching time grows with string times pattern.
const MAX_MATCHED: usize = 1 << 16;

/// A pattern with linear-time matching. It may match anywhere in the string, as in JSON Schema.
pub(in crate::manifest) fn regex(pattern: &str) -> Result<Regex, String> {
    let regex =
        RegexBuilder::new(pattern).size_limit(MAX_COMPILED).dfa_size_limit(1 << 18).nest_limit(32).build();
    regex.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large; repeat less".to_owned(),
        other => {
            // The last line describes the problem, the lines before it draw the position.
            let text = other.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            canon::budget::truncate(&reason, 200).into_owned()
        }
    })
}

/// Why a value does not match the declaration, as the end of a sentence. It never quotes the value,
/// which may be confidential.
pub(in crate::manifest) fn check(input: &Input, value: &Value) -> Result<(), String> {
    let fits = match (input.kind, value) {
        (InputType::String, Value::String(_))
        | (InputType::Number, Value::Number(_))
        | (InputType::Boolean, Value::Bool(_))
        | (InputType::Array, Value::Array(_))
        | (InputType::Object, Value::Object(_)) => true,
        (InputType::Strings, Value::Array(items)) => {
            if !items.iter().all(Value::is_string) {
                return Err("has an item that is not a string".to_owned());
            }
            true
        }
        _ => false,
    };
    if !fits {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        return Err(format!("is {kind}, but must be of type `{}`", input.kind));
    }
    match value {
        Value::String(text) => check_text(&input.constraints, text)?,
        Value::Number(number) => check_number(&input.constraints, number.as_f64().unwrap_or_default())?,
        _ => {}
    }
    match &input.constraints.one_of {
        Some(allowed) if !allowed.iter().any(|candidate| same(candidate, value)) => {
            let shown: Vec<String> = allowed.iter().take(10).map(canon::canonical::string_of).collect();
            let more = if allowed.len() > 10 { ", …" } else { "" };
            let shown = format!("must be one of {}{more}", shown.join(", "));
            Err(canon::budget::truncate(&shown, 300).into_owned())
        }
        _ => Ok(()),
    }
}

fn check_text(constraints: &Constraints, text: &str) -> Result<(), String> {
    let length = text.chars().count() as u64;
    if let Some(least) = constraints.min_length.filter(|least| length < *least) {
        return Err(format!("has {length} characters; the minimum is {least}"));
    }
    if let Some(most) = constraints.max_length.filter(|most| length > *most) {
        return Err(format!("has {length} characters; the maximum is {most}"));
    }
    if let Some(pattern) = &constraints.pattern {
        if text.len() > MAX_MATCHED {
            return Err(format!(
                "is {} bytes; patterns are matched with at most {MAX_MATCHED} bytes",
                text.len()
            ));
        }
        if !pattern.is_match(text) {
            return Err(format!("does not match `{pattern}`"));
        }
    }
    Ok(())
}

fn check_number(constraints: &Constraints, number: f64) -> Result<(), String> {
    match constraints {
        Constraints { minimum: Some(bound), .. } if number < *bound => {
            Err(format!("must be at least {bound}"))
        }
        Constraints { maximum: Some(bound), .. } if number > *bound => {
            Err(format!("must be at most {bound}"))
        }
        Constraints { exclusive_minimum: Some(bound), .. } if number <= *bound => {
            Err(format!("must be greater than {bound}"))
        }
        Constraints { exclusive_maximum: Some(bound), .. } if number >= *bound => {
            Err(format!("must be less than {bound}"))
        }
        _ => Ok(()),
    }
}

/// Equality, where `1` and `1.0` are equal.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}
