//! Valid configurations and events of a dispatch.

use flow::definition::{Capabilities, Definition, Problem};
use flow::engine::Refusal;
use flow::event::{EventKind, event_id};
use flow::id::{NodeId, RunId};
use flow::run::RunStatus;
use serde_json::{Value, json};

use crate::driver::{World, workflow};

fn refused(config: Value, capabilities: &Capabilities) -> Vec<Problem> {
    let document = workflow("w", &[("d", "core.dispatch", config)], &[]);
    Definition::check(&document, capabilities).err().unwrap_or_default()
}

#[test]
fn a_contradictory_dispatch_configuration_is_refused_at_registration() {
    let joined = |policy: Value| json!({"fanOutPolicy": "parallel", "joinPolicy": policy});
    let wrong = [
        json!({"unknown": 1}),
        json!({"fanOutPolicy": "broadcast"}),
        json!({"workerDispatchModel": "thread"}),
        json!({"askUserRouting": "mail"}),
        json!({"joinPolicy": {"mode": "wait-all"}}),
        json!({"fanOutPolicy": "sequential", "joinPolicy": {}}),
        json!({"fanOutPolicy": "parallel", "maxConcurrency": 0}),
        json!({"iterationCap": 0}),
        joined(json!({"mode": "quorum"})),
        joined(json!({"mode": "quorum", "quorum": 0})),
        joined(json!({"mode": "quorum", "quorum": 1.5})),
        joined(json!({"mode": "most"})),
        joined(json!({"onChildFailure": "ignore"})),
        joined(json!({"mode": "first", "extra": true})),
    ];
    for config in wrong {
        assert!(!refused(config.clone(), &Capabilities::OURS).is_empty(), "{config}");
    }
    for config in [
        json!({}),
        joined(json!({})),
        joined(json!({"mode": "quorum", "quorum": 1})),
        json!({"fanOutPolicy": "parallel", "maxConcurrency": 1}),
    ] {
        assert_eq!(refused(config.clone(), &Capabilities::OURS).len(), 0, "{config}");
    }
}

#[test]
fn an_unsupported_option_is_refused_with_the_name_of_its_flag() {
    let without = Capabilities {
        fan_out: false,
        dispatch_mapping: false,
        sub_workflow_input_mapping: false,
        ..Capabilities::OURS
    };
    let mapping = json!({"child": "parent"});
    let cases = [
        (json!({"fanOutPolicy": "parallel"}), "dispatch.fanOutSupported"),
        (json!({"inputMapping": mapping}), "agents.dispatchMapping"),
        (json!({"outputMapping": mapping}), "agents.dispatchMapping"),
        (json!({"perWorkerInputMappings": {"w": mapping}}), "agents.dispatchMapping"),
        (json!({"perWorkerOutputMappings": {"w": mapping}}), "agents.dispatchMapping"),
    ];
    for (config, flag) in cases {
        let problems = refused(config.clone(), &without);
        assert_eq!(problems[0].required_capability, Some(flag), "{config}");
    }
    let sub =
        workflow("w", &[("n", "core.subWorkflow", json!({"workflowId": "c", "inputMapping": mapping}))], &[]);
    let problems = Definition::check(&sub, &without).unwrap_err();
    assert_eq!(problems[0].required_capability, Some("subWorkflow.inputMapping"));
}

