//! The supported node types: a closed set.

use std::fmt;

use super::Capabilities;
use super::called::{CalledType, Family, Surface};
use super::exposed::ExposedType;

/// The capability that mock nodes require. Only a host with enabled conformance seams has it.
pub(crate) const MOCK_AGENT: &str = "conformance.mockAgent";

macro_rules! node_types {
    ($(#[doc = $doc:literal] $name:ident => $text:literal, $needs:expr;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum NodeType {
            $(#[doc = $doc] $name,)+
            /// The host executes it.
            Called(CalledType),
            /// It exposes its workflow to MCP clients.
            Exposed(ExposedType),
            /// A pack provides it; the node contains its name.
            Pack,
        }

        impl NodeType {
            /// The types that the engine executes itself.
            const OWN: &'static [Self] = &[$(Self::$name),+];

            /// The spelling in a definition. For a type of a pack, the node contains it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                    Self::Called(called) => called.as_str(),
                    Self::Exposed(exposed) => exposed.as_str(),
                    Self::Pack => "pack",
                }
            }

            const fn needs(self) -> Needs {
                match self {
                    $(Self::$name => $needs,)+
                    Self::Called(called) => match called.family() {
                        // A mock of a model also requires the executor for models.
                        Family::Model if matches!(called, CalledType::MockAi) => Needs::MockModel,
                        Family::Model => Needs::Flag("aiProviders.supported", |served| served.models),
                        Family::Agent => {
                            Needs::Flag("agents.manifestRuntime.supported", |served| served.agents)
                        }
                        Family::Mcp { .. } => Needs::Flag("mcp.supported", |served| served.mcp_client),
                        Family::Surface { surface, .. } => Needs::Surface(surface),
                        Family::Http => Needs::Flag("httpClient.supported", |served| served.http_client),
                        Family::Host => Needs::Nothing,
                    },
                    Self::Exposed(exposed) => match exposed {
                        ExposedType::Sampling => {
                            Needs::Flag("mcp.serverMount.samplingBridge", |served| served.mcp_sampling)
                        }
                        ExposedType::ServerTrigger
                        | ExposedType::Tool
                        | ExposedType::Resource
                        | ExposedType::ResourceTemplate
                        | ExposedType::Prompt
                        | ExposedType::Elicitation
                        | ExposedType::Roots => {
                            Needs::Flag("mcp.serverMount.supported", |served| served.mcp_mount)
                        }
                    },
                    Self::Pack => Needs::Nothing,
                }
            }

            /// What it does, in one sentence.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$name => $doc.trim_ascii(),)+
                    Self::Called(called) => called.summary(),
                    Self::Exposed(exposed) => exposed.summary(),
                    Self::Pack => "Does what its pack implements.",
                }
            }
        }
    };
}

