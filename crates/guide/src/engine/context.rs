//! The context of a run. It is for inputs, not for documents.

use serde_json::{Map, Value};

use super::EngineError;
use crate::record::budgets::{CONTEXT_BYTES, CONTEXT_DEPTH};

/// Keys with a special meaning in other languages.
const RESERVED: [&str; 3] = ["__proto__", "constructor", "prototype"];

/// Validates a context that a caller sends.
///
/// # Errors
/// The context is too large, nested too deeply or has a reserved key. Nothing is truncated silently.
pub fn check(context: &Map<String, Value>) -> Result<(), EngineError> {
    if let Some(key) = context.keys().find(|key| RESERVED.contains(&key.as_str())) {
        return Err(EngineError::ReservedContextKey { key: key.clone() });
    }
    if !context.values().all(|value| canon::json::within_depth(value, CONTEXT_DEPTH - 1)) {
        return Err(EngineError::ContextTooDeep { maximum: CONTEXT_DEPTH });
    }
    let text = canon::canonical::to_string(context)
        .map_err(|cause| EngineError::ContextNotCanonical { reason: cause.to_string() })?;
    if text.len() > CONTEXT_BYTES {
        return Err(EngineError::ContextTooLarge { measured: text.len(), maximum: CONTEXT_BYTES });
    }
    Ok(())
}

/// The context after a change, key by key: `null` removes a key, any other value replaces it.
///
/// # Errors
/// The errors of [`check`], for the change and for the result.
pub fn merge(
    context: &Map<String, Value>,
    delta: &Map<String, Value>,
) -> Result<Map<String, Value>, EngineError> {
    check(delta)?;
    let mut merged = context.clone();
    for (key, value) in delta {
        if value.is_null() {
            merged.remove(key);
        } else {
            merged.insert(key.clone(), value.clone());
        }
    }
    check(&merged)?;
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(members) => members,
            _ => unreachable!("an object literal"),
        }
    }

    #[test]
    fn a_change_replaces_keys_and_null_removes_them() {
        let merged = merge(
            &object(json!({"a": 1, "b": {"x": 1}, "c": 3})),
            &object(json!({"b": {"y": 2}, "c": null})),
        );
        assert_eq!(merged, Ok(object(json!({"a": 1, "b": {"y": 2}}))));
    }

    #[test]
    fn invalid_contexts_are_rejected() {
        let mut deep = json!(1);
        for _ in 0..CONTEXT_DEPTH {
            deep = json!([deep]);
        }
        let cases = [
            (json!({"__proto__": 1}), "reserved"),
            (json!({"a": deep}), "the limit is 64 levels"),
            (json!({"a": "x".repeat(CONTEXT_BYTES)}), "262152 bytes"),
            (json!({"a": 9_007_199_254_740_993_u64}), "cannot be stored exactly"),
        ];
        for (context, expected) in cases {
            let error = check(&object(context)).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
