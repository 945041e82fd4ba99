//! The schemas that the protocol publishes, where they are at hand.

use std::collections::BTreeMap;

use jsonschema::{Registry, Validator};
use serde_json::{Value, json};

use super::service::protocol_folder;

/// What answers have to be, by the name of the schema.
pub(crate) struct Published(BTreeMap<&'static str, Validator>);

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
        Some(Self(NAMES.into_iter().map(build).collect()))
    }

    /// Insists that an answer is as it was published.
    #[track_caller]
    pub(crate) fn check(&self, name: &str, answer: &Value) {
        if let Some(error) = self.0[name].iter_errors(answer).next() {
            panic!("{name} at {}: {error}\n{answer:#}", error.instance_path());
        }
    }
}
