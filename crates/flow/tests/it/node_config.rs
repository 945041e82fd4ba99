//! Node configuration: the schemas that are derived from its types, and what earlier versions accepted.

use std::fmt::Write as _;
use std::path::PathBuf;

use flow::definition::{Capabilities, Definition, NodeType, Problem, config};
use flow::event::EventKind;
use flow::run::RunStatus;
use serde_json::{Map, Value, json};

use crate::driver::{World, workflow};

fn load(kind: NodeType, config: &Value) -> Result<Definition, Vec<Problem>> {
    Definition::load(&workflow("w", &[("n", kind.as_str(), config.clone())], &[]), u64::MAX)
}

/// A type whose schema changes also changes which definitions are valid. The test shows it, with `UPDATE_GOLDEN=1`.
#[test]
fn the_schemas_equal_the_published_ones() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/node-config-schemas.txt");
    let mut derived = String::new();
    for kind in NodeType::all() {
        let schema =
            config::schema(kind).map_or_else(|| "any object".to_owned(), |schema| schema.to_string());
        writeln!(derived, "{kind} {schema}").unwrap();
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, derived).unwrap();
        return;
    }
    let published = std::fs::read_to_string(&path).unwrap();
    for (derived, published) in derived.lines().zip(published.lines()) {
        assert_eq!(derived, published);
    }
    assert_eq!(derived.lines().count(), published.lines().count(), "a node type was added or removed");
}

fn odd_values() -> Vec<Value> {
    let numbers = [json!(0), json!(1), json!(5.0), json!(0.5), json!(-0.0), json!(1e300), json!(u64::MAX)];
    let others = [json!(null), json!(true), json!(""), json!("text"), json!([]), json!({}), json!(["x"])];
    numbers.into_iter().chain(others).collect()
}

/// A value that a schema accepts, and variants with each part replaced by other valid values and by unusual ones.
fn variants(schema: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    for choice in ["const", "enum", "oneOf", "anyOf"] {
        match (choice, &schema[choice]) {
            ("enum", Value::Array(words)) => found.extend(words.iter().cloned()),
            ("const", word) if !word.is_null() => found.push(word.clone()),
            (_, Value::Array(cases)) => {
                let typed = cases.iter().filter(|case| case.get("type").is_some());
                found.extend(typed.flat_map(variants));
            }
            _ => {}
        }
    }
    match schema["type"].as_str() {
        Some("string") => found.extend([json!("append"), json!("a:b")]),
        Some("integer" | "number") => found.extend([json!(1), json!(2.0), json!(0.5)]),
        Some("boolean") => found.push(json!(true)),
        Some("array") => found.extend(variants(&schema["items"]).into_iter().map(|item| json!([item]))),
        Some("object") | None => {
            let empty = Map::new();
            let properties = schema["properties"].as_object().unwrap_or(&empty);
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let either = schema["anyOf"][0]["required"][0].as_str();
            let base: Map<_, _> = required
                .chain(either)
                .map(|name| (name.to_owned(), variants(&properties[name]).swap_remove(0)))
                .collect();
            found.insert(0, base.clone().into());
            for (name, schema) in properties {
                for value in variants(schema).into_iter().chain(odd_values()) {
                    let mut changed = base.clone();
                    changed.insert(name.clone(), value);
                    found.push(changed.into());
                }
            }
        }
        Some(other) => panic!("no sample of `{other}`"),
    }
    found
}

/// The schema decides what is valid, and the type can parse all of it, so stored definitions stay readable.
#[test]
fn every_configuration_that_a_schema_accepts_is_parsed() {
    let mut accepted = 0;
    for kind in NodeType::all() {
        let Some(schema) = config::schema(kind) else { continue };
        let validator = jsonschema::validator_for(&schema).unwrap();
        let by_kind = schema["allOf"].as_array().into_iter().flatten().flat_map(|case| {
            let kind = &case["if"]["properties"]["kind"]["const"];
            let data = variants(&case["then"]["properties"]["data"]);
            data.into_iter().map(move |data| json!({"kind": kind, "data": data}))
        });
        for config in variants(&schema).into_iter().chain(by_kind) {
            if !config.is_object() || !validator.is_valid(&config) {
                continue;
            }
            accepted += 1;
            if let Err(problems) = load(kind, &config) {
                // Rules between members may still refuse it, with the name of the member.
                let unread = problems.iter().find(|problem| problem.path == "/nodes/0/config");
                assert!(unread.is_none(), "{kind} {config}: {unread:?}");
            }
        }
    }
    assert!(accepted > 500, "{accepted} valid configurations are too few to show anything");
}

