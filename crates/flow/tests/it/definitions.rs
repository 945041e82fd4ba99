//! Which documents are valid workflows.

use std::path::PathBuf;

use flow::definition::{Capabilities, Definition, MAX_PATTERN_BYTES};
use flow::id::NodeId;
use serde_json::{Value, json};

fn fixtures() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/openwop/fixtures");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("SKIPPED: {} is not there", folder.display());
    None
}

/// The fixtures that require models, packs, prompts, memory or peers.
const REFUSED: [&str; 21] = [
    "conformance-a2a-task-roundtrip core.a2a.invoke",
    "conformance-agent-channel-dispatch /nodes/0/agent/channel: channels of agents are not supported by this host",
    "conformance-agent-memory-cross-tenant core.identity",
    "conformance-agent-memory-redaction core.identity",
    "conformance-agent-memory-roundtrip core.identity",
    "conformance-agent-memory-ttl core.identity",
    "conformance-envelope-nl-to-format-engaged core.ai.structuredOutput",
    "conformance-envelope-recovery-applied core.ai.structuredOutput",
    "conformance-envelope-refusal core.ai.structuredOutput",
    "conformance-envelope-retry-attempted core.ai.structuredOutput",
    "conformance-envelope-retry-exhausted core.ai.structuredOutput",
    "conformance-envelope-truncated core.ai.structuredOutput",
    "conformance-envelope-truncation-cap-exhaustion core.ai.structuredOutput",
    "conformance-mcp-tool-roundtrip core.ai.callPrompt",
    "conformance-phase4-nondet-tool core.ai.structuredOutput",
    "conformance-phase4-replay-divergence core.ai.structuredOutput",
    "conformance-prompt-all-four-kinds local.sample.demo.mock-ai",
    "conformance-prompt-end-to-end local.sample.demo.mock-ai",
    "conformance-stream-text core.ai.callPrompt",
    "conformance-wasm-pack-memory-cap-breach vendor.openwop.misbehaving.memory-bomb",
    "conformance-wasm-pack-roundtrip vendor.openwop.rust-hello.greet",
];

