//! Conditions of edges, and trigger rules of nodes.

use serde_json::Value;

use super::expression::{self, Expression, Scope, lookup};
use super::pattern::Pattern;
use crate::meter::{Meter, OverBudget, steps};

/// The condition of an edge.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The value at a path equals a value.
    Equals(Path, Value),
    /// The value at a path does not equal a value.
    NotEquals(Path, Value),
    /// The value at a path contains a value: a list an element, a string a substring, an object a key.
    Contains(Path, Value),
    /// The string at a path matches a pattern.
    Regex(Path, Pattern),
    /// An expression is true.
    Expression(Expression),
}

/// A path into a value, for example `output.approved`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(pub Vec<String>);

impl Path {
    /// Parses a dotted path.
    pub fn parse(text: &str) -> Self {
        Self(text.split('.').map(str::to_owned).collect())
    }
}

impl Condition {
    /// The cost of evaluation, as a multiple of the size of the values that the condition reads.
    pub(crate) fn weight(&self) -> u64 {
        match self {
            Self::Equals(..) | Self::NotEquals(..) | Self::Contains(..) => 1,
            Self::Regex(_, pattern) => pattern.steps(0),
            Self::Expression(expression) => expression.weight(),
        }
    }

    /// Whether the condition is true.
    ///
    /// # Errors
    /// The step budget is exceeded.
    pub fn holds(&self, scope: &Scope<'_>, meter: &mut Meter) -> Result<bool, OverBudget> {
        match self {
            Self::Equals(path, right) => equals(path, right, scope, meter),
            Self::NotEquals(path, right) => equals(path, right, scope, meter).map(|equal| !equal),
            Self::Contains(path, right) => match lookup(&path.0, scope, meter)?.as_deref() {
                Some(Value::Array(items)) => {
                    for item in items {
                        if expression::equal(item, right, meter)? {
                            return Ok(true);
                        }
                    }
                    Ok(false)
                }
                Some(Value::String(text)) => {
                    let Some(part) = right.as_str() else { return Ok(false) };
                    meter.charge(steps(text.len()).saturating_add(steps(part.len())))?;
                    Ok(text.contains(part))
                }
                Some(Value::Object(members)) => {
                    Ok(right.as_str().is_some_and(|name| members.contains_key(name)))
                }
                Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => Ok(false),
            },
            Self::Regex(path, pattern) => match lookup(&path.0, scope, meter)?.as_deref() {
                Some(Value::String(text)) => matches(pattern, text, meter),
                Some(Value::Null) | None => Ok(false),
                Some(other) => {
                    meter.charge_value(other)?;
                    matches(pattern, &other.to_string(), meter)
                }
            },
            Self::Expression(expression) => expression.holds(scope, meter),
        }
    }
}

fn equals(path: &Path, right: &Value, scope: &Scope<'_>, meter: &mut Meter) -> Result<bool, OverBudget> {
    let left = lookup(&path.0, scope, meter)?;
    expression::equal(left.as_deref().unwrap_or(&Value::Null), right, meter)
}

fn matches(pattern: &Pattern, text: &str, meter: &mut Meter) -> Result<bool, OverBudget> {
    meter.charge(pattern.steps(steps(text.len())))?;
    Ok(pattern.is_match(text))
}

/// The rule for the incoming edges of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TriggerRule {
    /// Every predecessor completed.
    #[default]
    AllSuccess,
    /// At least one predecessor completed.
    AnySuccess,
    /// Every predecessor ended.
    AllComplete,
    /// Every predecessor ended, and none failed.
    NoneFailed,
    /// At least one predecessor failed.
    AnyFailed,
}

impl TriggerRule {
    /// Parses the spelling in a definition.
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
    fn conditions_are_evaluated() {
        let outputs = json!({"n": 1, "text": "abc", "list": ["x", 2], "object": {"k": null}});
        let empty = Map::new();
        let scope = Scope {
            source: Some(("failed", outputs.as_object().unwrap())),
            variables: &empty,
            inputs: &empty,
        };
        let path = Path::parse;
        let regex = |text| Pattern::new(text).unwrap();
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
            assert_eq!(condition.holds(&scope, &mut Meter::new(10_000)), Ok(expected), "{condition:?}");
        }
    }

    /// Finding H3: whether a condition is too expensive depends on the content, never on a clock.
    #[test]
    fn conditions_that_exceed_the_step_budget_fail() {
        let bits = "01".repeat(500);
        let outputs = json!({"bits": bits, "list": vec![7; 1000], "whole": {"a": vec![1; 1000]}});
        let empty = Map::new();
        let scope = Scope {
            source: Some(("completed", outputs.as_object().unwrap())),
            variables: &empty,
            inputs: &empty,
        };
        let many = ["output.list == output.list"; 10].join(" && ");
        let cases = [
            (Condition::Regex(Path::parse("output.bits"), Pattern::new("[01]*1[01]{20}2").unwrap()), 20_000),
            (Condition::Regex(Path::parse("output.list"), Pattern::new("[0-9]{9}").unwrap()), 15_000),
            (Condition::Expression(Expression::parse(&many).unwrap()), 80_000),
            (Condition::Equals(Path::parse("output.list"), json!(vec![7; 1000])), 8000),
            (Condition::Contains(Path::parse("output.list"), json!(8)), 8000),
            (Condition::Contains(Path::parse("output.bits"), json!("2")), 1000),
            (Condition::Expression(Expression::parse("output == 1").unwrap()), 8000),
        ];
        for (condition, least) in cases {
            let mut meter = Meter::new(u64::MAX - 1);
            condition.holds(&scope, &mut meter).unwrap();
            assert!((least..3 * least).contains(&meter.spent()), "{condition:?}: {}", meter.spent());
            let limit = meter.spent() - 1;
            let over = condition.holds(&scope, &mut Meter::new(limit)).unwrap_err();
            assert_eq!((over.limit, over.observed > limit), (limit, true), "{condition:?}");
        }
    }
}
