//! A compiled manifest with all inputs filled in.
//!
//! Serialised, this is the `manifest` of a request. The mounts keep their declaration order, so
//! serialise it with a writer that keeps order (`serde_json::to_string`; `serde_json::Value`
//! sorts).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::vocabulary::{FileFormat, Role, SyncDirection};
use crate::slot::{Mode, Slot};

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompiledManifest {
    pub slug: String,
    pub version: String,
    pub agent: CompiledAgent,
    /// Every declared slot, in declaration order.
    #[serde(serialize_with = "in_order")]
    pub mounts: Vec<(Slot, CompiledMount)>,
    pub seed_files: Vec<CompiledSeed>,
    /// Variables. Credentials are tokens in them.
    pub env: Vec<CompiledEnv>,
    /// The templates of the seed files, sorted.
    pub required_template_names: Vec<String>,
    /// Files that are synchronized with an external system.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub working_files: Vec<CompiledWorkingFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompiledAgent {
    pub slug: String,
    pub group_key: String,
    pub role: Role,
    /// The reference to the deliverable specification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliverable_spec_ref: Option<String>,
}

/// A declared slot.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CompiledMount {
    pub enabled: bool,
    /// The access mode, if it is not the slot's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Everything else that was declared.
    pub config: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompiledSeed {
    #[serde(serialize_with = "as_key")]
    pub slot: Slot,
    /// The path in the slot.
    pub rel_path: String,
    pub source: CompiledSeedSource,
}

/// The content of a seed file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum CompiledSeedSource {
    /// Literal bytes.
    Inline {
        /// Base64, padded.
        bytes_base64: String,
    },
    /// A rendered template.
    Template { name: String, vars: Value },
}

impl CompiledSeedSource {
    pub(super) fn inline(content: &str) -> Self {
        Self::Inline { bytes_base64: STANDARD.encode(content) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompiledEnv {
    pub name: String,
    /// Its value in pieces, so that text from an input is never read as a credential.
    pub pieces: Vec<EnvPiece>,
    /// Whether the base declared it.
    pub from_base: bool,
}

/// A piece of a variable's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvPiece {
    Text(String),
    /// The secret with this name.
    Credential(String),
}

impl Serialize for CompiledEnv {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Item<'a> {
            name: &'a str,
            value: String,
        }
        let mut value = String::new();
        for piece in &self.pieces {
            match piece {
                EnvPiece::Text(text) => value.push_str(text),
                EnvPiece::Credential(name) => value.push_str(&format!("${{credential.{name}}}")),
            }
        }
        Item { name: &self.name, value }.serialize(serializer)
    }
}

/// A file that is synchronized with an external system.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompiledWorkingFile {
    pub slug: String,
    pub path: String,
    pub format: FileFormat,
    pub sync_direction: SyncDirection,
    pub source_kind: String,
    pub source_ref: Value,
}

fn in_order<S: Serializer>(mounts: &[(Slot, CompiledMount)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(mounts.iter().map(|(slot, mount)| (slot.key(), mount)))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn as_key<S: Serializer>(slot: &Slot, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(slot.key())
}
