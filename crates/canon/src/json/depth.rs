//! Measures nesting depth without recursion.

use serde_json::{Value, map};

/// The nesting depth: 0 for a scalar, 1 for `[]`.
///
/// ```
/// use serde_json::json;
///
/// assert_eq!(canon::json::depth_of(&json!("text")), 0);
/// assert_eq!(canon::json::depth_of(&json!({"a": [1, {}]})), 3);
/// ```
pub fn depth_of(value: &Value) -> usize {
    measure(value, usize::MAX)
}

/// Whether `value` has at most `max` levels. Stops at the first deeper value.
pub fn within_depth(value: &Value, max: usize) -> bool {
    measure(value, max) <= max
}

/// The depth of `value`, or any depth above `enough` once one is found.
fn measure(value: &Value, enough: usize) -> usize {
    // One iterator per open container: memory grows with the depth, not the width.
    let mut open = Vec::new();
    let mut deepest = 0;
    let mut next = Some(value);
    loop {
        match next {
            Some(value) => {
                if let Some(children) = Children::of(value) {
                    open.push(children);
                    deepest = deepest.max(open.len());
                    if deepest > enough {
                        return deepest;
                    }
                }
            }
            None => {
                open.pop();
            }
        }
        next = match open.last_mut() {
            None => return deepest,
            Some(children) => children.next(),
        };
    }
}

enum Children<'a> {
    Items(std::slice::Iter<'a, Value>),
    Members(map::Values<'a>),
}

impl<'a> Children<'a> {
    fn of(value: &'a Value) -> Option<Self> {
        match value {
            Value::Array(items) => Some(Self::Items(items.iter())),
            Value::Object(members) => Some(Self::Members(members.values())),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }

    fn next(&mut self) -> Option<&'a Value> {
        match self {
            Self::Items(items) => items.next(),
            Self::Members(members) => members.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn depths() {
        let cases = [
            (json!(null), 0),
            (json!("text"), 0),
            (json!([]), 1),
            (json!({}), 1),
            (json!([[], {"a": 1}, 2]), 2),
            (json!({"a": {"b": {"c": []}}, "z": [1]}), 4),
        ];
        for (value, depth) in cases {
            assert_eq!(depth_of(&value), depth, "{value}");
            assert!(within_depth(&value, depth), "{value}");
            assert!(depth == 0 || !within_depth(&value, depth - 1), "{value}");
        }
    }
}
