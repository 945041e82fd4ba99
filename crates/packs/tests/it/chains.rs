//! Chains and what becomes of them.

use packs::PackErrorCode;
use packs::chain::{ExpansionId, SpliceError, expand, find};
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
fn a_chain_becomes_nodes_and_edges() {
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
fn an_unknown_type_is_told_before_anything_else() {
    let manifest = Manifest::from_value(&chain_pack()).unwrap();
    let chain = &manifest.chains()[0];
    // The parameters are wrong as well.
    let refused = expand(chain, &json!({"url": 7}), &id("a"), |type_id| type_id == "core.http").unwrap_err();
    assert_eq!(refused.code(), PackErrorCode::ChainUnresolvableTypeId);
    assert_eq!(refused.details()["typeId"], "core.delay");
    assert_eq!(refused.details()["chainId"], CHAIN);
    assert_eq!(refused.http_status(), 422);
}

#[test]
fn parameters_are_held_to_the_schema() {
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
        assert!(!refused.message().contains("secret"), "the value is not told");
    }
}

#[test]
fn a_chain_is_found_in_a_pack_of_chains() {
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
fn a_workflow_with_a_chain_in_it_is_one_that_was_written_by_hand() {
    let manifest = Manifest::from_value(&chain_pack()).unwrap();
    let chain = &manifest.chains()[0];
    let parameters = json!({"url": "https://acme.example"});
    let mut document = workflow();
    for expansion in ["a1", "b2"] {
        expand(chain, &parameters, &id(expansion), known).unwrap().splice(&mut document).unwrap();
    }
    assert_eq!(document["nodes"].as_array().unwrap().len(), 5, "expanding twice does not collide");
    let text = document.to_string();
    assert!(!text.contains("params.") && !text.contains(CHAIN), "nothing of the chain is left: {text}");
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
        // What it refers to elsewhere is not used here.
        for pointer in ["/properties/defaults", "/$defs/WorkflowNode/properties/agent"] {
            *schema.pointer_mut(pointer).unwrap() = json!(true);
        }
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let refused: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(refused.is_empty(), "{refused:?}");
    }
}

#[test]
fn a_workflow_that_cannot_take_a_chain_stays_as_it_was() {
    let manifest = Manifest::from_value(&chain_pack()).unwrap();
    let expansion = expand(&manifest.chains()[0], &json!({"url": "x"}), &id("a1"), known).unwrap();
    let mut document = workflow();
    expansion.splice(&mut document).unwrap();
    let before = document.clone();
    assert!(matches!(expansion.splice(&mut document), Err(SpliceError::Taken(_))));
    assert_eq!(document, before);
    assert_eq!(expansion.splice(&mut json!({"nodes": []})), Err(SpliceError::NoList("edges")));
}

#[test]
fn expansion_ids_are_plain() {
    for (text, accepted) in
        [("a1b2", true), ("", false), ("A", false), ("a_b", false), ("a.b", false), (&"a".repeat(33), false)]
    {
        assert_eq!(ExpansionId::parse(text).is_some(), accepted, "{text}");
    }
    assert_eq!(ExpansionId::from_entropy([0xab, 0x01]).as_str(), "ab01");
}
