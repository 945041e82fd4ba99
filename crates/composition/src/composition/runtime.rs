//! The resolved runtime of a module in the composition.

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
    pub instance_id: &'i str,
    pub package_id: &'i str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_version: Option<&'i str>,
    pub module_api_version: &'static str,
    #[serde(serialize_with = "serialize_shared")]
    pub runtime: Arc<RuntimeSummary<'i>>,
}

/// The runtime of a module, copied from the host, which has redacted it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeSummary<'i> {
    pub status: RuntimeStatus,
    /// Names of grants. They activate user interface, but permit nothing.
    pub grants: Vec<&'i str>,
    /// Names of missing grants.
    pub missing: Vec<&'i str>,
    /// Actions for the user.
    pub actions: Vec<RuntimeAction<'i>>,
    /// A message for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'i str>,
    /// Additional data: an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<&'i Value>,
    /// Whether the status is `readOnly`.
    pub read_only: bool,
}

/// An action for the user. Inert data: the host decides what it does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuntimeAction<'i> {
    pub id: &'i str,
    pub label: &'i str,
    pub kind: ActionKind,
    /// Parameters: an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<&'i Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActionKind {
    /// Configure the module.
    Configure,
    /// Request the missing grants.
    Authorize,
    Retry,
    /// Open something.
    Open,
    /// Defined by the host.
    Custom,
}

wire_names!(ActionKind {
    Configure => "configure",
    Authorize => "authorize",
    Retry => "retry",
    Open => "open",
    Custom => "custom",
});

/// Shared in memory; on the wire every entry has the whole summary.
fn serialize_shared<S: serde::Serializer>(
    runtime: &Arc<RuntimeSummary<'_>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    runtime.as_ref().serialize(serializer)
}
