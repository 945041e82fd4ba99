//! Storage and comparison of JSON values.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use crate::error::{Code, SurfaceError};

/// The serialized value.
pub(crate) fn bytes_of(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a `Value` has only finite numbers and string keys")
}

/// The serialized object.
pub(crate) fn bytes_of_object(object: &Map<String, Value>) -> Vec<u8> {
    serde_json::to_vec(object).expect("a `Value` has only finite numbers and string keys")
}

/// Parses a stored value.
pub(crate) fn value_of(bytes: &[u8]) -> Result<Value, SurfaceError> {
    serde_json::from_slice(bytes)
        .map_err(|_| SurfaceError::new(Code::SurfaceUnavailable, "the stored value is unreadable"))
}

/// Whether two values are equal: `1` equals `1.0`, and member order does not matter. Integers are compared exactly; a
/// canonical text would round those above 2^53.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => same_number(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

fn same_number(one: &Number, other: &Number) -> bool {
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.as_f64() == other.as_f64(),
        _ => false,
    }
}

/// Orders two numbers by the same rules.
pub(crate) fn compare_numbers(one: &Number, other: &Number) -> Ordering {
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        // A fraction is small, and an integer of that size is exact as a double; above 2^100 there are only doubles.
        _ => one.as_f64().unwrap_or_default().total_cmp(&other.as_f64().unwrap_or_default()),
    }
}

/// The integer value of a number, also if written with zero decimals.
fn integer(number: &Number) -> Option<i128> {
    if let Some(integer) = number.as_i64() {
        return Some(integer.into());
    }
    if let Some(integer) = number.as_u64() {
        return Some(integer.into());
    }
    let float = number.as_f64()?;
    #[expect(clippy::cast_possible_truncation, reason = "below 2^100, where every whole double is an i128")]
    (float.fract() == 0.0 && float.abs() < 1e30).then_some(float as i128)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn orders_numbers() {
        let sorted = json!([
            -1e300,
            -9_007_199_254_740_993_i64,
            -1.5,
            -1,
            0,
            0.1,
            1,
            1.5,
            2,
            9_007_199_254_740_992_u64,
            9_007_199_254_740_993_u64,
            u64::MAX,
            1e25,
            1e300
        ]);
        let sorted: Vec<&Number> =
            sorted.as_array().unwrap().iter().map(|value| value.as_number().unwrap()).collect();
        for (place, one) in sorted.iter().enumerate() {
            for (other_place, other) in sorted.iter().enumerate() {
                assert_eq!(compare_numbers(one, other), place.cmp(&other_place), "{one} {other}");
            }
        }
        let zeros = [json!(0), json!(-0.0), json!(0.0)];
        assert!(zeros.iter().all(|zero| {
            compare_numbers(zero.as_number().unwrap(), zeros[0].as_number().unwrap()) == Ordering::Equal
        }));
    }

    #[test]
    fn compares_values() {
        let cases = [
            (json!(1), json!(1.0), true),
            (json!({"a": 1, "b": [2.0]}), json!({"b": [2], "a": 1.0}), true),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64), false),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0), false),
            (json!(-0.0), json!(0), true),
            (json!(0.1), json!(0.1), true),
            (json!("1"), json!(1), false),
            (json!(null), json!(false), false),
            (json!([1, 2]), json!([1]), false),
            (json!({"a": null}), json!({}), false),
            (json!(1e300), json!(1e300), true),
        ];
        for (one, other, expected) in cases {
            assert_eq!(same(&one, &other), expected, "{one} {other}");
            assert_eq!(same(&other, &one), expected, "{other} {one}");
        }
    }
}
