//! The types of nodes that this program serves: a closed set.

use std::fmt;

use super::Capabilities;
use super::called::{CalledType, Family};
use super::exposed::ExposedType;

/// The capability that mock nodes need. Only a host whose conformance seams are enabled has it.
pub(crate) const MOCK_AGENT: &str = "conformance.mockAgent";

macro_rules! node_types {
    ($(#[doc = $doc:literal] $name:ident => $text:literal,)+) => {
        /// The type of a node.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum NodeType {
            $(#[doc = $doc] $name,)+
            /// The host does its work.
            Called(CalledType),
            /// It says what its workflow is to clients of MCP.
            Exposed(ExposedType),
            /// A pack brings it; the node has its name.
            Pack,
        }

        impl NodeType {
            /// The types that the engine does itself.
            const OWN: &'static [Self] = &[$(Self::$name),+];

            /// The spelling in a definition. That of a type that a pack brings is in the node.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                    Self::Called(called) => called.as_str(),
                    Self::Exposed(exposed) => exposed.as_str(),
                    Self::Pack => "pack",
                }
            }

            /// What it does, in a sentence.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$name => $doc.trim_ascii(),)+
                    Self::Called(called) => called.summary(),
                    Self::Exposed(exposed) => exposed.summary(),
                    Self::Pack => "Does what its pack says.",
                }
            }
        }
    };
}

node_types! {
    /// Marks the beginning.
    Start => "core.start",
    /// Marks an end.
    End => "core.end",
    /// Does nothing.
    Noop => "core.noop",
    /// Returns its inputs as outputs and as variables.
    Identity => "core.identity",
    /// Evaluates a condition.
    Conditional => "core.conditional",
    /// Waits for a given time.
    Delay => "core.delay",
    /// Counts iterations.
    Loop => "core.loop",
    /// Starts branches.
    Parallel => "core.parallel",
    /// Joins branches.
    Merge => "core.merge",
    /// Sets a variable.
    SetVariable => "core.setVariable",
    /// Reads a variable.
    GetVariable => "core.getVariable",
    /// Waits for an answer or an event from outside the run.
    Interrupt => "core.interrupt",
    /// Fails with a code and a message.
    Fail => "core.fail",
    /// Waits for a person to approve.
    ApprovalGate => "core.approvalGate",
    /// Waits for a person to answer questions.
    ClarificationGate => "core.clarificationGate",
    /// Waits for people with a role to approve, or for an override.
    GovernanceGate => "core.openwop.governance.approvalGate",
    /// Writes to a channel.
    ChannelWrite => "core.channelWrite",
    /// Runs another workflow.
    SubWorkflow => "core.subWorkflow",
    /// Decides which workers run next.
    Supervisor => "core.orchestrator.supervisor",
    /// Runs the workers that the supervisor chose.
    Dispatch => "core.dispatch",
    /// Guides an agent through a workflow of steps, in its own workspace.
    Guided => "interlock.guided",
    /// Has a conversation with a person.
    ConversationGate => "core.conversationGate",
    /// Simulates an agent.
    MockAgent => "core.conformance.mock-agent",
    /// Has an effect that can be counted.
    SideEffect => "core.conformance.side-effect",
    /// Needs a capability that no host has.
    RequiresMissing => "conformance.requiresMissing",
    /// Shows the digest of a secret.
    SecretEcho => "conformance.secret.echo",
    /// Reports a cost.
    CostEmit => "conformance.cost.emit",
    /// Needs a model capability that no host has.
    ModelCapabilityInsufficient => "conformance.modelCapability.insufficient",
    /// Creates an artifact.
    ArtifactEmit => "conformance.artifact.emit",
}

impl NodeType {
    /// Every type that has a name of its own.
    pub fn all() -> impl Iterator<Item = Self> {
        let called = CalledType::ALL.iter().copied().map(Self::Called);
        let exposed = ExposedType::ALL.iter().copied().map(Self::Exposed);
        Self::OWN.iter().copied().chain(called).chain(exposed)
    }

