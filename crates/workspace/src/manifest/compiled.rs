//! What compose reads: a manifest with nothing left to fill in.
//!
//! Serialised, this is the member `manifest` of a request. The mounts keep the order of their
//! declaration, so a writer that keeps order has to be used (`serde_json::to_string`, and not a
//! `serde_json::Value`, which sorts).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::vocabulary::{FileFormat, Role, SyncDirection};
use crate::slot::{Mode, Slot};

/// A compiled and bound manifest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompiledManifest {
    /// Its name.
    pub slug: String,
    /// Its version.
    pub version: String,
    /// The agent.
    pub agent: CompiledAgent,
    /// Every declared slot, in the order of declaration.
    #[serde(serialize_with = "in_order")]
    pub mounts: Vec<(Slot, CompiledMount)>,
    /// Files that are there from the start.
    pub seed_files: Vec<CompiledSeed>,
    /// Variables. A credential stands in them as its token.
    pub env: Vec<CompiledEnv>,
    /// The templates of the seed files, sorted.
    pub required_template_names: Vec<String>,
    /// Files that are kept in step with something outside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub working_files: Vec<CompiledWorkingFile>,
}

/// The agent of a [`CompiledManifest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompiledAgent {
    /// Which agent.
    pub slug: String,
    /// The group that it is filed under.
    pub group_key: String,
    /// What it is there for.
    pub role: Role,
    /// What its deliverables have to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliverable_spec_ref: Option<String>,
}

/// A declared slot.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CompiledMount {
    /// Whether it is mounted.
    pub enabled: bool,
    /// What the agent may do there, where it is not the default of the slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Everything else that was declared.
    pub config: Map<String, Value>,
}

/// A file that is there from the start.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompiledSeed {
    /// The slot that it goes to.
    #[serde(serialize_with = "as_key")]
    pub slot: Slot,
    /// Where in the slot.
    pub rel_path: String,
    /// What is in it.
    pub source: CompiledSeedSource,
}

/// What is in a seed file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum CompiledSeedSource {
    /// These bytes.
    Inline {
        /// Base64, padded.
        bytes_base64: String,
    },
    /// What a template makes of variables.
    Template {
        /// Which template.
        name: String,
        /// The variables.
        vars: Value,
    },
}

impl CompiledSeedSource {
    pub(super) fn inline(content: &str) -> Self {
        Self::Inline { bytes_base64: STANDARD.encode(content) }
    }
}

/// A variable of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompiledEnv {
    /// Its name.
    pub name: String,
    /// Its value. Kept in pieces, so that text from an input is never taken for a credential.
    pub pieces: Vec<EnvPiece>,
    /// Whether the base declared it.
    pub from_base: bool,
}

/// A part of the value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvPiece {
    /// Text.
    Text(String),
    /// The secret of that name.
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

/// A file that is kept in step with something outside.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names are those of the manifest, and say it")]
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
