//! Workflow definitions: read and validated once, at registration.
//!
//! A [`Definition`] proves that a document is valid: every edge connects two nodes, every node has a supported type with a valid
//! configuration, every channel has a reducer. The original document is kept, because clients get it back unchanged.

pub mod called;
pub mod capability;
pub mod channel;
pub mod condition;
pub mod config;
pub mod decision;
pub mod exposed;
pub mod expression;
pub mod graph;
pub mod node;
pub mod node_type;
pub mod pattern;
pub mod problem;
mod read;
pub(crate) mod schema;
pub mod trigger;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use canon::digest::Digest;
use serde_json::Value;

pub use self::called::{CalledType, Family, Surface};
pub use self::capability::{
    Capabilities, PackTypes, RefusedReason, RefusedType, RefusedTypes, ServedSurfaces,
};
pub use self::channel::Channel;
pub use self::condition::{Condition, TriggerRule};
pub use self::config::NodeConfig;
pub use self::exposed::ExposedType;
pub use self::graph::Graph;
pub use self::node::{Node, PortValue};
pub use self::node_type::NodeType;
pub use self::pattern::MAX_PATTERN_BYTES;
pub use self::problem::Problem;
pub use self::trigger::{MessageTrigger, SourceKind, UnservedKind, UnservedTrigger};
use crate::id::{NodeId, WorkflowId};

/// The index of a node in [`Definition::nodes`].
pub type NodeIndex = usize;

/// A validated workflow.
pub struct Definition {
    pub id: WorkflowId,
    /// The display name.
    pub name: String,
    /// The version, in the author's own scheme.
    pub version: String,
    /// The digest of the canonical document. A run pins it.
    pub digest: Digest,
    /// The original document.
    pub document: Arc<Value>,
    /// The nodes in the order of the document.
    pub nodes: Vec<Node>,
    /// The indexes of the nodes by id. Shared by all runs.
    pub(crate) node_indexes: Arc<BTreeMap<NodeId, NodeIndex>>,
    /// The edges in the order of the document.
    pub edges: Vec<Edge>,
    /// The edges by node, and the execution order.
    pub graph: Graph,
    pub variables: Vec<Variable>,
    pub channels: BTreeMap<String, Channel>,
    /// Limits and retries.
    pub settings: Settings,
    /// The schema of `configurable`, if the workflow has one.
    pub configurable_schema: Option<jsonschema::Validator>,
    /// How sensitive values are shown.
    pub masking: Masking,
    /// The agent that the workflow is written for, if its author names one. The inputs and outputs of the workflow must match the schemas of
    /// that agent.
    pub required_agent: Option<String>,
    /// The triggers that listen for messages.
    pub triggers: Vec<MessageTrigger>,
    /// The enabled triggers that never fire, because the host does not support them.
    pub unserved_triggers: Vec<UnservedTrigger>,
    /// The size of its patterns.
    pub patterns: Patterns,
    /// An estimate of the work of a decision: the number of nodes and ports, and the size of conditions.
    pub weight: u64,
    /// The approximate size of the document in bytes.
    pub bytes: u64,
}

/// The size of the patterns of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patterns {
    /// The approximate size of the compiled patterns in bytes.
    pub bytes: u64,
    /// The limit, if they exceed it. The patterns are not compiled then, and runs of the definition fail.
    pub over: Option<u64>,
}

impl fmt::Debug for Definition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Definition")
            .field("id", &self.id)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

/// An edge between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    pub id: String,
    pub source: NodeIndex,
    pub target: NodeIndex,
    /// The output of the source.
    pub source_output: String,
    /// The input of the target. `None` if the author names none and the target does not declare `input`: such an edge only defines the
    /// execution order.
    pub target_input: Option<String>,
    /// The condition under which the edge is satisfied.
    pub condition: Option<Condition>,
    /// The rule for all incoming edges of the target.
    pub trigger_rule: TriggerRule,
}

/// A variable of a workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    pub name: String,
    pub kind: VariableKind,
    /// Whether a run requires a value.
    pub required: bool,
    pub default: Option<Value>,
    /// Whether its value is hidden from readers.
    pub sensitive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    String,
    Number,
    Boolean,
    Object,
    Array,
}

/// The limits of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The maximum duration of a run, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The maximum number of retries of a node.
    pub max_retries: u32,
    /// The maximum number of iterations of a loop.
    pub max_loopback_iterations: u32,
}

/// How sensitive values are shown to readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Masking {
    /// As `[REDACTED]`.
    #[default]
    Mask,
    /// Omitted.
    Omit,
    /// As their digest.
    Hash,
    /// Unchanged.
    Passthrough,
}

impl Masking {
    /// The spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mask => "mask",
            Self::Omit => "omit",
            Self::Hash => "hash",
            Self::Passthrough => "passthrough",
        }
    }
}

impl Definition {
    /// Reads and validates a document.
    ///
    /// # Errors
    /// All problems of the document.
    pub fn check(document: &Value, capabilities: &Capabilities) -> Result<Self, Vec<Problem>> {
        Self::check_within(document, capabilities, MAX_PATTERN_BYTES)
    }

    /// Reads and validates a document with a limit on the size of its compiled patterns.
    ///
    /// # Errors
    /// All problems of the document.
    pub fn check_within(
        document: &Value,
        capabilities: &Capabilities,
        pattern_bytes: u64,
    ) -> Result<Self, Vec<Problem>> {
        let bytes = pattern::bytes_in(document);
        if bytes > pattern_bytes {
            let message = format!(
                "the compiled patterns of the workflow take about {bytes} bytes; the limit is {pattern_bytes}"
            );
            return Err(vec![Problem::at("", message)]);
        }
        let unaddressable = read::unaddressable_node_ids(document);
        match read::read(document, document, capabilities, Patterns { bytes, over: None }) {
            Ok(definition) if unaddressable.is_empty() => Ok(definition),
            Ok(_) => Err(unaddressable),
            Err(problems) => Err(problems.into_iter().chain(unaddressable).collect()),
        }
    }

    /// Reads a document that was validated before, without checking what the host supports now.
    ///
    /// The patterns of a document that an earlier version accepted may exceed the current limit. Such a document is read without its
    /// patterns, so that its runs can still be read and ended.
    ///
    /// # Errors
    /// All problems of the document.
    pub fn load(document: &Value, pattern_bytes: u64) -> Result<Self, Vec<Problem>> {
        let bytes = pattern::bytes_in(document);
        let over = (bytes > pattern_bytes || pattern::has_overlong(document)).then_some(pattern_bytes);
        let stripped = over.map(|_| pattern::without_schema_patterns(document));
        let readable = stripped.as_ref().unwrap_or(document);
        read::read(document, readable, &Capabilities::EVERYTHING, Patterns { bytes, over })
    }

    /// The agent of the workflow: the one that it is written for, or else the one that its first node is pinned to.
    pub fn agent_id(&self) -> Option<&str> {
        let first = self.graph.order.first().and_then(|node| self.nodes[*node].agent.as_ref());
        let pinned = || first?.get("agentId")?.as_str();
        self.required_agent.as_deref().or_else(pinned)
    }

    /// The index of the node with that id.
    pub fn node(&self, id: &str) -> Option<NodeIndex> {
        self.node_indexes.get(id).copied()
    }
}
