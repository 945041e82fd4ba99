//! Agents of installed packs: catalogue, references and handoff schemas.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::archive::Archive;
use crate::error::{PackError, PackErrorCode};
use crate::manifest::{AgentManifest, Manifest, MemoryShape, ToolRef};

/// The public description of an agent, without its prompt.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogueEntry {
    pub agent_id: String,
    pub persona: String,
    pub label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The required model class.
    pub model_class: String,
    pub pack_name: String,
    pub pack_version: String,
    /// The tools that it may use.
    pub tool_allowlist: Vec<String>,
    /// Whether tasks and results are validated.
    pub has_handoff_schemas: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_shape: Option<MemoryShape>,
    /// Below this confidence it asks a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence_threshold: Option<f64>,
    /// The required capabilities that this host lacks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// Whether this host lacks a memory that it requests.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub memory_degraded: bool,
    /// The missing memory dimensions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub degraded_memory_dimensions: Vec<&'static str>,
}

/// The catalog entries of a pack's agents. `lacks` returns whether this host lacks a capability.
pub fn catalogue(manifest: &Manifest, lacks: impl Fn(&str) -> bool) -> Vec<CatalogueEntry> {
    let without_memory = lacks("memory");
    let entry = |agent: &AgentManifest| CatalogueEntry {
        memory_degraded: without_memory && !memory_of(agent).is_empty(),
        degraded_memory_dimensions: if without_memory { memory_of(agent) } else { Vec::new() },
        agent_id: agent.agent_id.clone(),
        persona: agent.persona.clone(),
        label: agent.label.clone().unwrap_or_else(|| agent.persona.clone()),
        description: agent.description.clone(),
        model_class: agent.model_class.clone(),
        pack_name: manifest.common.name.to_string(),
        pack_version: manifest.common.version.to_string(),
        tool_allowlist: agent.tool_allowlist.clone(),
        has_handoff_schemas: agent.handoff.task_schema_ref.is_some()
            || agent.handoff.return_schema_ref.is_some(),
        memory_shape: agent.memory_shape,
        confidence_threshold: agent.confidence.default_threshold,
        degraded: agent
            .requires_capabilities
            .iter()
            .filter(|capability| lacks(capability))
            .cloned()
            .collect(),
    };
    manifest.agents().iter().map(entry).collect()
}

/// The requested memory dimensions of an agent.
fn memory_of(agent: &AgentManifest) -> Vec<&'static str> {
    let shape = agent.memory_shape.unwrap_or_default();
    let (wants, mut dimensions) = (|flag: Option<bool>| flag == Some(true), Vec::new());
    if wants(shape.scratchpad) || wants(shape.conversation) {
        dimensions.extend(["read", "write"]);
    }
    if wants(shape.long_term) {
        dimensions.push("long-term-durability");
    }
    dimensions
}

/// Whether an agent may use a tool: it is literally in the allow list. Without a list, no tool is allowed.
pub fn may_use(agent: &AgentManifest, tool: &str) -> bool {
    ToolRef::parse(tool).is_some() && agent.tool_allowlist.iter().any(|allowed| allowed == tool)
}

/// A reference to an agent in a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRef {
    pub agent_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// Mutually exclusive with `channel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Mutually exclusive with `version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The manifest from which it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_manifest_id: Option<String>,
}

impl AgentRef {
    /// Reads a reference.
    ///
    /// # Errors
    /// Every problem, with JSON Pointers.
    pub fn read(value: &Value) -> Result<Self, crate::manifest::Problems> {
        use crate::manifest::problem::{Pointer, Problems};
        use crate::manifest::shape::{Rule, Shape, check_object, closed, optional, required, text};

        const CLASSES: [&str; 9] = [
            "reasoning",
            "tool-using",
            "chat",
            "code",
            "vision",
            "multimodal",
            "embedding",
            "classification",
            "retrieval",
        ];
        const REFERENCE: Shape = closed(&[
            required("agentId", text(3, 256)),
            optional("name", text(0, 256)),
            optional("modelClass", Rule::OneOf(&CLASSES)),
            optional("memoryRef", text(1, 256)),
            optional("version", text(0, 64)),
            optional("channel", text(1, 64)),
            optional("sourceManifestId", text(0, 256)),
        ]);
        let mut problems = Problems::default();
        check_object(value, &REFERENCE, &Pointer::Root, &mut problems);
        if value.get("version").is_some() && value.get("channel").is_some() {
            problems.invalid(&Pointer::Root.member("channel"), "cannot be combined with `version`");
        }
        if problems.is_empty() {
            match Self::deserialize(value) {
                Ok(reference) => return Ok(reference),
                Err(error) => problems.invalid(&Pointer::Root, error.to_string()),
            }
        }
        Err(problems)
    }
}

/// The compiled schemas of an agent's tasks and results.
#[derive(Debug, Default)]
pub struct HandoffSchemas {
    task: Option<jsonschema::Validator>,
    returned: Option<jsonschema::Validator>,
}

impl HandoffSchemas {
    /// Compiles the schemas of an agent.
    ///
    /// # Errors
    /// `pack_load_failure`: a file is missing or not a schema.
    pub fn load(agent: &AgentManifest, archive: &Archive) -> Result<Self, PackError> {
        Self::compile(agent, |path| archive.file(path).map(<[u8]>::to_vec))
    }

    /// As [`HandoffSchemas::load`], with files from a callback.
    ///
    /// # Errors
    /// As [`HandoffSchemas::load`].
    pub fn compile(agent: &AgentManifest, file: impl Fn(&str) -> Option<Vec<u8>>) -> Result<Self, PackError> {
        let compiled = |path: &Option<String>| -> Result<Option<jsonschema::Validator>, PackError> {
            let Some(path) = path else { return Ok(None) };
            let failure = |message: String| {
                PackError::new(
                    PackErrorCode::LoadFailure,
                    format!("the schema `{path}` of {}: {message}", agent.agent_id),
                )
                .detail("path", path.as_str())
            };
            let bytes = file(path).ok_or_else(|| failure("is not in the pack".to_owned()))?;
            let limits = canon::json::Limits::DEFAULT.max_bytes(crate::schema::MAX_SCHEMA_BYTES);
            let schema = canon::json::read(&bytes, &limits).map_err(|error| failure(error.to_string()))?;
            crate::schema::compile(&schema).map(Some).map_err(failure)
        };
        Ok(Self {
            task: compiled(&agent.handoff.task_schema_ref)?,
            returned: compiled(&agent.handoff.return_schema_ref)?,
        })
    }

    /// Validates a task.
    ///
    /// # Errors
    /// `handoff_task_schema_violation`. The error does not contain the value.
    pub fn check_task(&self, value: &Value) -> Result<(), PackError> {
        check(self.task.as_ref(), value, PackErrorCode::HandoffTaskSchemaViolation, "the task")
    }

    /// Validates a result.
    ///
    /// # Errors
    /// `handoff_return_schema_violation`. The error does not contain the value.
    pub fn check_return(&self, value: &Value) -> Result<(), PackError> {
        check(self.returned.as_ref(), value, PackErrorCode::HandoffReturnSchemaViolation, "the result")
    }
}

fn check(
    validator: Option<&jsonschema::Validator>,
    value: &Value,
    code: PackErrorCode,
    what: &str,
) -> Result<(), PackError> {
    let Some((path, message)) =
        validator.and_then(|validator| crate::schema::first_violation(validator, value))
    else {
        return Ok(());
    };
    Err(PackError::new(code, format!("{what} {message}, at `{path}`")).detail("path", path))
}
