//! Chains: reusable workflow fragments, expanded at authoring time.
//!
//! [`expand`] converts a chain to nodes and edges: it checks all node types, validates the parameters, replaces
//! `{{params.x}}` and prefixes every id. [`Expansion::splice`] inserts the result into a workflow document at a
//! [`InsertionPoint`]. The workflow then no longer depends on the chain and runs like a handwritten one.
//!
//! ```
//! use packs::chain::{ExpansionId, expand};
//! use packs::manifest::Manifest;
//! use serde_json::json;
//!
//! let manifest = Manifest::from_value(&json!({
//!     "name": "vendor.acme.chains", "version": "1.0.0", "kind": "workflow-chain", "engines": {"openwop": "^1.0.0"},
//!     "chains": [{
//!         "chainId": "acme.wait", "version": "1.0.0", "label": "Wait", "description": "Waits.",
//!         "parameters": {"type": "object", "properties": {"ms": {"type": "integer"}}, "required": ["ms"]},
//!         "dag": {"nodes": [{"id": "wait", "typeId": "core.delay", "config": {"ms": "{{params.ms}}"}}]}
//!     }]
//! })).unwrap();
//! let id = ExpansionId::parse("a1b2").unwrap();
//! let expansion = expand(&manifest.chains()[0], &json!({"ms": 250}), &id, |type_id| type_id == "core.delay")?;
//! assert_eq!(expansion.nodes[0].id, "acme_wait_a1b2_wait");
//! // A string that is exactly one parameter becomes the value itself.
//! assert_eq!(expansion.nodes[0].config.as_ref().unwrap()["ms"], 250);
//! # Ok::<(), packs::PackError>(())
//! ```

mod insertion_point;
mod parameters;
mod splice;
mod substitute;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

pub use self::insertion_point::InsertionPoint;
pub use self::splice::{SpliceError, Spliced};
use self::substitute::Substitution;
use crate::error::{PackError, PackErrorCode};
use crate::manifest::{Capability, Chain, FragmentEdge, Manifest, Position};

/// The maximum size of substituted parameters, in bytes.
pub const MAX_SUBSTITUTED_BYTES: usize = 4 << 20;
/// The maximum number of chains listed in an error.
const MAX_LISTED: usize = 10;
/// The maximum nesting depth of an expanded node.
pub const MAX_EXPANDED_DEPTH: usize = 100;

/// Distinguishes expansions in one workflow: 1 to 32 lowercase letters and digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ExpansionId(String);

impl ExpansionId {
    pub fn parse(text: &str) -> Option<Self> {
        let plain = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        (plain && (1..=32).contains(&text.len())).then(|| Self(text.to_owned()))
    }

    /// Four hexadecimal digits from entropy.
    pub fn from_entropy(entropy: [u8; 2]) -> Self {
        Self(format!("{:02x}{:02x}", entropy[0], entropy[1]))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExpansionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// The result of expanding a chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Expansion {
    pub chain_id: String,
    pub chain_version: String,
    pub expansion_id: ExpansionId,
    pub nodes: Vec<ExpandedNode>,
    pub edges: Vec<FragmentEdge>,
    /// Maps each id of the chain to its id in the workflow.
    pub id_map: BTreeMap<String, String>,
}

impl Expansion {
    /// The prefix of all its ids.
    fn prefix(&self) -> String {
        prefix(&self.chain_id, &self.expansion_id)
    }
}

fn prefix(chain_id: &str, expansion_id: &ExpansionId) -> String {
    format!("{}_{expansion_id}_", chain_id.replace('.', "_"))
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpandedNode {
    /// Its id in the workflow.
    pub id: String,
    pub type_id: String,
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Map<String, Value>>,
    /// Its capabilities in the chain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
}

/// Finds a chain of a pack.
///
/// # Errors
/// `pack_kind_invalid`: the pack has no chains; `chain_not_found`: it does not have this one.
pub fn find<'m>(manifest: &'m Manifest, chain_id: &str) -> Result<&'m Chain, PackError> {
    if manifest.kind() != crate::kind::PackKind::WorkflowChain {
        let message = format!("{} has kind {}, which has no chains", manifest.id(), manifest.kind());
        return Err(PackError::new(PackErrorCode::KindInvalid, message));
    }
    manifest.chains().iter().find(|chain| chain.chain_id == chain_id).ok_or_else(|| {
        let mut known =
            manifest.chains().iter().map(|chain| format!("`{}`", chain.chain_id)).collect::<Vec<_>>();
        known.truncate(MAX_LISTED);
        let message = format!(
            "{} has no chain `{}`; it has {}",
            manifest.id(),
            crate::name::shown(chain_id),
            known.join(", ")
        );
        PackError::new(PackErrorCode::ChainNotFound, message).detail("chainId", crate::name::shown(chain_id))
    })
}

