//! Sources and their declarations, read as leniently as the subjects of 2.4 need.

use serde_json::{Value, json};

use crate::model::{
    grammar,
    json::{Object, text},
    version,
};

/// One row of the collection table of 2.1.
#[derive(Debug, PartialEq)]
pub(crate) struct Kind {
    pub(crate) collection: &'static str,
    pub(crate) name: &'static str,
    /// Orderable by `reorder`.
    pub(crate) ordered: bool,
    /// The claim family, for the three renderer kinds.
    pub(crate) family: Option<&'static str>,
}

const fn kind(
    collection: &'static str,
    name: &'static str,
    ordered: bool,
    family: Option<&'static str>,
) -> Kind {
    Kind { collection, name, ordered, family }
}

pub(crate) const KINDS: &[Kind] = &[
    kind("routes", "routes", false, None),
    kind("sidebarItems", "sidebar-items", true, None),
    kind("configurationSurfaces", "configuration-surfaces", true, None),
    kind("integrationSurfaces", "integration-surfaces", true, None),
    kind("messageRenderers", "message-renderers", false, Some("message")),
    kind("messageAppenders", "message-appenders", true, None),
    kind("toolRenderers", "tool-renderers", false, Some("tool")),
    kind("activityRenderers", "activity-renderers", false, Some("activity")),
    kind("fallbackSurfaces", "fallback-surfaces", true, None),
];

impl Kind {
    /// All but sidebar items carry a handle (2.1).
    pub(crate) fn has_handle(&self) -> bool {
        self.name != "sidebar-items"
    }
}

/// A built-in set or a module that is at least an object.
pub(crate) struct Source {
    pub(crate) builtin: bool,
    pub(crate) value: Object,
    /// 2.5: the contributions of a module with an unsupported API version are not looked at.
    pub(crate) looked_at: bool,
}

/// A descriptor that is at least an object, well-formed or not.
pub(crate) struct Declared {
    pub(crate) source: usize,
    pub(crate) builtin: bool,
    pub(crate) kind: &'static Kind,
    pub(crate) descriptor: Object,
    pub(crate) key: Option<String>,
    pub(crate) subject: Value,
}

/// Every element of `builtins` and `modules` that is an object.
pub(crate) fn sources(input: &Object) -> Vec<Source> {
    let mut sources = Vec::new();
    for (collection, builtin) in [("builtins", true), ("modules", false)] {
        for element in input.get(collection).and_then(Value::as_array).into_iter().flatten() {
            if let Some(value) = element.as_object() {
                let looked_at = builtin || version::module_api_fault(input, value).is_none();
                sources.push(Source { builtin, value: value.clone(), looked_at });
            }
        }
    }
    sources
}

/// Step 4: every declared contribution, active or not.
pub(crate) fn declarations(sources: &[Source]) -> Vec<Declared> {
    let mut declared = Vec::new();
    for (index, source) in sources.iter().enumerate().filter(|(_, source)| source.looked_at) {
        let Some(contributions) = source.value.get("contributions").and_then(Value::as_object) else {
            continue;
        };
        for kind in KINDS {
            for entry in contributions.get(kind.collection).and_then(Value::as_array).into_iter().flatten() {
                let Some(descriptor) = entry.as_object() else { continue };
                declared.push(Declared {
                    source: index,
                    builtin: source.builtin,
                    kind,
                    descriptor: descriptor.clone(),
                    key: key(source.builtin, &source.value, kind, descriptor),
                    subject: contribution_subject(source.builtin, &source.value, kind, Some(entry)),
                });
            }
        }
    }
    declared
}

/// The object that holds the owner fields, and the owner id as written (2.4).
fn owner_fields(builtin: bool, source: &Object) -> (Option<&Object>, Option<&str>) {
    if builtin {
        let owner = source.get("owner").and_then(Value::as_object);
        (owner, owner.and_then(|owner| text(owner, "ownerId")))
    } else {
        (Some(source), text(source, "instanceId"))
    }
}

pub(crate) fn owner_id(builtin: bool, source: &Object) -> Option<&str> {
    owner_fields(builtin, source).1
}

/// The owner id, when it is grammatical for its owner kind. A reserved prefix is grammatical (2.1).
pub(crate) fn grammatical_owner_id(builtin: bool, source: &Object) -> Option<&str> {
    let valid = if builtin { grammar::is_builtin_owner_id } else { grammar::is_instance_id };
    owner_id(builtin, source).filter(|id| valid(id))
}

/// 2.1: a contribution has a key only when both halves are grammatical.
fn key(builtin: bool, source: &Object, kind: &Kind, descriptor: &Object) -> Option<String> {
    let owner = grammatical_owner_id(builtin, source)?;
    let local = text(descriptor, "id").filter(|id| grammar::is_local_id(id))?;
    Some(format!("{owner}:{}/{local}", kind.name))
}

/// 2.4: *owner* has owner fields only; fields that are absent or not strings are left out.
pub(crate) fn owner_subject(builtin: bool, source: &Object) -> Value {
    let mut subject = json!({"ownerKind": if builtin { "builtin" } else { "module" }});
    let (fields, owner_id) = owner_fields(builtin, source);
    if let Some(id) = owner_id {
        subject["ownerId"] = json!(id);
    }
    for name in ["packageId", "packageVersion"] {
        if let Some(value) = fields.and_then(|fields| text(fields, name)) {
            subject[name] = json!(value);
        }
    }
    subject
}

/// 2.4: *contribution* adds kind, local id and key; without an entry the kind only.
pub(crate) fn contribution_subject(
    builtin: bool,
    source: &Object,
    kind: &Kind,
    entry: Option<&Value>,
) -> Value {
    let mut subject = owner_subject(builtin, source);
    subject["contributionKind"] = json!(kind.name);
    if let Some(descriptor) = entry.and_then(Value::as_object) {
        if let Some(id) = text(descriptor, "id") {
            subject["localId"] = json!(id);
        }
        if let Some(key) = key(builtin, source, kind, descriptor) {
            subject["key"] = json!(key);
        }
    }
    subject
}
