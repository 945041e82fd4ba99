//! Strict manifests: `pack.json` of every kind.
//!
//! [`Manifest::read`] parses bytes to a typed manifest. `canon` rejects ambiguous JSON; then the tables of
//! [`shape`](self) validate the document and report every problem with a JSON Pointer; only a document without problems
//! becomes a [`Manifest`].
//!
//! ```
//! use packs::manifest::Manifest;
//!
//! let bytes = br#"{
//!   "name": "vendor.acme.tools", "version": "1.0.0", "engines": {"openwop": ">=1.0 <2.0.0"},
//!   "nodes": [{"typeId": "acme.fetch", "version": "1.0.0", "category": "data", "rolle": "pure"}],
//!   "runtime": {"language": "wasm", "entry": "nodes.wasm"}
//! }"#;
//! let refused = Manifest::read(bytes).unwrap_err();
//! assert_eq!(refused.to_string(), "/nodes/0/rolle: unknown field; did you mean `role`? (and 1 more)");
//! ```

mod agent;
mod chain;
mod common;
mod declared;
pub(crate) mod grammar;
mod node;
mod plugin;
pub(crate) mod problem;
pub(crate) mod prompt;
pub(crate) mod shape;

use canon::json::{self, ReadError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use self::problem::Pointer;
pub use self::{
    agent::{AgentManifest, Confidence, Handoff, MemoryShape, ToolRef},
    chain::{Chain, ChainOutput, Fragment, FragmentEdge, FragmentNode, Position},
    common::{Capability, Common, Engines, PeerMeta, Signing, SigningMethod},
    declared::{ArtifactType, Card, CardPrompt, Provider},
    node::{Language, NodePack, PackNode, REQUIREMENTS, Runtime, SecretRequirement, WasmRuntime},
    plugin::{HostMethod, PluginSurface, UiPlugin},
    problem::{MAX_PROBLEMS, ManifestErrorCode, Problem, Problems},
    prompt::{PromptKind, PromptRef, PromptTemplate, PromptVariable},
};
use crate::error::{PackError, PackErrorCode};
use crate::kind::PackKind;

/// The path of the manifest in an archive.
pub const MANIFEST_PATH: &str = "pack.json";
/// The maximum size of a manifest, in bytes.
pub const MAX_MANIFEST_BYTES: usize = 256 * 1024;
/// The maximum nesting depth of a manifest.
pub const MAX_MANIFEST_DEPTH: usize = 64;

/// A valid manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The members common to all kinds.
    pub common: Common,
    pub content: Content,
    document: Map<String, Value>,
}

/// The content of a pack, by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Node(Box<NodePack>),
    WorkflowChain(Vec<Chain>),
    Prompt(Vec<PromptTemplate>),
    ArtifactType(Vec<ArtifactType>),
    Card(Vec<Card>),
    Connection(Box<Provider>),
    FrontendPlugin(Vec<UiPlugin>),
}

/// Why bytes are not a valid manifest.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ManifestError {
    #[error("pack.json is {bytes} bytes; the limit is {MAX_MANIFEST_BYTES}")]
    TooLarge { bytes: usize },
    #[error("pack.json is not valid JSON: {0}")]
    NotJson(Box<ReadError>),
    /// The document violates the schema.
    #[error("{0}")]
    Problems(Problems),
}

impl ManifestError {
    /// The same as a pack error.
    pub fn into_pack_error(self) -> PackError {
        match &self {
            Self::TooLarge { .. } | Self::NotJson(_) => {
                PackError::new(PackErrorCode::ManifestInvalid, self.to_string())
            }
            Self::Problems(problems) => {
                let first = problems.first();
                let code = match first.map(|problem| problem.code) {
                    Some(ManifestErrorCode::KindInvalid) => PackErrorCode::KindInvalid,
                    Some(ManifestErrorCode::ConnectorActionUnresolved) => {
                        PackErrorCode::ConnectorActionUnresolved
                    }
                    Some(ManifestErrorCode::PromptTemplateInvalid) => PackErrorCode::PromptTemplateInvalid,
                    Some(ManifestErrorCode::Invalid | ManifestErrorCode::EnginesRange) | None => {
                        PackErrorCode::ManifestInvalid
                    }
                };
                let pointer = first.map(|problem| problem.pointer.clone()).unwrap_or_default();
                PackError::new(code, self.to_string()).detail("pointer", pointer)
            }
        }
    }
}

