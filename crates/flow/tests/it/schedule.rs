//! Which nodes are executed, which are skipped, and in which order.

use flow::event::EventKind;
use flow::id::WorkflowId;
use flow::run::RunStatus;
use serde_json::{Value, json};

use crate::driver::{World, workflow};

/// Runs a workflow `w` and returns the statuses of its nodes, as `a=completed b=skipped`, and of the run.
fn states(document: Value) -> (String, RunStatus) {
    let mut world = World::new(&[document]);
    let run = world.create("w");
    let nodes = run.definition.nodes.iter().zip(&run.state.nodes);
    let states: Vec<String> =
        nodes.map(|(node, state)| format!("{}={}", node.id, state.status.as_str())).collect();
    (states.join(" "), run.state.status)
}

#[test]
fn trigger_rules_with_two_sources() {
    use RunStatus::{Completed, Failed};
    // The source `a` completes; the table says what `b` does. Failures do not end the run if a successor handles them.
    let cases = [
        ("all_success", "core.noop", "c=completed", Completed),
        ("all_success", "core.fail", "c=pending", Failed),
        ("any_success", "core.fail", "c=completed", Completed),
        ("any_success", "core.noop", "c=completed", Completed),
        ("all_complete", "core.fail", "c=completed", Completed),
        ("none_failed", "core.fail", "c=pending", Failed),
        ("none_failed", "core.noop", "c=completed", Completed),
        ("any_failed", "core.fail", "c=completed", Completed),
        ("any_failed", "core.noop", "c=skipped", Completed),
    ];
    for (rule, other, last, status) in cases {
        let mut document = workflow(
            "w",
            &[("a", "core.noop", json!({})), ("b", other, json!({})), ("c", "core.noop", json!({}))],
            &[("a", "c"), ("b", "c")],
        );
        for edge in document["edges"].as_array_mut().unwrap() {
            edge["triggerRule"] = rule.into();
        }
        let (states, run) = states(document);
        assert!(states.ends_with(last), "{rule} {other}: {states}");
        assert_eq!(run, status, "{rule} {other}");
    }
}

#[test]
fn the_rule_of_the_first_incoming_edge_by_id_applies() {
    for (first, second, last) in
        [("all_complete", "all_success", "c=completed"), ("any_failed", "all_success", "c=completed")]
    {
        for ids in [["x1", "x2"], ["x2", "x1"]] {
            let mut document = workflow(
                "w",
                &[
                    ("a", "core.noop", json!({})),
                    ("b", "core.fail", json!({})),
                    ("c", "core.noop", json!({})),
                ],
                &[("a", "c"), ("b", "c")],
            );
            for (place, id) in ids.iter().enumerate() {
                let rule = if *id == "x1" { first } else { second };
                document["edges"][place]["id"] = (*id).into();
                document["edges"][place]["triggerRule"] = rule.into();
            }
            let (states, _) = states(document);
            assert!(states.ends_with(last), "{first} before {second}, {ids:?}: {states}");
        }
    }
}

#[test]
fn a_failure_whose_successor_never_starts_fails_the_run() {
    // Another source could have started `c`, but did not.
    let mut document =
        workflow("w", &[("a", "core.fail", json!({})), ("c", "core.noop", json!({}))], &[("a", "c")]);
    document["edges"][0]["triggerRule"] = "any_success".into();
    assert_eq!(states(document), ("a=failed c=skipped".into(), RunStatus::Failed));
}

#[test]
fn conditions_on_edges() {
    let cases = [
        (json!({"type": "equals", "left": "status", "right": "completed"}), "b=completed c=completed"),
        (json!({"type": "equals", "left": "output.answer", "right": 42}), "b=completed c=completed"),
        (json!({"type": "equals", "left": "output.answer", "right": 41}), "b=skipped c=skipped"),
        (
            json!({"type": "expression", "expression": "answer > 40 && variables.answer == 42"}),
            "b=completed c=completed",
        ),
    ];
    for (condition, after) in cases {
        let mut document = workflow(
            "w",
            &[
                ("a", "core.identity", json!({})),
                ("b", "core.noop", json!({})),
                ("c", "core.noop", json!({})),
            ],
            &[("a", "b"), ("b", "c")],
        );
        document["nodes"][0]["inputs"] = json!({"answer": {"type": "static", "value": 42}});
        document["edges"][0]["condition"] = condition.clone();
        assert_eq!(states(document), (format!("a=completed {after}"), RunStatus::Completed), "{condition}");
    }
}

#[test]
fn a_conditional_node_follows_one_branch() {
    for (value, after) in
        [(true, "yes=completed no=skipped end=completed"), (false, "yes=skipped no=completed end=completed")]
    {
        let mut document = workflow(
            "w",
            &[
                ("if", "core.conditional", json!({"expression": "go"})),
                ("yes", "core.noop", json!({})),
                ("no", "core.noop", json!({})),
                ("end", "core.merge", json!({})),
            ],
            &[("if", "yes"), ("if", "no"), ("yes", "end"), ("no", "end")],
        );
        document["nodes"][0]["inputs"] = json!({"go": {"type": "static", "value": value}});
        document["edges"][0]["sourceOutput"] = "true".into();
        document["edges"][1]["sourceOutput"] = "false".into();
        document["edges"][2]["triggerRule"] = "any_success".into();
        assert_eq!(states(document), (format!("if=completed {after}"), RunStatus::Completed));
    }
}

#[test]
fn a_disabled_node_and_its_successors_are_skipped() {
    let mut document = workflow(
        "w",
        &[("a", "core.noop", json!({})), ("b", "core.noop", json!({})), ("c", "core.noop", json!({}))],
        &[("a", "b"), ("b", "c")],
    );
    document["nodes"][1]["disabled"] = true.into();
    assert_eq!(states(document), ("a=completed b=skipped c=skipped".into(), RunStatus::Completed));
}

