//! Limits of values, duplicate names, and forged answers.

use flow::definition::problem::MAX_MESSAGE_BYTES;
use flow::definition::{Capabilities, Definition};
use flow::engine::bounds::{MAX_ROUND_BYTES, MAX_ROUNDS, MAX_VALUE_BYTES, MAX_VALUE_DEPTH};
use flow::engine::{Input, Limits, Refusal, decide};
use flow::event::wire;
use flow::id::{NodeId, Principal, RunId, WorkflowId};
use flow::interrupt::Via;
use flow::run::RunStatus;
use serde_json::{Value, json};

use crate::driver::{World, workflow};

/// A loop in which one node gets the output of the other `copies` times, and the other nests it in its own output.
fn snowball(copies: usize) -> World {
    let mut document = workflow(
        "w",
        &[("roll", "core.identity", json!({})), ("pack", "core.merge", json!({}))],
        &[("roll", "pack"), ("pack", "roll")],
    );
    let port = json!({"type": "connection", "nodeId": "pack", "outputKey": "branches", "optional": true});
    for copy in 0..copies {
        document["nodes"][0]["inputs"][format!("copy{copy}")] = port.clone();
    }
    // A large value, so that a few iterations suffice.
    let snow = if copies > 1 { "x".repeat(MAX_VALUE_BYTES / 32) } else { String::new() };
    document["nodes"][0]["inputs"]["snow"] = json!({"type": "static", "value": snow});
    document["settings"] = json!({"maxLoopbackIterations": 100_000});
    World::new(&[document])
}

