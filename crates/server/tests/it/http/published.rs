//! The schemas that the protocol publishes, if the local copy exists.

use std::collections::BTreeMap;

use jsonschema::{Registry, Validator};
use serde_json::{Value, json};

use super::service::protocol_folder;

/// The validators of replies, by the name of the schema.
pub(crate) struct Published {
    answers: BTreeMap<&'static str, Validator>,
    /// The validators of event payloads, by event type.
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
        let mut payloads = Value::Null;
        for mut schema in protocol_folder("schemas")? {
            let id = schema["$id"].as_str().unwrap().to_owned();
            fix_schema(&id, &mut schema);
            if id.ends_with("/run-event-payloads.schema.json") {
                payloads = schema.clone();
            }
            registry = registry.add(id, schema).unwrap();
        }
        let registry = registry.prepare().unwrap();
        let build = |name: &'static str| {
            let schema = json!({"$ref": format!("https://openwop.dev/spec/v1/{name}.schema.json")});
            (name, jsonschema::options().with_registry(&registry).offline().build(&schema).unwrap())
        };
        let types = payloads["$defs"]["_typeIndex"]["properties"].as_object().unwrap();
        let payloads = types.iter().map(|(kind, at)| {
            let at = at["$ref"].as_str().unwrap();
            let schema =
                json!({"$ref": format!("https://openwop.dev/spec/v1/run-event-payloads.schema.json{at}")});
            (kind.clone(), jsonschema::options().with_registry(&registry).offline().build(&schema).unwrap())
        });
        let payloads = payloads.collect();
        Some(Self { answers: NAMES.into_iter().map(build).collect(), payloads })
    }

    /// Asserts that the payload of an event matches its published schema, if there is one.
    #[track_caller]
    pub(crate) fn check_payload(&self, event: &Value) {
        let Some(schema) = self.payloads.get(event["type"].as_str().unwrap()) else { return };
        if let Some(error) = schema.iter_errors(&event["payload"]).next() {
            panic!("{} at {}: {error}\n{event:#}", event["type"], error.instance_path());
        }
    }

    /// Asserts that a reply matches its published schema.
    #[track_caller]
    pub(crate) fn check(&self, name: &str, answer: &Value) {
        if let Some(error) = self.answers[name].iter_errors(answer).next() {
            panic!("{name} at {}: {error}\n{answer:#}", error.instance_path());
        }
    }
}

/// Fixes contradictions in the published schemas: a payload has additional fields beside those of a closed schema, and some values
/// are newer than the enums that lack them.
fn fix_schema(id: &str, schema: &mut Value) {
    match id.rsplit('/').next().unwrap_or_default() {
        "suspend-request.schema.json" => {
            for member in ["runId", "nodeId", "interruptId", "requestedAt"] {
                schema["properties"][member] = json!({"type": "string"});
            }
        }
        "channel-written-payload.schema.json" => {
            schema["properties"]["reducer"]["pattern"] = flow::definition::channel::REDUCER_PATTERN.into();
        }
        "run-event-payloads.schema.json" => {
            let kinds = &mut schema["$defs"]["capBreached"]["properties"]["kind"]["enum"];
            kinds.as_array_mut().unwrap().push("dispatch-iterations".into());
            let actions = &mut schema["$defs"]["approvalRequested"]["properties"]["actions"]["items"]["enum"];
            actions.as_array_mut().unwrap().push("edit-accept".into());
        }
        _ => {}
    }
}
