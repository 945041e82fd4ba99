//! Steps 4 and 5: keys, ids, paths, claims, versions and the syntax of references.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::model::{
    diagnostic::{diagnostic, set},
    grammar::{self, BUILTIN_PATTERN, NAME_PATTERN, PROTECTED, RESERVED_PREFIX},
    json::{Object, text},
    source::{Declared, Source, grammatical_owner_id, owner_id, owner_subject},
    version,
};

/// Step 4.
pub(crate) fn check_keys(sources: &[Source], declared: &[Declared]) -> Vec<Value> {
    let mut found = Vec::new();
    found.extend(duplicate_instance_ids(sources));
    found.extend(owner_conflicts(sources));
    found.extend(duplicate_keys(declared));
    found
}

/// One diagnostic per grammatical id that several modules carry.
fn duplicate_instance_ids(sources: &[Source]) -> Vec<Value> {
    let mut groups: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.builtin) {
        if let Some(id) = grammatical_owner_id(false, &source.value) {
            groups.entry(id).or_default().push(owner_subject(false, &source.value));
        }
    }
    groups
        .into_iter()
        .filter(|(_, subjects)| subjects.len() > 1)
        .map(|(id, subjects)| {
            let details = json!({"instanceId": id, "count": subjects.len()});
            diagnostic("WCP_NAMESPACE_DUPLICATE_INSTANCE_ID", &details, subjects, &["006"])
        })
        .collect()
}

/// D-12: built-in sets of one grammatical owner id have to agree on both package fields. A field that was
/// found malformed before is not compared.
fn owner_conflicts(sources: &[Source]) -> Vec<Value> {
    let mut groups: BTreeMap<&str, Vec<&Object>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.builtin) {
        if let Some(id) = grammatical_owner_id(true, &source.value) {
            groups.entry(id).or_default().push(&source.value);
        }
    }
    let mut found = Vec::new();
    for (id, sets) in groups {
        let mut fields = Vec::new();
        for (field, cap) in [("packageId", 214), ("packageVersion", 128)] {
            let mut values: Vec<Option<&str>> = Vec::new();
            for set in &sets {
                match set["owner"].get(field) {
                    None => values.push(None),
                    Some(Value::String(text)) if !text.is_empty() && text.len() <= cap => {
                        values.push(Some(text));
                    }
                    Some(_) => {}
                }
            }
            if values.iter().any(|value| *value != values[0]) {
                fields.push(field);
            }
        }
        if !fields.is_empty() {
            let subjects = sets.iter().map(|set| owner_subject(true, set)).collect();
            let details = json!({"ownerId": id, "fields": set(fields)});
            found.push(diagnostic("WCP_NAMESPACE_OWNER_CONFLICT", &details, subjects, &["006"]));
        }
    }
    found
}

/// Modules that share an instance id are not compared with each other: of them only the one with the most
/// declarations of a key counts. Built-in sets of one owner are one source.
fn duplicate_keys(declared: &[Declared]) -> Vec<Value> {
    let mut groups: BTreeMap<&str, Vec<&Declared>> = BTreeMap::new();
    for item in declared {
        if let Some(key) = &item.key {
            groups.entry(key).or_default().push(item);
        }
    }
    let mut found = Vec::new();
    for (key, items) in groups {
        let builtin = items.iter().filter(|item| item.builtin).count();
        let in_source = |source: usize| items.iter().filter(|item| item.source == source).count();
        let modules = items.iter().filter(|item| !item.builtin);
        let most = modules.map(|item| in_source(item.source)).max().unwrap_or(0);
        let count = builtin + most;
        if count > 1 {
            let subjects = items.iter().map(|item| item.subject.clone()).collect();
            let details = json!({"key": key, "count": count});
            found.push(diagnostic("WCP_NAMESPACE_DUPLICATE_CANONICAL_KEY", &details, subjects, &["006"]));
        }
    }
    found
}

/// Step 5, for every status.
pub(crate) fn check_grammar(input: &Object, sources: &[Source], declared: &[Declared]) -> Vec<Value> {
    let mut found = Vec::new();
    for source in sources {
        found.extend(source_faults(input, source));
    }
    for item in declared {
        found.extend(declaration_faults(input, item));
    }
    found
}

