//! Chains and their expansion.

use packs::PackErrorCode;
use packs::chain::{ExpansionId, InsertionPoint, SpliceError, expand, find};
use packs::manifest::Manifest;
use serde_json::{Value, json};

use crate::support::{chain_pack, node_pack};

const CHAIN: &str = "vendor.acme.fetch-and-wait";

fn id(text: &str) -> ExpansionId {
    ExpansionId::parse(text).unwrap()
}

fn known(type_id: &str) -> bool {
    ["core.http", "core.delay"].contains(&type_id)
}

#[test]
fn expands_to_nodes_and_edges() {
    let manifest = Manifest::from_value(&chain_pack()).unwrap();
    let chain = find(&manifest, CHAIN).unwrap();
    let parameters = json!({"url": "https://acme.example", "headers": {"a": [1, null]}});
    let expansion = expand(chain, &parameters, &id("a1b2"), known).unwrap();
    let prefix = "vendor_acme_fetch-and-wait_a1b2_";
    assert_eq!(
        serde_json::to_value(&expansion).unwrap(),
        json!({
            "chainId": CHAIN, "chainVersion": "1.0.0", "expansionId": "a1b2",
            "nodes": [
                {"id": format!("{prefix}fetch"), "typeId": "core.http", "name": "Fetch", "position": {"x": 1.0, "y": 2.0},
                 "config": {"url": "https://acme.example", "headers": {"a": [1, null]}, "deep": [{"note": "to https://acme.example!"}]},
                 "capabilities": ["side-effectful"]},
                {"id": format!("{prefix}wait"), "typeId": "core.delay", "config": {"ms": 250},
                 "inputs": {"body": {"type": "connection", "nodeId": format!("{prefix}fetch"), "outputKey": "body"}, "plain": 250},
                 "capabilities": ["side-effectful"]},
            ],
            "edges": [
                {"from": format!("{prefix}fetch.body"), "to": format!("{prefix}wait"), "condition": "status == 'completed'", "triggerRule": "any_success"},
                {"from": format!("{prefix}wait"), "to": "outside.in"},
            ],
            "idMap": {"fetch": format!("{prefix}fetch"), "wait": format!("{prefix}wait")},
        })
    );
}

#[test]
fn unknown_types_are_reported_first() {
    let manifest = Manifest::from_value(&chain_pack()).unwrap();
    let chain = &manifest.chains()[0];
    // The parameters are invalid as well.
    let refused = expand(chain, &json!({"url": 7}), &id("a"), |type_id| type_id == "core.http").unwrap_err();
    assert_eq!(refused.code(), PackErrorCode::ChainUnresolvableTypeId);
    assert_eq!(refused.details()["typeId"], "core.delay");
    assert_eq!(refused.details()["chainId"], CHAIN);
    assert_eq!(refused.http_status(), 422);
}

#[test]
fn parameters_are_validated() {
    let manifest = Manifest::from_value(&chain_pack()).unwrap();
    let chain = &manifest.chains()[0];
    for (parameters, path) in [
        (json!({"url": 7}), "/url"),
        (json!({}), ""),
        (Value::Null, ""),
        (json!([1]), ""),
        (json!({"url": "x", "ms": 1.5}), "/ms"),
        (json!({"url": "x", "other": 1}), ""),
    ] {
        let refused = expand(chain, &parameters, &id("a"), known).unwrap_err();
        assert_eq!(refused.code(), PackErrorCode::ChainParameterInvalid, "{parameters}");
        assert_eq!(refused.details()["path"], path, "{parameters}");
        assert!(!refused.message().contains("secret"), "the error does not quote the value");
    }
}

#[test]
fn finds_chains_by_id() {
    let manifest = Manifest::from_value(&chain_pack()).unwrap();
    assert_eq!(find(&manifest, "other").unwrap_err().code(), PackErrorCode::ChainNotFound);
    let nodes = Manifest::from_value(&node_pack("vendor.acme.tools", "1.0.0")).unwrap();
    assert_eq!(find(&nodes, CHAIN).unwrap_err().code(), PackErrorCode::KindInvalid);
}

