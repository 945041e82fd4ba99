//! Generates a small document for a schema, without search.

use serde_json::{Map, Value, json};

/// The maximum depth of a generated document.
const MAX_DEPTH: usize = 16;
/// The maximum number of items in a generated list.
const MAX_ITEMS: u64 = 16;

/// A document for a schema. It may be invalid: only types, constants and counts are considered.
pub(super) fn sample(schema: &Value) -> Value {
    value(schema, schema, 0)
}

fn value(schema: &Value, root: &Value, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return Value::Null;
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let target = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or(Value::Null, |target| value(target, root, depth + 1));
    }
    for name in ["const", "default"] {
        if let Some(given) = schema.get(name) {
            return given.clone();
        }
    }
    if let Some(first) = schema.get("enum").and_then(|values| values.get(0)) {
        return first.clone();
    }
    for name in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema.get(name).and_then(|branches| branches.get(0)) {
            return value(first, root, depth + 1);
        }
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        Some(kind) => kind.as_str(),
        None if schema.get("properties").is_some() || schema.get("required").is_some() => Some("object"),
        None => None,
    };
    let least = |name: &str| schema.get(name).and_then(Value::as_u64).unwrap_or(0);
    match kind {
        Some("object") => object(schema, root, depth),
        Some("array") => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            (0..least("minItems").min(MAX_ITEMS)).map(|_| value(items, root, depth + 1)).collect()
        }
        Some("string") => {
            let length = usize::try_from(least("minLength").clamp(4, 1024)).unwrap_or(4);
            let longest =
                schema.get("maxLength").and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok());
            "mock".chars().cycle().take(length.min(longest.unwrap_or(length))).collect::<String>().into()
        }
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(0)),
        Some("boolean") => true.into(),
        _ => Value::Null,
    }
}

/// The required members.
fn object(schema: &Value, root: &Value, depth: usize) -> Value {
    let required =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let member = |name: &str| {
        let part =
            schema.get("properties").and_then(|properties| properties.get(name)).unwrap_or(&Value::Null);
        (name.to_owned(), value(part, root, depth + 1))
    };
    Value::Object(required.map(member).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;

    #[test]
    fn samples_are_valid() {
        let schemas = [
            json!({"type": "object", "required": ["valid"], "properties": {"valid": {"type": "boolean"}}}),
            json!({"type": "object", "required": ["a", "b"], "properties": {
                "a": {"type": "array", "minItems": 2, "items": {"enum": ["x"]}}, "b": {"$ref": "#/$defs/n"}},
                "$defs": {"n": {"type": "integer", "minimum": 3}}}),
            json!({"type": "string", "minLength": 9}),
            json!({"type": "string", "maxLength": 2}),
            json!({"anyOf": [{"const": 1}, {"const": 2}]}),
        ];
        for schema in schemas {
            let document = sample(&schema);
            assert!(Schema::compile(&schema).unwrap().is_valid(&document), "{schema} {document}");
        }
    }
}
