//! Chain packs: workflow fragments.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::common::{CAPABILITIES, Capability, TYPE_ID, VERSION};
use super::problem::{ManifestErrorCode, Pointer, Problems};
use super::shape::{
    ANY_OBJECT, NON_EMPTY, Rule, Shape, TEXT, check, closed, list, optional, reject_duplicates, required,
    some,
};
use crate::version::Version;

const CHAIN: Shape = closed(&[
    required("chainId", TYPE_ID),
    required("version", VERSION),
    required("label", NON_EMPTY),
    required("description", TEXT),
    required("parameters", ANY_OBJECT),
    required("dag", Rule::Object(&FRAGMENT)),
    optional("outputs", Rule::Map(&Rule::Object(&OUTPUT))),
    optional("capabilities", CAPABILITIES),
]);
const OUTPUT: Shape = closed(&[required("type", TEXT), required("description", TEXT)]);
const FRAGMENT: Shape =
    closed(&[required("nodes", some(&Rule::Object(&NODE))), optional("edges", list(&Rule::Object(&EDGE)))]);
const NODE: Shape = closed(&[
    required("id", NON_EMPTY),
    required("typeId", TYPE_ID),
    optional("name", TEXT),
    optional("position", Rule::Object(&POSITION)),
    optional("config", ANY_OBJECT),
    optional("inputs", ANY_OBJECT),
]);
const COORDINATE: Rule = Rule::Number { min: f64::MIN, max: f64::MAX };
const POSITION: Shape = closed(&[optional("x", COORDINATE), optional("y", COORDINATE)]);
const EDGE: Shape = closed(&[
    required("from", NON_EMPTY),
    required("to", NON_EMPTY),
    optional("condition", Rule::Custom(condition)),
    optional(
        "triggerRule",
        Rule::OneOf(&["all_success", "any_success", "all_complete", "none_failed", "any_failed"]),
    ),
]);
const CONDITION: Shape = closed(&[
    optional("type", Rule::OneOf(&["expression", "equals", "notEquals", "contains", "regex"])),
    optional("left", TEXT),
    optional("right", Rule::Any),
    optional("expression", TEXT),
]);

/// A string is an expression; the form of workflow documents is accepted too.
fn condition(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    if !value.is_string() {
        super::shape::check_object(value, &CONDITION, at, problems);
    }
}

pub(super) fn check_content(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    let at = at.member("chains");
    let Some(chains) = value.get("chains") else { return problems.invalid(&at, "required") };
    check(chains, &some(&Rule::Object(&CHAIN)), &at, problems);
    reject_duplicates(chains, "chainId", ManifestErrorCode::Invalid, &at, problems);
    for (place, chain) in chains.as_array().into_iter().flatten().enumerate() {
        let at = at.item(place);
        check_dag(chain, &at.member("dag"), problems);
        if let Some(parameters) = chain.get("parameters").filter(|parameters| parameters.is_object())
            && let Err(message) = crate::schema::compile(parameters)
        {
            problems.invalid(&at.member("parameters"), message);
        }
    }
}

/// Checks that the tables cannot express: unique ids, and edges for several nodes.
fn check_dag(chain: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    let Some(dag) = chain.get("dag") else { return };
    let nodes = dag.get("nodes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if nodes.len() > 1 && dag.get("edges").is_none() {
        problems.invalid(&at.member("edges"), "required if there is more than one node");
    }
    let mut seen = HashSet::new();
    for (place, node) in nodes.iter().enumerate() {
        let Some(id) = node.get("id").and_then(Value::as_str) else { continue };
        let at = at.member("nodes");
        if !seen.insert(id) {
            problems.invalid(&at.item(place).member("id"), format!("duplicate `{}`", crate::name::shown(id)));
        }
        // A dot would start a port name.
        if id.contains('.') || id.chars().any(char::is_control) {
            problems.invalid(&at.item(place).member("id"), "must not contain a dot or a control character");
        }
    }
}

/// A parameterized workflow fragment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    pub chain_id: String,
    pub version: Version,
    pub label: String,
    pub description: String,
    /// The JSON Schema of its parameters.
    pub parameters: Map<String, Value>,
    pub dag: Fragment,
    #[serde(default)]
    pub outputs: BTreeMap<String, ChainOutput>,
    #[serde(default)]
    pub capabilities: Vec<Capability>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ChainOutput {
    #[serde(rename = "type")]
    pub kind: String,
    pub description: String,
}

/// The nodes and edges of a chain.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Fragment {
    pub nodes: Vec<FragmentNode>,
    #[serde(default)]
    pub edges: Vec<FragmentEdge>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FragmentNode {
    /// Its id in the chain.
    pub id: String,
    pub type_id: String,
    pub name: Option<String>,
    pub position: Option<Position>,
    /// Its configuration, with `{{params.x}}`.
    pub config: Option<Map<String, Value>>,
    /// Its inputs, with `{{params.x}}`.
    pub inputs: Option<Map<String, Value>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Position {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub y: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FragmentEdge {
    /// A node, or `node.port`.
    pub from: String,
    /// A node, or `node.port`.
    pub to: String,
    /// When the edge is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<Value>,
    /// Which results of the source start the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_rule: Option<String>,
}
