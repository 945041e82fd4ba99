//! Describes conditions for people who read a workflow.

use serde_json::Value;

use super::{MAX_COMPILED_DEPTH, OPERATORS};
use crate::workflow::compiled::Condition;

/// A condition as a phrase: `rigor is not small and outcome is cause_found`.
pub fn words(condition: &Condition) -> String {
    phrase(&condition.0, 1)
}

fn phrase(condition: &Value, depth: usize) -> String {
    if depth > MAX_COMPILED_DEPTH {
        return "…".to_owned();
    }
    for join in ["and", "or"] {
        if let Some(parts) = condition.get(join).and_then(Value::as_array) {
            let parts: Vec<String> = parts.iter().map(|part| grouped(part, depth + 1)).collect();
            return parts.join(&format!(" {join} "));
        }
    }
    if let Some(part) = condition.get("not") {
        return format!("not {}", grouped(part, depth + 1));
    }
    let Some(variable) = condition.get("var").and_then(Value::as_str) else {
        return "always".to_owned();
    };
    let compared = OPERATORS.iter().find_map(|operator| Some((*operator, condition.get(operator)?)));
    match compared {
        None => format!("{variable} is set"),
        Some((operator, value)) => format!("{variable} {} {}", verb(operator), plain(value)),
    }
}

/// A part of a larger condition, in parentheses if it is a junction itself.
fn grouped(part: &Value, depth: usize) -> String {
    let joined = part.get("and").is_some() || part.get("or").is_some();
    let words = phrase(part, depth);
    if joined { format!("({words})") } else { words }
}

fn verb(operator: &str) -> &str {
    match operator {
        "equals" => "is",
        "not_equals" => "is not",
        "gt" => ">",
        "gte" => "≥",
        "lt" => "<",
        "lte" => "≤",
        "startsWith" => "starts with",
        "endsWith" => "ends with",
        "in" => "is one of",
        other => other,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_reads_as_a_phrase() {
        let deep = (0..200).fold(json!({"var": "a"}), |part, _| json!({"not": part}));
        for (condition, expected) in [
            (json!({}), "always"),
            (json!({"var": "done"}), "done is set"),
            (json!({"var": "rigor", "not_equals": "small"}), "rigor is not small"),
            (json!({"var": "size", "in": ["s", 3]}), "size is one of s, 3"),
            (json!({"var": "name", "startsWith": "a"}), "name starts with a"),
            (json!({"var": "count", "gte": 2}), "count ≥ 2"),
            (json!({"not": {"var": "ready", "equals": true}}), "not ready is true"),
            (
                json!({"and": [{"var": "a", "equals": "x"}, {"or": [{"var": "b"}, {"var": "c", "lt": 1}]}]}),
                "a is x and (b is set or c < 1)",
            ),
        ] {
            assert_eq!(words(&Condition(condition)), expected);
        }
        assert!(
            words(&Condition(deep)).ends_with('…'),
            "conditions from elsewhere cannot overflow the stack"
        );
    }
}
