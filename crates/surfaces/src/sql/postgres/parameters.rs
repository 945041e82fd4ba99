//! Parameters: sent as text, which the server parses as the inferred types.

use std::error::Error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use serde_json::{Number, Value};
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};

/// A value that does not match its placeholder's type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidParameter(String);

/// A value of `params`.
#[derive(Debug)]
pub(super) struct Parameter<'a>(pub(super) &'a Value);

impl ToSql for Parameter<'_> {
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        if self.0.is_null() {
            return Ok(IsNull::Yes);
        }
        out.extend_from_slice(text_of(self.0, of)?.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// The text form of a value.
fn text_of(value: &Value, of: &Type) -> Result<String, InvalidParameter> {
    match of.kind() {
        Kind::Domain(of) => return text_of(value, of),
        Kind::Array(element) => return list_of(value, element),
        _ => {}
    }
    match (of, value) {
        (&Type::JSON | &Type::JSONB, value) => Ok(value.to_string()),
        (&Type::BYTEA, Value::String(text)) => bytes_of(text),
        (&Type::INT2 | &Type::INT4 | &Type::INT8, Value::Number(number)) => Ok(whole(number)),
        (_, Value::String(text)) => Ok(text.clone()),
        (_, Value::Number(number)) => Ok(number.to_string()),
        (_, Value::Bool(flag)) => Ok(flag.to_string()),
        (of, Value::Null | Value::Array(_) | Value::Object(_)) => Err(InvalidParameter(format!(
            "a list or object was given for type {of}; cast the placeholder to jsonb or to an array"
        ))),
    }
}

/// `2.0` becomes 2.
fn whole(number: &Number) -> String {
    let text = number.to_string();
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

fn bytes_of(text: &str) -> Result<String, InvalidParameter> {
    let bytes = STANDARD.decode(text).map_err(|_| InvalidParameter("bytes must be base64".to_owned()))?;
    Ok(format!("\\x{}", canon::encoding::hex(&bytes)))
}

/// A list as a PostgreSQL array literal: elements in quotes, null without.
fn list_of(value: &Value, element: &Type) -> Result<String, InvalidParameter> {
    let Value::Array(items) = value else {
        return Err(InvalidParameter(format!("a list of {element} is required")));
    };
    let nests = !matches!(*element, Type::JSON | Type::JSONB);
    let mut text = String::from("{");
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        match item {
            Value::Null => text.push_str("NULL"),
            Value::Array(_) if nests => text.push_str(&list_of(item, element)?),
            item => {
                text.push('"');
                for letter in text_of(item, element)?.chars() {
                    if matches!(letter, '"' | '\\') {
                        text.push('\\');
                    }
                    text.push(letter);
                }
                text.push('"');
            }
        }
    }
    text.push('}');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn encodes_values_as_text() {
        let table = [
            (json!(7), Type::INT4, Some("7")),
            (json!(2.0), Type::INT8, Some("2")),
            (json!(2.5), Type::FLOAT8, Some("2.5")),
            (json!(12), Type::TEXT, Some("12")),
            (json!(true), Type::BOOL, Some("true")),
            (json!("a'b\\"), Type::TEXT, Some("a'b\\")),
            (json!({"a": [1]}), Type::JSONB, Some("{\"a\":[1]}")),
            (json!("text"), Type::JSON, Some("\"text\"")),
            (json!("AAH/"), Type::BYTEA, Some("\\x0001ff")),
            (json!("not base64"), Type::BYTEA, None),
            (json!(["a\"b", null, "c\\,{}"]), Type::TEXT_ARRAY, Some("{\"a\\\"b\",NULL,\"c\\\\,{}\"}")),
            (json!([[1, 2], [3, 4]]), Type::INT4_ARRAY, Some("{{\"1\",\"2\"},{\"3\",\"4\"}}")),
            (json!([[1], {"a": 1}]), Type::JSONB_ARRAY, Some("{\"[1]\",\"{\\\"a\\\":1}\"}")),
            (json!([1]), Type::TEXT, None),
            (json!(1), Type::TEXT_ARRAY, None),
        ];
        for (value, of, text) in table {
            assert_eq!(text_of(&value, &of).ok().as_deref(), text, "{value} as {of}");
        }
    }
}
