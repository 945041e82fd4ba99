//! What is wrong with the composition, or worth knowing about it.

use composition::Diagnostic;
use serde_json::{Value, json};

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Something is not shown that should be.
    Error,
    /// Something is shown otherwise than somebody wanted.
    Warning,
    /// For those who look.
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

/// One thing, as the page of diagnostics shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Whom it is about.
    pub(crate) subjects: Vec<String>,
    pub(crate) details: Value,
    /// What to do.
    pub(crate) advice: String,
}

impl Finding {
    /// What the kernel says.
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

    /// A file of the operator that cannot be used.
    pub(super) fn unreadable(name: &str, reason: &str) -> Self {
        Self {
            severity: Severity::Error,
            code: "CONSOLE_FILE_UNREADABLE",
            message: format!("{name}: {reason}"),
            subjects: vec![name.to_owned()],
            details: json!({"file": name}),
            advice: "Mend the file, or take it away. It is read again as soon as it has changed.".to_owned(),
        }
    }

    /// An operation on something that is not active for this caller.
    pub(super) fn postponed(policy_id: &str) -> Self {
        Self {
            severity: Severity::Info,
            code: "CONSOLE_POLICY_POSTPONED",
            message: format!(
                "the operation {policy_id} is about something that its module does not show now, and was left out"
            ),
            subjects: vec![format!("policy {policy_id}")],
            details: json!({"policyId": policy_id}),
            advice: "Nothing, if the module is meant to be in this status; see Modules.".to_owned(),
        }
    }

    /// A handle that nobody renders.
    pub(super) fn handle_missing(handle_key: &str, used_by: &str) -> Self {
        Self {
            severity: Severity::Error,
            code: "WCP_RENDER_HANDLE_MISSING",
            message: format!("{used_by} asks for {handle_key}, which this console does not have"),
            subjects: vec![used_by.to_owned()],
            details: json!({"handleKey": handle_key, "usedBy": [used_by]}),
            advice: "Use one of the handles that are listed in docs/console.md.".to_owned(),
        }
    }

    /// An action of a module that leads where it may not.
    pub(super) fn unsafe_action(module: &str, action: &str) -> Self {
        Self {
            severity: Severity::Error,
            code: "WCP_TRUST_UNSAFE_ACTION",
            message: format!("the action {action} of {module} leads where no action may, and was left out"),
            subjects: vec![format!("module {module}")],
            details: json!({"actionId": action, "reason": "unsafe-href"}),
            advice: "Give it a `routeKey`, a path that begins with one `/`, or an address with https."
                .to_owned(),
        }
    }

    /// Something secret in what a module says about itself.
    pub(super) fn unredacted(module: &str, field: &str, rule: &str) -> Self {
        Self {
            severity: Severity::Warning,
            code: "WCP_TRUST_UNREDACTED_VALUE",
            message: format!(
                "{field} of {module} held something that looks like a secret, and is shown without it"
            ),
            subjects: vec![format!("module {module}")],
            details: json!({"field": field, "matchedRule": rule}),
            advice: "Take the secret out of the module's file; refer to it by a name.".to_owned(),
        }
    }

    /// A route whose path the host answers itself.
    pub(super) fn shadowed(key: &str, path: &str) -> Self {
        Self {
            severity: Severity::Warning,
            code: "CONSOLE_PATH_RESERVED",
            message: format!("{key} has the path {path}, which the host answers itself"),
            subjects: vec![key.to_owned()],
            details: json!({"key": key, "path": path}),
            advice: "Give the route another path with a `pathAlias` in the policy.".to_owned(),
        }
    }
}
