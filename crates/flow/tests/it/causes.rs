//! Every event names its cause.

use flow::event::{Event, EventKind, event_id};
use flow::id::{NodeId, RunId};
use flow::run::RunStatus;
use flow::state::RunError;
use serde_json::json;

use crate::driver::{World, workflow};

/// Asserts that the n-th event of a kind was caused by another event of the same log.
fn assert_caused(world: &World, effect: (EventKind, usize), cause: (EventKind, usize)) {
    let nth = |(kind, place): &(EventKind, usize)| world.find(kind.clone())[*place].clone();
    let (event, because): (Event, Event) = (nth(&effect), nth(&cause));
    let expected = event_id(&RunId::new("r"), because.sequence);
    assert_eq!(event.causation_id.as_deref(), Some(expected.as_str()), "{effect:?} by {cause:?}");
}

#[test]
fn the_answer_causes_a_node_to_continue() {
    let mut world = World::new(&[workflow("w", &[("n", "core.approvalGate", json!({}))], &[])]);
    world.create("w");
    world.resolve("n", json!({"action": "accept"})).unwrap();
    let answered = (EventKind::InterruptResolved, 0);
    assert_caused(&world, answered.clone(), (EventKind::InterruptRequested, 0));
    for effect in [EventKind::ApprovalReceived, EventKind::NodeResumed, EventKind::NodeCompleted] {
        assert_caused(&world, (effect, 0), answered.clone());
    }
}

#[test]
fn the_decision_causes_workers_to_start_and_the_dispatch_to_end() {
    let plan = json!([{"kind": "next-worker", "nextWorkerIds": ["child"]}, {"kind": "terminate"}]);
    let nodes = [
        ("s", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
        ("d", "core.dispatch", json!({})),
    ];
    for (work, status) in [("core.noop", RunStatus::Completed), ("core.fail", RunStatus::Failed)] {
        let child = workflow("child", &[("n", work, json!({}))], &[]);
        let mut world = World::new(&[workflow("w", &nodes, &[("s", "d"), ("d", "s")]), child]);
        world.create("w");
        assert_eq!(world.status(), status);
        let decided = (EventKind::OrchestratorDecided, 0);
        assert_caused(&world, (EventKind::NodeDispatched, 0), decided.clone());
        let ends =
            world.run().events.iter().filter(|event| event.node_id.as_ref().map(NodeId::as_str) == Some("d"));
        let ended =
            ends.filter(|event| matches!(event.kind(), EventKind::NodeCompleted | EventKind::NodeFailed));
        let decided = event_id(&RunId::new("r"), world.find(decided.0)[0].sequence);
        assert_eq!(ended.map(|event| event.causation_id.clone()).next(), Some(Some(decided)), "{work}");
    }
}

#[test]
fn the_dispatch_of_the_parent_causes_the_start_of_a_child() {
    let parent = workflow("w", &[("call", "core.subWorkflow", json!({"workflowId": "child"}))], &[]);
    let mut world = World::new(&[parent, workflow("child", &[("n", "core.noop", json!({}))], &[])]);
    world.create("w");
    let called = event_id(&RunId::new("r"), world.find(EventKind::NodeDispatched)[0].sequence);
    let (_, child) = world.children().remove(0);
    assert_eq!(world.runs[&child].events[0].causation_id.as_deref(), Some(called.as_str()));
    let own: Vec<String> = world.shape("r").into_iter().filter(|line| line.contains("call")).collect();
    assert_eq!(
        own,
        ["node.started call", "node.dispatched call", "node.dispatched call", "node.completed call"],
        "the log of a parent has nothing of what its child does"
    );
}

#[test]
fn a_failure_causes_retries_and_the_end_of_the_run() {
    let mut document = workflow("w", &[("e", "core.conformance.side-effect", json!({}))], &[]);
    document["settings"]["maxRetries"] = 1.into();
    let mut world = World::new(&[document]);
    let broken = || Err(RunError::new("broken", "it broke"));
    world.outcomes.insert(NodeId::new("e"), [broken(), broken()].into());
    world.create("w");
    world.pass(60_000);
    assert_eq!(world.find(EventKind::NodeRetried)[0].payload()["lastError"]["code"], "broken");
    assert_caused(&world, (EventKind::NodeRetried, 0), (EventKind::NodeStarted, 0));
    assert_caused(&world, (EventKind::NodeStarted, 1), (EventKind::NodeRetried, 0));
    assert_caused(&world, (EventKind::RunFailed, 0), (EventKind::NodeFailed, 0));
}
