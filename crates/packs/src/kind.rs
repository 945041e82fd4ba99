//! The kinds of packs.

use serde::{Deserialize, Serialize};

/// What a pack holds. A pack holds one kind of thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackKind {
    /// Types of nodes, agents, or both. The kind of a manifest that names none.
    Node,
    /// Pieces of workflows, put in while a workflow is written.
    WorkflowChain,
    /// Templates of prompts.
    Prompt,
    /// Types of artifacts.
    ArtifactType,
    /// Cards of a chat.
    Card,
    /// A provider that can be connected to.
    Connection,
    /// Parts of a front end.
    FrontendPlugin,
}

impl PackKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Node,
        Self::WorkflowChain,
        Self::Prompt,
        Self::ArtifactType,
        Self::Card,
        Self::Connection,
        Self::FrontendPlugin,
    ];

    /// The kind as manifests write it.
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

    /// The kind with exactly this text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The members of the manifest that hold what the pack is for.
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

    /// Whether such a pack has code that a host runs. The others only declare.
    pub const fn is_executable(self) -> bool {
        matches!(self, Self::Node)
    }
}

impl std::fmt::Display for PackKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.as_str())
    }
}