#[test]
fn a_value_that_grows_with_every_iteration_reaches_the_limit() {
    for (copies, word) in [(1, "levels deep"), (2, "bytes")] {
        let mut world = snowball(copies);
        // All iterations happen in one decision.
        world.limits = Limits { max_append_bytes: u64::MAX, ..Limits::default() };
        world.create("w");
        assert_eq!(world.status(), RunStatus::Failed, "{copies}");
        let error = world.run().state.error.clone().unwrap();
        assert_eq!(error.code, "validation_error");
        assert!(error.message.contains(word), "{}", error.message);
        for event in &world.run().events {
            wire::decode(wire::encode(&RunId::new("r"), event).as_bytes()).unwrap();
        }
    }
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

#[test]
fn an_answer_that_is_too_deeply_nested_for_the_log_is_refused() {
    let gate = || {
        let mut world = World::new(&[workflow(
            "w",
            &[("n", "core.interrupt", json!({"kind": "custom", "data": {"customKind": "x"}}))],
            &[],
        )]);
        world.create("w");
        world
    };
    for (value, taken) in [
        (nested(MAX_VALUE_DEPTH), true),
        (nested(MAX_VALUE_DEPTH + 1), false),
        (nested(1000), false),
        (json!("x".repeat(MAX_VALUE_BYTES / 2)), true),
        (json!("x".repeat(MAX_VALUE_BYTES)), false),
    ] {
        let mut world = gate();
        let answer = world.resolve("n", value.clone());
        assert_eq!(answer.is_ok(), taken);
        if let Err(refusal) = answer {
            assert!(matches!(refusal, Refusal::BadAnswer { semantic: false, .. }), "{refusal:?}");
        }
        let variables = [("x".to_owned(), value)].into_iter().collect();
        assert_eq!(gate().give("r", Input::Assign { variables }).is_ok(), taken);
    }
}

#[test]
fn a_run_that_waits_for_a_person_has_a_waiting_status_although_another_source_ended() {
    let mut document = workflow(
        "w",
        &[
            ("a", "core.noop", json!({})),
            ("gate", "core.approvalGate", json!({})),
            ("t", "core.noop", json!({})),
        ],
        &[("a", "t"), ("gate", "t")],
    );
    for edge in 0..2 {
        document["edges"][edge]["triggerRule"] = "any_success".into();
    }
    document["edges"][0]["condition"] = json!({"type": "equals", "left": "output.x", "right": 1});
    let mut world = World::new(&[document]);
    world.create("w");
    assert_eq!(world.status(), RunStatus::WaitingApproval);
    world.resolve("gate", json!({"action": "accept"})).unwrap();
    assert_eq!(world.snapshot("r")["nodeStates"]["t"]["status"], "completed");
}

#[test]
fn an_answer_cannot_forge_who_decided() {
    let mut world = World::new(&[workflow("w", &[("gate", "core.approvalGate", json!({}))], &[])]);
    world.create("w");
    let claim = json!({"action": "accept", "decidedBy": "the boss", "output": "forged"});
    world.resolve_as("r", "gate", claim.clone(), "ada", Via::Key).unwrap();
    let outputs = &world.run().state.node(0).outputs;
    assert_eq!((&outputs["decidedBy"], &outputs["output"]), (&json!("ada"), &claim));
}

#[test]
fn an_override_without_a_role_requires_the_role_of_the_gate() {
    let cases = [
        (json!({"requiredRole": "approver", "override": {}}), true),
        (json!({"requiredRole": "owner", "override": {}}), false),
        (json!({"requiredRole": "owner", "override": {"requiredRole": "approver"}}), true),
        (json!({"requiredRole": "approver", "override": {"requiredRole": "owner"}}), false),
        (json!({"requiredRole": "approver", "requiredScope": "gates:open", "override": {}}), false),
    ];
    for (config, taken) in cases {
        let kind = "core.openwop.governance.approvalGate";
        let mut world = World::new(&[workflow("w", &[("gate", kind, config.clone())], &[])]);
        world.create("w");
        // The callers of the driver have only the role `approver`.
        let answer = world.resolve("gate", json!({"action": "override", "reason": "late"}));
        assert_eq!(answer.is_ok(), taken, "{config}");
    }
}

#[test]
fn two_interrupts_have_two_keys() {
    let config = json!({"kind": "approval", "key": "k"});
    let document =
        workflow("w", &[("a", "core.interrupt", config.clone()), ("b", "core.interrupt", config)], &[]);
    let problems = Definition::check(&document, &Capabilities::OURS).unwrap_err();
    assert_eq!(problems[0].path, "/nodes/1/config/key");
}

#[test]
fn problem_messages_are_truncated() {
    let large = json!({"kind": "x".repeat(100_000)});
    let document = workflow("w", &[("a", "core.interrupt", large)], &[]);
    for problem in Definition::check(&document, &Capabilities::OURS).unwrap_err() {
        assert!(problem.message.len() <= MAX_MESSAGE_BYTES + '…'.len_utf8());
    }
}

#[test]
fn schemas_of_questions_and_answers_are_checked_at_registration() {
    let backtracks = json!({"type": "string", "pattern": "^(a+)+\\1$"});
    let event = |data: Value| json!({"kind": "external-event", "data": data});
    let question = |schema: &Value| json!({"questions": [{"id": "q", "question": "?", "schema": schema}]});
    let cases = [
        ("core.interrupt", event(json!({"eventType": "a", "correlation": {}})), None),
        ("core.interrupt", event(json!({"correlation": {}})), Some("/nodes/0/config/data")),
        (
            "core.interrupt",
            event(json!({"eventType": "a", "correlation": {}, "x": 1})),
            Some("/nodes/0/config/data"),
        ),
        ("core.interrupt", json!({"kind": "custom"}), Some("/nodes/0/config")),
        ("core.interrupt", json!({"kind": "approval"}), None),
        ("core.interrupt", json!({"kind": "approval", "data": []}), Some("/nodes/0/config/data")),
        (
            "core.interrupt",
            json!({"kind": "approval", "resumeSchema": {"type": 3}}),
            Some("/nodes/0/config/resumeSchema"),
        ),
        (
            "core.interrupt",
            json!({"kind": "approval", "resumeSchema": backtracks}),
            Some("/nodes/0/config/resumeSchema"),
        ),
        ("core.clarificationGate", question(&json!({"type": "string"})), None),
        ("core.clarificationGate", question(&backtracks), Some("/nodes/0/config/questions/0/schema")),
        ("core.conversationGate", json!({"schema": backtracks}), Some("/nodes/0/config/schema")),
    ];
    for (kind, config, path) in cases {
        let document = workflow("w", &[("n", kind, config.clone())], &[]);
        let found = Definition::check(&document, &Capabilities::OURS).err();
        let found = found.and_then(|problems| Some(problems.first()?.path.clone()));
        assert_eq!(found.as_deref(), path, "{kind} {config}");
    }
}

fn limit_in(refused: Refusal) -> u64 {
    let Refusal::BadAnswer { details, semantic: true, .. } = refused else { panic!("{refused:?}") };
    details["limit"].as_u64().unwrap()
}

#[test]
fn conversations_votes_and_pauses_are_limited_but_decisions_are_still_accepted() {
    let talk = workflow("w", &[("n", "core.conversationGate", json!({"prompt": "Hello"}))], &[]);
    let mut world = World::new(&[talk]);
    world.create("w");
    let long = "x".repeat(1 << 20);
    let exchange = json!({"action": "exchange", "content": long});
    let refused = loop {
        if let Err(refused) = world.resolve("n", exchange.clone()) {
            break refused;
        }
        assert!(world.run().state.rounds.bytes <= MAX_ROUND_BYTES + (2 << 20));
    };
    assert_eq!(limit_in(refused), MAX_ROUND_BYTES);
    world.resolve("n", json!({"action": "close"})).unwrap();
    assert_eq!(world.status(), RunStatus::Completed);

    let gate = json!({"title": "t", "actions": ["accept", "reject"], "requiredApprovals": 2});
    let mut world = World::new(&[workflow("w", &[("n", "core.approvalGate", gate)], &[])]);
    world.create("w");
    let mut state = world.run().state.clone();
    state.rounds.count = MAX_ROUNDS - 1;
    let mut give = |input: Input| {
        let run = world.run();
        decide(&run.definition, &mut state, input, world.now, &world.limits, &|_: &WorkflowId| true)
            .map(|_| state.status)
    };
    let accept = |voter: &str| Input::Resolve {
        node_id: NodeId::new("n"),
        interrupt_id: None,
        resume_value: json!({"action": "accept", "voter": voter}),
        by: Principal::new("alice"),
        grants: Vec::new(),
        via: Via::Key,
    };
    assert_eq!(give(accept("a")), Ok(RunStatus::WaitingApproval));
    assert_eq!(limit_in(give(accept("a")).unwrap_err()), MAX_ROUNDS);
    let pause = Input::Pause { reason: None, policy: flow::engine::DrainPolicy::Immediate };
    assert_eq!(limit_in(give(pause).unwrap_err()), MAX_ROUNDS);
    assert_eq!(give(accept("b")), Ok(RunStatus::Completed));
}