impl Manifest {
    /// Reads the bytes of `pack.json`.
    ///
    /// # Errors
    /// Every problem.
    pub fn read(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MAX_MANIFEST_BYTES {
            return Err(ManifestError::TooLarge { bytes: bytes.len() });
        }
        let limits = json::Limits::DEFAULT.max_bytes(MAX_MANIFEST_BYTES).max_depth(MAX_MANIFEST_DEPTH);
        let value = json::read(bytes, &limits).map_err(|error| ManifestError::NotJson(Box::new(error)))?;
        Self::from_value(&value).map_err(ManifestError::Problems)
    }

    /// Reads a strictly parsed document, whose depth is limited.
    ///
    /// # Errors
    /// Every problem.
    pub fn from_value(value: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let root = Pointer::Root;
        let Some(document) = value.as_object() else {
            problems.invalid(&root, format!("must be an object, not {}", shape::kind_of(value)));
            return Err(problems);
        };
        let Some(kind) = kind_of(document, &mut problems) else { return Err(problems) };
        common::check(value, kind, &root, &mut problems);
        match kind {
            PackKind::Node => node::check_content(value, &root, &mut problems),
            PackKind::WorkflowChain => chain::check_content(value, &root, &mut problems),
            PackKind::Prompt => prompt::check_content(value, &root, &mut problems),
            PackKind::ArtifactType => declared::check_artifact_types(value, &root, &mut problems),
            PackKind::Card => declared::check_cards(value, &root, &mut problems),
            PackKind::Connection => declared::check_provider(value, &root, &mut problems),
            PackKind::FrontendPlugin => plugin::check_content(value, &root, &mut problems),
        }
        if problems.is_empty() {
            match typed(value, kind) {
                Ok((common, content)) => return Ok(Self { common, content, document: document.clone() }),
                // A number that the tables accept but a type cannot hold.
                Err(error) => problems.invalid(&root, crate::name::shown(&error.to_string())),
            }
        }
        Err(problems)
    }

    pub fn kind(&self) -> PackKind {
        match &self.content {
            Content::Node(_) => PackKind::Node,
            Content::WorkflowChain(_) => PackKind::WorkflowChain,
            Content::Prompt(_) => PackKind::Prompt,
            Content::ArtifactType(_) => PackKind::ArtifactType,
            Content::Card(_) => PackKind::Card,
            Content::Connection(_) => PackKind::Connection,
            Content::FrontendPlugin(_) => PackKind::FrontendPlugin,
        }
    }

    /// The original document.
    pub fn document(&self) -> &Map<String, Value> {
        &self.document
    }

    /// The runtime, if any.
    pub fn runtime(&self) -> Option<&Runtime> {
        match &self.content {
            Content::Node(pack) => Some(&pack.runtime),
            _ => None,
        }
    }

    pub fn agents(&self) -> &[AgentManifest] {
        match &self.content {
            Content::Node(pack) => &pack.agents,
            _ => &[],
        }
    }

    pub fn chains(&self) -> &[Chain] {
        match &self.content {
            Content::WorkflowChain(chains) => chains,
            _ => &[],
        }
    }

    /// The ids in search: node types, or chains of a chain pack.
    pub fn type_ids(&self) -> Vec<&str> {
        match &self.content {
            Content::Node(pack) => pack.nodes.iter().map(|node| node.type_id.as_str()).collect(),
            Content::WorkflowChain(chains) => chains.iter().map(|chain| chain.chain_id.as_str()).collect(),
            Content::ArtifactType(types) => types.iter().map(|kind| kind.artifact_type_id.as_str()).collect(),
            Content::Card(cards) => cards.iter().map(|card| card.card_type_id.as_str()).collect(),
            Content::Prompt(prompts) => prompts.iter().map(|prompt| prompt.template_id.as_str()).collect(),
            Content::Connection(provider) => vec![provider.id.as_str()],
            Content::FrontendPlugin(plugins) => {
                plugins.iter().map(|plugin| plugin.plugin_id.as_str()).collect()
            }
        }
    }