fn workflow() -> Value {
    json!({
        "id": "small", "name": "Small", "version": "1.0",
        "nodes": [
            {"id": "a", "typeId": "core.noop", "name": "A", "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}},
            {"id": "b", "typeId": "core.noop", "name": "B", "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}}
        ],
        "edges": [{"id": "e", "sourceNodeId": "a", "targetNodeId": "b"}],
        "triggers": [], "variables": [], "metadata": {}, "settings": {}
    })
}

#[test]
fn conformance_workflows_are_valid_unless_they_require_unsupported_capabilities() {
    let Some(folder) = fixtures() else { return };
    let mut refused = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        // Hosts with enabled seams run these suites.
        match Definition::check(&document, &Capabilities { mock_agent: true, ..Capabilities::OURS }) {
            Ok(definition) => assert_eq!(*definition.document, document),
            Err(problems) => {
                let reason = problems[0].offending_type_id.clone().unwrap_or_else(|| problems[0].to_string());
                refused.push(format!("{} {reason}", document["id"].as_str().unwrap()));
            }
        }
    }
    refused.sort();
    assert_eq!(refused, REFUSED);
}

#[test]
fn problems_are_reported_with_their_location() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, &str); 24] = [
        ("not an object", |w| *w = json!([]), ": a workflow must be a JSON object"),
        ("an unknown member", |w| w["nods"] = json!(1), "/nods: unknown; did you mean `nodes`?"),
        (
            "an invalid id",
            |w| w["id"] = json!("Small"),
            "/id: must be a lower-case letter, then lower-case letters, digits, `_` and `-`",
        ),
        ("no nodes", |w| w["nodes"] = json!([]), "/nodes: must have 1 to 10000 items, but has 0"),
        ("nodes that are not a list", |w| w["nodes"] = json!({}), "/nodes: expected a list"),
        ("a node that is not an object", |w| w["nodes"][1] = json!(7), "/nodes/1: expected an object"),
        ("a duplicate id", |w| w["nodes"][1]["id"] = json!("a"), "/nodes/1/id: another node has this id"),
        (
            "an unknown type",
            |w| w["nodes"][1]["typeId"] = json!("core.nop"),
            "/nodes/1/typeId: unknown node type; did you mean `core.noop`?",
        ),
        (
            "no position",
            |w| w["nodes"][1]["position"] = json!({}),
            "/nodes/1/position: must have the numbers `x` and `y`",
        ),
        (
            "an edge from an unknown node",
            |w| w["edges"][0]["sourceNodeId"] = json!("z"),
            "/edges/0/sourceNodeId: no node has this id",
        ),
        (
            "a duplicate edge",
            |w| {
                let again = w["edges"][0].clone();
                w["edges"].as_array_mut().unwrap().push(again);
            },
            "/edges/1/id: another edge has this id",
        ),
        (
            "an edge to an unknown node",
            |w| w["edges"][0]["targetNodeId"] = json!("z"),
            "/edges/0/targetNodeId: no node has this id",
        ),
        (
            "an unknown rule",
            |w| w["edges"][0]["triggerRule"] = json!("most"),
            "/edges/0/triggerRule: must be one of all_success, any_success, all_complete, none_failed, any_failed",
        ),
        (
            "a condition without a type",
            |w| w["edges"][0]["condition"] = json!({}),
            "/edges/0/condition: `type` must be one of expression, equals, notEquals, contains, regex",
        ),
        (
            "an invalid expression",
            |w| w["edges"][0]["condition"] = json!({"type": "expression", "expression": "a =="}),
            "/edges/0/condition: expected a value at byte 4",
        ),
        (
            "a port from an unknown node",
            |w| {
                w["nodes"][1]["inputs"] =
                    json!({"x": {"type": "connection", "nodeId": "z", "outputKey": "o"}});
            },
            "/nodes/1/inputs/x: no node has the id `z`",
        ),
        (
            "an invalid port",
            |w| w["nodes"][1]["inputs"] = json!({"x": 5}),
            "/nodes/1/inputs/x: expected an object with `type`",
        ),
        (
            "a duplicate variable",
            |w| w["variables"] = json!([{"name": "v", "type": "string"}, {"name": "v", "type": "string"}]),
            "/variables/1/name: another variable has this name",
        ),
        (
            "an unknown reducer",
            |w| w["channels"] = json!({"c": {"reducer": "concat"}}),
            "/channels/c/reducer: must be one of replace, append, merge, counter, votes, feedback, message, or vendor.<org>.<name>",
        ),
        (
            "a lifetime for a reducer without entries",
            |w| w["channels"] = json!({"c": {"reducer": "merge", "ttlMs": 5}}),
            "/channels/c/ttlMs: allowed only for the reducers append, votes and feedback",
        ),
        (
            "a trigger of an unknown node",
            |w| w["triggers"] = json!([{"id": "t", "type": "manual", "nodeId": "z"}]),
            "/triggers/0/nodeId: no node has this id",
        ),
        (
            "an invalid schema",
            |w| w["configurableSchema"] = json!({"type": 5}),
            "/configurableSchema: invalid JSON Schema (2020-12): ",
        ),
        (
            "a negative limit",
            |w| w["settings"] = json!({"timeout": -1}),
            "/settings/timeout: must be an integer of at least 0",
        ),
        (
            "a join without parallel",
            |w| {
                w["nodes"][0]["typeId"] = json!("core.dispatch");
                w["nodes"][0]["config"] = json!({"joinPolicy": {"mode": "wait-all"}});
            },
            "/nodes/0/config/joinPolicy: `joinPolicy` requires `fanOutPolicy: parallel`",
        ),
    ];
    assert!(Definition::check(&workflow(), &Capabilities::OURS).is_ok());
    for (name, change, expected) in cases {
        let mut document = workflow();
        change(&mut document);
        let problems = Definition::check(&document, &Capabilities::OURS).unwrap_err();
        let is_reported =
            problems.iter().map(ToString::to_string).any(|problem| problem.starts_with(expected));
        assert!(is_reported, "{name}: {problems:?}");
    }
}

