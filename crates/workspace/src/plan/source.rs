//! The sources of a mount: a closed set of kinds.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::slot::Mode;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Source {
    /// What the agent reads first, rendered.
    RenderedAgentsMd(Arc<RenderParams>),
    /// The same facts as JSON, rendered.
    RenderedContextJson(Arc<RenderParams>),
    /// The addition to the system prompt, rendered.
    RenderedSystemOverlay(Arc<RenderParams>),
    /// Literal bytes.
    StaticLiteral {
        /// For audit only: historically inconsistent, and never used to place a file.
        path_within_workspace: String,
        /// Base64, padded.
        bytes: String,
    },
    AgentDefinition {
        org_id: String,
        agent_slug: String,
        group_key: String,
        /// The agent itself, or a delegate.
        agent_mode: AgentMode,
    },
    SkillBundle {
        skill_key: String,
    },
    InstructionSection {
        org_id: String,
        section_key: String,
        agent_slug: String,
        group_key: String,
    },
    ArtifactVersion {
        artifact_id: String,
        /// A composed plan may contain any number, a valid one an integer of at least 1.
        version: Number,
        file_name: String,
        /// The wanted member of the payload. A given `null` is kept.
        #[serde(skip_serializing_if = "Option::is_none")]
        payload_field: Option<Value>,
        /// The media type. A given `null` is kept.
        #[serde(skip_serializing_if = "Option::is_none")]
        content_type: Option<Value>,
    },
    /// All pages of a space.
    KbSpace {
        space_id: String,
    },
    /// Selected pages of a space.
    KbPages {
        space_id: String,
        page_slugs: Vec<String>,
    },
    /// A repository at a revision.
    ScmRepo {
        repo_ref: String,
        #[serde(rename = "ref")]
        git_ref: String,
    },
    /// The specification of a deliverable.
    DeliverableSpecs {
        contract_key: String,
    },
    Deliverables {
        contract_key: String,
    },
    SessionAttachment {
        session_id: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    RenderedAgentsMd,
    RenderedContextJson,
    RenderedSystemOverlay,
    StaticLiteral,
    AgentDefinition,
    SkillBundle,
    InstructionSection,
    ArtifactVersion,
    KbSpace,
    KbPages,
    ScmRepo,
    DeliverableSpecs,
    Deliverables,
    SessionAttachment,
}

impl SourceKind {
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

    /// The wire name.
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

    /// Whether it provides a folder; other kinds provide one file.
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

/// The agent itself or a delegate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentMode {
    /// The agent itself.
    Primary,
    /// A delegate.
    Subagent,
}

/// The parameters of the three rendered files. The value is shared, so that all three come from one
/// rendering.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderParams {
    pub org_id: String,
    pub project_id: String,
    pub agent_slug: String,
    pub group_key: String,
    pub role: String,
    /// A given `null` is kept.
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

/// An enabled slot, for the renderer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderedMount {
    pub mount: String,
    pub mode: Mode,
}

/// An input artifact, for the renderer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderedInputArtifact {
    pub path: String,
    /// Its media type. A given `null` is kept.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub content_type: Option<Value>,
    pub source_artifact_id: String,
    pub source_version: Number,
}

/// A synchronized file, for the renderer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderedWorkingFile {
    pub slug: String,
    pub path: String,
    pub format: String,
    pub sync_direction: String,
    pub source_kind: String,
    pub source_ref: Map<String, Value>,
}

/// Distinguishes a `null` member from an absent one.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
