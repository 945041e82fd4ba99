//! Nodes: a type, a configuration and inputs.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::NodeIndex;
use super::config::NodeConfig;
use super::expression::Expression;
use super::node_type::NodeType;
use crate::id::NodeId;

/// A node of a workflow.
#[derive(Clone, Debug)]
pub struct Node {
    pub id: NodeId,
    pub kind: NodeType,
    /// The name of its type, if a pack provides it.
    pub pack_type: Option<String>,
    /// The display name.
    pub name: String,
    pub config: NodeConfig,
    /// The configuration as written. Only the host reads it: for types that the host or a pack implements, and for types that expose the workflow.
    pub raw_config: Map<String, Value>,
    /// Whether answers to its interrupts require an API key, so that a signed token does not suffice.
    pub requires_key: bool,
    /// The inputs by port, sorted by name.
    pub inputs: Vec<(String, PortValue)>,
    /// Whether the node is skipped.
    pub disabled: bool,
    /// The agent that the node is pinned to.
    pub agent: Option<Value>,
    /// The name of the credential that it uses, from `credentialsRef: credential:NAME`.
    pub credential: Option<String>,
    /// The envelope types of a model that the node accepts.
    pub envelope_contract: Option<Value>,
    /// The maximum number of retries; the default is that of the workflow.
    pub max_retries: Option<u32>,
    /// The outputs that are hidden from readers.
    pub sensitive_outputs: Vec<String>,
    /// What kind of artifact its outputs are stored as when it completes; at a gate, what kind is reviewed.
    pub artifact_type: Option<String>,
}

impl Node {
    /// Whether the node is a mock, which only conformance suites use.
    pub fn is_mock(&self) -> bool {
        self.kind.is_mock() || self.config.is_mock()
    }

    pub(crate) fn type_name(&self) -> Cow<'static, str> {
        self.pack_type.clone().map_or(Cow::Borrowed(self.kind.as_str()), Cow::Owned)
    }

    /// The name of the type.
    pub fn type_id(&self) -> &str {
        self.pack_type.as_deref().unwrap_or(self.kind.as_str())
    }
}

/// The source of an input.
#[derive(Clone, Debug)]
pub enum PortValue {
    Static(Value),
    Expression(Expression),
    /// An output of another node.
    Connection {
        node: NodeIndex,
        output_key: String,
        /// Whether the value may be missing.
        optional: bool,
    },
    Variable {
        name: String,
        /// Whether the value may be missing.
        optional: bool,
    },
}
