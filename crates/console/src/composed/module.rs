//! Resolves the status of a module.
//!
//! A module file describes itself and lists its requirements. These decide its status, worst first:
//! `error` (unreadable file, or a declared `problem`), `disabled` (switched off), `unauthorized`
//! (the viewer lacks a scope), `needsConfiguration` (a setting is missing), `readOnly` (the viewer
//! can read but not write).

use std::collections::BTreeSet;

use composition::RuntimeStatus;
use runs::Scope;
use serde_json::{Map, Value, json};

use super::files::ModuleFile;
use super::redact;
use super::{Finding, Shell};

/// The module as kernel input, with its runtime resolved and redacted.
pub(super) fn resolved(file: &ModuleFile, scopes: &BTreeSet<Scope>, findings: &mut Vec<Finding>) -> Value {
    let unreadable = |message: &str| {
        json!({
            "instanceId": file.name, "packageId": "unknown", "moduleApiVersion": composition::VERSION,
            "contributions": {},
            "runtime": {
                "instanceId": file.name, "status": RuntimeStatus::Error.as_str(),
                "grants": [], "missing": [], "actions": [], "message": message,
            },
        })
    };
    let declared = match &file.content {
        Err(reason) => return unreadable(&redact::text(reason)),
        Ok(Value::Object(declared)) => declared,
        Ok(_) => return unreadable("the file is not a JSON object"),
    };
    let name = declared.get("instanceId").and_then(Value::as_str).unwrap_or(&file.name);
    let facts = Facts::of(declared, scopes);
    let mut runtime = Map::new();
    runtime.insert("instanceId".to_owned(), declared.get("instanceId").cloned().unwrap_or_default());
    runtime.insert("status".to_owned(), facts.status.as_str().into());
    runtime.insert("grants".to_owned(), facts.grants.into());
    runtime.insert("missing".to_owned(), facts.missing.into());
    let actions = redact::actions(name, declared.get("actions"), findings);
    runtime.insert("actions".to_owned(), actions.into());
    let message = declared.get("message").and_then(Value::as_str).map(str::to_owned).or(facts.message);
    if let Some(message) = message {
        runtime.insert("message".to_owned(), redact::message(name, &message, findings).into());
    }
    if let Some(data) = declared.get("data") {
        runtime.insert("data".to_owned(), redact::data(name, data, findings));
    }
    let mut module = json!({"runtime": runtime});
    for member in ["instanceId", "packageId", "packageVersion", "moduleApiVersion", "contributions"] {
        if let Some(value) = declared.get(member) {
            module[member] = value.clone();
        }
    }
    module
}

/// The status that follows from a module's requirements.
struct Facts {
    status: RuntimeStatus,
    grants: Vec<String>,
    missing: Vec<String>,
    message: Option<String>,
}

impl Facts {
    fn of(declared: &Map<String, Value>, scopes: &BTreeSet<Scope>) -> Self {
        let has = |name: &String| Scope::parse(name).is_some_and(|scope| scopes.contains(&scope));
        let needed = names(declared, "scopes");
        let to_change = names(declared, "writeScopes");
        let settings = declared.get("settings").and_then(Value::as_object);
        let is_set = |name: &String| {
            settings.and_then(|settings| settings.get(name)).is_some_and(|value| !is_blank(value))
        };
        let grants = needed.iter().chain(&to_change).filter(|name| has(name)).cloned().collect();
        let lacking: Vec<String> = needed.into_iter().filter(|name| !has(name)).collect();
        let unset: Vec<String> =
            names(declared, "settings").into_iter().filter(|name| !is_set(name)).collect();
        let unchangeable: Vec<String> = to_change.into_iter().filter(|name| !has(name)).collect();
        let problem = declared.get("problem").and_then(Value::as_str);
        let (status, missing, message) = if let Some(problem) = problem {
            (RuntimeStatus::Error, Vec::new(), Some(problem.to_owned()))
        } else if declared.get("enabled") == Some(&Value::Bool(false)) {
            (RuntimeStatus::Disabled, Vec::new(), Some("Disabled in the module's file.".to_owned()))
        } else if !lacking.is_empty() {
            let message = format!("Your key lacks the scope {}.", lacking.join(", "));
            (RuntimeStatus::Unauthorized, lacking, Some(message))
        } else if !unset.is_empty() {
            let message = format!("Set {} in the module's file.", unset.join(", "));
            (RuntimeStatus::NeedsConfiguration, unset, Some(message))
        } else if !unchangeable.is_empty() || declared.get("readOnly") == Some(&Value::Bool(true)) {
            (RuntimeStatus::ReadOnly, unchangeable, None)
        } else {
            (RuntimeStatus::Ready, Vec::new(), None)
        };
        Self { status, grants, missing, message }
    }
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

/// The names listed under `requires`.
fn names(declared: &Map<String, Value>, member: &str) -> Vec<String> {
    let list = declared.get("requires").and_then(|requires| requires.get(member)).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
}

/// The paths that modules declare but that are not served now, with the module.
pub(super) fn inactive_routes(modules: &[Value], shell: &Shell) -> Vec<(String, String)> {
    let mut inactive = Vec::new();
    for module in modules {
        let Some(instance) = module.get("instanceId").and_then(Value::as_str) else { continue };
        let routes = module.pointer("/contributions/routes").and_then(Value::as_array);
        for route in routes.into_iter().flatten() {
            let text = |member| route.get(member).and_then(Value::as_str);
            let (Some(id), Some(path)) = (text("id"), text("path")) else { continue };
            if shell.route(&format!("{instance}:routes/{id}")).is_none() {
                inactive.push((path.to_owned(), instance.to_owned()));
            }
        }
    }
    inactive
}