    /// The archive files that the manifest refers to, each with its position in the manifest.
    pub fn file_refs(&self) -> Vec<(String, &str)> {
        match &self.content {
            Content::Node(pack) => pack.schema_refs(),
            Content::ArtifactType(types) => {
                let refs = types.iter().enumerate();
                refs.map(|(place, kind)| {
                    (format!("/artifactTypes/{place}/schemaRef"), kind.schema_ref.as_str())
                })
                .collect()
            }
            Content::Card(cards) => {
                let refs = cards.iter().enumerate();
                refs.filter_map(|(place, card)| {
                    Some((format!("/cards/{place}/outputSchemaRef"), card.output_schema_ref.as_deref()?))
                })
                .collect()
            }
            Content::WorkflowChain(_)
            | Content::Prompt(_)
            | Content::Connection(_)
            | Content::FrontendPlugin(_) => Vec::new(),
        }
    }

    pub fn id(&self) -> String {
        format!("{}@{}", self.common.name, self.common.version)
    }
}

/// The kind, if the document has one kind and no member that it does not allow.
fn kind_of(document: &Map<String, Value>, problems: &mut Problems) -> Option<PackKind> {
    let root = Pointer::Root;
    let at = root.member("kind");
    let wrong = ManifestErrorCode::KindInvalid;
    let kind = match document.get("kind") {
        None => PackKind::Node,
        Some(Value::String(text)) => match PackKind::parse(text) {
            Some(kind) => kind,
            None => {
                let known: Vec<_> = PackKind::ALL.iter().map(|kind| kind.as_str()).collect();
                let message =
                    format!("must be one of {1}, not `{0}`", crate::name::shown(text), known.join(", "));
                problems.add(wrong, &at, message);
                return None;
            }
        },
        Some(other) => {
            problems.add(wrong, &at, format!("must be a string, not {}", shape::kind_of(other)));
            return None;
        }
    };
    for other in PackKind::ALL.iter().filter(|other| **other != kind) {
        for member in other.content_members().iter().filter(|member| document.contains_key(**member)) {
            problems.add(
                wrong,
                &root.member(member),
                format!("is for packs of kind {other}; this pack has kind {kind}"),
            );
        }
    }
    if !kind.is_executable() && document.contains_key("runtime") {
        problems.add(wrong, &root.member("runtime"), format!("packs of kind {kind} cannot have a runtime"));
    }
    let allowed = common::members(kind);
    for name in document.keys() {
        let known = allowed.contains(&name.as_str())
            || name == "runtime"
            || PackKind::ALL.iter().any(|kind| kind.content_members().contains(&name.as_str()));
        if !known {
            let candidates = allowed.iter().chain(kind.content_members()).copied();
            let message = match canon::nearest::nearest(name, candidates, 1).first() {
                Some(meant) => format!("unknown field for kind {kind}; did you mean `{meant}`?"),
                None => format!("unknown field for kind {kind}"),
            };
            problems.invalid(&root.member(name), message);
        }
    }
    Some(kind)
}

fn typed(value: &Value, kind: PackKind) -> Result<(Common, Content), serde_json::Error> {
    let content = match kind {
        PackKind::Node => Content::Node(Box::new(whole(value)?)),
        PackKind::WorkflowChain => Content::WorkflowChain(part(value, "chains")?),
        PackKind::Prompt => Content::Prompt(part(value, "prompts")?),
        PackKind::ArtifactType => Content::ArtifactType(part(value, "artifactTypes")?),
        PackKind::Card => Content::Card(part(value, "cards")?),
        PackKind::Connection => Content::Connection(Box::new(part(value, "provider")?)),
        PackKind::FrontendPlugin => Content::FrontendPlugin(part(value, "uiPlugins")?),
    };
    Ok((whole(value)?, content))
}

fn whole<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    T::deserialize(value)
}

fn part<T: DeserializeOwned>(value: &Value, name: &str) -> Result<T, serde_json::Error> {
    T::deserialize(&value[name])
}
