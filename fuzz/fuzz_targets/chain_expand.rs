//! Any two documents: a pack of chains, and the parameters of its first chain.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packs::chain::{ExpansionId, MAX_EXPANDED_DEPTH, Place, expand};
use packs::manifest::Manifest;
use serde_json::{Value, json};

fuzz_target!(|bytes: &[u8]| {
    // A zero byte separates the two.
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (left, right) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let limits = canon::json::Limits::DEFAULT.max_depth(64);
    let Ok(parameters) = canon::json::read(right, &limits) else { return };
    let manifest = Manifest::read(left).or_else(|_| {
        // Otherwise the first one is the configuration of a node in a valid chain.
        let config = canon::json::read(left, &limits).unwrap_or(Value::Null);
        Manifest::from_value(&json!({
            "name": "vendor.acme.chains", "version": "1.0.0", "kind": "workflow-chain", "engines": {"openwop": "*"},
            "chains": [{
                "chainId": "acme.x", "version": "1.0.0", "label": "x", "description": "", "parameters": {},
                "dag": {"nodes": [{"id": "n", "typeId": "core.noop", "config": {"c": config}, "inputs": {"i": config}}]},
            }],
        }))
        .map_err(packs::manifest::ManifestError::Problems)
    });
    let Ok(manifest) = manifest else { return };
    let id = ExpansionId::parse("a1").expect("an id");
    for chain in manifest.chains() {
        let Ok(expansion) = expand(chain, &parameters, &id, |_| true) else { continue };
        assert_eq!(expand(chain, &parameters, &id, |_| true).as_ref(), Ok(&expansion), "the same again");
        assert_eq!(expansion.nodes.len(), chain.dag.nodes.len());
        assert!(expansion.nodes.iter().all(|node| node.id.contains("_a1_")));
        for node in &expansion.nodes {
            for members in [&node.config, &node.inputs].into_iter().flatten() {
                assert!(canon::json::within_depth(&Value::Object(members.clone()), MAX_EXPANDED_DEPTH + 2));
            }
        }
        let mut workflow = json!({"nodes": [], "edges": []});
        expansion.splice(&mut workflow, Place::Beside).expect("an empty workflow takes it");
        assert!(expansion.splice(&mut workflow, Place::Beside).is_err(), "the ids are taken now");
    }
});
