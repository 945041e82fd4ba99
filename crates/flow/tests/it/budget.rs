//! Limits on the computation and the events of one decision (findings H3 and H4).

use std::sync::Arc;

use canon::time::Timestamp;
use flow::definition::{Capabilities, Definition};
use flow::engine::{Effect, Input, Limits, decide};
use flow::event::{EventKind, wire};
use flow::id::{NodeId, Principal, RunId, WorkflowId};
use flow::run::RunStatus;
use flow::state::RunState;
use serde_json::{Value, json};

use crate::driver::{World, workflow};

/// Sets the condition of the first edge.
fn with_condition(mut document: Value, condition: Value) -> Value {
    document["edges"][0]["condition"] = condition;
    document
}

/// A chain of nodes that pass on one value.
fn chain(nodes: usize, variable: &Value) -> Value {
    let ids: Vec<String> = (0..nodes).map(|place| format!("n{place}")).collect();
    let nodes: Vec<_> = ids.iter().map(|id| (id.as_str(), "core.identity", json!({}))).collect();
    let mut document = workflow("w", &nodes, &[]);
    for node in document["nodes"].as_array_mut().unwrap() {
        node["inputs"] = json!({"x": {"type": "variable", "variableName": "v"}});
    }
    document["variables"] = json!([{"name": "v", "type": "string", "defaultValue": variable}]);
    document
}

fn error(world: &World) -> Value {
    world.snapshot("r")["error"].clone()
}

/// Asserts that a run failed at a limit, with both values in the log and in the snapshot.
#[track_caller]
fn assert_exceeded(world: &World, kind: &str, code: &str, limit: u64) {
    assert_eq!(
        (world.status(), &error(world)["code"]),
        (RunStatus::Failed, &json!(code)),
        "{}",
        error(world)
    );
    let breach = &world.find(EventKind::CapBreached)[0].payload();
    assert_eq!((&breach["kind"], &breach["limit"]), (&json!(kind), &json!(limit)), "{breach:?}");
    assert!(breach["observed"].as_u64() > Some(limit), "{breach:?}");
    let details = &error(world)["details"];
    assert_eq!((&details["limit"], &details["observed"]), (&breach["limit"], &breach["observed"]));
    let message = error(world)["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains(&limit.to_string()) && message.contains(&details["observed"].to_string()),
        "{message}"
    );
}

/// Finding H3: the result of a decision that takes too long is the same on every machine.
#[test]
fn a_decision_that_exceeds_its_step_limit_fails_the_run() {
    let two = [("a", "core.noop", json!({})), ("b", "core.noop", json!({}))];
    let plain = || workflow("w", &two, &[("a", "b")]);
    let list = json!(vec![7; 2000]);
    let many = ["list == list"; 200].join(" && ");
    let loops = workflow("w", &two, &[("a", "b"), ("b", "a")]);
    let mut loops = with_condition(loops, json!({"type": "equals", "left": "list", "right": list}));
    loops["edges"][1]["condition"] = json!({"type": "expression", "expression": many});
    let mut port = plain();
    port["nodes"][1]["inputs"] = json!({"x": {"type": "expression", "expression": many}});
    let any = |rule: &str, from: &str| {
        let nodes = [("a", from, json!({})), ("b", "core.noop", json!({}))];
        let mut document = workflow("w", &nodes, &[("a", "b")]);
        document["edges"][0]["triggerRule"] = rule.into();
        with_condition(document, json!({"type": "expression", "expression": many}))
    };
    let cases = [
        ("an expression", with_condition(plain(), json!({"type": "expression", "expression": many}))),
        (
            "a pattern",
            with_condition(plain(), json!({"type": "regex", "left": "bits", "right": "[01]*1[01]{500}2"})),
        ),
        ("a loop", loops),
        ("a port", port),
        ("an early rule", any("any_success", "core.noop")),
        ("a rule for failures", any("any_failed", "core.fail")),
        (
            "a decision of a node",
            workflow("w", &[("a", "core.conditional", json!({"expression": many}))], &[]),
        ),
    ];
    for (name, mut document) in cases {
        document["variables"] = json!([
            {"name": "list", "type": "array", "defaultValue": list},
            {"name": "bits", "type": "string", "defaultValue": "01".repeat(3000)},
        ]);
        let limits = Limits { max_decision_steps: 1_000_000, ..Limits::default() };
        let mut world = World::new(std::slice::from_ref(&document));
        world.limits = limits;
        world.create("w");
        assert_exceeded(&world, "decision-steps", "decision_budget_exceeded", 1_000_000);
        let mut roomy = World::new(&[document]);
        roomy.create("w");
        assert_ne!(error(&roomy)["code"], "decision_budget_exceeded", "{name}");
    }
}

