//! Hostile manifests. None is accepted, none panics, and each error has a position.

use std::time::Duration;

use packs::manifest::Manifest;
use serde_json::{Value, json};

use crate::support::{chain_pack, every_kind, node_pack};

/// Hostile values for paths, names and ids.
const TEXTS: [&str; 16] = [
    "../../../etc/passwd",
    "/etc/passwd",
    "..\\..\\windows",
    "C:\\windows",
    "a\0b",
    "\u{202e}gpj.exe",
    "vendor.acme.tools/../../core",
    "core.openwop.http\n",
    " vendor.acme.tools",
    "vendor.аcme.tools",
    "${jndi:ldap://x}",
    "'; DROP TABLE packs; --",
    "<script>alert(1)</script>",
    "__proto__",
    "{{params.x}}",
    "",
];

#[test]
fn rejects_hostile_ids() {
    let places = [
        (0, "/name"),
        (0, "/version"),
        (0, "/engines/openwop"),
        (0, "/nodes/0/typeId"),
        (0, "/runtime/language"),
        (1, "/chains/0/chainId"),
        (1, "/chains/0/version"),
        (1, "/chains/0/dag/nodes/0/typeId"),
        (1, "/chains/0/dag/edges/0/triggerRule"),
        (2, "/prompts/0/templateId"),
        (2, "/prompts/0/variables/0/name"),
        (3, "/artifactTypes/0/artifactTypeId"),
        (4, "/cards/0/cardTypeId"),
        (4, "/cards/0/inputs/0/type"),
        (5, "/provider/id"),
        (5, "/provider/apiHosts/0"),
        (5, "/provider/auth/endpoints/token"),
        (6, "/uiPlugins/0/pluginId"),
        (6, "/uiPlugins/0/entry"),
        (6, "/uiPlugins/0/surface"),
    ];
    for (kind, place) in places {
        for text in TEXTS {
            let mut manifest = every_kind()[kind].clone();
            *manifest.pointer_mut(place).unwrap() = json!(text);
            if place == "/prompts/0/variables/0/name" && text == "__proto__" {
                continue;
            }
            let refused = Manifest::from_value(&manifest).expect_err(&format!("{place}: {text:?}"));
            assert!(
                refused.list().iter().any(|problem| problem.pointer == place),
                "{place}: {text:?}: {refused}"
            );
        }
    }
}

#[test]
fn rejects_members_of_other_ecosystems() {
    for name in
        ["__proto__", "constructor", "scripts", "postinstall", "bin", "main", "exports", "$schema", "extends"]
    {
        for manifest in every_kind() {
            let mut manifest = manifest;
            manifest[name] = json!({"polluted": true});
            assert!(Manifest::from_value(&manifest).is_err(), "{name}");
        }
    }
}

#[test]
fn rejects_cyclic_schemas() {
    let circles = [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
        json!({"$defs": {"a": {"$ref": "#/$defs/a"}}}),
        json!({"$dynamicRef": "#x"}),
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "#/$defs/missing"}),
        json!({"properties": {"a": {"$id": "https://example.com/", "$ref": "other"}}}),
    ];
    for schema in circles {
        let mut manifest = chain_pack();
        manifest["chains"][0]["parameters"] = schema.clone();
        let refused = Manifest::from_value(&manifest).expect_err(&schema.to_string());
        assert_eq!(refused.list()[0].pointer, "/chains/0/parameters", "{schema}");
    }
    let mut manifest = chain_pack();
    manifest["chains"][0]["parameters"] = json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "string"}}});
    assert!(Manifest::from_value(&manifest).is_ok(), "acyclic definitions are followed");
}

#[test]
fn patterns_take_linear_time() {
    let mut manifest = chain_pack();
    manifest["chains"][0]["parameters"] =
        json!({"properties": {"url": {"type": "string", "pattern": "^(a+)+$"}}});
    let manifest = Manifest::from_value(&manifest).unwrap();
    let id = packs::chain::ExpansionId::parse("a").unwrap();
    let hostile = json!({"url": format!("{}!", "a".repeat(50_000))});
    // With backtracking this would practically never end.
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        send.send(packs::chain::expand(&manifest.chains()[0], &hostile, &id, |_| true).is_err())
    });
    assert_eq!(receive.recv_timeout(Duration::from_secs(120)), Ok(true));
}

#[test]
fn rejects_odd_numbers() {
    for (place, value) in
        [("/schemaVersion", json!(-1)), ("/schemaVersion", json!(1e300)), ("/schemaVersion", json!(0.5))]
    {
        let mut manifest = every_kind()[3].clone();
        manifest["artifactTypes"][0][&place[1..]] = value.clone();
        assert!(Manifest::from_value(&manifest).is_err(), "{value}");
    }
    let mut wasm = node_pack("vendor.acme.tools", "1.0.0");
    wasm["runtime"]["wasm"] = json!({"abiVersion": 1, "memoryPagesMax": 1e30});
    assert!(Manifest::from_value(&wasm).is_err());
    wasm["runtime"]["wasm"] = json!({"abiVersion": 999});
    assert!(Manifest::from_value(&wasm).is_ok(), "the host decides whether the version is supported");
}

#[test]
fn large_manifests_are_read_quickly() {
    let nodes: Vec<Value> = (0..2000)
        .map(|n| json!({"typeId": format!("acme.n{n}"), "version": "1", "category": "data", "role": "r"}))
        .collect();
    let mut manifest = node_pack("vendor.acme.tools", "1.0.0");
    manifest["nodes"] = json!(nodes);
    assert_eq!(Manifest::from_value(&manifest).unwrap().type_ids().len(), 2000);
}
