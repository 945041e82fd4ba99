//! From an expression to its value.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::{Comparison, Term};

/// What the paths of an expression lead into.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The node that an edge comes from: how it stands, and what it gave.
    pub source: Option<(&'a str, &'a Map<String, Value>)>,
    /// The variables of the run.
    pub variables: &'a Map<String, Value>,
    /// What the run was given.
    pub inputs: &'a Map<String, Value>,
}

/// The value at a path.
///
/// `status` and `output…` are those of the source, `variables…` and `inputs…` those of the run; any other name is an
/// output of the source, or else a variable. As a node's only output is often called `output`, `output.x` is also
/// found inside of that one.
pub fn lookup<'a>(path: &[String], scope: &Scope<'a>) -> Option<Cow<'a, Value>> {
    let (first, rest) = path.split_first()?;
    if let Some((status, outputs)) = scope.source {
        match first.as_str() {
            "status" if rest.is_empty() => return Some(Cow::Owned(Value::String(status.to_owned()))),
            "output" | "outputs" => {
                if rest.is_empty() {
                    let whole = outputs.get(first).map(Cow::Borrowed);
                    return Some(whole.unwrap_or_else(|| Cow::Owned(Value::Object(outputs.clone()))));
                }
                let inside = || outputs.get(first).and_then(|value| descend(value, rest));
                return member(outputs, rest).or_else(inside).map(Cow::Borrowed);
            }
            _ => {
                if let Some(found) = member(outputs, path) {
                    return Some(Cow::Borrowed(found));
                }
            }
        }
    }
    match first.as_str() {
        "variables" => member(scope.variables, rest),
        "inputs" => member(scope.inputs, rest),
        _ => member(scope.variables, path),
    }
    .map(Cow::Borrowed)
}

fn member<'a>(object: &'a Map<String, Value>, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    descend(object.get(first)?, rest)
}

fn descend<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| match value {
        Value::Object(members) => members.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Whether a value counts as true: everything but `false`, `null`, `0`, the empty text and NaN.
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

pub(super) fn evaluate(term: &Term, scope: &Scope<'_>) -> Value {
    match term {
        Term::Value(value) => value.clone(),
        Term::Path(path) => lookup(path, scope).map_or(Value::Null, Cow::into_owned),
        Term::Not(inner) => Value::Bool(!is_true(&evaluate(inner, scope))),
        Term::All(terms) => Value::Bool(terms.iter().all(|term| is_true(&evaluate(term, scope)))),
        Term::Any(terms) => Value::Bool(terms.iter().any(|term| is_true(&evaluate(term, scope)))),
        Term::Compare(left, comparison, right) => {
            Value::Bool(compare(&evaluate(left, scope), *comparison, &evaluate(right, scope)))
        }
    }
}

fn compare(left: &Value, comparison: Comparison, right: &Value) -> bool {
    let order = || order(left, right);
    match comparison {
        Comparison::Equal => equal(left, right),
        Comparison::NotEqual => !equal(left, right),
        Comparison::Less => order() == Some(Ordering::Less),
        Comparison::LessOrEqual => matches!(order(), Some(Ordering::Less | Ordering::Equal)),
        Comparison::Greater => order() == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => matches!(order(), Some(Ordering::Greater | Ordering::Equal)),
    }
}

/// Equal as JSON, where `1` and `1.0` are one number.
pub(in crate::definition) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => numbers(left, right) == Some(Ordering::Equal),
        _ => left == right,
    }
}

/// Integers are compared as such: as doubles, many large ones are the same.
fn numbers(left: &Number, right: &Number) -> Option<Ordering> {
    let integer =
        |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => numbers(left, right),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Expression, ExpressionError};
    use super::*;

    #[test]
    fn expressions_and_their_values() {
        let outputs = json!({"approved": true, "score": 0.7, "list": [1, {"a": "x"}], "output": {"deep": 3}});
        let variables = json!({"name": "Ada", "count": 2, "approved": false});
        let inputs = json!({"flag": ""});
        let scope = Scope {
            source: Some(("completed", outputs.as_object().unwrap())),
            variables: variables.as_object().unwrap(),
            inputs: inputs.as_object().unwrap(),
        };
        let cases = [
            ("output.approved", json!(true)),
            ("approved", json!(true)),
            ("variables.approved", json!(false)),
            ("output.deep", json!(3)),
            ("status == 'completed'", json!(true)),
            ("output.score >= 0.7 && count < 3", json!(true)),
            ("output.score > 0.7 || !(name != \"Ada\")", json!(true)),
            ("list[1].a === 'x'", json!(true)),
            ("list[9].a", json!(null)),
            ("inputs.flag", json!("")),
            ("!inputs.flag", json!(true)),
            ("${ count }", json!(2)),
            ("{{name}}", json!("Ada")),
            ("'it\\'s'", json!("it's")),
            ("1 == 1.0", json!(true)),
            ("9007199254740993 == 9007199254740992", json!(false)),
            ("9007199254740993 > 9007199254740992", json!(true)),
            ("18446744073709551615 > -1", json!(true)),
            ("name > 1", json!(false)),
            ("-1.5e1", json!(-15.0)),
        ];
        for (text, expected) in cases {
            assert_eq!(Expression::parse(text).unwrap().evaluate(&scope), expected, "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_expressions() {
        let expected = |expected, at| ExpressionError::Expected { expected, at };
        let cases = [
            ("", expected("a value", 0)),
            ("a ==", expected("a value", 4)),
            ("(a", expected("`)`", 2)),
            ("a b", expected("the end", 2)),
            ("'a", expected("the end of the quoted text", 1)),
            ("a[x]", expected("digits and `]`", 2)),
            ("a.", expected("a name", 2)),
            ("1-2", expected("a number", 0)),
            (&"(".repeat(100), ExpressionError::TooDeep),
            (&"!".repeat(100), ExpressionError::TooDeep),
            (&"a".repeat(5000), ExpressionError::TooLong(5000)),
        ];
        for (text, error) in cases {
            assert_eq!(Expression::parse(text), Err(error), "{text}");
        }
    }
}
