//! The schemas that the protocol publishes, where they are at hand.

use std::collections::BTreeMap;

use jsonschema::{Registry, Validator};
use serde_json::{Value, json};

use super::service::{protocol_file, protocol_folder};

/// What answers have to be, by the name of the schema.
pub(crate) struct Published {
    answers: BTreeMap<&'static str, Validator>,
    /// What payloads of events have to be, by the type of event.
    payloads: BTreeMap<String, Validator>,
}

/// The schemas of what is served.
const NAMES: [&str; 8] = [
    "annotation",
    "audit-verify-result",
    "debug-bundle",
    "error-envelope",
    "run-ancestry-response",
    "run-diff-response",
    "run-event",
    "run-snapshot",
];

impl Published {
    pub(crate) fn read() -> Option<Self> {
        let mut registry = Registry::new();
        for schema in protocol_folder("schemas")? {
            let id = schema["$id"].as_str().unwrap().to_owned();
            registry = registry.add(id, schema).unwrap();
        }
        let registry = registry.prepare().unwrap();
        let build = |name: &'static str| {
            let schema = json!({"$ref": format!("https://openwop.dev/spec/v1/{name}.schema.json")});
            (name, jsonschema::options().with_registry(&registry).offline().build(&schema).unwrap())
        };
        let payloads = protocol_file("schemas/run-event-payloads.schema.json")?;
        let id = payloads["$id"].as_str().unwrap();
        // Definitions are named as types of events are, without the dots.
        let payload = |(name, _): (&String, &Value)| {
            let schema = json!({"$ref": format!("{id}#/$defs/{name}")});
            let validator = jsonschema::options().with_registry(&registry).offline().build(&schema).unwrap();
            (name.to_lowercase(), validator)
        };
        let payloads = payloads["$defs"].as_object().unwrap().iter();
        let payloads = payloads.filter(|(name, _)| !name.starts_with('_')).map(payload).collect();
        Some(Self { answers: NAMES.into_iter().map(build).collect(), payloads })
    }

    /// Insists that the payload of an event is as it was published, where one was.
    #[track_caller]
    pub(crate) fn check_payload(&self, event: &Value) {
        let name: String = event["type"].as_str().unwrap().replace('.', "").to_lowercase();
        let Some(schema) = self.payloads.get(&name) else { return };
        if let Some(error) = schema.iter_errors(&event["payload"]).next() {
            panic!("{} at {}: {error}\n{event:#}", event["type"], error.instance_path());
        }
    }

    /// Insists that an answer is as it was published.
    #[track_caller]
    pub(crate) fn check(&self, name: &str, answer: &Value) {
        if let Some(error) = self.answers[name].iter_errors(answer).next() {
            panic!("{name} at {}: {error}\n{answer:#}", error.instance_path());
        }
    }
}