fn workflow() -> Value {
    json!({
        "id": "w", "name": "W", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {}, "edges": [],
        "nodes": [{"id": "outside", "typeId": "core.noop", "name": "o", "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}}],
    })
}

#[test]
fn expanded_workflows_have_no_trace_of_the_chain() {
    let manifest = Manifest::from_value(&chain_pack()).unwrap();
    let chain = &manifest.chains()[0];
    let parameters = json!({"url": "https://acme.example"});
    let mut document = workflow();
    for expansion in ["a1", "b2"] {
        expand(chain, &parameters, &id(expansion), known)
            .unwrap()
            .splice(&mut document, InsertionPoint::Beside)
            .unwrap();
    }
    assert_eq!(document["nodes"].as_array().unwrap().len(), 5, "two expansions do not collide");
    let text = document.to_string();
    assert!(!text.contains("params.") && !text.contains(CHAIN), "no trace of the chain remains: {text}");
    assert_eq!(
        document["edges"][0],
        json!({
            "id": "vendor_acme_fetch-and-wait_a1_edge_0",
            "sourceNodeId": "vendor_acme_fetch-and-wait_a1_fetch", "sourceOutput": "body",
            "targetNodeId": "vendor_acme_fetch-and-wait_a1_wait",
            "condition": {"type": "expression", "expression": "status == 'completed'"}, "triggerRule": "any_success",
        })
    );
    assert_eq!(document["edges"][1]["targetNodeId"], "outside");
    assert_eq!(document["edges"][1]["targetInput"], "in");
    assert_eq!(document["nodes"][2]["inputs"]["plain"], json!({"type": "static", "value": 250}));
    if let Some(path) = crate::support::protocol("schemas/workflow-definition.schema.json") {
        let mut schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        // Definitions that are not referenced here.
        for pointer in ["/properties/defaults", "/$defs/WorkflowNode/properties/agent"] {
            *schema.pointer_mut(pointer).unwrap() = json!(true);
        }
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let refused: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(refused.is_empty(), "{refused:?}");
    }
}

#[test]
fn failed_splices_change_nothing() {
    let manifest = Manifest::from_value(&chain_pack()).unwrap();
    let expansion = expand(&manifest.chains()[0], &json!({"url": "x"}), &id("a1"), known).unwrap();
    let mut document = workflow();
    expansion.splice(&mut document, InsertionPoint::Beside).unwrap();
    let before = document.clone();
    assert!(matches!(
        expansion.splice(&mut document, InsertionPoint::Beside),
        Err(SpliceError::DuplicateId(_))
    ));
    assert_eq!(document, before);
    assert_eq!(
        expansion.splice(&mut json!({"nodes": []}), InsertionPoint::Beside),
        Err(SpliceError::NoList("edges"))
    );
}

#[test]
fn validates_expansion_ids() {
    for (text, accepted) in
        [("a1b2", true), ("", false), ("A", false), ("a_b", false), ("a.b", false), (&"a".repeat(33), false)]
    {
        assert_eq!(ExpansionId::parse(text).is_some(), accepted, "{text}");
    }
    assert_eq!(ExpansionId::from_entropy([0xab, 0x01]).as_str(), "ab01");
}

/// Two connected nodes and a third one.
fn line() -> Value {
    let node = |id: &str| json!({"id": id, "typeId": "core.noop", "name": id, "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}});
    json!({
        "nodes": [node("a"), node("b"), node("c")],
        "edges": [{
            "id": "a-b", "sourceNodeId": "a", "sourceOutput": "true", "targetNodeId": "b", "targetInput": "in",
            "condition": {"type": "expression", "expression": "x"}, "triggerRule": "all_complete", "label": "yes",
        }],
    })
}

/// A chain of these nodes and edges, expanded as `a1`.
fn fragment(nodes: &[&str], edges: &[(&str, &str)]) -> packs::chain::Expansion {
    let nodes: Vec<Value> = nodes.iter().map(|id| json!({"id": id, "typeId": "core.noop"})).collect();
    let edges: Vec<Value> = edges.iter().map(|(from, to)| json!({"from": from, "to": to})).collect();
    let manifest = Manifest::from_value(&json!({
        "name": "vendor.acme.chains", "version": "1.0.0", "kind": "workflow-chain", "engines": {"openwop": "^1.0.0"},
        "chains": [{
            "chainId": "k", "version": "1.0.0", "label": "k", "description": "", "parameters": {},
            "dag": {"nodes": nodes, "edges": edges},
        }],
    }));
    expand(&manifest.unwrap().chains()[0], &json!({}), &id("a1"), |_| true).unwrap()
}

/// The ends of each edge, by id.
fn ends(document: &Value) -> Vec<[&str; 3]> {
    let edges = document["edges"].as_array().unwrap().iter();
    edges
        .map(|edge| ["id", "sourceNodeId", "targetNodeId"].map(|name| edge[name].as_str().unwrap()))
        .collect()
}

#[test]
fn splices_into_an_edge() {
    // A fork: one first node, two last ones. An edge to the outside does not make its node an inner one.
    let fork = fragment(&["s", "l", "r"], &[("s", "l.x"), ("s.y", "r"), ("r", "c")]);
    let mut document = line();
    fork.splice(&mut document, InsertionPoint::Edge("a-b")).unwrap();
    assert_eq!(
        ends(&document),
        [
            ["k_a1_edge_0", "k_a1_s", "k_a1_l"],
            ["k_a1_edge_1", "k_a1_s", "k_a1_r"],
            ["k_a1_edge_2", "k_a1_r", "c"],
            ["k_a1_in_0", "a", "k_a1_s"],
            ["a-b", "k_a1_l", "b"],
            ["k_a1_out_1", "k_a1_r", "b"],
        ]
    );
    // The condition stays with the source, and the trigger rule with the target.
    assert_eq!(
        document["edges"][3],
        json!({
            "id": "k_a1_in_0", "sourceNodeId": "a", "targetNodeId": "k_a1_s", "sourceOutput": "true",
            "condition": {"type": "expression", "expression": "x"}, "label": "yes",
        })
    );
    for place in [4, 5] {
        let edge = &document["edges"][place];
        assert_eq!((&edge["triggerRule"], &edge["targetInput"]), (&json!("all_complete"), &json!("in")));
        assert!(edge.get("condition").is_none() && edge.get("sourceOutput").is_none(), "{edge}");
    }
}

#[test]
fn splices_next_to_a_node() {
    let one = fragment(&["x"], &[]);
    for (after, before, expected) in [
        (Some("b"), None, vec![["k_a1_in_0", "b", "k_a1_x"]]),
        (None, Some("a"), vec![["k_a1_out_0", "k_a1_x", "a"]]),
        (Some("b"), Some("c"), vec![["k_a1_in_0", "b", "k_a1_x"], ["k_a1_out_0", "k_a1_x", "c"]]),
    ] {
        let mut document = line();
        one.splice(&mut document, InsertionPoint::Between { after, before }).unwrap();
        assert_eq!(document["edges"][0], line()["edges"][0]);
        assert_eq!(ends(&document)[1..], expected, "{after:?} {before:?}");
    }
}

#[test]
fn unknown_insertion_points_get_a_suggestion() {
    let one = fragment(&["x"], &[]);
    let circle = fragment(&["x", "y"], &[("x", "y"), ("y", "x")]);
    let after = |id| InsertionPoint::Between { after: Some(id), before: None };
    let before = |id| InsertionPoint::Between { after: None, before: Some(id) };
    for (what, expansion, place, message) in [
        ("a slip", &one, InsertionPoint::Edge("a_b"), "no edge `a_b`; did you mean `a-b`?"),
        ("an edge", &one, InsertionPoint::Edge("elsewhere"), "no edge `elsewhere`; it has `a-b`"),
        ("a node", &one, after("elsewhere"), "no node `elsewhere`; it has `a`, `b`, `c`"),
        ("another", &one, before("elsewhere"), "no node `elsewhere`"),
        ("a circle", &circle, InsertionPoint::Edge("a-b"), "form a cycle"),
    ] {
        let mut document = line();
        let refused = expansion.splice(&mut document, place).unwrap_err().to_string();
        assert!(refused.contains(message), "{what}: {refused}");
        assert_eq!(document, line(), "{what}: the document is unchanged");
    }
}
