//! Values between JSON and SQLite.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rusqlite::Statement;
use rusqlite::types::{Value as Stored, ValueRef};
use serde_json::{Number, Value};

use crate::args::{refuse, shown};
use crate::error::SurfaceError;

/// Binds values. `?` and `?1` count as in SQLite; `$1` is also the first value, as in PostgreSQL.
pub(super) fn bind(
    statement: &mut Statement<'_>,
    params: &[Value],
    value_bytes: usize,
) -> Result<(), SurfaceError> {
    let places = statement.parameter_count();
    let mut used = vec![false; params.len()];
    for place in 1..=places {
        let index = match statement.parameter_name(place) {
            None => place,
            Some(name) => match name[1..].parse::<usize>() {
                Ok(index) if index > 0 && !name.starts_with([':', '@']) => index,
                _ => {
                    let shown = shown(name);
                    return Err(refuse(format!(
                        "the named placeholder `{shown}` is not supported; use `?`, `?1` or `$1`"
                    )));
                }
            },
        };
        let Some(value) = params.get(index - 1) else {
            return Err(refuse(format!("placeholder {index} has no value; `params` has {}", params.len())));
        };
        used[index - 1] = true;
        let bound = statement.raw_bind_parameter(place, stored(value, index)?);
        bound.map_err(|_| refuse(format!("the value of placeholder {index} exceeds {value_bytes} bytes")))?;
    }
    match used.iter().position(|used| !used) {
        None => Ok(()),
        Some(spare) => Err(refuse(format!("value {} of `params` has no placeholder", spare + 1))),
    }
}

fn stored(value: &Value, index: usize) -> Result<Stored, SurfaceError> {
    Ok(match value {
        Value::Null => Stored::Null,
        Value::Bool(flag) => Stored::Integer(i64::from(*flag)),
        Value::String(text) => Stored::Text(text.clone()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Stored::Integer(integer),
            (None, Some(real)) if !number.is_u64() => Stored::Real(real),
            _ => {
                return Err(refuse(format!(
                    "the value of placeholder {index} exceeds a signed 64-bit integer"
                )));
            }
        },
        // As JSON text, for the JSON functions.
        Value::Array(_) | Value::Object(_) => Stored::Text(value.to_string()),
    })
}

/// The approximate size of a value.
pub(super) const fn size_of(value: &ValueRef<'_>) -> usize {
    match value {
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 8,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
    }
}

/// Converts a value to JSON. Bytes become base64, and a real without a JSON form becomes its name.
pub(super) fn to_json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(integer) => integer.into(),
        ValueRef::Real(real) => match Number::from_f64(real) {
            Some(number) => Value::Number(number),
            None if real.is_nan() => "NaN".into(),
            None => if real > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        },
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => STANDARD.encode(bytes).into(),
    }
}