    /// The type of that spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Self::all().find(|kind| kind.as_str() == text)
    }

    /// Whether the host does the work of its nodes.
    pub const fn is_called(self) -> bool {
        matches!(self, Self::Called(_) | Self::Pack | Self::Exposed(ExposedType::Sampling))
    }

    /// Every name that an input of its nodes may have; nothing where any may.
    pub fn input_names(self) -> Option<Vec<&'static str>> {
        match self {
            Self::Called(called) => called.input_names(),
            _ => None,
        }
    }

    /// Whether its nodes are given what a model says.
    pub const fn asks_models(self) -> bool {
        match self {
            Self::Called(called) => matches!(called.family(), Family::Model | Family::Agent),
            _ => false,
        }
    }

    /// Whether its nodes are mocks, for conformance suites alone.
    pub const fn is_mock(self) -> bool {
        match self {
            Self::MockAgent
            | Self::SideEffect
            | Self::RequiresMissing
            | Self::SecretEcho
            | Self::CostEmit
            | Self::ModelCapabilityInsufficient
            | Self::ArtifactEmit => true,
            Self::Called(called) => matches!(called, CalledType::MockAi),
            Self::Start
            | Self::End
            | Self::Noop
            | Self::Identity
            | Self::Conditional
            | Self::Delay
            | Self::Loop
            | Self::Parallel
            | Self::Merge
            | Self::SetVariable
            | Self::GetVariable
            | Self::Interrupt
            | Self::Fail
            | Self::ApprovalGate
            | Self::ClarificationGate
            | Self::GovernanceGate
            | Self::ChannelWrite
            | Self::SubWorkflow
            | Self::Supervisor
            | Self::Dispatch
            | Self::Guided
            | Self::ConversationGate
            | Self::Exposed(_)
            | Self::Pack => false,
        }
    }

    /// The capability that the type needs, where the host does not serve it.
    pub fn missing_capability(self, capabilities: &Capabilities) -> Option<&'static str> {
        if self.is_mock() && !capabilities.mock_agent {
            return Some(MOCK_AGENT);
        }
        let (served, name) = match self {
            Self::ConversationGate => (capabilities.conversation, "conversationPrimitive"),
            Self::Supervisor => (capabilities.orchestrator, "orchestrator.supported"),
            Self::Dispatch => (capabilities.dispatch, "dispatch.supported"),
            Self::Called(called) => match called.family() {
                Family::Surface { surface, .. } => {
                    (capabilities.surfaces.contains(surface), surface_flag(surface))
                }
                // A mock of a model needs what serves models as well.
                Family::Model if self.is_mock() => (capabilities.models, MOCK_AGENT),
                Family::Model => (capabilities.models, "aiProviders.supported"),
                Family::Agent => (capabilities.agents, "agents.manifestRuntime.supported"),
                Family::Mcp { .. } => (capabilities.mcp_client, "mcp.supported"),
                Family::Host => return None,
            },
            Self::Exposed(ExposedType::Sampling) => {
                (capabilities.mcp_sampling, "mcp.serverMount.samplingBridge")
            }
            Self::Exposed(_) => (capabilities.mcp_mount, "mcp.serverMount.supported"),
            Self::MockAgent
            | Self::SideEffect
            | Self::RequiresMissing
            | Self::SecretEcho
            | Self::CostEmit
            | Self::ModelCapabilityInsufficient
            | Self::ArtifactEmit
            | Self::Start
            | Self::End
            | Self::Noop
            | Self::Identity
            | Self::Conditional
            | Self::Delay
            | Self::Loop
            | Self::Parallel
            | Self::Merge
            | Self::SetVariable
            | Self::GetVariable
            | Self::Interrupt
            | Self::Fail
            | Self::ApprovalGate
            | Self::ClarificationGate
            | Self::GovernanceGate
            | Self::ChannelWrite
            | Self::SubWorkflow
            | Self::Guided
            | Self::Pack => (true, ""),
        };
        (!served).then_some(name)
    }
}

/// The flag of the discovery document for a surface.
const fn surface_flag(surface: &str) -> &'static str {
    match surface.as_bytes() {
        b"kv" => "kvStorage.supported",
        b"table" => "tableStorage.supported",
        b"cache" => "cache.supported",
        b"blob" => "blobStorage.supported",
        b"queueBus" => "queueBus.supported",
        b"sql" => "sql.supported",
        b"vector" => "vectorStore.supported",
        b"search" => "searchIndex.supported",
        _ => "fs.supported",
    }
}

impl fmt::Display for NodeType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
