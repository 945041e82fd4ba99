//! The declarations of a manifest, before its inputs are bound.

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::problem::Location;
use super::token::Text;
use super::vocabulary::{
    CredentialKind, FileFormat, InputType, OutputKind, ProviderKind, Role, SelectionKind, Surface,
    SyncDirection, ToolKey,
};
use crate::slot::{Mode, Slot};

/// A single file, before its base is merged.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) metadata: Metadata,
    pub(super) extends: Option<(Reference, Location)>,
    /// A base has none.
    pub(super) agent: Option<Agent>,
    pub(super) spec: Spec,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) slug: String,
    pub(super) version: String,
}

#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metadata {
    pub slug: String,
    /// Its version, `MAJOR.MINOR.PATCH`.
    pub version: String,
    pub title: Option<String>,
    pub description: Option<String>,
    /// The supported surfaces.
    pub surfaces: Vec<Surface>,
    /// For display; not interpreted.
    pub display: Option<Value>,
}

#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) slug: String,
    pub(super) group_key: String,
    pub(super) role: Role,
    pub(super) deliverable_spec_ref: Option<Expression>,
    pub(super) default_model: Option<Value>,
    pub(super) sub_agents: Vec<SubAgent>,
}

/// An agent that may be delegated to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubAgent {
    pub slug: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_model: Option<Value>,
}

/// The parts that a base can provide.
#[derive(Clone, Debug, Default)]
pub(super) struct Spec {
    pub(super) inputs: Vec<(String, Input)>,
    pub(super) mounts: Vec<(Slot, Mount)>,
    pub(super) seed_files: Vec<SeedFile>,
    pub(super) env: Vec<EnvItem>,
    pub(super) skills: Vec<Skill>,
    pub(super) tool_selection: Vec<ToolSelection>,
    pub(super) credentials: Vec<Credential>,
    pub(super) permissions: Option<Permissions>,
    pub(super) persistence: Vec<String>,
    pub(super) output_surface: Option<OutputSurface>,
    pub(super) working_files: Vec<WorkingFile>,
}

/// The declaration of an input.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) kind: InputType,
    pub(super) required: bool,
    pub(super) default: Option<Value>,
    pub(super) constraints: Constraints,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Constraints {
    pub(super) one_of: Option<Vec<Value>>,
    /// Compiled once: the default of each token is checked against it.
    pub(super) pattern: Option<Regex>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) minimum: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_minimum: Option<f64>,
    pub(super) exclusive_maximum: Option<f64>,
}

/// The declaration of a slot.
#[derive(Clone, Debug)]
pub(super) struct Mount {
    pub(super) enabled: bool,
    pub(super) mode: Option<Mode>,
    pub(super) config: Vec<(String, Expression)>,
    pub(super) place: Location,
}

impl Mount {
    pub(super) fn effective_mode(&self, slot: Slot) -> Mode {
        self.mode.unwrap_or(slot.default_mode())
    }
}

/// A value that may contain tokens.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    /// Without tokens.
    Plain(Value),
    /// A string with tokens.
    Text(Text),
    List(Vec<Expression>),
    Object(Vec<(String, Expression)>),
}

#[derive(Clone, Debug)]
pub(super) struct SeedFile {
    /// The path as written, which identifies a seed file.
    pub(super) key: String,
    pub(super) path: Expression,
    pub(super) slot: Slot,
    pub(super) source: SeedSource,
    pub(super) place: Location,
}

#[derive(Clone, Debug)]
pub(super) enum SeedSource {
    Content(Expression),
    Template { name: String, vars: Expression },
}

#[derive(Clone, Debug)]
pub(super) struct EnvItem {
    pub(super) name: String,
    pub(super) value: Expression,
    pub(super) from_base: bool,
}

/// A skill of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Skill {
    pub slug: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A tool, or all tools of a provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolSelection {
    pub kind: SelectionKind,
    pub provider_kind: ProviderKind,
    pub resource_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
}

/// A required secret, by reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Credential {
    pub name: String,
    /// Its kind, which selects the provider.
    pub kind: CredentialKind,
    /// The reference, which only the provider interprets.
    pub source_ref: String,
    pub required: bool,
}

/// The tool permissions of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Permissions {
    /// The only allowed ones, if given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<ToolKey>>,
    pub deny: Vec<ToolKey>,
}

/// What is visible from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OutputSurface {
    pub kind: OutputKind,
    /// The port it listens on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The path of its health check.
    pub health_path: String,
    /// Whether it is opened automatically.
    pub auto_open: bool,
}

/// A file that is synchronized with an external system.
#[derive(Clone, Debug)]
pub(super) struct WorkingFile {
    pub(super) slug: String,
    pub(super) path: String,
    pub(super) format: FileFormat,
    pub(super) sync_direction: SyncDirection,
    pub(super) source_kind: String,
    pub(super) source_ref: Expression,
    pub(super) place: Location,
}
