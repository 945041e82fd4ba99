//! JSON as the diagnostics speak of it: type names, cut values and the canonical form (2.4, 2.8).

use serde_json::{Map, Number, Value};

pub(crate) type Object = Map<String, Value>;

/// The type name a diagnostic shows, `undefined` for an absent member (2.4).
pub(crate) fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None => "undefined",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(_)) => "number",
        Some(Value::String(_)) => "string",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
    }
}

/// `details.received` of a rule about a value: strings verbatim up to 256 code points, else the type (2.4).
pub(crate) fn received_value(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) if text.chars().count() > 256 => {
            let kept: String = text.chars().take(256).collect();
            format!("{kept}…")
        }
        Some(Value::String(text)) => text.clone(),
        other => type_name(other).to_owned(),
    }
}

/// The string member `name`, if it is there and is a string.
pub(crate) fn text<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Value::as_str)
}

/// A copy of `object` that keeps the named members only; those that are absent stay absent.
pub(crate) fn pick(object: &Object, names: &[&str]) -> Object {
    let mut kept = Object::new();
    for name in names {
        if let Some(value) = object.get(*name) {
            kept.insert((*name).to_owned(), value.clone());
        }
    }
    kept
}

/// Canonical JSON (2.8): compact, members by the UTF-16 code units of their names, ECMAScript numbers.
pub(crate) fn canonical(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
        Value::Number(number) => ecmascript(number),
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(canonical).collect();
            format!("[{}]", elements.join(","))
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(name, _)| name.encode_utf16().collect::<Vec<u16>>());
            let members: Vec<String> = members
                .into_iter()
                .map(|(name, value)| format!("{}:{}", Value::String(name.clone()), canonical(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// ECMAScript's Number::toString: every number is a double, printed with the fewest digits that name it.
fn ecmascript(number: &Number) -> String {
    let double = number.as_f64().unwrap_or(f64::NAN);
    if double == 0.0 {
        return "0".to_owned();
    }
    let sign = if double < 0.0 { "-" } else { "" };
    let shortest = format!("{:e}", double.abs());
    let (mantissa, exponent) = shortest.split_once('e').expect("the `e` format always has an exponent");
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let exponent: i32 = exponent.parse().expect("the exponent is an integer");
    // `point` is the place of the decimal point, counted from the first digit (`n` of the standard).
    let point = exponent + 1;
    let count = i32::try_from(digits.len()).expect("a double has at most 17 digits");
    let zeros = |many: i32| "0".repeat(usize::try_from(many).unwrap_or(0));
    let split = |at: i32| digits.split_at(usize::try_from(at).unwrap_or(0));
    let body = if count <= point && point <= 21 {
        format!("{digits}{}", zeros(point - count))
    } else if 0 < point && point <= 21 {
        let (whole, fraction) = split(point);
        format!("{whole}.{fraction}")
    } else if -6 < point && point <= 0 {
        format!("0.{}{digits}", zeros(-point))
    } else {
        let (first, rest) = split(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let plus = if exponent > 0 { "+" } else { "" };
        format!("{first}{dot}{rest}e{plus}{exponent}")
    };
    format!("{sign}{body}")
}
