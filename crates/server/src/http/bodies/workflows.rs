//! Registered workflows.

use canon::digest::Digest;
use flow::id::WorkflowId;
use schemars::JsonSchema;
use serde::Serialize;

/// A registered workflow, and the digest of its document.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Registered {
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    digest: String,
    #[schemars(with = "String")]
    workflow_id: WorkflowId,
}

impl Registered {
    pub(in crate::http) fn of(workflow_id: WorkflowId, digest: Digest) -> Self {
        Self { digest: digest.to_hex(), workflow_id }
    }
}

/// Registered workflows, a page of them.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Workflows {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in crate::http) next_cursor: Option<WorkflowId>,
    pub(in crate::http) workflows: Vec<Registered>,
}
