//! Checks whether providers can enforce a schema in strict mode.

use serde_json::Value;

/// Whether every object of the schema is closed and requires all its properties, as strict mode demands.
pub(super) fn is_strict(schema: &Value) -> bool {
    let mut open = vec![schema];
    let mut is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    while let Some(value) = open.pop() {
        let Value::Object(members) = value else {
            if let Value::Array(items) = value {
                open.extend(items);
            }
            continue;
        };
        for keyword in ["oneOf", "allOf", "not", "prefixItems", "propertyNames", "patternProperties"] {
            is_object &= !members.contains_key(keyword);
        }
        if let Some(Value::Object(properties)) = members.get("properties") {
            let required: Vec<&str> = members
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            is_object &= members.get("additionalProperties") == Some(&Value::Bool(false));
            is_object &= properties.keys().all(|name| required.contains(&name.as_str()));
        }
        open.extend(members.values());
    }
    is_object
}
