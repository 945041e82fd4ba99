//! Nodes that wait for an interrupt during their effect.

use std::collections::BTreeSet;

use flow::engine::{ActivityRequest, DrainPolicy, Input, Refusal, Resumption};
use flow::event::EventKind;
use flow::id::{EffectId, NodeId, Principal};
use flow::run::RunStatus;
use flow::state::RunError;
use serde_json::{Value, json};

use crate::driver::{PACK_TYPE, World, report, workflow};

/// Reports that the effect of a node waits for an interrupt.
pub(crate) fn waits(world: &mut World, node_id: &str, ordinal: u32, asked: Value) {
    let reports = vec![
        report(EventKind::VariableChanged, &json!({"name": "seen", "next": ordinal})),
        report(EventKind::InterruptRequested, &asked),
    ];
    let outcome = Ok(json!({"kept by the host": true}));
    world
        .give("r", Input::ActivityDone { node_id: NodeId::new(node_id), ordinal, reports, outcome })
        .unwrap();
}

/// Reports the result of the effect of a node.
pub(crate) fn done(world: &mut World, node_id: &str, ordinal: u32, outcome: Result<Value, RunError>) {
    let reports = Vec::new();
    world
        .give("r", Input::ActivityDone { node_id: NodeId::new(node_id), ordinal, reports, outcome })
        .unwrap();
}

fn custom() -> Value {
    json!({"kind": "custom", "data": {"customKind": "pick", "payload": {"of": [1, 2]}}})
}

/// A run whose only node is of a pack, with its effect requested.
fn world() -> World {
    let mut world = World::new(&[workflow("w", &[("n", PACK_TYPE, json!({}))], &[])]);
    world.create("w");
    assert_eq!(world.activities.len(), 1);
    world
}

/// The resumption and the id of the last requested effect.
fn last(world: &World) -> (Option<Resumption>, EffectId) {
    let activity = world.activities.last().unwrap();
    let ActivityRequest::Call(call) = &activity.request else { panic!("a call") };
    (call.resumption.clone(), activity.logical_invocation_id.clone())
}

#[test]
fn an_effect_that_waits_suspends_its_node_and_continues_with_the_answer() {
    let mut world = world();
    let (none, first) = last(&world);
    assert_eq!(none, None);
    waits(&mut world, "n", 0, custom());
    assert_eq!(world.status(), RunStatus::WaitingInput);
    let requested = world.find(EventKind::InterruptRequested);
    assert_eq!(
        (&requested[0].payload()["kind"], &requested[0].payload()["data"]["customKind"]),
        (&json!("custom"), &json!("pick"))
    );
    let log = format!("{:?}", world.run().events);
    assert!(!log.contains("kept by the host"), "what the host keeps for itself is in no event");

    world.resolve("n", json!({"picked": 2})).unwrap();
    let (resumption, second) = last(&world);
    assert_eq!(resumption, Some(Resumption { invocation: first.clone(), value: json!({"picked": 2}) }));
    assert_ne!(first, second, "it is other work, under another identity");
    done(&mut world, "n", 1, Ok(json!({"output": "done"})));
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(
        world.kinds(),
        [
            "run.started",
            "node.started",
            "variable.changed",
            "node.suspended",
            "interrupt.requested",
            "interrupt.resolved",
            "node.resumed",
            "node.completed",
            "run.completed",
        ]
    );
    assert_eq!(world.resolve("n", json!({})).unwrap_err(), Refusal::AlreadyResolved);
}

#[test]
fn an_effect_may_wait_again_and_each_part_has_its_own_id() {
    let mut world = world();
    let mut identities = BTreeSet::from([last(&world).1]);
    for round in 0..3 {
        waits(&mut world, "n", round, custom());
        // The second result of a part that was requested twice is ignored.
        waits(&mut world, "n", round, custom());
        world.resolve("n", json!({"round": round})).unwrap();
        waits(&mut world, "n", round, custom());
        let (resumption, identity) = last(&world);
        let resumption = resumption.unwrap();
        assert!(identities.contains(&resumption.invocation) && identities.insert(identity));
        assert_eq!(resumption.value, json!({"round": round}));
    }
    done(&mut world, "n", 3, Ok(json!({})));
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(world.find(EventKind::InterruptRequested).len(), 3);
}

