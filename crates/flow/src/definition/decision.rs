//! What a supervisor may decide: one of three forms, each closed, whoever decides it.

use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Value, json};

/// The most children that one decision may name.
const MAX_WORKERS: usize = 1000;

/// The schema of a decision.
pub(super) fn schema() -> Value {
    let confidence = json!({"type": "number", "minimum": 0, "maximum": 1});
    let text = json!({"type": "string", "minLength": 1});
    let criterion = super::config::closed(&["key", "met"], &json!({"key": text, "met": {"type": "boolean"}}));
    let form = |kind: &str, required: &[&str], mut properties: Value| {
        properties["kind"] = json!({"const": kind});
        super::config::closed(&[&["kind"], required].concat(), &properties)
    };
    let workers = json!({
        "type": "array", "minItems": 1, "maxItems": MAX_WORKERS,
        "items": {"type": "string", "minLength": 1, "maxLength": 256}
    });
    let ended = json!({
        "reason": text, "confidence": confidence, "successCriteria": {"type": "array", "items": criterion}
    });
    json!({"oneOf": [
        form("next-worker", &["nextWorkerIds"], json!({"nextWorkerIds": workers, "confidence": confidence})),
        form("ask-user", &["prompt"], json!({"prompt": text})),
        form("terminate", &[], ended),
    ]})
}

/// Whether a value is a decision.
pub(crate) fn is_decision(value: &Value) -> bool {
    static VALIDATOR: OnceLock<Validator> = OnceLock::new();
    let validator = VALIDATOR
        .get_or_init(|| jsonschema::options().build(&schema()).expect("the schema above is a schema"));
    validator.is_valid(value)
}
