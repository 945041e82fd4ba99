//! The decisions of a supervisor. Each of the three kinds has a closed schema.

use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::wire_enum::wire_enum;

wire_enum! {
    pub enum DecisionKind {
        /// Start these workers.
        NextWorker => "next-worker",
        /// Ask a person.
        AskUser => "ask-user",
        /// End the orchestration.
        Terminate => "terminate",
    }
}

impl DecisionKind {
    /// The kind of a recorded decision. Decisions are validated before they are recorded, so an unknown kind can only be in a log that another
    /// program wrote. It then counts as `terminate`.
    pub(crate) fn recorded(decision: &Value) -> Self {
        let kind = decision.get("kind").and_then(Value::as_str);
        Self::ALL.iter().copied().find(|known| Some(known.as_str()) == kind).unwrap_or(Self::Terminate)
    }
}

/// The maximum number of workers in one decision.
const MAX_WORKERS: usize = 1000;

pub(super) fn schema() -> Value {
    let confidence = json!({"type": "number", "minimum": 0, "maximum": 1});
    let text = json!({"type": "string", "minLength": 1});
    let criterion = super::config::closed(&["key", "met"], &json!({"key": text, "met": {"type": "boolean"}}));
    let object = |kind: DecisionKind, required: &[&str], mut properties: Value| {
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
    let schema_of = |kind: DecisionKind| match kind {
        DecisionKind::NextWorker => {
            object(kind, &["nextWorkerIds"], json!({"nextWorkerIds": workers, "confidence": confidence}))
        }
        DecisionKind::AskUser => object(kind, &["prompt"], json!({"prompt": text})),
        DecisionKind::Terminate => object(kind, &[], ended.clone()),
    };
    json!({"oneOf": DecisionKind::ALL.iter().copied().map(schema_of).collect::<Vec<_>>()})
}

/// Whether a value is a valid decision.
pub(crate) fn is_decision(value: &Value) -> bool {
    static VALIDATOR: OnceLock<Validator> = OnceLock::new();
    let validator =
        VALIDATOR.get_or_init(|| jsonschema::options().build(&schema()).expect("the schema above is valid"));
    validator.is_valid(value)
}