/// Finding H3: the steps that reading a log repeats are limited for the whole run.
#[test]
fn a_run_whose_log_takes_too_many_steps_to_read_fails() {
    let nodes = [("a", "core.delay", json!({"ms": 10})), ("b", "core.noop", json!({}))];
    let mut document = workflow("w", &nodes, &[("a", "b"), ("b", "a")]);
    document["edges"][1]["condition"] = json!({"type": "equals", "left": "list", "right": vec![7; 1000]});
    document["settings"] = json!({"maxLoopbackIterations": 100});
    document["variables"] = json!([{"name": "list", "type": "array", "defaultValue": vec![7; 1000]}]);
    let mut world = World::new(&[document]);
    world.limits = Limits { max_run_steps: 50_000, ..Limits::default() };
    world.create("w");
    for _ in 0..20 {
        world.pass(10);
    }
    assert_exceeded(&world, "run-steps", "decision_budget_exceeded", 50_000);
}

/// Finding H4a: the total size of the events of a decision is limited, and larger ones are never built.
#[test]
fn a_decision_that_exceeds_the_append_limit_fails_the_run_within_the_limit() {
    for nodes in [30, 300] {
        let mut world = World::new(&[chain(nodes, &json!("x".repeat(10_000)))]);
        world.limits = Limits { max_append_bytes: 100_000, ..Limits::default() };
        world.create("w");
        assert_exceeded(&world, "append-bytes", "append_limit_exceeded", 100_000);
        let run = &world.runs["r"];
        let bytes: usize = run.events.iter().map(|event| wire::encode(&RunId::new("r"), event).len()).sum();
        assert!(bytes < 110_000, "{nodes} nodes: {bytes} bytes");
        assert!(run.events.len() < 60, "{nodes} nodes: {} events", run.events.len());
    }
    let mut roomy = World::new(&[chain(3, &json!("x".repeat(10_000)))]);
    roomy.limits = Limits { max_append_bytes: 200_000, ..Limits::default() };
    roomy.create("w");
    assert_eq!(roomy.status(), RunStatus::Completed);
}

/// Finding H4a: the outputs of a run are measured before they are copied.
#[test]
fn a_run_whose_outputs_are_too_large_to_record_fails() {
    let mut document = chain(8, &json!("x".repeat(10_000)));
    for (place, node) in document["nodes"].as_array_mut().unwrap().iter_mut().enumerate() {
        // Each node in a decision of its own.
        node["typeId"] = "core.conformance.side-effect".into();
        node["config"] = json!({"name": format!("c{place}")});
    }
    let mut world = World::new(&[document]);
    world.limits = Limits { max_append_bytes: 50_000, ..Limits::default() };
    for place in 0..8 {
        let value = json!({"big": "y".repeat(10_000)});
        world.outcomes.entry(NodeId::new(format!("n{place}"))).or_default().push_back(Ok(value));
    }
    world.create("w");
    assert_exceeded(&world, "append-bytes", "append_limit_exceeded", 50_000);
}

