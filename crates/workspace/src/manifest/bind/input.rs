//! Whether a value is what an input declares.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use crate::manifest::model::{Constraints, Input};
use crate::manifest::vocabulary::InputType;

/// The longest pattern, in bytes.
pub(in crate::manifest) const MAX_PATTERN: usize = 1024;

/// How large a compiled pattern may be, in bytes: one that counts to a thousand within a thousand is refused
/// before it takes the memory.
const MAX_COMPILED: usize = 1 << 16;

/// The longest text that is matched. Matching takes time in proportion to text times pattern.
const MAX_MATCHED: usize = 1 << 16;

/// A pattern, matched in linear time. It may match anywhere in the text, as in JSON Schema.
pub(in crate::manifest) fn regex(pattern: &str) -> Result<Regex, String> {
    let regex =
        RegexBuilder::new(pattern).size_limit(MAX_COMPILED).dfa_size_limit(1 << 18).nest_limit(32).build();
    regex.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large; repeat less".to_owned(),
        other => {
            // The last line says what is wrong, those before it draw where.
            let text = other.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            canon::budget::truncate(&reason, 200).into_owned()
        }
    })
}

/// Why a value is not what the input declares, as the end of a sentence. It never quotes the value: nobody
/// knows what callers put into inputs.
pub(in crate::manifest) fn check(input: &Input, value: &Value) -> Result<(), String> {
    let fits = match (input.kind, value) {
        (InputType::String, Value::String(_))
        | (InputType::Number, Value::Number(_))
        | (InputType::Boolean, Value::Bool(_))
        | (InputType::Array, Value::Array(_))
        | (InputType::Object, Value::Object(_)) => true,
        (InputType::Strings, Value::Array(items)) => {
            if !items.iter().all(Value::is_string) {
                return Err("has an item that is no text".to_owned());
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
            Value::String(_) => "a text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        return Err(format!("is {kind}, and has to be of type `{}`", input.kind));
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
            let shown = format!("has to be one of {}{more}", shown.join(", "));
            Err(canon::budget::truncate(&shown, 300).into_owned())
        }
        _ => Ok(()),
    }
}

fn check_text(constraints: &Constraints, text: &str) -> Result<(), String> {
    let length = text.chars().count() as u64;
    if let Some(least) = constraints.min_length.filter(|least| length < *least) {
        return Err(format!("has {length} characters, and needs {least}"));
    }
    if let Some(most) = constraints.max_length.filter(|most| length > *most) {
        return Err(format!("has {length} characters, and at most {most} are allowed"));
    }
    if let Some(pattern) = &constraints.pattern {
        if text.len() > MAX_MATCHED {
            return Err(format!(
                "has {} bytes, and a pattern is matched with at most {MAX_MATCHED}",
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
            Err(format!("has to be at least {bound}"))
        }
        Constraints { maximum: Some(bound), .. } if number > *bound => {
            Err(format!("has to be at most {bound}"))
        }
        Constraints { exclusive_minimum: Some(bound), .. } if number <= *bound => {
            Err(format!("has to be more than {bound}"))
        }
        Constraints { exclusive_maximum: Some(bound), .. } if number >= *bound => {
            Err(format!("has to be less than {bound}"))
        }
        _ => Ok(()),
    }
}

/// Equality, with `1` and `1.0` the same number.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}
