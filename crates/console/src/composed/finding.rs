//! Problems and notes about the composition.

use composition::Diagnostic;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Something that should be shown is missing.
    Error,
    /// Something is shown differently from what was configured.
    Warning,
    /// Informational.
    Info,
}

impl Severity {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// One finding, as the diagnostics page shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// The keys it is about.
    pub(crate) subjects: Vec<String>,
    pub(crate) details: Value,
    /// What to do about it.
    pub(crate) advice: String,
}

impl Finding {
    /// A finding from the composition kernel.
    pub(super) fn of(diagnostic: &Diagnostic<'_>) -> Self {
        Self {
            severity: Severity::Error,
            code: diagnostic.code().as_str(),
            message: diagnostic.message(),
            subjects: diagnostic.subjects().iter().map(ToString::to_string).collect(),
            details: serde_json::to_value(diagnostic.details()).unwrap_or_default(),
            advice: diagnostic.advice().to_owned(),
        }
    }

    /// An operator's file that cannot be used.
    pub(super) fn unreadable(name: &str, reason: &str) -> Self {
        Self {
            severity: Severity::Error,
            code: "CONSOLE_FILE_UNREADABLE",
            message: format!("{name}: {reason}"),
            subjects: vec![name.to_owned()],
            details: json!({"file": name}),
            advice: "Fix or delete the file. It is reloaded as soon as it changes.".to_owned(),
        }
    }

    /// An operation whose target is not active for this caller.
    pub(super) fn postponed(policy_id: &str) -> Self {
        Self {
            severity: Severity::Info,
            code: "CONSOLE_POLICY_POSTPONED",
            message: format!("the operation {policy_id} was skipped because its target is not active now"),
            subjects: vec![format!("policy {policy_id}")],
            details: json!({"policyId": policy_id}),
            advice: "No action is needed if the module is meant to have this status. See the Modules page."
                .to_owned(),
        }
    }

    /// A handle without a renderer.
    pub(super) fn handle_missing(handle_key: &str, used_by: &str) -> Self {
        Self {
            severity: Severity::Error,
            code: "WCP_RENDER_HANDLE_MISSING",
            message: format!("{used_by} uses the handle {handle_key}, which this console does not have"),
            subjects: vec![used_by.to_owned()],
            details: json!({"handleKey": handle_key, "usedBy": [used_by]}),
            advice: "Use one of the handles listed in docs/console.md.".to_owned(),
        }
    }

    /// A module action with an unsafe target.
    pub(super) fn unsafe_action(module: &str, action: &str) -> Self {
        Self {
            severity: Severity::Error,
            code: "WCP_TRUST_UNSAFE_ACTION",
            message: format!("the action {action} of {module} has an unsafe target and was removed"),
            subjects: vec![format!("module {module}")],
            details: json!({"actionId": action, "reason": "unsafe-href"}),
            advice: "Use a `routeKey`, a path that begins with a single `/`, or an https URL.".to_owned(),
        }
    }

    /// A secret in the metadata of a module.
    pub(super) fn unredacted(module: &str, field: &str, rule: &str) -> Self {
        Self {
            severity: Severity::Warning,
            code: "WCP_TRUST_UNREDACTED_VALUE",
            message: format!("{field} of {module} contains what looks like a secret; it is redacted"),
            subjects: vec![format!("module {module}")],
            details: json!({"field": field, "matchedRule": rule}),
            advice: "Remove the secret from the module's file and refer to it by name.".to_owned(),
        }
    }

    /// A route whose path is reserved by the host.
    pub(super) fn shadowed(key: &str, path: &str) -> Self {
        Self {
            severity: Severity::Warning,
            code: "CONSOLE_PATH_RESERVED",
            message: format!("{key} has the path {path}, which is reserved by the host"),
            subjects: vec![key.to_owned()],
            details: json!({"key": key, "path": path}),
            advice: "Give the route another path with a `pathAlias` in the policy.".to_owned(),
        }
    }
}