#[test]
fn a_decision_is_one_of_three_closed_kinds() {
    let plan = |decision: Value| {
        let config = json!({"mockDispatchPlan": [decision]});
        Definition::check(
            &workflow("w", &[("s", "core.orchestrator.supervisor", config)], &[]),
            &Capabilities::OURS,
        )
        .is_ok()
    };
    let right = [
        json!({"kind": "next-worker", "nextWorkerIds": ["a"], "confidence": 0.5}),
        json!({"kind": "ask-user", "prompt": "?"}),
        json!({"kind": "terminate"}),
        json!({"kind": "terminate", "reason": "r", "confidence": 1, "successCriteria": [{"key": "k", "met": true}]}),
    ];
    let wrong = [
        json!({"kind": "next-worker"}),
        json!({"kind": "next-worker", "nextWorkerIds": []}),
        json!({"kind": "next-worker", "nextWorkerIds": [""]}),
        json!({"kind": "next-worker", "nextWorkerIds": ["a"], "prompt": "?"}),
        json!({"kind": "next-worker", "nextWorkerIds": ["a"], "confidence": 1.5}),
        json!({"kind": "ask-user"}),
        json!({"kind": "ask-user", "prompt": ""}),
        json!({"kind": "ask-user", "prompt": "?", "reason": "r"}),
        json!({"kind": "terminate", "nextWorkerIds": ["a"]}),
        json!({"kind": "terminate", "reason": ""}),
        json!({"kind": "terminate", "reason": 7}),
        json!({"kind": "terminate", "successCriteria": ["done"]}),
        json!({"kind": "terminate", "successCriteria": [{"key": "k"}]}),
        json!({"kind": "terminate", "successCriteria": [{"key": "", "met": true}]}),
        json!({"kind": "terminate", "successCriteria": [{"key": "k", "met": true, "why": "w"}]}),
        json!({"kind": "other"}),
        json!({}),
    ];
    // A decision with which a person replaces another one must be valid, too.
    let ratified = |decision: &Value| {
        let config = json!({"mockConfidence": 0.1});
        let mut world = World::new(&[workflow("w", &[("s", "core.orchestrator.supervisor", config)], &[])]);
        world.create("w");
        let answer = world.resolve("s", json!({"action": "accept", "decision": decision}));
        let decided = world.find(EventKind::OrchestratorDecided);
        match answer {
            Ok(_) => {
                assert_eq!(decided[0].payload()["decision"], *decision, "what was taken is what is decided");
                true
            }
            Err(Refusal::BadAnswer { semantic: false, .. }) => {
                assert_eq!((decided.len(), world.status()), (0, RunStatus::WaitingApproval), "{decision}");
                false
            }
            Err(other) => panic!("{decision}: {other:?}"),
        }
    };
    for decision in right {
        assert!(plan(decision.clone()) && ratified(&decision), "{decision}");
    }
    for decision in wrong {
        assert!(!plan(decision.clone()) && !ratified(&decision), "{decision}");
    }
    for decision in [json!(7), json!([]), json!(true)] {
        assert!(!ratified(&decision), "{decision}");
    }
}

