//! Evaluates conditions in which some variables are unknown.

use serde_json::{Map, Value};

use super::{EvaluationError, MAX_COMPILED_DEPTH, holds, malformed};
use crate::workflow::compiled::Condition;

/// Whether a condition holds; `None` if that depends on a variable that is `unknown`.
///
/// A known part can decide alone: an `and` with a part that does not hold does not hold, whatever the value
/// of the unknown variable.
///
/// # Errors
/// The condition is not valid.
pub(crate) fn evaluate_knowing(
    condition: &Condition,
    context: &Map<String, Value>,
    unknown: &dyn Fn(&str) -> bool,
) -> Result<Option<bool>, EvaluationError> {
    decide(&condition.0, context, unknown, 1)
}

fn decide(
    condition: &Value,
    context: &Map<String, Value>,
    unknown: &dyn Fn(&str) -> bool,
    depth: usize,
) -> Result<Option<bool>, EvaluationError> {
    if depth > MAX_COMPILED_DEPTH {
        return Err(malformed(&format!("it is nested deeper than {MAX_COMPILED_DEPTH} levels")));
    }
    let members = condition.as_object();
    let member = |name: &str| members.and_then(|members| members.get(name));
    if member("var").and_then(Value::as_str).is_some_and(unknown) {
        return Ok(None);
    }
    for (join, until) in [("and", false), ("or", true)] {
        let Some(parts) = member(join).and_then(Value::as_array) else { continue };
        let mut open = false;
        for part in parts {
            match decide(part, context, unknown, depth + 1)? {
                Some(decided) if decided == until => return Ok(Some(until)),
                Some(_) => {}
                None => open = true,
            }
        }
        return Ok(if open { None } else { Some(!until) });
    }
    if let Some(part) = member("not") {
        return Ok(decide(part, context, unknown, depth + 1)?.map(|held| !held));
    }
    holds(condition, context, depth).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_conditions_that_depend_on_an_unknown_variable_are_undecided() {
        let context = json!({"size": "small", "count": 3});
        let context = context.as_object().unwrap();
        let size = |value: &str| json!({"var": "size", "equals": value});
        let open = json!({"var": "decision", "equals": "fix"});
        for (condition, expected) in [
            (json!({}), Some(true)),
            (size("small"), Some(true)),
            (size("large"), Some(false)),
            (open.clone(), None),
            (json!({"not": open}), None),
            (json!({"and": [size("large"), open]}), Some(false)),
            (json!({"and": [open, size("large")]}), Some(false)),
            (json!({"and": [size("small"), open]}), None),
            (json!({"or": [open, size("small")]}), Some(true)),
            (json!({"or": [open, size("large")]}), None),
            (json!({"not": {"and": [open, size("large")]}}), Some(true)),
            (json!({"var": "count", "gt": 2}), Some(true)),
        ] {
            let decided =
                evaluate_knowing(&Condition(condition.clone()), context, &|key| key == "decision").unwrap();
            assert_eq!(decided, expected, "{condition}");
        }
    }
}