node_types! {
    /// Marks the beginning.
    Start => "core.start", Needs::Nothing;
    /// Marks an end.
    End => "core.end", Needs::Nothing;
    /// Does nothing.
    Noop => "core.noop", Needs::Nothing;
    /// Returns its inputs as outputs and as variables.
    Identity => "core.identity", Needs::Nothing;
    /// Evaluates a condition.
    Conditional => "core.conditional", Needs::Nothing;
    /// Waits for a given time.
    Delay => "core.delay", Needs::Nothing;
    /// Counts iterations.
    Loop => "core.loop", Needs::Nothing;
    /// Starts branches.
    Parallel => "core.parallel", Needs::Nothing;
    /// Joins branches.
    Merge => "core.merge", Needs::Nothing;
    /// Sets a variable.
    SetVariable => "core.setVariable", Needs::Nothing;
    /// Reads a variable.
    GetVariable => "core.getVariable", Needs::Nothing;
    /// Waits for an answer or an event from outside the run.
    Interrupt => "core.interrupt", Needs::Nothing;
    /// Fails with a code and a message.
    Fail => "core.fail", Needs::Nothing;
    /// Waits for a person to approve.
    ApprovalGate => "core.approvalGate", Needs::Nothing;
    /// Waits for a person to answer questions.
    ClarificationGate => "core.clarificationGate", Needs::Nothing;
    /// Waits for people with a role to approve, or for an override.
    GovernanceGate => "core.openwop.governance.approvalGate", Needs::Nothing;
    /// Writes to a channel.
    ChannelWrite => "core.channelWrite", Needs::Nothing;
    /// Runs another workflow.
    SubWorkflow => "core.subWorkflow", Needs::Nothing;
    /// Decides which workers run next.
    Supervisor => "core.orchestrator.supervisor", Needs::Flag("orchestrator.supported", |served| served.orchestrator);
    /// Runs the workers that the supervisor chose.
    Dispatch => "core.dispatch", Needs::Flag("dispatch.supported", |served| served.dispatch);
    /// Guides an agent through a workflow of steps, in its own workspace.
    Guided => "interlock.guided", Needs::Nothing;
    /// Has a conversation with a person.
    ConversationGate => "core.conversationGate", Needs::Flag("conversationPrimitive", |served| served.conversation);
    /// Simulates an agent.
    MockAgent => "core.conformance.mock-agent", Needs::Mocks;
    /// Has an effect that can be counted.
    SideEffect => "core.conformance.side-effect", Needs::Mocks;
    /// Needs a capability that no host has.
    RequiresMissing => "conformance.requiresMissing", Needs::Mocks;
    /// Shows the digest of a secret.
    SecretEcho => "conformance.secret.echo", Needs::Mocks;
    /// Reports a cost.
    CostEmit => "conformance.cost.emit", Needs::Mocks;
    /// Needs a model capability that no host has.
    ModelCapabilityInsufficient => "conformance.modelCapability.insufficient", Needs::Mocks;
    /// Creates an artifact.
    ArtifactEmit => "conformance.artifact.emit", Needs::Mocks;
}

impl NodeType {
    /// Every type with a fixed name.
    pub fn all() -> impl Iterator<Item = Self> {
        let called = CalledType::ALL.iter().copied().map(Self::Called);
        let exposed = ExposedType::ALL.iter().copied().map(Self::Exposed);
        Self::OWN.iter().copied().chain(called).chain(exposed)
    }

    /// Parses the spelling in a definition.
    pub fn parse(text: &str) -> Option<Self> {
        Self::all().find(|kind| kind.as_str() == text)
    }

    /// Whether the host executes nodes of this type.
    pub const fn is_called(self) -> bool {
        matches!(self, Self::Called(_) | Self::Pack | Self::Exposed(ExposedType::Sampling))
    }

    /// The valid input names of its nodes; `None` if any name is valid.
    pub fn input_names(self) -> Option<Vec<&'static str>> {
        if let Self::Called(called) = self { called.input_names() } else { None }
    }

    /// Whether its nodes call a model.
    pub const fn asks_models(self) -> bool {
        let Self::Called(called) = self else { return false };
        match called.family() {
            Family::Model | Family::Agent => true,
            Family::Surface { .. } | Family::Mcp { .. } | Family::Http | Family::Host => false,
        }
    }

    /// Whether its nodes are mocks, which only conformance suites use.
    pub const fn is_mock(self) -> bool {
        matches!(self.needs(), Needs::Mocks | Needs::MockModel)
    }

    /// The capability that the type requires and the host does not have.
    pub fn missing_capability(self, served: &Capabilities) -> Option<&'static str> {
        let (is_served, name) = match self.needs() {
            Needs::Nothing => return None,
            Needs::Flag(name, is_served) => (is_served(served), name),
            Needs::Surface(surface) => (served.surfaces.contains(surface), surface.flag()),
            Needs::Mocks => (served.mock_agent, MOCK_AGENT),
            Needs::MockModel => (served.mock_agent && served.models, MOCK_AGENT),
        };
        (!is_served).then_some(name)
    }
}

/// What a node type requires besides the engine.
#[derive(Clone, Copy)]
enum Needs {
    Nothing,
    /// A capability, by its name in the discovery document.
    Flag(&'static str, fn(&Capabilities) -> bool),
    Surface(Surface),
    /// The conformance seams, because its nodes are mocks.
    Mocks,
    /// The conformance seams and the executor for models.
    MockModel,
}

impl fmt::Display for NodeType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
