//! What happens while the work of a node goes on.

use flow::engine::{DrainPolicy, Input, Refusal};
use flow::event::{Event, EventKind};
use flow::id::NodeId;
use flow::run::RunStatus;
use serde_json::json;

use crate::driver::{PACK_TYPE, World, told, workflow};
use crate::suspended::{done, waits};

/// The host tells a piece of what a node says.
pub(crate) fn tells(world: &mut World, node_id: &str, text: &str) -> Result<Vec<Event>, Refusal> {
    let piece = json!({"nodeId": node_id, "runId": "r", "chunk": text, "isLast": false});
    let told = vec![told(EventKind::OutputChunk, &piece)];
    world.give("r", Input::ActivityReports { node_id: NodeId::new(node_id), ordinal: 0, reports: told })
}

fn world() -> World {
    let mut world = World::new(&[workflow("w", &[("n", PACK_TYPE, json!({}))], &[])]);
    world.create("w");
    world
}

#[test]
fn what_happens_meanwhile_is_recorded_at_once_and_decides_nothing() {
    let mut world = world();
    let told = tells(&mut world, "n", "one").unwrap();
    assert_eq!(told.iter().map(|event| event.data.name()).collect::<Vec<_>>(), ["output.chunk"]);
    tells(&mut world, "n", "two").unwrap();
    assert_eq!((world.status(), world.activities.len()), (RunStatus::Running, 1));
    done(&mut world, "n", 0, Ok(json!({})));
    let kinds =
        ["run.started", "node.started", "output.chunk", "output.chunk", "node.completed", "run.completed"];
    assert_eq!(world.kinds(), kinds);
}

#[test]
fn nothing_is_told_of_a_run_that_is_paused_or_over_or_of_work_that_nobody_waits_for() {
    let mut world = world();
    world.give("r", Input::Pause { reason: None, policy: DrainPolicy::Immediate }).unwrap();
    assert!(matches!(tells(&mut world, "n", "one"), Err(Refusal::Conflict { .. })));
    world.give("r", Input::Resume { reason: None }).unwrap();
    tells(&mut world, "n", "one").unwrap();
    assert!(matches!(tells(&mut world, "other", "one"), Err(Refusal::Conflict { .. })));
    waits(&mut world, "n", 0, json!({"kind": "approval"}));
    assert!(matches!(tells(&mut world, "n", "one"), Err(Refusal::Conflict { .. })));
    world.resolve("n", json!({"action": "accept"})).unwrap();
    assert!(matches!(tells(&mut world, "n", "one"), Err(Refusal::Conflict { .. })), "the first part is over");
    done(&mut world, "n", 1, Ok(json!({})));
    assert!(matches!(tells(&mut world, "n", "one"), Err(Refusal::Conflict { .. })));
    assert_eq!(world.find(EventKind::OutputChunk).len(), 1);
}

#[test]
fn too_much_at_once_is_not_recorded() {
    let mut world = world();
    let piece =
        || told(EventKind::OutputChunk, &json!({"nodeId": "n", "runId": "r", "chunk": "a", "isLast": false}));
    let told = std::iter::repeat_with(piece).take(2001).collect();
    let input = Input::ActivityReports { node_id: NodeId::new("n"), ordinal: 0, reports: told };
    assert!(matches!(world.give("r", input), Err(Refusal::Conflict { .. })));
    assert!(matches!(tells(&mut world, "n", &"a".repeat(5 << 20)), Err(Refusal::Conflict { .. })));
    assert_eq!(world.find(EventKind::OutputChunk).len(), 0);
}

#[test]
fn what_models_cost_a_run_is_added_up_in_its_snapshot() {
    let mut world = world();
    let usage = |input: u64, output: u64| {
        let payload = json!({"provider": "local", "model": "m", "inputTokens": input, "outputTokens": output, "nodeId": "n"});
        told(EventKind::ProviderUsage, &payload)
    };
    let told = vec![usage(3, 2), usage(5, 7)];
    let input = Input::ActivityDone { node_id: NodeId::new("n"), ordinal: 0, reports: told, outcome: Ok(json!({})) };
    world.give("r", input).unwrap();
    let expected = json!({"tokens": {"input": 8, "output": 9}, "provider": "local", "model": "m"});
    assert_eq!(world.snapshot("r")["metrics"]["openwopCost"], expected);
}
