//! When an edge counts, and when a node begins.

use serde_json::Value;

use super::expression::{self, Expression, Scope, is_true, lookup};

/// When an edge counts.
#[derive(Clone, Debug)]
pub enum Condition {
    /// The value at a path equals one.
    Equals(Path, Value),
    /// The value at a path does not equal one.
    NotEquals(Path, Value),
    /// The value at a path contains one: a list an element, a text a part, an object a key.
    Contains(Path, Value),
    /// The text at a path matches.
    Regex(Path, regex::Regex),
    /// An expression is true.
    Expression(Expression),
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Equals(a, b), Self::Equals(c, d))
            | (Self::NotEquals(a, b), Self::NotEquals(c, d))
            | (Self::Contains(a, b), Self::Contains(c, d)) => a == c && b == d,
            (Self::Regex(a, b), Self::Regex(c, d)) => a == c && b.as_str() == d.as_str(),
            (Self::Expression(a), Self::Expression(b)) => a == b,
            _ => false,
        }
    }
}

/// A path into a value, `output.approved`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(pub Vec<String>);

impl Path {
    /// The path of that spelling.
    pub fn parse(text: &str) -> Self {
        Self(text.split('.').map(str::to_owned).collect())
    }
}

impl Condition {
    /// Whether the edge counts.
    pub fn holds(&self, scope: &Scope<'_>) -> bool {
        let at = |path: &Path| lookup(&path.0, scope);
        match self {
            Self::Equals(path, right) => {
                expression::equal(at(path).as_deref().unwrap_or(&Value::Null), right)
            }
            Self::NotEquals(path, right) => {
                !expression::equal(at(path).as_deref().unwrap_or(&Value::Null), right)
            }
            Self::Contains(path, right) => match at(path).as_deref() {
                Some(Value::Array(items)) => items.iter().any(|item| expression::equal(item, right)),
                Some(Value::String(text)) => right.as_str().is_some_and(|part| text.contains(part)),
                Some(Value::Object(members)) => right.as_str().is_some_and(|name| members.contains_key(name)),
                _ => false,
            },
            Self::Regex(path, pattern) => match at(path).as_deref() {
                Some(Value::String(text)) => pattern.is_match(text),
                Some(Value::Null) | None => false,
                Some(other) => pattern.is_match(&other.to_string()),
            },
            Self::Expression(expression) => is_true(&expression.evaluate(scope)),
        }
    }
}

/// What has to be true of everything that comes in at a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TriggerRule {
    /// Every node before it completed.
    #[default]
    AllSuccess,
    /// One of them completed.
    AnySuccess,
    /// Every one of them ended.
    AllComplete,
    /// Every one of them ended, and none failed.
    NoneFailed,
    /// One of them failed.
    AnyFailed,
}

impl TriggerRule {
    /// The rule of that spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "all_success" => Self::AllSuccess,
            "any_success" => Self::AnySuccess,
            "all_complete" => Self::AllComplete,
            "none_failed" => Self::NoneFailed,
            "any_failed" => Self::AnyFailed,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn conditions_and_whether_they_hold() {
        let outputs = json!({"n": 1, "text": "abc", "list": ["x", 2], "object": {"k": null}});
        let empty = Map::new();
        let scope = Scope {
            source: Some(("failed", outputs.as_object().unwrap())),
            variables: &empty,
            inputs: &empty,
        };
        let path = Path::parse;
        let regex = |text| regex::Regex::new(text).unwrap();
        let cases = [
            (Condition::Equals(path("output.n"), json!(1.0)), true),
            (Condition::Equals(path("status"), json!("completed")), false),
            (Condition::Equals(path("output.none"), json!(null)), true),
            (Condition::NotEquals(path("output.n"), json!(2)), true),
            (Condition::Contains(path("output.list"), json!(2)), true),
            (Condition::Contains(path("output.text"), json!("bc")), true),
            (Condition::Contains(path("output.object"), json!("k")), true),
            (Condition::Contains(path("output.n"), json!(1)), false),
            (Condition::Regex(path("output.text"), regex("^a.c$")), true),
            (Condition::Regex(path("output.n"), regex("^1$")), true),
            (Condition::Regex(path("output.none"), regex(".*")), false),
            (Condition::Expression(Expression::parse("status == 'failed'").unwrap()), true),
        ];
        for (condition, expected) in cases {
            assert_eq!(condition.holds(&scope), expected, "{condition:?}");
        }
    }
}