/// Expands a chain.
///
/// # Errors
/// `chain_unresolvable_typeid` for the first type that `is_known` rejects, checked first; `chain_parameter_invalid` if
/// a parameter is invalid or too large after substitution.
pub fn expand(
    chain: &Chain,
    parameters: &Value,
    expansion_id: &ExpansionId,
    is_known: impl Fn(&str) -> bool,
) -> Result<Expansion, PackError> {
    if let Some(node) = chain.dag.nodes.iter().find(|node| !is_known(&node.type_id)) {
        let message = format!("node type `{}` of chain `{}` is unknown", node.type_id, chain.chain_id);
        return Err(PackError::new(PackErrorCode::ChainUnresolvableTypeId, message)
            .detail("typeId", node.type_id.as_str())
            .detail("chainId", chain.chain_id.as_str()));
    }
    let values = parameters::checked(chain, parameters)?;
    let mut substitution = Substitution::new(&values);
    let prefix = prefix(&chain.chain_id, expansion_id);
    let rewritten = |id: &str| format!("{prefix}{id}");
    let id_map: BTreeMap<String, String> =
        chain.dag.nodes.iter().map(|node| (node.id.clone(), rewritten(&node.id))).collect();
    let mut nodes = Vec::with_capacity(chain.dag.nodes.len());
    for node in &chain.dag.nodes {
        let mut put_in = |members: &Option<Map<String, Value>>| {
            members.as_ref().map(|members| substitution.apply(members)).transpose()
        };
        nodes.push(ExpandedNode {
            id: rewritten(&node.id),
            type_id: node.type_id.clone(),
            name: node.name.clone(),
            position: node.position,
            config: put_in(&node.config)?,
            inputs: put_in(&node.inputs)?.map(|inputs| connected(inputs, &id_map)),
            capabilities: chain.capabilities.clone(),
        });
    }
    let edges = chain.dag.edges.iter().map(|edge| FragmentEdge {
        from: endpoint(&edge.from, &id_map),
        to: endpoint(&edge.to, &id_map),
        condition: edge.condition.clone(),
        trigger_rule: edge.trigger_rule.clone(),
    });
    Ok(Expansion {
        chain_id: chain.chain_id.clone(),
        chain_version: chain.version.to_string(),
        expansion_id: expansion_id.clone(),
        edges: edges.collect(),
        nodes,
        id_map,
    })
}

/// The inputs with their connections mapped to the new node ids.
fn connected(mut inputs: Map<String, Value>, id_map: &BTreeMap<String, String>) -> Map<String, Value> {
    for input in
        inputs.values_mut().filter(|input| input.get("type").and_then(Value::as_str) == Some("connection"))
    {
        let renamed = input.get("nodeId").and_then(Value::as_str).and_then(|id| id_map.get(id)).cloned();
        if let (Some(renamed), Some(id)) = (renamed, input.get_mut("nodeId")) {
            *id = Value::String(renamed);
        }
    }
    inputs
}

/// An edge endpoint with its node renamed. The port after the dot and nodes outside the chain stay the same.
fn endpoint(text: &str, id_map: &BTreeMap<String, String>) -> String {
    let (node, port) = match text.find('.') {
        Some(dot) => text.split_at(dot),
        None => (text, ""),
    };
    match id_map.get(node) {
        Some(renamed) => format!("{renamed}{port}"),
        None => text.to_owned(),
    }
}