/// Finding H4a: the size of the log of a run is limited. The events that end the run are still recorded.
#[test]
fn a_run_whose_log_is_too_large_fails_and_can_be_cancelled() {
    let nodes = [("d", "core.delay", json!({"ms": 10})), ("n", "core.identity", json!({}))];
    let mut document = workflow("w", &nodes, &[("d", "n"), ("n", "d")]);
    document["nodes"][1]["inputs"] = json!({"x": {"type": "variable", "variableName": "v"}});
    document["settings"] = json!({"maxLoopbackIterations": 1000});
    document["variables"] = json!([{"name": "v", "type": "string", "defaultValue": "x".repeat(10_000)}]);
    let mut world = World::new(std::slice::from_ref(&document));
    world.limits = Limits { max_run_bytes: 200_000, ..Limits::default() };
    world.create("w");
    for _ in 0..20 {
        world.pass(10);
    }
    assert_exceeded(&world, "run-bytes", "run_size_exceeded", 200_000);
    // A run that exceeded the limit in an earlier version can still be cancelled.
    let mut world = World::new(&[document]);
    world.create("w");
    for _ in 0..5 {
        world.pass(10);
    }
    world.limits = Limits { max_run_bytes: 1000, max_append_bytes: 1, ..Limits::default() };
    let cancel = Input::Cancel { reason: None, by: Principal::new("me"), parent_run_id: None };
    world.give("r", cancel).unwrap();
    assert_eq!(world.status(), RunStatus::Cancelled);
}

/// A decision that fails the run at a limit does not request its other effects.
#[test]
fn effects_of_a_decision_that_exceeds_a_limit_are_not_requested() {
    let mut document = chain(30, &json!("x".repeat(10_000)));
    document["nodes"][0]["typeId"] = "core.conformance.side-effect".into();
    document["nodes"][0]["config"] = json!({"name": "c"});
    document["nodes"][1]["typeId"] = "core.delay".into();
    document["nodes"][1]["config"] = json!({"ms": 10});
    let definition = Definition::check(&document, &Capabilities::EVERYTHING).unwrap();
    let genesis = World::new(&[document]).genesis("r", "w", json!({}), json!({}));
    let mut state = RunState::new(&definition, Arc::new(genesis));
    let limits = Limits { max_append_bytes: 100_000, ..Limits::default() };
    let decision =
        decide(&definition, &mut state, Input::Create, Timestamp(5), &limits, &|_: &WorkflowId| true)
            .unwrap();
    assert_eq!(state.status, RunStatus::Failed);
    let made = decision.effects.iter().filter(|effect| !matches!(effect, Effect::ClearTimer { .. }));
    assert_eq!(made.collect::<Vec<_>>(), Vec::<&Effect>::new());
    // The log folds to the same state.
    let folded = RunState::fold(&definition, state.genesis.clone(), &decision.events).unwrap();
    assert_eq!(folded, state);
}

/// Finding H4b: the patterns of a definition are limited in total, before any of them is compiled.
#[test]
fn patterns_that_exceed_the_limit_in_total_are_refused() {
    let nodes = [("a", "core.noop", json!({})), ("b", "core.noop", json!({}))];
    let document = |edges: usize| {
        let mut document = workflow("w", &nodes, &vec![("a", "b"); edges]);
        for (place, edge) in document["edges"].as_array_mut().unwrap().iter_mut().enumerate() {
            edge["id"] = format!("e{place}").into();
            edge["condition"] = json!({"type": "regex", "left": "x", "right": format!(r"\w{{20}}{place}")});
        }
        document
    };
    assert!(Definition::check(&document(20), &Capabilities::OURS).is_ok());
    let refused = Definition::check(&document(2000), &Capabilities::OURS).unwrap_err();
    assert!(refused[0].to_string().contains("the limit is 67108864"), "{refused:?}");
    // A definition that an earlier version accepted is read without its patterns, and its runs fail with both values.
    let definition = Definition::load(&document(2000), 1 << 20).unwrap();
    let genesis = World::new(&[workflow("w", &nodes, &[])]).genesis("r", "w", json!({}), json!({}));
    let mut state = RunState::new(&definition, Arc::new(genesis));
    let all = |_: &WorkflowId| true;
    let decision =
        decide(&definition, &mut state, Input::Create, Timestamp(5), &Limits::default(), &all).unwrap();
    let kinds: Vec<_> = decision.events.iter().map(|event| event.data.name()).collect();
    assert_eq!(kinds, ["run.started", "cap.breached", "run.failed"]);
    let error = state.error.unwrap();
    assert_eq!(error.code, "pattern_limit_exceeded");
    assert_eq!(error.details.unwrap()["limit"], 1 << 20);
}
