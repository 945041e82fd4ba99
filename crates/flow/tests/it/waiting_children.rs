//! Runs whose children wait for people: their status, and how their time counts.

use flow::engine::Input;
use flow::event::EventKind;
use flow::id::RunId;
use flow::interrupt::Via;
use flow::run::RunStatus;
use flow::state::RunState;
use serde_json::{Value, json};

use crate::driver::{World, workflow};

fn calls(id: &str, child: &str) -> Value {
    workflow(id, &[("call", "core.subWorkflow", json!({"workflowId": child}))], &[])
}

fn gated(id: &str) -> Value {
    workflow(id, &[("gate", "core.approvalGate", json!({}))], &[])
}

fn child_statuses(world: &World) -> Vec<String> {
    let shown = world.snapshot("r");
    let children = shown["childRuns"].as_array().unwrap();
    children.iter().map(|child| child["status"].as_str().unwrap().to_owned()).collect()
}

fn child_of(world: &World, workflow_id: &str) -> RunId {
    world.children().into_iter().find(|(id, _)| *id == *workflow_id).unwrap().1
}

/// Finding 3 of the current suite: a parent had the status `running` while its child waited for a person.
#[test]
fn a_parent_shows_what_its_child_waits_for() {
    let question = json!({"questions": [{"id": "q", "question": "?"}]});
    let external = json!({"kind": "external-event", "data": {"eventType": "e", "correlation": {}}});
    let cases = [
        ("core.approvalGate", json!({}), "waiting-approval", json!({"action": "accept"})),
        ("core.clarificationGate", question, "waiting-input", json!({"answers": {"q": "a"}})),
        ("core.interrupt", external, "waiting-external", json!({"a": 1})),
    ];
    for (kind, config, status, answer) in cases {
        let child = workflow("child", &[("gate", kind, config)], &[]);
        let mut world = World::new(&[calls("top", "middle"), calls("middle", "child"), child]);
        world.create("top");
        for run_id in world.runs.keys() {
            assert_eq!(world.snapshot(run_id.as_str())["status"], status, "{kind}: {run_id}");
        }
        assert_eq!(child_statuses(&world), [status]);
        assert_eq!(world.snapshot("r")["currentNodeId"], "call");
        let leaf = world.runs.values().find(|run| run.genesis.workflow_id == "child").unwrap();
        let leaf = leaf.genesis.run_id.clone();
        world.resolve_as(leaf.as_str(), "gate", answer, "alice", Via::Key).unwrap();
        assert_eq!(world.status(), RunStatus::Completed, "{kind}");
        assert_eq!(child_statuses(&world), ["completed"]);
    }
}

/// Finding 3: a parent with other active nodes is running, even while a child waits.
#[test]
fn a_parent_with_active_nodes_is_running_whatever_its_child_waits_for() {
    let nodes = [
        ("call", "core.subWorkflow", json!({"workflowId": "child"})),
        ("beside", "core.delay", json!({"ms": 100})),
    ];
    let child = workflow(
        "child",
        &[("gate", "core.approvalGate", json!({})), ("after", "core.delay", json!({"ms": 50}))],
        &[("gate", "after")],
    );
    let mut world = World::new(&[workflow("w", &nodes, &[]), child]);
    world.create("w");
    assert_eq!(
        (world.status(), child_statuses(&world)),
        (RunStatus::Running, vec!["waiting-approval".to_owned()])
    );
    world.pass(100);
    assert_eq!(world.status(), RunStatus::WaitingApproval);
    let child = child_of(&world, "child");
    world.resolve_as(child.as_str(), "gate", json!({"action": "accept"}), "alice", Via::Key).unwrap();
    assert_eq!((world.status(), child_statuses(&world)), (RunStatus::Running, vec!["running".to_owned()]));
    world.pass(50);
    assert_eq!(world.status(), RunStatus::Completed);
    let statuses: Vec<_> = world
        .find(EventKind::NodeDispatched)
        .iter()
        .map(|event| event.payload().get("childStatus").cloned())
        .collect();
    let status = |text: &str| Some(json!(text));
    assert_eq!(statuses, [None, status("waiting-approval"), status("running"), status("completed")]);
}

/// Finding A5 for children: an approval in a sub-workflow that takes long does not time out the parent.
#[test]
fn time_in_which_only_a_child_waits_for_a_person_does_not_count() {
    let mut parent = workflow(
        "w",
        &[
            ("call", "core.subWorkflow", json!({"workflowId": "child"})),
            ("after", "core.delay", json!({"ms": 60})),
        ],
        &[("call", "after")],
    );
    parent["settings"]["timeout"] = 100.into();
    let mut world = World::new(&[parent, gated("child")]);
    world.create("w");
    world.pass(100_000);
    let child = child_of(&world, "child");
    world.resolve_as(child.as_str(), "gate", json!({"action": "accept"}), "alice", Via::Key).unwrap();
    world.pass(60);
    assert_eq!(world.status(), RunStatus::Completed);
}

/// A host that stopped before it reported the status of a child reports it after the restart, and reports nothing twice.
#[test]
fn an_unreported_child_status_is_recorded_after_a_restart() {
    let mut world = World::new(&[calls("w", "child"), gated("child")]);
    world.create("w");
    let run = world.runs.get_mut("r").unwrap();
    run.events.pop();
    run.state = RunState::fold(&run.definition, run.genesis.clone(), &run.events).unwrap();
    assert_eq!(run.state.status, RunStatus::Running, "the status of a parent in logs of earlier versions");
    world.give("r", Input::Recover).unwrap();
    assert_eq!(world.status(), RunStatus::WaitingApproval);
    let count = world.run().events.len();
    world.give("r", Input::Recover).unwrap();
    assert_eq!(world.run().events.len(), count, "who only waits was not interrupted by the stop");
}

/// A status that changes while the parent is paused is ignored, and requested again on resume.
#[test]
fn a_paused_parent_records_what_its_child_waits_for_on_resume() {
    let child = workflow(
        "child",
        &[("first", "core.delay", json!({"ms": 10})), ("gate", "core.approvalGate", json!({}))],
        &[("first", "gate")],
    );
    let mut world = World::new(&[calls("w", "child"), child]);
    world.create("w");
    let policy = flow::engine::DrainPolicy::Immediate;
    world.give("r", Input::Pause { reason: None, policy }).unwrap();
    world.pass(10);
    assert_eq!(world.status(), RunStatus::Paused);
    world.give("r", Input::Resume { reason: None }).unwrap();
    assert_eq!(world.status(), RunStatus::WaitingApproval);
}

/// A node whose child waits for a person is not being executed, so a draining pause does not wait for the person.
#[test]
fn a_pause_does_not_wait_for_a_person_in_a_child() {
    let mut world = World::new(&[calls("w", "child"), gated("child")]);
    world.create("w");
    let policy = flow::engine::DrainPolicy::DrainCurrentNode;
    world.give("r", Input::Pause { reason: None, policy }).unwrap();
    assert_eq!(world.status(), RunStatus::Paused);
    let child = child_of(&world, "child");
    world.resolve_as(child.as_str(), "gate", json!({"action": "accept"}), "alice", Via::Key).unwrap();
    world.give("r", Input::Resume { reason: None }).unwrap();
    assert_eq!(world.status(), RunStatus::Completed);
}
