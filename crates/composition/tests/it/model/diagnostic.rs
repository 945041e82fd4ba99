//! The diagnostic object of 2.4 and its normal form.

use serde_json::{Value, json};

use crate::model::json::canonical;

/// One diagnostic. Decision ids are given by number; `message` is never compared (D-23) and stays empty.
pub(crate) fn diagnostic(code: &str, details: &Value, subjects: Vec<Value>, decisions: &[&str]) -> Value {
    let category = code.split('_').nth(1).expect("a code is WCP_<CATEGORY>_…").to_lowercase();
    let mut subjects = subjects;
    subjects.sort_by_key(canonical);
    subjects.dedup();
    let mut decisions: Vec<String> = decisions.iter().map(|number| format!("WCP-ADR-{number}")).collect();
    decisions.sort();
    json!({
        "code": code,
        "severity": "error",
        "category": category,
        "message": "",
        "subjects": subjects,
        "details": details,
        "decisionIds": decisions,
        "docsAnchor": format!("#{}", code.to_lowercase().replace('_', "-")),
    })
}

/// 2.4: sorted by the stable key, equal ones collapsed. All are errors, so severity decides nothing.
pub(crate) fn normalised(diagnostics: Vec<Value>) -> Vec<Value> {
    let stable_key = |diagnostic: &Value| {
        let text = |name: &str| diagnostic[name].as_str().unwrap_or_default().to_owned();
        let part = |name: &str| canonical(&diagnostic[name]);
        (text("category"), text("code"), part("details"), part("subjects"), text("docsAnchor"))
    };
    let mut diagnostics = diagnostics;
    diagnostics.sort_by_key(stable_key);
    diagnostics.dedup();
    diagnostics
}

/// A set-like array: sorted by bytes, unique.
pub(crate) fn set<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
    texts.sort();
    texts.dedup();
    texts
}

/// The host, without an operation.
pub(crate) fn host() -> Value {
    json!({"ownerKind": "host"})
}

/// The host, for one operation.
pub(crate) fn host_operation(policy_id: &str) -> Value {
    json!({"ownerKind": "host", "policyId": policy_id})
}