#[test]
fn a_restart_at_any_time_requests_the_current_part_again() {
    let mut world = world();
    waits(&mut world, "n", 0, custom());
    world.give("r", Input::Recover).unwrap();
    assert_eq!(world.activities.len(), 1, "while a person is waited for, the host is asked for nothing");
    world.resolve("n", json!(1)).unwrap();
    let before = last(&world);
    world.give("r", Input::Recover).unwrap();
    assert_eq!((world.activities.len(), last(&world)), (3, before), "the same part under the same identity");
}

#[test]
fn an_answer_to_a_paused_run_is_passed_on_resume() {
    let mut world = world();
    waits(&mut world, "n", 0, custom());
    world.give("r", Input::Pause { reason: None, policy: DrainPolicy::Immediate }).unwrap();
    world.resolve("n", json!(7)).unwrap();
    assert_eq!(world.activities.len(), 1);
    world.give("r", Input::Resume { reason: None }).unwrap();
    assert_eq!(last(&world).0.unwrap().value, json!(7));
}

#[test]
fn interrupts_of_effects_time_out_and_end_with_their_run() {
    let mut world = world();
    waits(&mut world, "n", 0, json!({"kind": "custom", "data": {"customKind": "x"}, "timeoutMs": 100}));
    world.pass(100);
    assert_eq!(world.snapshot("r")["error"]["code"], "interrupt_timeout");

    let mut world = self::world();
    waits(&mut world, "n", 0, json!({"kind": "custom", "data": {"customKind": "x"}, "timeoutMs": 100}));
    world.give("r", Input::Cancel { reason: None, by: Principal::new("me"), parent_run_id: None }).unwrap();
    assert_eq!((world.status(), world.timers.len()), (RunStatus::Cancelled, 0));
    assert_eq!(world.resolve("n", json!({})).unwrap_err(), Refusal::InterruptGone);
}

#[test]
fn a_node_gets_rejected_and_timed_out_approvals() {
    for (answer, expected) in [(Some(json!({"action": "reject"})), "reject"), (None, "reject")] {
        let mut world = world();
        waits(&mut world, "n", 0, json!({"kind": "approval", "timeoutMs": 100}));
        assert_eq!(world.status(), RunStatus::WaitingApproval);
        match answer {
            Some(answer) => drop(world.resolve("n", answer).unwrap()),
            None => world.pass(100),
        }
        assert_eq!(last(&world).0.unwrap().value["action"], expected);
    }
}

#[test]
fn an_answer_must_match_the_schema_that_the_node_requested() {
    let mut world = world();
    let mut asked = custom();
    asked["resumeSchema"] = json!({"required": ["picked"]});
    waits(&mut world, "n", 0, asked);
    assert!(matches!(world.resolve("n", json!({})), Err(Refusal::BadAnswer { .. })));
    world.resolve("n", json!({"picked": 1})).unwrap();
    assert_eq!(world.activities.len(), 2);
}

#[test]
fn an_invalid_interrupt_fails_the_node_and_is_not_quoted() {
    let wrong = [
        json!({}),
        json!({"kind": "secret-kind"}),
        json!({"kind": "low-confidence", "data": {}}),
        json!({"kind": "conversation.start", "data": {"conversationId": "secret"}}),
        json!({"kind": "custom"}),
        json!({"kind": "custom", "data": {"customKind": "", "payload": "secret"}}),
        json!({"kind": "custom", "data": {"customKind": "x", "secret": 1}}),
        json!({"kind": "clarification", "data": {"questions": "secret"}}),
        json!({"kind": "external-event", "data": {"eventType": "secret"}}),
        json!({"kind": "approval", "timeoutMs": "secret"}),
        json!({"kind": "custom", "data": {"customKind": "x"}, "resumeSchema": {"type": "secret"}}),
    ];
    for asked in wrong {
        let mut world = world();
        waits(&mut world, "n", 0, asked.clone());
        assert_eq!(world.snapshot("r")["error"]["code"], "validation_error", "{asked}");
        let failed = format!("{:?}", world.find(EventKind::NodeFailed));
        let message = failed.replace("one of approval, clarification", "");
        assert!(!message.contains("secret-kind") && !message.contains("\"secret\""), "{asked}: {failed}");
    }
}
