//! JSON Schemas derived from configuration types, and helpers for parsing their members.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Number, Value};

/// The schema of a configuration type, without references and annotations.
pub(in crate::definition) fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    if let Value::Object(members) = &mut schema {
        members.entry("properties").or_insert_with(|| Map::new().into());
    }
    schema
}

/// Removes annotations, and `null` as a type: optional members are omitted, not set to `null`.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for annotation in ["title", "description", "format", "default", "writeOnly"] {
                members.remove(annotation);
            }
            if members.get("additionalProperties") == Some(&Value::Bool(true)) {
                members.remove("additionalProperties");
            }
            remove_null(members);
            for (keyword, value) in members {
                match value {
                    // The members of a configuration may have the names of keywords.
                    Value::Object(properties) if keyword == "properties" => {
                        for property in properties.values_mut() {
                            simplify(property);
                            if property.as_object().is_some_and(Map::is_empty) {
                                *property = true.into();
                            }
                        }
                    }
                    value => simplify(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn remove_null(members: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(words)) = members.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if let Some(Value::Array(cases)) = members.get_mut("anyOf") {
        cases.retain(|case| case.get("type").is_none_or(|name| name != "null"));
        if let [Value::Object(only)] = cases.as_slice() {
            let only = only.clone();
            members.remove("anyOf");
            members.extend(only);
        }
    }
}

/// Parses a member that may be any value. `null` counts as present.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Parses an integer like JSON Schema: `5.0` is the integer 5, and has the same canonical form.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = Number::deserialize(deserializer)?;
    whole_number(&number).map(Some).ok_or_else(|| de::Error::custom("expected a non-negative integer"))
}

/// The value of a number that is a non-negative integer. Values above `u64::MAX` saturate.
pub(crate) fn whole_number(number: &Number) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number is whole and not negative, and the cast saturates"
    )]
    let written_as_float = || {
        number.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0).map(|number| number as u64)
    };
    number.as_u64().or_else(written_as_float)
}