/// Finding L2: a node id that no request can name is refused at registration. Stored definitions still load.
#[test]
fn node_ids_that_cannot_be_addressed_are_refused() {
    for id in ["a/b", "a\\b", ".", "..", "../../x", "a\0b", "a\nb", "a\u{85}b"] {
        let mut document = workflow();
        document["nodes"][1]["id"] = json!(id);
        document["edges"][0]["targetNodeId"] = json!(id);
        let problems = Definition::check(&document, &Capabilities::OURS).unwrap_err();
        assert_eq!(problems[0].path, "/nodes/1/id", "{id:?}: {problems:?}");
        assert!(Definition::load(&document, MAX_PATTERN_BYTES).is_ok(), "{id:?}");
    }
    for id in ["a.b", "a:b", "a b", "...", "ä", "a%2fb"] {
        let mut document = workflow();
        document["nodes"][1]["id"] = json!(id);
        document["edges"][0]["targetNodeId"] = json!(id);
        assert!(Definition::check(&document, &Capabilities::OURS).is_ok(), "{id:?}");
    }
}

#[test]
fn types_without_their_capability_are_refused() {
    let none = Capabilities {
        conversation: false,
        orchestrator: false,
        dispatch: false,
        fan_out: false,
        dispatch_mapping: false,
        sub_workflow_input_mapping: false,
        mcp_mount: false,
        ..Capabilities::OURS
    };
    let cases = [
        ("core.conversationGate", json!({}), "conversationPrimitive"),
        ("core.orchestrator.supervisor", json!({}), "orchestrator.supported"),
        ("core.dispatch", json!({}), "dispatch.supported"),
        ("core.dispatch", json!({"fanOutPolicy": "parallel"}), "dispatch.fanOutSupported"),
        ("core.dispatch", json!({"inputMapping": {"a": "b"}}), "agents.dispatchMapping"),
        ("core.dispatch", json!({"askUserRouting": "conversation"}), "conversationPrimitive"),
        ("core.orchestrator.supervisor", json!({"mockConfidence": 0.1}), "conformance.mockAgent"),
        (
            "core.orchestrator.supervisor",
            json!({"mockPendingDecision": {"kind": "terminate"}}),
            "conformance.mockAgent",
        ),
        (
            "core.subWorkflow",
            json!({"workflowId": "x", "inputMapping": {"a": "b"}}),
            "subWorkflow.inputMapping",
        ),
        ("core.conformance.mock-agent", json!({}), "conformance.mockAgent"),
        ("core.openwop.mcp.server-trigger", json!({}), "mcp.serverMount.supported"),
        ("core.openwop.mcp.expose-tool", json!({"name": "t"}), "mcp.serverMount.supported"),
        ("core.openwop.mcp.handle-sampling", json!({}), "mcp.serverMount.samplingBridge"),
    ];
    for (type_id, config, capability) in cases {
        let mut document = workflow();
        document["nodes"][0]["typeId"] = json!(type_id);
        document["nodes"][0]["config"] = config;
        let problems = Definition::check(&document, &none).unwrap_err();
        let is_reported = problems.iter().any(|problem| {
            problem.required_capability == Some(capability)
                && problem.offending_type_id.as_deref() == Some(type_id)
                && problem.node_id.as_ref().map(NodeId::as_str) == Some("a")
        });
        assert!(is_reported, "{type_id}: {problems:?}");
    }
}

#[test]
fn every_reserved_type_is_supported() {
    let known: Vec<String> = flow::definition::NodeType::all().map(|kind| kind.to_string()).collect();
    for reserved in [
        "core.start",
        "core.end",
        "core.conditional",
        "core.delay",
        "core.loop",
        "core.parallel",
        "core.merge",
        "core.setVariable",
        "core.getVariable",
        "core.interrupt",
        "core.identity",
        "core.subWorkflow",
        "core.channelWrite",
        "core.noop",
        "core.fail",
        "core.approvalGate",
        "core.clarificationGate",
        "core.orchestrator.supervisor",
        "core.dispatch",
        "core.conversationGate",
    ] {
        assert!(known.iter().any(|kind| kind == reserved), "{reserved}");
    }
}

#[test]
fn loops_are_detected_and_the_rest_is_in_topological_order() {
    let mut document = workflow();
    document["edges"] = json!([
        {"id": "e", "sourceNodeId": "a", "targetNodeId": "b"},
        {"id": "f", "sourceNodeId": "b", "targetNodeId": "a"}
    ]);
    let definition = Definition::check(&document, &Capabilities::OURS).unwrap();
    assert_eq!(definition.graph.loops_back, [false, true]);
    assert_eq!(definition.graph.order, [0, 1]);
    assert_eq!(definition.graph.incoming, [vec![], vec![0]]);
    assert_eq!(definition.graph.outgoing, [vec![0], vec![1]]);
}
