//! The workspace manifest: what an agent needs, declared in a file.
//!
//! [`compile`] reads a manifest in YAML or JSON, checks every member, merges the base that it
//! `extends`, and reports all problems together with their paths and positions. [`Manifest::bind`]
//! fills in the inputs and returns what [`compose`](crate::compose) reads, and the context with the
//! projected mount configuration.
//!
//! ```
//! use serde_json::{Map, json};
//! use workspace::manifest::{self, Format, Surface};
//!
//! let yaml = b"
//! apiVersion: interlock.dev/workspace/v1
//! kind: WorkspaceManifest
//! extends: interlock://manifest/agent-session-base@1.0.0
//! metadata: {slug: helper, version: 1.0.0}
//! spec:
//!   inputs:
//!     spaces: {type: array, default: [handbook]}
//!   mounts:
//!     references: {kbSpaces: '${input.spaces}'}
//!   agent: {slug: engineer, stage: engineering, role: agent-session}
//! ";
//! let (manifest, warnings) = manifest::compile(yaml, "helper.yaml", Format::Yaml)?;
//! assert!(warnings.is_empty());
//!
//! let bound = manifest.bind(Surface::AgentSession, &Map::new(), Map::new())?;
//! assert_eq!(bound.agent_context["kbSpaceIds"], json!(["handbook"]));
//! # Ok::<(), workspace::Error>(())
//! ```

pub mod bind;
mod check;
mod compiled;
mod extends;
mod folder;
mod json;
mod merge;
mod model;
mod node;
mod problem;
mod read;
mod token;
pub(crate) mod vocabulary;
mod yaml;

use self::model::{Agent, Spec};
use self::node::Node;
use self::problem::{At, Problems};
use self::read::Use;
use crate::{Code, Error};

pub use self::bind::{Bound, BoundRequest};
pub use self::compiled::{
    CompiledAgent, CompiledEnv, CompiledManifest, CompiledMount, CompiledSeed, CompiledSeedSource,
    CompiledWorkingFile, EnvPiece,
};
pub use self::extends::{BaseFile, Bases, Ladder, SystemBases};
pub use self::folder::FolderBases;
pub use self::model::{Credential, Metadata, OutputSurface, Permissions, Skill, SubAgent, ToolSelection};
pub use self::node::Position;
pub use self::problem::{Location, Warning};
pub use self::vocabulary::{
    CredentialKind, FileFormat, InputType, OutputKind, ProviderKind, Role, SelectionKind, Surface,
    SyncDirection, ToolKey,
};

/// The largest file: a hundred times a typical one.
pub const MAX_BYTES: usize = 1 << 20;

/// The deepest nesting, because manifests are processed recursively.
pub const MAX_DEPTH: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The JSON-compatible part of YAML.
    Yaml,
    /// Strict JSON.
    Json,
}

impl Format {
    /// The format by file name: JSON for `.json`, otherwise YAML.
    pub fn of_name(name: &str) -> Self {
        if name.to_ascii_lowercase().ends_with(".json") { Self::Json } else { Self::Yaml }
    }
}

/// A valid manifest with its base merged.
#[derive(Clone, Debug)]
pub struct Manifest {
    metadata: Metadata,
    agent: Agent,
    spec: Spec,
    digest: canon::digest::Digest,
}

impl Manifest {
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The agent's role. A request must repeat it.
    pub fn role(&self) -> Role {
        self.agent.role
    }

    /// The names of the declared inputs, in order.
    pub fn input_names(&self) -> impl Iterator<Item = &str> {
        self.spec.inputs.iter().map(|(name, _)| name.as_str())
    }

    /// The digest of the file's bytes and of its base.
    pub fn digest(&self) -> canon::digest::Digest {
        self.digest
    }
}

/// Compiles a manifest that extends a built-in base or none. `name` is the file name in problems.
///
/// # Errors
/// The first problem, with the others as causes: `VALIDATION_ERROR`, `ENV_RESERVED_NAME`, or one of
/// the `MANIFEST_…` codes.
pub fn compile(bytes: &[u8], name: &str, format: Format) -> Result<(Manifest, Vec<Warning>), Error> {
    compile_with(bytes, name, format, &SystemBases)
}

/// Compiles a manifest with bases from `bases`.
///
/// # Errors
/// As [`compile`].
pub fn compile_with(
    bytes: &[u8],
    name: &str,
    format: Format,
    bases: &dyn Bases,
) -> Result<(Manifest, Vec<Warning>), Error> {
    let mut problems = Problems::new(name);
    let root = read_node(bytes, name, format)?;
    let document = read::document(&root, Use::Itself, &mut problems);
    let mut errors = problems.into_errors();
    let Some(mut document) = document else { return Err(all(errors)) };
    let mut hashed = canon::digest::Digest::of_bytes(bytes).to_string();
    if let Some((reference, place)) = document.extends.take() {
        match extends::load(&reference, &place, bases) {
            Ok((base, digest)) => {
                document.spec = merge::specs(base.spec, document.spec);
                hashed.push_str(&digest.to_string());
            }
            Err(error) => errors.insert(0, error),
        }
    } else {
        document.spec = merge::specs(Spec::default(), document.spec);
    }
    // Undeclared names are unknown while parts could not be read.
    let warnings = if errors.is_empty() { check::document(&document, &mut errors) } else { Vec::new() };
    match document.agent {
        Some(agent) if errors.is_empty() => {
            let digest = canon::digest::Digest::of_bytes(hashed.as_bytes());
            Ok((Manifest { metadata: document.metadata, agent, spec: document.spec, digest }, warnings))
        }
        _ => Err(all(errors)),
    }
}

/// Why a file cannot be parsed.
#[derive(Debug)]
struct Unreadable {
    position: Option<Position>,
    reason: String,
}

fn read_node(bytes: &[u8], name: &str, format: Format) -> Result<Node, Error> {
    let refuse = |position, reason: String| {
        let place = Location { file: name.into(), path: At::ROOT.to_string(), position };
        place.refuse(Code::ValidationError, reason)
    };
    if bytes.len() > MAX_BYTES {
        let reason = format!("the file is {} bytes; the limit is {MAX_BYTES} bytes", bytes.len());
        return Err(refuse(None, reason));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        refuse(None, format!("byte {} is not UTF-8; save the file as UTF-8", error.valid_up_to()))
    })?;
    let read = match format {
        Format::Yaml => yaml::read(text),
        Format::Json => json::read(text),
    };
    read.map_err(|unreadable| refuse(unreadable.position, unreadable.reason))
}

/// All problems as one error. There is at least one.
fn all(errors: Vec<Error>) -> Error {
    Error::first_of(errors)
        .unwrap_or_else(|| Error::new(Code::ValidationError, "the manifest cannot be read"))
}
