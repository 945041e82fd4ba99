//! Workflow definitions: read and checked once, at registration.
//!
//! [`Definition`] is the proof that a document was checked: every edge has its ends, every node
//! a type that is served with a configuration that the type takes, every channel a reducer. The
//! document itself is kept as it came, because that is how it is given back.

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
pub use self::capability::{Capabilities, PackTypes, RefusedType, RefusedTypes, ServedSurfaces};
pub use self::channel::Channel;
pub use self::condition::{Condition, TriggerRule};
pub use self::config::NodeConfig;
pub use self::exposed::ExposedType;
pub use self::graph::Graph;
pub use self::node::{Node, PortValue};
pub use self::node_type::NodeType;
pub use self::pattern::MAX_PATTERN_BYTES;
pub use self::problem::Problem;
pub use self::trigger::{Listening, SourceKind, UnservedKind, UnservedTrigger};
use crate::id::{NodeId, WorkflowId};

/// The place of a node in [`Definition::nodes`].
pub type NodeIndex = usize;

/// A checked workflow.
pub struct Definition {
    pub id: WorkflowId,
    /// What people call it.
    pub name: String,
    /// Its version, in the author's own scheme.
    pub version: String,
    /// The digest of the canonical document. A run pins it.
    pub digest: Digest,
    /// The document as it came.
    pub document: Arc<Value>,
    /// Its nodes, in the order of the document.
    pub nodes: Vec<Node>,
    /// The places of the nodes, by id. Shared by all runs.
    pub(crate) places: Arc<BTreeMap<NodeId, NodeIndex>>,
    /// Its edges, in the order of the document.
    pub edges: Vec<Edge>,
    /// Who follows whom.
    pub graph: Graph,
    pub variables: Vec<Variable>,
    pub channels: BTreeMap<String, Channel>,
    /// Limits and such.
    pub settings: Settings,
    /// What `configurable` may hold, where the workflow says so.
    pub configurable_schema: Option<jsonschema::Validator>,
    /// How sensitive values are shown.
    pub masking: Masking,
    /// The agent that the workflow is written for, where its author says so: what it is handed and gives back is held to that agent's schemas.
    pub required_agent: Option<String>,
    /// The triggers that listen to messages.
    pub triggers: Vec<Listening>,
    /// The triggers that are enabled and never fire.
    pub unserved_triggers: Vec<UnservedTrigger>,
    /// What its patterns cost.
    pub patterns: Patterns,
    /// How much there is to look at for a decision: nodes, ports, and terms and places of conditions.
    pub weight: u64,
    /// How many bytes its document has, about.
    pub bytes: u64,
}

/// What the patterns of a definition cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patterns {
    /// How many bytes they take once they are compiled, about.
    pub bytes: u64,
    /// How many they may take, where they take more: they are not compiled then, and runs of the definition fail.
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

/// A connection of two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    pub id: String,
    /// Where it begins.
    pub source: NodeIndex,
    /// Where it ends.
    pub target: NodeIndex,
    /// The output that it takes.
    pub source_output: String,
    /// The input that it feeds. Nothing where the author names none and the target does not declare `input`: such an edge only
    /// says what comes first.
    pub target_input: Option<String>,
    /// When it counts.
    pub condition: Option<Condition>,
    /// What has to be true of all that comes in at the target.
    pub trigger_rule: TriggerRule,
}

/// A variable of a workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    pub name: String,
    /// The type of its value.
    pub kind: VariableKind,
    /// Whether a run needs it.
    pub required: bool,
    /// Its value when nobody gives one.
    pub default: Option<Value>,
    /// Whether its value is hidden from readers.
    pub sensitive: bool,
}

/// The type of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// Text.
    String,
    Number,
    /// Yes or no.
    Boolean,
    Object,
    /// A list.
    Array,
}

/// Limits of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a run may take, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// How often a node is tried again.
    pub max_retries: u32,
    /// How often a loop may go round.
    pub max_loopback_iterations: u32,
}

/// How sensitive values are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Masking {
    /// As `[REDACTED]`.
    #[default]
    Mask,
    /// Not at all.
    Omit,
    /// As their digest.
    Hash,
    /// As they are.
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
    /// Reads and checks a document.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn check(document: &Value, capabilities: &Capabilities) -> Result<Self, Vec<Problem>> {
        Self::check_within(document, capabilities, MAX_PATTERN_BYTES)
    }

    /// Reads and checks a document whose patterns may take so many bytes once they are compiled.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn check_within(
        document: &Value,
        capabilities: &Capabilities,
        pattern_bytes: u64,
    ) -> Result<Self, Vec<Problem>> {
        let bytes = pattern::bytes_in(document);
        if bytes > pattern_bytes {
            let message = format!(
                "the patterns of the workflow take about {bytes} bytes once they are compiled; the limit is {pattern_bytes}"
            );
            return Err(vec![Problem::at("", message)]);
        }
        read::read(document, document, capabilities, Patterns { bytes, over: None })
    }

    /// Reads a document that was checked before, whatever is served now.
    ///
    /// A document of an earlier version may have patterns that take more than they may now. It is read without them, so that its runs
    /// can be read and ended.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(document: &Value, pattern_bytes: u64) -> Result<Self, Vec<Problem>> {
        let bytes = pattern::bytes_in(document);
        let over = (bytes > pattern_bytes || pattern::has_overlong(document)).then_some(pattern_bytes);
        let stripped = over.map(|_| pattern::without_schema_patterns(document));
        let readable = stripped.as_ref().unwrap_or(document);
        read::read(document, readable, &Capabilities::EVERYTHING, Patterns { bytes, over })
    }

    /// The agent that stands behind the workflow: the one that it is written for, or else the one that its first node is pinned to.
    pub fn agent_id(&self) -> Option<&str> {
        let first = self.graph.order.first().and_then(|node| self.nodes[*node].agent.as_ref());
        let pinned = || first?.get("agentId")?.as_str();
        self.required_agent.as_deref().or_else(pinned)
    }

    /// The node of that id.
    pub fn node(&self, id: &str) -> Option<NodeIndex> {
        self.places.get(id).copied()
    }
}
