//! What a manifest declares, after it was read and before its inputs are bound.

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::problem::Place;
use super::token::Text;
use super::vocabulary::{
    CredentialKind, FileFormat, InputType, OutputKind, ProviderKind, Role, SelectionKind, Surface,
    SyncDirection, ToolKey,
};
use crate::slot::{Mode, Slot};

/// A file by itself, its base not yet merged.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) metadata: Metadata,
    pub(super) extends: Option<(Reference, Place)>,
    /// A base has none.
    pub(super) agent: Option<Agent>,
    pub(super) spec: Spec,
}

/// Which manifest is extended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) slug: String,
    pub(super) version: String,
}

/// What a manifest says about itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metadata {
    /// Its name.
    pub slug: String,
    /// Its version, `MAJOR.MINOR.PATCH`.
    pub version: String,
    /// What to call it.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Where it can be used.
    pub surfaces: Vec<Surface>,
    /// For those who show it; not interpreted.
    pub display: Option<Value>,
}

/// The agent of a workspace.
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
    /// Which agent.
    pub slug: String,
    /// What it is called here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The model that it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_model: Option<Value>,
}

/// Everything that a base can give.
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

/// What an input has to keep.
#[derive(Clone, Debug, Default)]
pub(super) struct Constraints {
    pub(super) one_of: Option<Vec<Value>>,
    /// Compiled once: a default of each token is checked against it.
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
    pub(super) place: Place,
}

impl Mount {
    pub(super) fn effective_mode(&self, slot: Slot) -> Mode {
        self.mode.unwrap_or(slot.default_mode())
    }
}

/// A value that may hold tokens.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    /// Nothing to fill in.
    Plain(Value),
    /// A text with tokens.
    Text(Text),
    List(Vec<Expression>),
    Object(Vec<(String, Expression)>),
}

/// A file that is in the workspace from the start.
#[derive(Clone, Debug)]
pub(super) struct SeedFile {
    /// The path as it is written, which is what one seed is known by.
    pub(super) key: String,
    pub(super) path: Expression,
    pub(super) slot: Slot,
    pub(super) source: SeedSource,
    pub(super) place: Place,
}

#[derive(Clone, Debug)]
pub(super) enum SeedSource {
    Content(Expression),
    Template { name: String, vars: Expression },
}

/// A variable of the environment.
#[derive(Clone, Debug)]
pub(super) struct EnvItem {
    pub(super) name: String,
    pub(super) value: Expression,
    pub(super) from_base: bool,
}

/// A skill that the agent has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Skill {
    /// Which skill.
    pub slug: String,
    /// Which versions of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A tool, or all tools of a provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolSelection {
    /// One tool, or all of them.
    pub kind: SelectionKind,
    /// Who provides it.
    pub provider_kind: ProviderKind,
    /// Which provider of that kind.
    pub resource_id: String,
    /// Which tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
}

/// A secret that is needed, by reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Credential {
    /// What it is called here.
    pub name: String,
    /// What it opens, and so who is asked for it.
    pub kind: CredentialKind,
    /// Where it is; only that source understands it.
    pub source_ref: String,
    /// Whether nothing starts without it.
    pub required: bool,
}

/// What the agent is permitted to do with tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Permissions {
    /// Only these, where it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<ToolKey>>,
    /// Not these.
    pub deny: Vec<ToolKey>,
}

/// What of the workspace can be looked at from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OutputSurface {
    /// What it is.
    pub kind: OutputKind,
    /// Where it listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Where it says that it is well.
    pub health_path: String,
    /// Whether it is shown unasked.
    pub auto_open: bool,
}

/// A file that is kept in step with something outside.
#[derive(Clone, Debug)]
pub(super) struct WorkingFile {
    pub(super) slug: String,
    pub(super) path: String,
    pub(super) format: FileFormat,
    pub(super) sync_direction: SyncDirection,
    pub(super) source_kind: String,
    pub(super) source_ref: Expression,
    pub(super) place: Place,
}
