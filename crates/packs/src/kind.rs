//! The kinds of packs.

use serde::{Deserialize, Serialize};

/// The kind of a pack's content. A pack has one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackKind {
    /// Node types, agents, or both. The default kind.
    Node,
    /// Workflow fragments.
    WorkflowChain,
    Prompt,
    ArtifactType,
    /// Chat cards.
    Card,
    /// A service provider.
    Connection,
    /// Front-end plugins.
    FrontendPlugin,
}

impl PackKind {
    pub const ALL: [Self; 7] = [
        Self::Node,
        Self::WorkflowChain,
        Self::Prompt,
        Self::ArtifactType,
        Self::Card,
        Self::Connection,
        Self::FrontendPlugin,
    ];

    /// The spelling in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::WorkflowChain => "workflow-chain",
            Self::Prompt => "prompt",
            Self::ArtifactType => "artifact-type",
            Self::Card => "card",
            Self::Connection => "connection",
            Self::FrontendPlugin => "frontend-plugin",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The manifest members with the content.
    pub const fn content_members(self) -> &'static [&'static str] {
        match self {
            Self::Node => &["nodes", "agents"],
            Self::WorkflowChain => &["chains"],
            Self::Prompt => &["prompts"],
            Self::ArtifactType => &["artifactTypes"],
            Self::Card => &["cards"],
            Self::Connection => &["provider"],
            Self::FrontendPlugin => &["uiPlugins"],
        }
    }

    /// Whether the host runs code of such a pack. Other kinds only declare.
    pub const fn is_executable(self) -> bool {
        matches!(self, Self::Node)
    }
}

impl std::fmt::Display for PackKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.as_str())
    }
}