/// Earlier versions read members one by one, when they needed them. Members that they ignored must not make a stored definition unreadable.
#[test]
fn definitions_that_earlier_versions_accepted_are_still_loaded() {
    let cases = [
        ("core.noop", json!({"left": "over"})),
        ("core.identity", json!({"emitDuplicateMessageId": "no", "memoryAction": null})),
        ("core.loop", json!({"maxIterations": 3.0, "count": "many", "items": null})),
        ("core.loop", json!({"maxIterations": 1e300})),
        ("core.setVariable", json!({"name": "a", "variableName": "b", "value": null})),
        ("core.channelWrite", json!({"channelName": "c", "ttlMs": 5.0, "comment": 1})),
        ("core.delay", json!({"ms": 0.5, "unit": "ms"})),
        (
            "core.interrupt",
            json!({"kind": "approval", "data": {"requiredApprovals": "two"}, "turnCount": "x"}),
        ),
        (
            "core.approvalGate",
            json!({"requiredApprovals": 2.0, "audience": null, "artifactId": 7, "timeoutMs": 0}),
        ),
        ("core.openwop.governance.approvalGate", json!({"title": 7, "override": {"requiredRole": 1}})),
        ("core.conversationGate", json!({"turnCount": 0, "schema": {}, "tone": "kind"})),
        ("core.orchestrator.supervisor", json!({"agentId": 7, "mockConfidence": "low"})),
        (
            "core.dispatch",
            json!({"fanOutPolicy": "parallel", "joinPolicy": {"mode": "quorum", "quorum": 2.0}}),
        ),
        ("core.subWorkflow", json!({"workflowId": "w", "waitForCompletion": true, "note": "x"})),
        ("conformance.artifact.emit", json!({"artifactType": "", "data": null})),
    ];
    for (kind, config) in cases {
        let kind = NodeType::parse(kind).unwrap();
        // Memory was never supported, so no stored definition uses it.
        let refused =
            load(kind, &config).err().filter(|problems| problems[0].path != "/nodes/0/config/memoryAction");
        assert_eq!(refused, None, "{kind} {config}");
    }
}

/// An agent id that is not a string was ignored, together with the pinned one.
#[test]
fn a_supervisor_whose_agent_id_is_not_a_string_has_a_derived_agent_id() {
    let config = json!({"agentId": 7, "mockDispatchPlan": []});
    let mut document = workflow("w", &[("s", "core.orchestrator.supervisor", config)], &[]);
    document["nodes"][0]["agent"] = json!({"agentId": "pinned-agent"});
    let mut world = World::new(&[document]);
    world.create("w");
    let decided = world.find(EventKind::AgentDecided)[0];
    assert_eq!(decided.payload()["agentId"], "host:supervisor:s");
}

/// `2.0` and `2` have the same canonical form, and a definition the same digest with either.
#[test]
fn an_integer_may_have_a_decimal_point() {
    let gates = [
        ("core.approvalGate", json!({"requiredApprovals": 2.0})),
        ("core.openwop.governance.approvalGate", json!({"quorum": 2.0})),
        ("core.interrupt", json!({"kind": "approval", "data": {"requiredApprovals": 2.0}})),
    ];
    for (kind, config) in gates {
        let mut world = World::new(&[workflow("w", &[("n", kind, config)], &[])]);
        world.create("w");
        for (voter, after) in [("ann", RunStatus::WaitingApproval), ("ben", RunStatus::Completed)] {
            let via = flow::interrupt::Via::Key;
            world.resolve_as("r", "n", json!({"action": "accept", "voter": voter}), voter, via).unwrap();
            assert_eq!(world.status(), after, "{kind} after {voter}");
        }
    }
}

#[test]
fn all_problems_of_a_configuration_are_reported_at_once() {
    let without_mocks = Capabilities { fan_out: false, ..Capabilities::OURS };
    let cases = [
        (
            "core.dispatch",
            json!({"unknown": 1, "fanOutPolicy": "parallel", "iterationCap": 0}),
            vec!["", "/fanOutPolicy", "/iterationCap"],
        ),
        (
            "interlock.guided",
            json!({"workflow": "w", "goal": "", "library": "l"}),
            vec!["/goal", "/manifest"],
        ),
        ("interlock.guided", json!({"workflow": "w", "library": "l", "manifest": null}), vec!["/manifest"]),
        (
            "core.interrupt",
            json!({"kind": "custom", "data": {"customKind": ""}, "resumeSchema": {"type": 7}}),
            vec!["/data/customKind", "/resumeSchema"],
        ),
    ];
    for (kind, config, expected) in cases {
        let document = workflow("w", &[("n", kind, config.clone())], &[]);
        let problems = Definition::check(&document, &without_mocks).unwrap_err();
        let mut paths: Vec<&str> =
            problems.iter().map(|problem| problem.path.strip_prefix("/nodes/0/config").unwrap()).collect();
        paths.sort_unstable();
        assert_eq!(paths, expected, "{kind} {config}");
    }
}
