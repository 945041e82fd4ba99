//! Agents in packs.

use packs::PackErrorCode;
use packs::agents::{AgentRef, HandoffSchemas, catalogue, may_use};
use packs::archive::{Archive, Limits};
use packs::manifest::Manifest;
use serde_json::{Value, json};

use crate::support::{node_pack, packed};

fn agent_pack() -> Value {
    let mut manifest = node_pack("vendor.acme.agents", "2.0.0");
    manifest["agents"] = json!([{
        "agentId": "vendor.acme.agents.writer", "persona": "Writer", "modelClass": "writing",
        "systemPrompt": "You are a secret sauce.", "toolAllowlist": ["openwop:fetch", "vendor.acme.send"],
        "requiresCapabilities": ["host.fs", "host.kv"], "confidence": {"defaultThreshold": 0.8},
        "handoff": {"taskSchemaRef": "task.json", "returnSchemaRef": "return.json"},
        "memoryShape": {"scratchpad": true}, "description": "Writes.",
    }]);
    manifest
}

#[test]
fn the_catalogue_hides_the_prompt() {
    let manifest = Manifest::from_value(&agent_pack()).unwrap();
    let lacks = |capability: &str| ["host.kv", "memory"].contains(&capability);
    let entries = serde_json::to_value(catalogue(&manifest, lacks)).unwrap();
    assert_eq!(
        entries,
        json!([{
            "agentId": "vendor.acme.agents.writer", "persona": "Writer", "label": "Writer", "modelClass": "writing",
            "packName": "vendor.acme.agents", "packVersion": "2.0.0", "toolAllowlist": ["openwop:fetch", "vendor.acme.send"],
            "hasHandoffSchemas": true, "memoryShape": {"scratchpad": true}, "confidenceThreshold": 0.8, "degraded": ["host.kv"],
            "description": "Writes.", "memoryDegraded": true, "degradedMemoryDimensions": ["read", "write"],
        }])
    );
    if let Some(path) = crate::support::protocol("schemas/agent-inventory-response.schema.json") {
        let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        assert!(validator.is_valid(&json!({"agents": entries, "total": 1})));
    }
}

#[test]
fn missing_memory_is_reported() {
    let missing_memory = |shape: &Value, has_memory: bool| {
        let mut pack = agent_pack();
        pack["agents"][0]["memoryShape"] = shape.clone();
        let manifest = Manifest::from_value(&pack).unwrap();
        let entry = catalogue(&manifest, |capability| capability == "memory" && !has_memory).remove(0);
        assert_eq!(entry.memory_degraded, !entry.degraded_memory_dimensions.is_empty());
        entry.degraded_memory_dimensions
    };
    let cases: [(Value, &[&str]); 6] = [
        (json!({}), &[]),
        (json!({"scratchpad": false, "conversation": false, "longTerm": false}), &[]),
        (json!({"scratchpad": true}), &["read", "write"]),
        (json!({"conversation": true, "scratchpad": true}), &["read", "write"]),
        (json!({"longTerm": true}), &["long-term-durability"]),
        (json!({"conversation": true, "longTerm": true}), &["read", "write", "long-term-durability"]),
    ];
    for (shape, missing) in cases {
        assert_eq!(missing_memory(&shape, false), missing, "{shape}");
        assert!(missing_memory(&shape, true).is_empty(), "{shape}");
    }
}

#[test]
fn agents_use_only_allowed_tools() {
    let manifest = Manifest::from_value(&agent_pack()).unwrap();
    let agent = &manifest.agents()[0];
    for (tool, expected) in [
        ("openwop:fetch", true),
        ("vendor.acme.send", true),
        ("openwop:fetch2", false),
        ("fetch", false),
        ("", false),
    ] {
        assert_eq!(may_use(agent, tool), expected, "{tool}");
    }
}

#[test]
fn handoffs_are_validated() {
    let manifest = agent_pack();
    let task = br#"{"type": "object", "required": ["topic"]}"#;
    let bytes = packed(&manifest, &[("task.json", task), ("return.json", br#"{"type": "string"}"#)]);
    let archive = Archive::read(&bytes, &Limits::DEFAULT).unwrap();
    let manifest = Manifest::from_value(&manifest).unwrap();
    let schemas = HandoffSchemas::load(&manifest.agents()[0], &archive).unwrap();
    assert_eq!(schemas.check_task(&json!({"topic": "x"})), Ok(()));
    assert_eq!(schemas.check_task(&json!({})).unwrap_err().code(), PackErrorCode::HandoffTaskSchemaViolation);
    let refused = schemas.check_return(&json!(["private"])).unwrap_err();
    assert_eq!(refused.code(), PackErrorCode::HandoffReturnSchemaViolation);
    assert!(!refused.to_string().contains("private"), "the error does not quote the result");
    let missing = HandoffSchemas::compile(&manifest.agents()[0], |_| None).unwrap_err();
    assert_eq!(missing.code(), PackErrorCode::LoadFailure);
    let circular =
        HandoffSchemas::compile(&manifest.agents()[0], |_| Some(br##"{"$ref": "#"}"##.to_vec())).unwrap_err();
    assert_eq!(circular.code(), PackErrorCode::LoadFailure);
}

#[test]
fn version_and_channel_are_exclusive() {
    assert!(
        AgentRef::read(&json!({"agentId": "core.a.b", "version": "1.0.0", "modelClass": "chat"})).is_ok()
    );
    for (reference, pointer) in [
        (json!({"agentId": "core.a.b", "version": "1", "channel": "stable"}), "/channel"),
        (json!({"agentId": "ab"}), "/agentId"),
        (json!({"agentId": "core.a.b", "modelClass": "writing"}), "/modelClass"),
        (json!({"agentId": "core.a.b", "prompt": "x"}), "/prompt"),
        (json!({}), "/agentId"),
    ] {
        assert_eq!(AgentRef::read(&reference).unwrap_err().list()[0].pointer, pointer, "{reference}");
    }
}
