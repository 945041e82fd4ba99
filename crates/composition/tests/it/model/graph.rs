//! Steps 2, 7 and 8: well-formed sources become owners, modules and the candidate graph.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::model::{
    json::{Object, pick, text},
    source::{Declared, Kind, Source, declarations},
};

/// A contribution in the candidate graph; later steps clear `active` and fill in the rest.
#[derive(Clone)]
pub(crate) struct Item {
    pub(crate) key: String,
    pub(crate) kind: &'static Kind,
    pub(crate) owner: Value,
    pub(crate) runtime: Option<Value>,
    pub(crate) descriptor: Object,
    pub(crate) subject: Value,
    pub(crate) active: bool,
    /// Of active fallback surfaces only.
    pub(crate) matched_status: Option<String>,
    /// Of routes only.
    pub(crate) effective_path: Option<String>,
    pub(crate) policy_ids: BTreeSet<String>,
}

impl Item {
    /// The string member `name` of the descriptor, which has it by now.
    pub(crate) fn text(&self, name: &str) -> &str {
        text(&self.descriptor, name).unwrap_or_default()
    }

    /// The claim, for renderers.
    pub(crate) fn claim(&self) -> Option<&str> {
        self.kind.family.and_then(|_| text(&self.descriptor, "claim"))
    }

    /// Reorder works inside one collection, for fallback surfaces inside one display group (D-27).
    pub(crate) fn group(&self) -> (&'static str, Option<&str>, bool) {
        let any = self.kind.name == "fallback-surfaces" && self.text("status") == "anyNonReady";
        (self.kind.name, self.matched_status.as_deref(), any)
    }
}

/// Step 2: the owner object of a source.
pub(crate) fn owner(source: &Source) -> Value {
    if source.builtin {
        let owner = source.value["owner"].as_object().expect("the owner was checked by step 1");
        return Value::Object(pick(owner, &["ownerKind", "ownerId", "packageId", "packageVersion"]));
    }
    let mut owner = pick(&source.value, &["packageId", "packageVersion"]);
    owner.insert("ownerKind".into(), json!("module"));
    owner.insert("ownerId".into(), source.value["instanceId"].clone());
    Value::Object(owner)
}

/// `${ownerKind}:${ownerId}`
pub(crate) fn owner_key(owner: &Value) -> String {
    let part = |name: &str| owner[name].as_str().unwrap_or_default();
    format!("{}:{}", part("ownerKind"), part("ownerId"))
}

/// Step 2: the runtime summary of a module. Absent optionals stay absent, unknown members are dropped (D-13).
pub(crate) fn runtime_summary(source: &Source) -> Option<Value> {
    let runtime = source.value.get("runtime").filter(|_| !source.builtin)?.as_object()?;
    let mut summary = pick(runtime, &["status", "grants", "missing", "message", "data"]);
    let actions = runtime["actions"].as_array().into_iter().flatten().filter_map(Value::as_object);
    let actions: Vec<Object> = actions.map(|action| pick(action, &["id", "label", "kind", "data"])).collect();
    summary.insert("actions".into(), json!(actions));
    summary.insert("readOnly".into(), json!(runtime["status"] == "readOnly"));
    Some(Value::Object(summary))
}

/// Steps 7 and 8: every declaration, with its activity.
pub(crate) fn candidates(sources: &[Source]) -> Vec<Item> {
    let mut items = Vec::new();
    for declared in declarations(sources) {
        let source = &sources[declared.source];
        let runtime = runtime_summary(source);
        let status = runtime.as_ref().and_then(|runtime| runtime["status"].as_str());
        let matched_status = matched_status(&declared, status);
        let active = if declared.kind.name == "fallback-surfaces" {
            matched_status.is_some()
        } else {
            status.is_none_or(|status| is_open(&declared, status))
        };
        let path = (declared.kind.name == "routes").then(|| text(&declared.descriptor, "path")).flatten();
        let effective_path = path.map(str::to_owned);
        items.push(Item {
            key: declared.key.expect("step 5 refused everything without a key"),
            kind: declared.kind,
            owner: owner(source),
            active,
            matched_status,
            effective_path,
            runtime,
            descriptor: declared.descriptor,
            subject: declared.subject,
            policy_ids: BTreeSet::new(),
        });
    }
    items
}

/// Step 7 for a module contribution that is not a fallback.
fn is_open(declared: &Declared, status: &str) -> bool {
    if status == "disabled" {
        return false;
    }
    if let Some(Value::Array(statuses)) = declared.descriptor.get("activeWhen") {
        return statuses.contains(&json!(status));
    }
    let default: &[&str] = match declared.kind.name {
        "configuration-surfaces" => &["ready", "readOnly", "needsConfiguration"],
        "integration-surfaces" => &["ready", "readOnly", "needsConfiguration", "unauthorized", "error"],
        _ => &["ready"],
    };
    default.contains(&status)
}

/// Step 8: the status that a fallback surface matches; `None` if it is inactive or not a fallback.
fn matched_status(declared: &Declared, module_status: Option<&str>) -> Option<String> {
    if declared.kind.name != "fallback-surfaces" {
        return None;
    }
    let wanted = text(&declared.descriptor, "status")?;
    let matched = match module_status {
        None => wanted != "anyNonReady",
        Some(status) => status != "ready" && (wanted == status || wanted == "anyNonReady"),
    };
    matched.then(|| module_status.unwrap_or(wanted).to_owned())
}
