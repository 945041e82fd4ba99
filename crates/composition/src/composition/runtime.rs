//! What the host resolved about a module, as the composition repeats it.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::vocabulary::{Owner, RuntimeStatus, wire_names};

/// A module of the input.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Module<'i> {
    /// The module as an owner.
    pub owner: Owner<'i>,
    /// Which instance it is.
    pub instance_id: &'i str,
    /// Its package.
    pub package_id: &'i str,
    /// That package's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_version: Option<&'i str>,
    /// The API that it was written for.
    pub module_api_version: &'static str,
    /// What the host resolved.
    #[serde(serialize_with = "serialize_shared")]
    pub runtime: Arc<RuntimeSummary<'i>>,
}

/// The runtime of a module: copied from the host, which has redacted it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeSummary<'i> {
    /// The resolved status.
    pub status: RuntimeStatus,
    /// Names of grants. They activate user interface; they permit nothing.
    pub grants: Vec<&'i str>,
    /// Names of grants that are missing.
    pub missing: Vec<&'i str>,
    /// What the user can do about it.
    pub actions: Vec<RuntimeAction<'i>>,
    /// What to tell the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'i str>,
    /// More of the same: an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<&'i Value>,
    /// Whether the status is `readOnly`.
    pub read_only: bool,
}

/// Something that the user can do about a status. Inert data: the host decides what it does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuntimeAction<'i> {
    /// Which action it is.
    pub id: &'i str,
    /// What to call it.
    pub label: &'i str,
    /// What sort of action it is.
    pub kind: ActionKind,
    /// What it needs to know: an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<&'i Value>,
}

/// The sorts of runtime action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActionKind {
    /// Configure the module.
    Configure,
    /// Ask for the missing grants.
    Authorize,
    /// Try again.
    Retry,
    /// Open something.
    Open,
    /// Whatever the host makes of it.
    Custom,
}

wire_names!(ActionKind {
    Configure => "configure",
    Authorize => "authorize",
    Retry => "retry",
    Open => "open",
    Custom => "custom",
});

/// Sharing is ours; on the wire every entry carries the whole summary.
fn serialize_shared<S: serde::Serializer>(
    runtime: &Arc<RuntimeSummary<'_>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    runtime.as_ref().serialize(serializer)
}
