//! Outputs of steps.

use canon::digest::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The purpose of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputChannel {
    /// What happened, for people and later steps.
    Recap,
    /// A structured result.
    Artifact,
}

/// The content of an output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "payloadKind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum OutputPayload {
    /// Markdown, truncated to its budget with the marker.
    Notes {
        notes_markdown: String,
        /// The number of bytes that were sent, if the notes were truncated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent_bytes: Option<u64>,
    },
    /// A structured result, identified by its digest.
    ArtifactRef(ArtifactRef),
}

/// An artifact: its digest, and its content if it is small.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArtifactRef {
    /// The digest of the artifact's canonical JSON.
    #[schemars(with = "String")]
    pub sha256: Digest,
    /// Always `application/json` so far.
    pub content_type: String,
    /// The length of its canonical JSON, in bytes.
    pub byte_length: u64,
    /// The artifact itself, unless it is in the artifact store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
}
