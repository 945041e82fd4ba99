//! Comparison of a variable with an operator's value.

use serde_json::{Map, Value};

use super::{EvaluationError, malformed, pattern};

/// Applies the operator next to `var`.
pub(super) fn compare(value: &Value, members: &Map<String, Value>) -> Result<bool, EvaluationError> {
    let operand = |name: &str| members.get(name);
    if let Some(other) = operand("equals") {
        return Ok(equal(value, other));
    }
    if let Some(other) = operand("not_equals") {
        return Ok(!equal(value, other));
    }
    for (name, test) in [
        ("gt", (|a, b| a > b) as fn(f64, f64) -> bool),
        ("gte", |a, b| a >= b),
        ("lt", |a, b| a < b),
        ("lte", |a, b| a <= b),
    ] {
        if let Some(other) = operand(name) {
            return Ok(matches!((value.as_f64(), other.as_f64()), (Some(a), Some(b)) if test(a, b)));
        }
    }
    if let Some(other) = operand("contains") {
        return Ok(match value {
            Value::String(text) => other.as_str().is_some_and(|part| text.contains(part)),
            Value::Array(items) => items.iter().any(|item| equal(item, other)),
            _ => false,
        });
    }
    for (name, test) in [
        ("startsWith", (|text, part| text.starts_with(part)) as fn(&str, &str) -> bool),
        ("endsWith", |text, part| text.ends_with(part)),
    ] {
        if let Some(other) = operand(name) {
            return Ok(
                matches!((value, other), (Value::String(text), Value::String(part)) if test(text, part)),
            );
        }
    }
    if let Some(other) = operand("matches") {
        let other = other.as_str().ok_or_else(|| malformed("`matches` is not a string"))?;
        let pattern = pattern(other, "").map_err(|reason| malformed(&reason))?;
        return Ok(value.as_str().is_some_and(|text| pattern.is_match(text)));
    }
    if let Some(other) = operand("in") {
        let choices = other.as_array().ok_or_else(|| malformed("`in` is not a list"))?;
        return Ok(choices.iter().any(|choice| equal(value, choice)));
    }
    if members.len() > 1 {
        return Err(malformed("it has an unknown operator"));
    }
    Ok(is_true(value))
}

/// Lenient equality.
pub(crate) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Bool(flag), value) | (value, Value::Bool(flag)) => as_flag(value) == Some(*flag),
        (Value::String(a), Value::String(b)) => folded(a) == folded(b),
        (Value::Number(_), Value::Number(_)) => one.as_f64() == other.as_f64(),
        (Value::String(text), Value::Number(number)) | (Value::Number(number), Value::String(text)) => {
            matches!((as_number(text), number.as_f64()), (Some(a), Some(b)) if a == b)
        }
        // Lists and objects are data, not answers of a model, so they are compared exactly.
        _ => exactly_equal(one, other),
    }
}

/// Exact equality, except for the notation of numbers.
fn exactly_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(_), Value::Number(_)) => one.as_f64() == other.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| exactly_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| exactly_equal(value, other)))
        }
        _ => one == other,
    }
}

fn folded(text: &str) -> String {
    text.trim().to_lowercase()
}

/// The number that a string contains in digits. Excludes `inf` and `NaN`, which Rust would accept.
fn as_number(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain =
        text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    text.parse().ok().filter(|number: &f64| plain && number.is_finite())
}

fn as_flag(value: &Value) -> Option<bool> {
    match value {
        Value::String(text) => match folded(text).as_str() {
            "true" | "1" | "yes" => Some(true),
            "false" | "0" | "no" => Some(false),
            _ => None,
        },
        Value::Number(number) => match number.as_f64() {
            Some(1.0) => Some(true),
            Some(0.0) => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Bool(true) | Value::Array(_) | Value::Object(_) => true,
    }
}
