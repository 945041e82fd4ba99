//! Progress reports during an effect.

use flow::engine::{DrainPolicy, Input, Refusal};
use flow::event::{Event, EventKind};
use flow::id::NodeId;
use flow::run::RunStatus;
use serde_json::json;

use crate::driver::{PACK_TYPE, World, report, workflow};
use crate::suspended::{done, waits};

/// Reports a chunk of output of a node.
pub(crate) fn report_chunk(world: &mut World, node_id: &str, text: &str) -> Result<Vec<Event>, Refusal> {
    let piece = json!({"nodeId": node_id, "runId": "r", "chunk": text, "isLast": false});
    let reports = vec![report(EventKind::OutputChunk, &piece)];
    world.give("r", Input::ActivityReports { node_id: NodeId::new(node_id), ordinal: 0, reports })
}

fn world() -> World {
    let mut world = World::new(&[workflow("w", &[("n", PACK_TYPE, json!({}))], &[])]);
    world.create("w");
    world
}

#[test]
fn progress_is_recorded_immediately_and_does_not_advance_the_run() {
    let mut world = world();
    let events = report_chunk(&mut world, "n", "one").unwrap();
    assert_eq!(events.iter().map(|event| event.data.name()).collect::<Vec<_>>(), ["output.chunk"]);
    report_chunk(&mut world, "n", "two").unwrap();
    assert_eq!((world.status(), world.activities.len()), (RunStatus::Running, 1));
    done(&mut world, "n", 0, Ok(json!({})));
    let kinds =
        ["run.started", "node.started", "output.chunk", "output.chunk", "node.completed", "run.completed"];
    assert_eq!(world.kinds(), kinds);
}

#[test]
fn progress_of_paused_and_ended_runs_and_of_other_effects_is_refused() {
    let mut world = world();
    world.give("r", Input::Pause { reason: None, policy: DrainPolicy::Immediate }).unwrap();
    assert!(matches!(report_chunk(&mut world, "n", "one"), Err(Refusal::Conflict { .. })));
    world.give("r", Input::Resume { reason: None }).unwrap();
    report_chunk(&mut world, "n", "one").unwrap();
    assert!(matches!(report_chunk(&mut world, "other", "one"), Err(Refusal::Conflict { .. })));
    waits(&mut world, "n", 0, json!({"kind": "approval"}));
    assert!(matches!(report_chunk(&mut world, "n", "one"), Err(Refusal::Conflict { .. })));
    world.resolve("n", json!({"action": "accept"})).unwrap();
    assert!(
        matches!(report_chunk(&mut world, "n", "one"), Err(Refusal::Conflict { .. })),
        "the first part is over"
    );
    done(&mut world, "n", 1, Ok(json!({})));
    assert!(matches!(report_chunk(&mut world, "n", "one"), Err(Refusal::Conflict { .. })));
    assert_eq!(world.find(EventKind::OutputChunk).len(), 1);
}

#[test]
fn too_many_reports_are_not_recorded() {
    let mut world = world();
    let piece = || {
        report(EventKind::OutputChunk, &json!({"nodeId": "n", "runId": "r", "chunk": "a", "isLast": false}))
    };
    let reports = std::iter::repeat_with(piece).take(2001).collect();
    let input = Input::ActivityReports { node_id: NodeId::new("n"), ordinal: 0, reports };
    assert!(matches!(world.give("r", input), Err(Refusal::Conflict { .. })));
    assert!(matches!(report_chunk(&mut world, "n", &"a".repeat(5 << 20)), Err(Refusal::Conflict { .. })));
    assert_eq!(world.find(EventKind::OutputChunk).len(), 0);
}

#[test]
fn the_snapshot_contains_the_total_cost_of_models() {
    let mut world = world();
    let usage = |input: u64, output: u64| {
        let payload = json!({"provider": "local", "model": "m", "inputTokens": input, "outputTokens": output, "nodeId": "n"});
        report(EventKind::ProviderUsage, &payload)
    };
    let reports = vec![usage(3, 2), usage(5, 7)];
    let input =
        Input::ActivityDone { node_id: NodeId::new("n"), ordinal: 0, reports, outcome: Ok(json!({})) };
    world.give("r", input).unwrap();
    let expected = json!({"tokens": {"input": 8, "output": 9}, "provider": "local", "model": "m"});
    assert_eq!(world.snapshot("r")["metrics"]["openwopCost"], expected);
}