fn source_faults(input: &Object, source: &Source) -> Vec<Value> {
    let mut found = Vec::new();
    let subject = owner_subject(source.builtin, &source.value);
    if let Some(id) = owner_id(source.builtin, &source.value) {
        if source.builtin && !grammar::is_builtin_owner_id(id) {
            let details = json!({"ownerId": id, "pattern": BUILTIN_PATTERN});
            let code = "WCP_NAMESPACE_INVALID_OWNER_ID";
            found.push(diagnostic(code, &details, vec![subject.clone()], &["006"]));
        }
        if !source.builtin && !grammar::is_instance_id(id) {
            let details = json!({"instanceId": id, "pattern": NAME_PATTERN});
            let code = "WCP_NAMESPACE_INVALID_INSTANCE_ID";
            found.push(diagnostic(code, &details, vec![subject.clone()], &["006"]));
        } else if !source.builtin && id.starts_with(RESERVED_PREFIX) {
            let details = json!({"instanceId": id, "prefix": RESERVED_PREFIX});
            let code = "WCP_NAMESPACE_RESERVED_OWNER_ID";
            found.push(diagnostic(code, &details, vec![subject.clone()], &["006"]));
        }
    }
    if !source.builtin
        && let Some(fault) = version::module_api_fault(input, &source.value)
    {
        let code = "WCP_VERSION_UNSUPPORTED_MODULE_API";
        found.push(fault.diagnostic(code, "moduleApiVersion", subject, &["006", "015"]));
    }
    found
}

fn declaration_faults(input: &Object, item: &Declared) -> Vec<Value> {
    let mut found = Vec::new();
    let subject = || vec![item.subject.clone()];
    if let Some(id) = text(&item.descriptor, "id")
        && !grammar::is_local_id(id)
    {
        let details = json!({"contributionKind": item.kind.name, "localId": id, "pattern": NAME_PATTERN});
        found.push(diagnostic("WCP_NAMESPACE_INVALID_LOCAL_ID", &details, subject(), &["006"]));
    }
    if item.kind.name == "routes"
        && let Some(path) = text(&item.descriptor, "path")
        && let Some(reason) = grammar::path_fault(path)
    {
        let details = json!({"path": path, "reason": reason});
        found.push(diagnostic("WCP_ROUTE_INVALID_PATH", &details, subject(), &["006"]));
    }
    if let Some(family) = item.kind.family
        && let Some(claim) = text(&item.descriptor, "claim")
    {
        if let Some(reason) = grammar::claim_fault(claim, family) {
            let details = json!({"claim": claim, "reason": reason});
            found.push(diagnostic("WCP_RENDERER_INVALID_CLAIM", &details, subject(), &["006"]));
        } else if !item.builtin && PROTECTED.contains(&claim) {
            let details = json!({"claim": claim});
            found.push(diagnostic("WCP_RENDERER_DEFAULT_PROTECTED", &details, subject(), &["012"]));
        }
    }
    if item.kind.has_handle()
        && let Some(Value::Object(handle)) = item.descriptor.get("renderHandle")
        && let Some(fault) = version::render_handle_fault(input, handle)
    {
        let code = "WCP_VERSION_UNSUPPORTED_RENDER_HANDLE";
        found.push(fault.diagnostic(code, "renderHandleVersion", item.subject.clone(), &["003", "015"]));
    }
    if item.kind.name == "sidebar-items"
        && let Some(reference) = text(&item.descriptor, "routeKey")
    {
        let reason = match grammar::kind_of_key(reference) {
            None => Some("malformed-key"),
            Some(kind) if kind.name != "routes" => Some("wrong-kind"),
            Some(_) => None,
        };
        found.extend(reason.map(|reason| unresolved(reason, item.key.as_deref(), reference, &item.subject)));
    }
    found
}

/// `WCP_REFERENCE_UNRESOLVED` of a sidebar item, here and at step 15; `from` is omitted when underivable.
pub(crate) fn unresolved(reason: &str, from: Option<&str>, reference: &str, subject: &Value) -> Value {
    let mut details = json!({"reason": reason, "field": "routeKey", "reference": reference});
    if let Some(from) = from {
        details["from"] = json!(from);
    }
    diagnostic("WCP_REFERENCE_UNRESOLVED", &details, vec![subject.clone()], &["006", "015"])
}