#[test]
fn nodes_start_by_level_and_then_by_id() {
    let nodes = ["z", "m", "a", "k", "b"].map(|id| (id, "core.noop", json!({})));
    let document = workflow("w", &nodes, &[("z", "a"), ("m", "k"), ("a", "b"), ("k", "b")]);
    let mut world = World::new(&[document]);
    world.create("w");
    let order: Vec<_> =
        world.find(EventKind::NodeStarted).iter().map(|event| event.node_id.clone().unwrap()).collect();
    assert_eq!(order, ["m", "z", "a", "k", "b"]);
}

fn looping(limit: u64) -> Value {
    let mut document = workflow(
        "w",
        &[
            ("count", "core.loop", json!({"maxIterations": 3})),
            ("body", "core.noop", json!({})),
            ("after", "core.noop", json!({})),
        ],
        &[("count", "body"), ("body", "count"), ("count", "after")],
    );
    document["edges"][0]["condition"] = json!({"type": "equals", "left": "output.done", "right": false});
    document["edges"][2]["condition"] = json!({"type": "equals", "left": "output.done", "right": true});
    document["settings"]["maxLoopbackIterations"] = limit.into();
    document
}

#[test]
fn a_loop_iterates_and_then_continues() {
    let mut world = World::new(&[looping(5)]);
    world.create("w");
    let begun: Vec<_> =
        world.find(EventKind::NodeStarted).iter().map(|event| event.node_id.clone().unwrap()).collect();
    assert_eq!(begun, ["count", "body", "count", "body", "count", "body", "count", "after"]);
    assert_eq!(world.status(), RunStatus::Completed);
    assert!(world.find(EventKind::LoopbackLimit).is_empty());
}

#[test]
fn a_loop_at_its_limit_is_not_restarted() {
    let mut world = World::new(&[looping(2)]);
    world.create("w");
    let limit = &world.find(EventKind::LoopbackLimit)[0].payload();
    assert_eq!(
        (&limit["nodeId"], &limit["iterations"], &limit["limit"]),
        (&json!("count"), &json!(2), &json!(2))
    );
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(world.find(EventKind::NodeStarted).len(), 6);
}

#[test]
fn a_supervisor_that_never_terminates_fails_the_run() {
    let plan: Vec<Value> =
        (0..20).map(|_| json!({"kind": "next-worker", "nextWorkerIds": ["child"]})).collect();
    let nodes = [
        ("s", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
        ("d", "core.dispatch", json!({})),
    ];
    let child = workflow("child", &[("n", "core.noop", json!({}))], &[]);
    let cases = [
        (json!({}), json!({}), "loop_limit_exceeded", "workflow.loopback-limit"),
        (
            json!({"maxLoopbackIterations": 100}),
            json!({"maxLoopIterations": 7}),
            "loop_limit_exceeded",
            "cap.breached",
        ),
    ];
    for (settings, configurable, code, kind) in cases {
        let mut document = workflow("w", &nodes, &[("s", "d"), ("d", "s")]);
        document["settings"] = settings;
        let mut world = World::new(&[document, child.clone()]);
        world.create_with("w", json!({}), configurable);
        assert_eq!(world.snapshot("r")["error"]["code"], code);
        assert!(world.kinds().contains(&kind), "{:?}", world.kinds());
    }
}

#[test]
fn the_outputs_of_a_run_are_those_of_its_end_nodes() {
    let mut document =
        workflow("w", &[("a", "core.identity", json!({})), ("end", "core.end", json!({}))], &[("a", "end")]);
    document["nodes"][0]["inputs"] = json!({"x": {"type": "static", "value": 1}});
    document["nodes"][1]["inputs"] =
        json!({"result": {"type": "connection", "nodeId": "a", "outputKey": "x"}});
    let mut world = World::new(&[document]);
    let run = world.create("w");
    assert_eq!(run.events.last().unwrap().payload()["outputs"], json!({"result": 1}));
}

#[test]
fn a_run_of_five_thousand_nodes_is_one_decision() {
    use flow::engine::{Input, Limits, decide};
    use flow::state::RunState;
    let chain = |count: usize| {
        let ids: Vec<String> = (0..count).map(|place| format!("n{place:05}")).collect();
        let nodes: Vec<(&str, &str, Value)> =
            ids.iter().map(|id| (id.as_str(), "core.noop", json!({}))).collect();
        let edges: Vec<(&str, &str)> =
            ids.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
        workflow("w", &nodes, &edges)
    };
    let world = World::new(&[chain(5000)]);
    let definition = &world.definitions["w"];
    let genesis = std::sync::Arc::new(world.genesis("r", "w", json!({}), json!({})));
    let mut state = RunState::new(definition, genesis);
    let decision =
        decide(definition, &mut state, Input::Create, world.now, &Limits::default(), &|_: &WorkflowId| false)
            .unwrap();
    assert_eq!((decision.events.len(), state.status), (10_002, RunStatus::Completed));
}

#[test]
fn a_loop_does_not_restart_active_nodes() {
    // `other` alone starts `last`, while the first node of the loop still waits.
    let mut document = workflow(
        "w",
        &[
            ("start", "core.noop", json!({})),
            ("first", "core.delay", json!({"ms": 10})),
            ("other", "core.noop", json!({})),
            ("last", "core.noop", json!({})),
        ],
        &[("first", "last"), ("other", "last"), ("last", "first"), ("start", "first")],
    );
    for edge in 0..2 {
        document["edges"][edge]["triggerRule"] = "any_success".into();
    }
    let mut world = World::new(&[document]);
    world.create("w");
    world.pass(1000);
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(world.find(EventKind::NodeStarted).len(), 4);
}
