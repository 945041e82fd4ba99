//! Version fields (2.5).

use serde_json::{Value, json};

use crate::model::{
    diagnostic::diagnostic,
    json::{Object, received_value},
};

/// What a version diagnostic says: the value received and the set supported.
pub(crate) struct Fault {
    received: String,
    supported: Vec<&'static str>,
}

impl Fault {
    pub(crate) fn diagnostic(&self, code: &str, field: &str, subject: Value, decisions: &[&str]) -> Value {
        let details = json!({"field": field, "received": self.received, "supported": self.supported});
        diagnostic(code, &details, vec![subject], decisions)
    }
}

/// D-10: the effective set is the list ∩ {0.1}. A list that is absent or malformed counts as {0.1}, and so do
/// all four when `supportedVersions` is not an object.
fn supported(input: &Object, list: &str) -> Vec<&'static str> {
    let list =
        input.get("supportedVersions").and_then(|versions| versions.get(list)).and_then(Value::as_array);
    match list {
        Some(list) if list.iter().all(Value::is_string) && !list.contains(&json!("0.1")) => vec![],
        _ => vec!["0.1"],
    }
}

fn fault(input: &Object, list: &str, version: Option<&Value>) -> Option<Fault> {
    let supported = supported(input, list);
    let accepted = version.and_then(Value::as_str).is_some_and(|version| supported.contains(&version));
    (!accepted).then(|| Fault { received: received_value(version), supported })
}

/// An omitted version means `0.1`, and is shown so.
pub(crate) fn composition_fault(input: &Object) -> Option<Fault> {
    let assumed = json!("0.1");
    let version = input.get("compositionSchemaVersion").unwrap_or(&assumed);
    fault(input, "compositionSchemaVersions", Some(version))
}

pub(crate) fn policy_fault(input: &Object, policy: &Object) -> Option<Fault> {
    fault(input, "policySchemaVersions", policy.get("policySchemaVersion"))
}

pub(crate) fn module_api_fault(input: &Object, module: &Object) -> Option<Fault> {
    fault(input, "moduleApiVersions", module.get("moduleApiVersion"))
}

pub(crate) fn render_handle_fault(input: &Object, handle: &Object) -> Option<Fault> {
    fault(input, "renderHandleVersions", handle.get("renderHandleVersion"))
}
