//! Nodes: a type, a configuration that the type takes, and inputs.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::NodeIndex;
use super::config::NodeConfig;
use super::expression::Expression;
use super::node_type::NodeType;
use crate::id::NodeId;

/// A step of a workflow.
#[derive(Clone, Debug)]
pub struct Node {
    pub id: NodeId,
    pub kind: NodeType,
    /// The name of its type, where a pack brings it.
    pub pack_type: Option<String>,
    /// What people call it.
    pub name: String,
    pub config: NodeConfig,
    /// The configuration as written. Only the host reads it: for the types that it executes or a pack brings, and for what it exposes.
    pub raw_config: Map<String, Value>,
    /// Whether answers to its interrupts need an API key: a signed token does not suffice.
    pub requires_key: bool,
    /// Its inputs by port, in the order of their names.
    pub inputs: Vec<(String, PortValue)>,
    /// Whether it is left out.
    pub disabled: bool,
    /// The agent that it is pinned to.
    pub agent: Option<Value>,
    /// Which envelopes of a model it takes.
    pub envelope_contract: Option<Value>,
    /// How often it is tried again; the workflow's own number where it says nothing.
    pub max_retries: Option<u32>,
    /// The outputs that are hidden from readers.
    pub sensitive_outputs: Vec<String>,
}

impl Node {
    /// Whether it is a mock, for conformance suites alone.
    pub fn is_mock(&self) -> bool {
        self.kind.is_mock() || self.config.is_mock()
    }

    /// The name of its type, to be kept.
    pub(crate) fn type_name(&self) -> Cow<'static, str> {
        self.pack_type.clone().map_or(Cow::Borrowed(self.kind.as_str()), Cow::Owned)
    }

    /// The name of its type.
    pub fn type_id(&self) -> &str {
        self.pack_type.as_deref().unwrap_or(self.kind.as_str())
    }
}

/// Where the value of an input comes from.
#[derive(Clone, Debug)]
pub enum PortValue {
    Static(Value),
    /// An expression gives it.
    Expression(Expression),
    /// Another node gives it.
    Connection {
        node: NodeIndex,
        output_key: String,
        /// Whether it may be absent.
        optional: bool,
    },
    /// A variable gives it.
    Variable {
        /// Which variable.
        name: String,
        /// Whether it may be absent.
        optional: bool,
    },
}
