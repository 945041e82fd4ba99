//! Where the bytes of a mount come from: a closed set of kinds.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::slot::Mode;

/// Where the bytes of a mount come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Source {
    /// What the agent reads first, rendered.
    RenderedAgentsMd(Arc<RenderParams>),
    /// The same facts as JSON, rendered.
    RenderedContextJson(Arc<RenderParams>),
    /// The addition to the system prompt, rendered.
    RenderedSystemOverlay(Arc<RenderParams>),
    /// The bytes themselves.
    StaticLiteral {
        /// For audit only: inconsistent by tradition, and never used to place a file.
        path_within_workspace: String,
        /// Base64, padded.
        bytes: String,
    },
    /// The definition of an agent.
    AgentDefinition {
        /// Whose agent.
        org_id: String,
        /// Which agent.
        agent_slug: String,
        /// The group that it is filed under.
        group_key: String,
        /// The agent itself, or one that it delegates to.
        agent_mode: AgentMode,
    },
    /// A skill, a folder.
    SkillBundle {
        /// Which skill.
        skill_key: String,
    },
    /// A section of instructions.
    InstructionSection {
        /// Whose section.
        org_id: String,
        /// Which section.
        section_key: String,
        /// For which agent.
        agent_slug: String,
        /// The group that the agent is filed under.
        group_key: String,
    },
    /// One version of an artifact.
    ArtifactVersion {
        /// Which artifact.
        artifact_id: String,
        /// Which version; a composed plan may hold any number, a valid one an integer from 1.
        version: Number,
        /// The name of the file.
        file_name: String,
        /// The member of the payload that is wanted. `null` is kept where it was given.
        #[serde(skip_serializing_if = "Option::is_none")]
        payload_field: Option<Value>,
        /// The media type. `null` is kept where it was given.
        #[serde(skip_serializing_if = "Option::is_none")]
        content_type: Option<Value>,
    },
    /// Every page of a space.
    KbSpace {
        /// Which space.
        space_id: String,
    },
    /// Some pages of a space.
    KbPages {
        /// Which space.
        space_id: String,
        /// Which pages.
        page_slugs: Vec<String>,
    },
    /// A repository at a revision.
    ScmRepo {
        /// Which repository.
        repo_ref: String,
        /// Which revision.
        #[serde(rename = "ref")]
        git_ref: String,
    },
    /// What a deliverable has to be.
    DeliverableSpecs {
        /// Which contract.
        contract_key: String,
    },
    /// Deliverables of before.
    Deliverables {
        /// Which contract.
        contract_key: String,
    },
    /// What was attached to a session.
    SessionAttachment {
        /// Which session.
        session_id: String,
    },
}

/// The kind of a [`Source`] alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    /// `rendered-agents-md`
    RenderedAgentsMd,
    /// `rendered-context-json`
    RenderedContextJson,
    /// `rendered-system-overlay`
    RenderedSystemOverlay,
    /// `static-literal`
    StaticLiteral,
    /// `agent-definition`
    AgentDefinition,
    /// `skill-bundle`
    SkillBundle,
    /// `instruction-section`
    InstructionSection,
    /// `artifact-version`
    ArtifactVersion,
    /// `kb-space`
    KbSpace,
    /// `kb-pages`
    KbPages,
    /// `scm-repo`
    ScmRepo,
    /// `deliverable-specs`
    DeliverableSpecs,
    /// `deliverables`
    Deliverables,
    /// `session-attachment`
    SessionAttachment,
}

impl SourceKind {
    /// Every kind.
    pub const ALL: [Self; 14] = [
        Self::RenderedAgentsMd,
        Self::RenderedContextJson,
        Self::RenderedSystemOverlay,
        Self::StaticLiteral,
        Self::AgentDefinition,
        Self::SkillBundle,
        Self::InstructionSection,
        Self::ArtifactVersion,
        Self::KbSpace,
        Self::KbPages,
        Self::ScmRepo,
        Self::DeliverableSpecs,
        Self::Deliverables,
        Self::SessionAttachment,
    ];

