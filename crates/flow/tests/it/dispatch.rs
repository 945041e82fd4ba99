//! Supervisors and their workers.

use flow::event::EventKind;
use flow::id::{Principal, RunId, WorkflowId};
use flow::run::RunStatus;
use serde_json::{Value, json};

use crate::driver::{World, workflow};

/// A supervisor that names some workers at once, and then terminates. The test decides how they end.
fn world(workers: &[&str], config: Value) -> World {
    let plan = json!([{"kind": "next-worker", "nextWorkerIds": workers}, {"kind": "terminate"}]);
    let nodes = [
        ("s", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
        ("d", "core.dispatch", config),
    ];
    let mut documents = vec![workflow("w", &nodes, &[("s", "d"), ("d", "s")])];
    let mut unique: Vec<&str> = workers.to_vec();
    unique.dedup();
    documents.extend(unique.iter().map(|id| workflow(id, &[("n", "core.noop", json!({}))], &[])));
    let mut world = World::new(&documents);
    world.by_hand = unique.iter().map(|id| WorkflowId::new(*id)).collect();
    world.create("w");
    world
}

fn child(world: &World, workflow_id: &str) -> RunId {
    world.children().into_iter().find(|(id, _)| *id == *workflow_id).unwrap().1
}

#[test]
fn join_modes_of_parallel_workers() {
    use RunStatus::{Cancelled, Completed, Failed, Running};
    // The ends in the order in which the parent sees them; the join outcome, the number of cancelled workers, and the status of the run.
    type Ends<'a> = &'a [(&'a str, RunStatus)];
    let all: Ends<'_> = &[("b", Completed), ("a", Completed), ("c", Completed)];
    let cases: [(Value, Ends<'_>, &str, usize, RunStatus); 14] = [
        (json!({"mode": "wait-all"}), all, "satisfied", 0, Completed),
        (
            json!({"mode": "wait-all"}),
            &[("a", Failed), ("b", Completed), ("c", Cancelled)],
            "partial",
            0,
            Completed,
        ),
        (json!({"mode": "wait-all"}), &[("a", Failed)], "", 0, Running),
        (json!({"mode": "wait-all", "onChildFailure": "fail-fast"}), &[("c", Failed)], "failed", 2, Failed),
        (
            json!({"mode": "wait-all", "onChildFailure": "absorb"}),
            &[("a", Failed), ("b", Failed), ("c", Failed)],
            "partial",
            0,
            Completed,
        ),
        (
            json!({"mode": "quorum", "quorum": 2}),
            &[("c", Completed), ("a", Completed)],
            "satisfied",
            1,
            Completed,
        ),
        (json!({"mode": "quorum", "quorum": 2}), &[("c", Failed), ("a", Failed)], "failed", 1, Failed),
        (
            json!({"mode": "quorum", "quorum": 2}),
            &[("c", Failed), ("a", Completed), ("b", Completed)],
            "partial",
            0,
            Completed,
        ),
        (
            json!({"mode": "quorum", "quorum": 2, "onChildFailure": "absorb"}),
            &[("c", Failed), ("a", Failed)],
            "partial",
            1,
            Completed,
        ),
        (json!({"mode": "quorum", "quorum": 4}), &[], "failed", 0, Failed),
        (json!({"mode": "first"}), &[("b", Completed)], "satisfied", 2, Completed),
        (json!({"mode": "first"}), &[("b", Failed), ("a", Completed)], "partial", 1, Completed),
        (json!({"mode": "race"}), &[("c", Completed)], "satisfied", 2, Completed),
        (json!({"mode": "race"}), &[("c", Failed)], "partial", 2, Completed),
    ];
    for (policy, ends, outcome, cancelled, status) in cases {
        let config = json!({"fanOutPolicy": "parallel", "joinPolicy": policy});
        let mut world = world(&["a", "b", "c"], config);
        let fan_out = &world.find(EventKind::DispatchFanOut)[0];
        assert_eq!(fan_out.payload()["childCount"], 3);
        let mut seen = Vec::new();
        for (id, status) in ends {
            let run_id = child(&world, id);
            world.end_child(run_id.as_str(), *status, json!({}));
            seen.push(run_id);
        }
        assert_eq!(world.status(), status, "{policy} {ends:?}");
        assert_eq!(world.cancelled.len(), cancelled, "{policy} {ends:?}");
        match world.find(EventKind::DispatchJoin).first() {
            None => assert_eq!(outcome, ""),
            Some(join) => {
                assert_eq!(join.payload()["joinOutcome"], outcome, "{policy} {ends:?}");
                assert_eq!(join.payload()["mergeOrder"], json!(seen), "the order is the one that was seen");
            }
        }
    }
}

#[test]
fn workers_above_the_concurrency_limit_wait_and_all_are_started() {
    let config = json!({"fanOutPolicy": "parallel", "maxConcurrency": 2});
    let mut world = world(&["a", "b", "c", "d"], config);
    assert_eq!(world.started, ["a", "b"]);
    world.end_child(child(&world, "b").as_str(), RunStatus::Completed, json!({}));
    assert_eq!(world.started, ["a", "b", "c"]);
    for id in ["a", "c", "d"] {
        world.end_child(child(&world, id).as_str(), RunStatus::Completed, json!({}));
    }
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn the_last_worker_to_end_sets_the_final_value() {
    let config = json!({"fanOutPolicy": "parallel", "outputMapping": {"result": "x"}});
    let mut world = world(&["a", "b"], config);
    world.end_child(child(&world, "b").as_str(), RunStatus::Completed, json!({"x": "of b"}));
    world.end_child(child(&world, "a").as_str(), RunStatus::Completed, json!({"x": "of a"}));
    assert_eq!(world.snapshot("r")["variables"]["result"], "of a");
}

#[test]
fn a_worker_that_does_not_complete_sets_no_variables() {
    for status in [RunStatus::Failed, RunStatus::Cancelled] {
        let mut world = world(&["a"], json!({"outputMapping": {"result": "x"}}));
        world.end_child(child(&world, "a").as_str(), status, json!({"x": 1}));
        assert_eq!(world.snapshot("r")["error"]["code"], "child_failed");
        assert!(world.snapshot("r")["variables"].get("result").is_none());
    }
}

#[test]
fn workers_that_cannot_be_started_fail_the_dispatch() {
    let cases = [
        (json!({"fanOutPolicy": "reject"}), vec!["a", "b"], "fan_out_unsupported"),
        (json!({"iterationCap": 1}), vec!["a", "b"], "dispatch_limit_exceeded"),
    ];
    for (config, workers, code) in cases {
        let mut world = world(&workers, config);
        if !world.children().is_empty() {
            world.end_child(child(&world, "a").as_str(), RunStatus::Completed, json!({}));
        }
        assert_eq!(world.snapshot("r")["error"]["code"], code);
    }
    let plan = json!([{"kind": "next-worker", "nextWorkerIds": ["unknown"]}]);
    let supervisor = ("s", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan}));
    let dispatch = ("d", "core.dispatch", json!({}));
    for (nodes, edges, code) in [
        (vec![supervisor, dispatch.clone()], vec![("s", "d"), ("d", "s")], "unknown_child_workflow"),
        (vec![dispatch], vec![], "no_pending_decision"),
    ] {
        let mut world = World::new(&[workflow("w", &nodes, &edges)]);
        world.create("w");
        assert_eq!(world.snapshot("r")["error"]["code"], code);
    }
}

#[test]
fn a_question_of_the_supervisor_becomes_an_interrupt() {
    let plan = json!([{"kind": "ask-user", "prompt": "Which one?"}]);
    let (said, answered) = (json!({"content": "this"}), json!({"answers": {"answer": "this"}}));
    for (routing, converses, answer, kind) in [
        ("auto", true, &said, "conversation.exchange"),
        ("clarification", true, &answered, "clarification"),
        ("auto", false, &answered, "clarification"),
        ("conversation", true, &said, "conversation.exchange"),
        ("conversation", false, &answered, "clarification"),
    ] {
        let nodes = [
            ("s", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
            ("d", "core.dispatch", json!({"askUserRouting": routing})),
        ];
        let mut world = World::new(&[workflow("w", &nodes, &[("s", "d"), ("d", "s")])]);
        world.converses = converses;
        world.create("w");
        assert_eq!(world.run().state.interrupts["d"].kind.as_str(), kind, "{routing}, {converses}");
        world.resolve("d", answer.clone()).unwrap();
        assert_eq!(world.status(), RunStatus::Completed);
        assert_eq!(
            world.find(EventKind::OrchestratorDecided).len(),
            2,
            "the supervisor continues after the answer"
        );
    }
}

#[test]
fn the_questions_of_a_supervisor_are_limited() {
    let plan: Vec<Value> = (0..9).map(|_| json!({"kind": "ask-user", "prompt": "And now?"})).collect();
    let nodes = [
        ("s", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
        ("d", "core.dispatch", json!({})),
    ];
    let mut document = workflow("w", &nodes, &[("s", "d"), ("d", "s")]);
    document["settings"]["maxLoopbackIterations"] = 100.into();
    let mut world = World::new(&[document]);
    world.create("w");
    for _ in 0..3 {
        world.resolve("d", json!({"content": "more"})).unwrap();
    }
    assert_eq!(world.snapshot("r")["error"]["code"], "clarification_limit_exceeded");
    assert_eq!(world.find(EventKind::CapBreached)[0].payload()["kind"], "clarification");
}

#[test]
fn policies_for_failed_sub_workflows() {
    for (policy, status) in [("fail-parent", RunStatus::Failed), ("absorb", RunStatus::Completed)] {
        let nodes = [(
            "n",
            "core.subWorkflow",
            json!({"workflowId": "child", "onChildFailure": policy, "outputMapping": {"v": "v"}}),
        )];
        let mut child = workflow("child", &[("f", "core.fail", json!({}))], &[]);
        child["variables"] = json!([{"name": "v", "type": "number", "defaultValue": 1}]);
        let mut world = World::new(&[workflow("w", &nodes, &[]), child]);
        world.create("w");
        assert_eq!(world.status(), status);
        assert!(world.snapshot("r")["variables"].get("v").is_none());
        assert_eq!(world.snapshot("r")["childRuns"][0]["status"], "failed");
    }
}

#[test]
fn a_child_sets_mapped_variables_and_is_cancelled_with_its_parent_by_default() {
    let mut child = workflow("child", &[("d", "core.delay", json!({"ms": 10}))], &[]);
    child["variables"] = json!([{"name": "has", "type": "number", "defaultValue": 1}]);
    let mapping = json!({"kept": "has not", "got": "has"});
    let call = |follows: Value| {
        let mut config = json!({"workflowId": "child", "outputMapping": mapping});
        if !follows.is_null() {
            config["propagateCancellation"] = follows;
        }
        let mut document = workflow("w", &[("n", "core.subWorkflow", config)], &[]);
        document["variables"] = json!([{"name": "kept", "type": "string", "defaultValue": "mine"}]);
        let mut world = World::new(&[document, child.clone()]);
        world.create("w");
        world
    };
    let mut world = call(json!(null));
    world.pass(10);
    let variables = &world.snapshot("r")["variables"];
    assert_eq!((&variables["kept"], &variables["got"]), (&json!("mine"), &json!(1)));
    for (follows, after) in [
        (json!(null), RunStatus::Cancelled),
        (json!(true), RunStatus::Cancelled),
        (json!(false), RunStatus::Running),
    ] {
        let mut world = call(follows.clone());
        let (_, child) = world.children().remove(0);
        let cancel =
            flow::engine::Input::Cancel { reason: None, by: Principal::new("me"), parent_run_id: None };
        world.give("r", cancel).unwrap();
        assert_eq!(world.runs[&child].state.status, after, "{follows}");
    }
}

#[test]
fn a_retry_of_a_sub_workflow_starts_another_child() {
    let nodes = [("n", "core.subWorkflow", json!({"workflowId": "child"}))];
    let mut document = workflow("w", &nodes, &[]);
    document["settings"]["maxRetries"] = 1.into();
    let mut world = World::new(&[document, workflow("child", &[("f", "core.fail", json!({}))], &[])]);
    world.create("w");
    world.pass(1000);
    let children = world.children();
    assert_eq!((children.len(), world.status()), (2, RunStatus::Failed));
    assert_ne!(children[0].1, children[1].1);
}
