//! Evaluates expressions.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::{Comparison, Term};
use crate::meter::{Meter, OverBudget, steps};

/// The values that the paths of an expression refer to.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The status and outputs of the node that an edge starts at.
    pub source: Option<(&'a str, &'a Map<String, Value>)>,
    /// The variables of the run.
    pub variables: &'a Map<String, Value>,
    /// The inputs of the run.
    pub inputs: &'a Map<String, Value>,
}

/// The value at a path.
///
/// `status` and `output…` refer to the source node, `variables…` and `inputs…` to the run. Any other name is an output of the source, or
/// else a variable. Many nodes have a single output called `output`; therefore `output.x` is also searched inside that output.
///
/// # Errors
/// The step budget is exceeded.
pub fn lookup<'a>(
    path: &[String],
    scope: &Scope<'a>,
    meter: &mut Meter,
) -> Result<Option<Cow<'a, Value>>, OverBudget> {
    meter.charge(1 + steps(path.len()))?;
    let Some((first, rest)) = path.split_first() else { return Ok(None) };
    if let Some((status, outputs)) = scope.source {
        match first.as_str() {
            "status" if rest.is_empty() => return Ok(Some(Cow::Owned(Value::String(status.to_owned())))),
            "output" | "outputs" => {
                if rest.is_empty() {
                    if let Some(whole) = outputs.get(first) {
                        return Ok(Some(Cow::Borrowed(whole)));
                    }
                    // The state has no value that contains all outputs, so they are copied.
                    meter.charge_members(outputs)?;
                    return Ok(Some(Cow::Owned(Value::Object(outputs.clone()))));
                }
                let inside = || outputs.get(first).and_then(|value| descend(value, rest));
                return Ok(member(outputs, rest).or_else(inside).map(Cow::Borrowed));
            }
            _ => {
                if let Some(found) = member(outputs, path) {
                    return Ok(Some(Cow::Borrowed(found)));
                }
            }
        }
    }
    let found = match first.as_str() {
        "variables" => member(scope.variables, rest),
        "inputs" => member(scope.inputs, rest),
        _ => member(scope.variables, path),
    };
    Ok(found.map(Cow::Borrowed))
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

/// Whether a value counts as true: every value except `false`, `null`, `0`, the empty string and NaN.
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// The value of a term. Values of the run are borrowed, not copied.
pub(super) fn evaluate<'a>(
    term: &'a Term,
    scope: &Scope<'a>,
    meter: &mut Meter,
) -> Result<Cow<'a, Value>, OverBudget> {
    meter.charge(1)?;
    let result = match term {
        Term::Value(value) => return Ok(Cow::Borrowed(value)),
        Term::Path(path) => return Ok(lookup(path, scope, meter)?.unwrap_or(Cow::Owned(Value::Null))),
        Term::Not(inner) => !is_true(&*evaluate(inner, scope, meter)?),
        Term::All(terms) => {
            let mut all = true;
            for term in terms {
                all = is_true(&*evaluate(term, scope, meter)?);
                if !all {
                    break;
                }
            }
            all
        }
        Term::Any(terms) => {
            let mut any = false;
            for term in terms {
                any = is_true(&*evaluate(term, scope, meter)?);
                if any {
                    break;
                }
            }
            any
        }
        Term::Compare(left, comparison, right) => {
            let (left, right) = (evaluate(left, scope, meter)?, evaluate(right, scope, meter)?);
            compare(&left, *comparison, &right, meter)?
        }
    };
    Ok(Cow::Owned(Value::Bool(result)))
}

fn compare(
    left: &Value,
    comparison: Comparison,
    right: &Value,
    meter: &mut Meter,
) -> Result<bool, OverBudget> {
    let mut order = || order(left, right, meter);
    Ok(match comparison {
        Comparison::Equal => equal(left, right, meter)?,
        Comparison::NotEqual => !equal(left, right, meter)?,
        Comparison::Less => order()? == Some(Ordering::Less),
        Comparison::LessOrEqual => matches!(order()?, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Greater => order()? == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => matches!(order()?, Some(Ordering::Greater | Ordering::Equal)),
    })
}

/// JSON equality, where `1` equals `1.0`.
pub(in crate::definition) fn equal(
    left: &Value,
    right: &Value,
    meter: &mut Meter,
) -> Result<bool, OverBudget> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            meter.charge(8)?;
            Ok(compare_numbers(left, right) == Some(Ordering::Equal))
        }
        _ => meter.equal(left, right),
    }
}

/// Compares integers exactly. As floating-point numbers, different large integers can be equal.
fn compare_numbers(left: &Number, right: &Number) -> Option<Ordering> {
    let integer =
        |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

fn order(left: &Value, right: &Value, meter: &mut Meter) -> Result<Option<Ordering>, OverBudget> {
    Ok(match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => {
            meter.charge(steps(left.len().min(right.len())))?;
            Some(left.cmp(right))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Expression, ExpressionError};
    use super::*;

    #[test]
    fn expressions_are_evaluated() {
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
            let value = Expression::parse(text).unwrap().evaluate(&scope, &mut Meter::new(10_000));
            assert_eq!(value, Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_expressions_are_refused_with_a_position() {
        let expected = |expected, at| ExpressionError::Expected { expected, at };
        let cases = [
            ("", expected("a value", 0)),
            ("a ==", expected("a value", 4)),
            ("(a", expected("`)`", 2)),
            ("a b", expected("the end", 2)),
            ("'a", expected("a closing quote", 1)),
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