/// A supervisor with a plan, a dispatch, and workers of these names that do nothing.
fn dispatched(plan: Value, config: Value, workers: &[&str]) -> World {
    let nodes = [
        ("s", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
        ("d", "core.dispatch", config),
    ];
    let mut documents = vec![workflow("w", &nodes, &[("s", "d"), ("d", "s")])];
    documents.extend(workers.iter().map(|id| workflow(id, &[("n", "core.noop", json!({}))], &[])));
    let mut world = World::new(&documents);
    world.create("w");
    world
}

#[test]
fn the_end_of_a_plan_is_a_terminate_decision() {
    let world = dispatched(json!([{"kind": "next-worker", "nextWorkerIds": ["a"]}]), json!({}), &["a"]);
    assert_eq!(world.status(), RunStatus::Completed);
    let decided = world.find(EventKind::OrchestratorDecided);
    let decisions: Vec<_> = decided
        .iter()
        .map(|event| (event.payload()["decision"]["kind"].clone(), event.payload()["iteration"].clone()))
        .collect();
    assert_eq!(decisions, [(json!("next-worker"), json!(1)), (json!("terminate"), json!(2))]);
}

#[test]
fn sequential_workers_start_one_after_the_other() {
    let plan = json!([{"kind": "next-worker", "nextWorkerIds": ["a", "b"]}, {"kind": "terminate"}]);
    let world = dispatched(plan, json!({}), &["a", "b"]);
    let decision = event_id(&RunId::new("r"), world.find(EventKind::OrchestratorDecided)[0].sequence);
    let dispatched = world.find(EventKind::NodeDispatched);
    let shape: Vec<_> = dispatched
        .iter()
        .map(|event| {
            let payload = event.payload();
            (payload["childWorkflowId"].clone(), payload.contains_key("childStatus"))
        })
        .collect();
    let expected = [("a", false), ("a", true), ("b", false), ("b", true)];
    assert_eq!(shape, expected.map(|(id, status)| (json!(id), status)));
    for started in dispatched.iter().filter(|event| event.payload().get("childStatus").is_none()) {
        assert_eq!(started.causation_id.as_deref(), Some(decision.as_str()));
    }
    let (_, last) = world.children().pop().unwrap();
    let completed = world.find(EventKind::NodeCompleted);
    let outputs =
        completed.iter().find(|event| event.node_id.as_ref().map(NodeId::as_str) == Some("d")).unwrap();
    assert_eq!(
        (&outputs.payload()["outputs"]["childRunId"], &outputs.payload()["outputs"]["childStatus"]),
        (&json!(last), &json!("completed"))
    );
    let parent = world.runs[&last].genesis.parent.clone().unwrap();
    assert_eq!((parent.run_id.as_str(), parent.node_id.as_str()), ("r", "d"));
    assert_eq!(
        world.find(EventKind::DispatchFanOut).len() + world.find(EventKind::DispatchJoin).len(),
        0,
        "only where there is one"
    );
}

#[test]
fn the_decision_causes_the_events_of_a_fan_out_and_its_join() {
    let plan = json!([{"kind": "next-worker", "nextWorkerIds": ["a", "b"]}, {"kind": "terminate"}]);
    let world = dispatched(plan, json!({"fanOutPolicy": "parallel", "maxConcurrency": 1}), &["a", "b"]);
    let decision = event_id(&RunId::new("r"), world.find(EventKind::OrchestratorDecided)[0].sequence);
    let (fan_out, join) = (world.find(EventKind::DispatchFanOut)[0], world.find(EventKind::DispatchJoin)[0]);
    for event in [fan_out, join] {
        assert_eq!(
            (event.causation_id.as_deref(), event.node_id.as_ref().map(NodeId::as_str)),
            (Some(decision.as_str()), Some("d"))
        );
    }
    assert_eq!(
        Value::Object(fan_out.payload().clone()),
        json!({"fanOutPolicy": "parallel", "childCount": 2, "maxConcurrency": 1, "joinMode": "wait-all"})
    );
    assert_eq!(
        (&join.payload()["joinOutcome"], &join.payload()["completedCount"]),
        (&json!("satisfied"), &json!(2))
    );
}

#[test]
fn the_mapping_of_a_worker_replaces_the_common_one_and_unset_variables_stay_unset() {
    let plan = json!([{"kind": "next-worker", "nextWorkerIds": ["a", "b"]}, {"kind": "terminate"}]);
    let config = json!({
        "inputMapping": {"x": "common", "y": "never-set"}, "perWorkerInputMappings": {"b": {"z": "own"}},
    });
    let nodes = [
        ("s", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
        ("d", "core.dispatch", config),
    ];
    let mut document = workflow("w", &nodes, &[("s", "d"), ("d", "s")]);
    document["variables"] = json!([
        {"name": "common", "type": "string", "defaultValue": "c"}, {"name": "own", "type": "string", "defaultValue": "o"},
    ]);
    let worker = |id: &str| workflow(id, &[("n", "core.noop", json!({}))], &[]);
    let mut world = World::new(&[document, worker("a"), worker("b")]);
    world.create("w");
    let inputs: Vec<Value> = world
        .children()
        .iter()
        .map(|(_, run)| Value::Object(world.runs[run].genesis.inputs.clone()))
        .collect();
    assert_eq!(inputs, [json!({"x": "c"}), json!({"z": "o"})]);
}