    /// The spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RenderedAgentsMd => "rendered-agents-md",
            Self::RenderedContextJson => "rendered-context-json",
            Self::RenderedSystemOverlay => "rendered-system-overlay",
            Self::StaticLiteral => "static-literal",
            Self::AgentDefinition => "agent-definition",
            Self::SkillBundle => "skill-bundle",
            Self::InstructionSection => "instruction-section",
            Self::ArtifactVersion => "artifact-version",
            Self::KbSpace => "kb-space",
            Self::KbPages => "kb-pages",
            Self::ScmRepo => "scm-repo",
            Self::DeliverableSpecs => "deliverable-specs",
            Self::Deliverables => "deliverables",
            Self::SessionAttachment => "session-attachment",
        }
    }

    /// Whether it yields a folder of files; the others yield one file.
    pub const fn is_tree(self) -> bool {
        match self {
            Self::SkillBundle
            | Self::KbSpace
            | Self::KbPages
            | Self::ScmRepo
            | Self::DeliverableSpecs
            | Self::Deliverables
            | Self::SessionAttachment => true,
            Self::RenderedAgentsMd
            | Self::RenderedContextJson
            | Self::RenderedSystemOverlay
            | Self::StaticLiteral
            | Self::AgentDefinition
            | Self::InstructionSection
            | Self::ArtifactVersion => false,
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Source {
    /// Its kind.
    pub const fn kind(&self) -> SourceKind {
        match self {
            Self::RenderedAgentsMd(_) => SourceKind::RenderedAgentsMd,
            Self::RenderedContextJson(_) => SourceKind::RenderedContextJson,
            Self::RenderedSystemOverlay(_) => SourceKind::RenderedSystemOverlay,
            Self::StaticLiteral { .. } => SourceKind::StaticLiteral,
            Self::AgentDefinition { .. } => SourceKind::AgentDefinition,
            Self::SkillBundle { .. } => SourceKind::SkillBundle,
            Self::InstructionSection { .. } => SourceKind::InstructionSection,
            Self::ArtifactVersion { .. } => SourceKind::ArtifactVersion,
            Self::KbSpace { .. } => SourceKind::KbSpace,
            Self::KbPages { .. } => SourceKind::KbPages,
            Self::ScmRepo { .. } => SourceKind::ScmRepo,
            Self::DeliverableSpecs { .. } => SourceKind::DeliverableSpecs,
            Self::Deliverables { .. } => SourceKind::Deliverables,
            Self::SessionAttachment { .. } => SourceKind::SessionAttachment,
        }
    }
}

/// Whether an agent is the one that works or one that it delegates to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentMode {
    /// The agent that works here.
    Primary,
    /// One that it may delegate to.
    Subagent,
}

/// What the three rendered files are made from. One value is shared by the three, so that they
/// come from one rendering.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the request, and say it")]
pub struct RenderParams {
    pub org_id: String,
    pub project_id: String,
    pub agent_slug: String,
    pub group_key: String,
    pub role: String,
    /// `null` is kept where it was given.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub deliverable_spec_ref: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_inputs: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<RenderedMount>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_artifacts: Vec<RenderedInputArtifact>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub working_files: Vec<RenderedWorkingFile>,
}

/// An enabled slot, as the renderer is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderedMount {
    /// The path of the slot.
    pub mount: String,
    /// What the agent may do there.
    pub mode: Mode,
}

/// An input artifact, as the renderer is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderedInputArtifact {
    /// Where the agent finds it.
    pub path: String,
    /// Its media type. `null` is kept where it was given.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub content_type: Option<Value>,
    /// Which artifact it is.
    pub source_artifact_id: String,
    /// Which version of it.
    pub source_version: Number,
}

/// A file that is kept in step with something outside, as the renderer is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the manifest, and say it")]
pub struct RenderedWorkingFile {
    pub slug: String,
    pub path: String,
    pub format: String,
    pub sync_direction: String,
    pub source_kind: String,
    pub source_ref: Map<String, Value>,
}

/// Tells a member that is `null` from one that is not there.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
