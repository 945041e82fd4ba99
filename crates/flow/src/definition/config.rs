//! Node configuration: one type per node type, parsed once, when a definition is checked.
//!
//! The JSON Schema of a configuration is derived from its type. It is what a configuration is validated against, and what is published.
//! A configuration is open unless the protocol closes it, so that a workflow written for a host with more features still runs here.
//!
//! To add a node type, add it to `node_configs!` below. Everything that depends on the node type matches on [`NodeConfig`] without a
//! wildcard, so the compiler lists the places that need a decision.

mod check;
mod children;
mod conformance;
mod data;
mod derive;
mod gates;
mod guided;
mod http;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Value, json};

pub(crate) use self::check::interrupt;
pub(crate) use self::children::ChildStarter;
pub use self::children::{
    AskUserRouting, DispatchConfig, FanOutPolicy, JoinMode, JoinPolicy, Mapping, OnChildFailure,
    OnWorkerFailure, SubWorkflowConfig, SupervisorConfig,
};
pub use self::conformance::{
    ArtifactEmitConfig, CostEmitConfig, MockAgentConfig, MockDecision, MockHandoff, MockReasoning,
    MockThoughts, MockToolCall, MockToolError, SecretEchoConfig,
};
pub use self::data::{
    ChannelWriteConfig, ConditionalConfig, DelayConfig, FailConfig, GetVariableConfig, IdentityConfig,
    LoopConfig, SetVariableConfig,
};
pub(super) use self::derive::schema as derived_schema;
pub(crate) use self::derive::whole_number;
pub use self::gates::{
    ApprovalAction, ApprovalGateConfig, ClarificationGateConfig, ConversationGateConfig,
    GovernanceGateConfig, InterruptConfig, RejectionPolicy,
};
pub use self::guided::{Autonomy, GuidedConfig, Manifest, Preferences, RiskPolicy};
pub use self::http::{Filled, HttpBody, HttpMethod, HttpRequestConfig, ResponseForm, UrlTemplate};
use super::called::CalledType;
use super::exposed::ExposedConfig;
use super::node_type::NodeType;

/// The maximum duration in a configuration, in milliseconds: 365 days.
const MAX_MILLISECONDS: u64 = 31_536_000_000;

macro_rules! node_configs {
    (
        configured { $($name:ident($config:ty),)+ }
        without_configuration { $($bare:ident,)+ }
    ) => {
        /// The configuration of a node, by its type.
        #[derive(Clone, Debug)]
        pub enum NodeConfig {
            $($name(Box<$config>),)+
            $($bare,)+
            Identity(IdentityConfig),
            Exposed(Box<ExposedConfig>),
            HttpRequest(Box<HttpRequestConfig>),
            /// The host parses the configuration of the other nodes that it executes. [`super::CalledType`] has the schema.
            Called(CalledType),
            /// The pack has the schema, and the host validates against it when the node is called.
            Pack,
        }

        /// The schema of a node type's configuration; `None` if the engine accepts any object.
        pub fn schema(kind: NodeType) -> Option<Value> {
            match kind {
                $(NodeType::$name => Some(derive::schema::<$config>()),)+
                NodeType::Called(called) => Some(called.config_schema()),
                NodeType::Exposed(exposed) => Some(exposed.config_schema()),
                NodeType::Pack | NodeType::Identity $(| NodeType::$bare)+ => None,
            }
        }

        fn parse(kind: NodeType, config: Value) -> Result<NodeConfig, serde_json::Error> {
            match kind {
                $(NodeType::$name => serde_json::from_value(config).map(NodeConfig::$name),)+
                $(NodeType::$bare => Ok(NodeConfig::$bare),)+
                NodeType::Identity => serde_json::from_value(config).map(NodeConfig::Identity),
                NodeType::Exposed(exposed) => {
                    exposed.parse_config(config).map(|config| NodeConfig::Exposed(Box::new(config)))
                }
                NodeType::Called(CalledType::HttpRequest) => {
                    serde_json::from_value(config).map(NodeConfig::HttpRequest)
                }
                NodeType::Called(called) => Ok(NodeConfig::Called(called)),
                NodeType::Pack => Ok(NodeConfig::Pack),
            }
        }
    };
}

node_configs! {
    configured {
        Conditional(ConditionalConfig),
        Loop(LoopConfig),
        Delay(DelayConfig),
        SetVariable(SetVariableConfig),
        GetVariable(GetVariableConfig),
        Fail(FailConfig),
        ChannelWrite(ChannelWriteConfig),
        Interrupt(InterruptConfig),
        ApprovalGate(ApprovalGateConfig),
        GovernanceGate(GovernanceGateConfig),
        ClarificationGate(ClarificationGateConfig),
        ConversationGate(ConversationGateConfig),
        SubWorkflow(SubWorkflowConfig),
        Supervisor(SupervisorConfig),
        Dispatch(DispatchConfig),
        Guided(GuidedConfig),
        MockAgent(MockAgentConfig),
        SecretEcho(SecretEchoConfig),
        CostEmit(CostEmitConfig),
        ArtifactEmit(ArtifactEmitConfig),
    }
    without_configuration {
        Start,
        End,
        Noop,
        Parallel,
        Merge,
        SideEffect,
        RequiresMissing,
        ModelCapabilityInsufficient,
    }
}

impl NodeConfig {
    /// Whether the configuration makes a mock of a node whose type is not a mock.
    pub(crate) fn is_mock(&self) -> bool {
        if let Self::Supervisor(config) = self { config.mock_members().next().is_some() } else { false }
    }
}

fn validators() -> &'static BTreeMap<NodeType, Validator> {
    static VALIDATORS: OnceLock<BTreeMap<NodeType, Validator>> = OnceLock::new();
    VALIDATORS.get_or_init(|| {
        let compiled = NodeType::all().filter_map(|kind| {
            let validator = jsonschema::options().build(&schema(kind)?).expect("derived schemas are valid");
            Some((kind, validator))
        });
        compiled.collect()
    })
}

/// A schema of an object with these members and no others.
pub(super) fn closed(required: &[&str], properties: &Value) -> Value {
    json!({
        "type": "object", "required": required, "additionalProperties": false, "properties": properties,
    })
}
