//! Pauses, restarts, retries, limits and ends of runs.

use flow::engine::{DrainPolicy, Effect, Input, Limits, Refusal, TimerKey, decide};
use flow::event::EventKind;
use flow::id::{InterruptId, NodeId, Principal, RunId, Tenant, WorkflowId};
use flow::run::RunStatus;
use flow::state::{RunError, RunState};
use serde_json::{Value, json};

use crate::driver::{World, workflow};

fn pause(policy: DrainPolicy) -> Input {
    Input::Pause { reason: Some("lunch".into()), policy }
}

fn delays() -> Value {
    workflow("w", &[("a", "core.delay", json!({"ms": 100})), ("b", "core.noop", json!({}))], &[("a", "b")])
}

/// Finding 6 of the current suite: two policies were advertised, but only one was implemented.
#[test]
fn a_delay_during_a_pause() {
    let rest = ["node.started b", "node.completed b", "run.completed"];
    let cases = [
        (DrainPolicy::Immediate, vec!["run.paused", "run.resumed", "node.completed a"]),
        (
            DrainPolicy::DrainCurrentNode,
            vec!["interlock.pauseRequested", "node.completed a", "run.paused", "run.resumed"],
        ),
    ];
    for (policy, between) in cases {
        let mut world = World::new(&[delays()]);
        world.create("w");
        world.pass(50);
        world.give("r", pause(policy)).unwrap();
        let drains = policy == DrainPolicy::DrainCurrentNode;
        let status = if drains { RunStatus::Running } else { RunStatus::Paused };
        assert_eq!(world.status(), status, "{policy:?}");
        let since = world.now;
        assert_eq!(world.give("r", pause(policy)), Err(Refusal::Paused { since, draining: drains }));
        world.pass(100);
        assert_eq!(world.status(), RunStatus::Paused);
        let payload = &world.find(EventKind::RunPaused)[0].payload();
        let spelt = if drains { "drain-current-node" } else { "immediate" };
        assert_eq!((&payload["reason"], &payload["drainPolicy"]), (&json!("lunch"), &json!(spelt)));
        assert_eq!(payload["pausedAt"], world.snapshot("r")["pausedAt"]);
        let refused = world.give("r", pause(DrainPolicy::Immediate));
        assert!(matches!(refused, Err(Refusal::Paused { draining: false, .. })), "{refused:?}");
        world.give("r", Input::Resume { reason: None }).unwrap();
        world.pass(0);
        assert_eq!(world.shape("r")[2..], [&between[..], &rest].concat(), "{policy:?}");
    }
}

/// Finding 6 of the current suite: the end of a node is recorded before the pause, also after restarts, unless it waits for a person.
#[test]
fn a_run_is_paused_when_its_active_nodes_have_ended() {
    for crashes in [false, true] {
        for (name, mut world) in waiting() {
            world.give("r", pause(DrainPolicy::DrainCurrentNode)).unwrap();
            assert_eq!(world.status(), RunStatus::Running, "{name}");
            if crashes {
                restart(&mut world);
                for (_, child) in world.children() {
                    world.give(child.as_str(), Input::Recover).unwrap();
                }
            }
            if let Some(effect) = world.activities.first().cloned() {
                let outcome = Ok(json!({"secretSha256": "00", "secretLength": 3}));
                let (node_id, ordinal) = ("n".to_owned(), effect.ordinal);
                let done = Input::ActivityDone {
                    node_id: NodeId::new(node_id),
                    ordinal,
                    reports: Vec::new(),
                    outcome,
                };
                world.give("r", done).unwrap();
            }
            world.pass(100);
            assert_eq!(world.status(), RunStatus::Paused, "{name}");
            let shape = world.shape("r");
            assert_eq!(shape[shape.len() - 2..], ["node.completed n", "run.paused"], "{name}");
            world.give("r", Input::Resume { reason: None }).unwrap();
            assert_eq!(
                world.status(),
                RunStatus::Completed,
                "{name}: the run ends after the pause, and not before"
            );
        }
    }
}

#[test]
fn a_draining_pause_can_become_immediate_be_resumed_or_end_with_the_run() {
    let begin = || {
        let mut world = World::new(&[delays()]);
        world.create("w");
        world.give("r", pause(DrainPolicy::DrainCurrentNode)).unwrap();
        world
    };
    let mut world = begin();
    world.give("r", pause(DrainPolicy::Immediate)).unwrap();
    assert_eq!(world.status(), RunStatus::Paused);
    let mut world = begin();
    world.give("r", Input::Resume { reason: None }).unwrap();
    world.pass(100);
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(world.find(EventKind::RunPaused).len(), 0);
    let mut world = begin();
    world.give("r", Input::Cancel { reason: None, by: Principal::new("me"), parent_run_id: None }).unwrap();
    assert_eq!(world.status(), RunStatus::Cancelled);
    // A failure that no successor handles ends the run.
    let mut world =
        World::new(&[workflow("w", &[("n", "conformance.secret.echo", json!({"secretId": "s"}))], &[])]);
    world.create("w");
    world.give("r", pause(DrainPolicy::DrainCurrentNode)).unwrap();
    let outcome = Err(RunError::new("broken", "it broke"));
    let ordinal = world.activities[0].ordinal;
    world
        .give("r", Input::ActivityDone { node_id: NodeId::new("n"), ordinal, reports: Vec::new(), outcome })
        .unwrap();
    assert_eq!(world.status(), RunStatus::Failed);
}

#[test]
fn no_retry_starts_in_a_run_that_is_about_to_be_paused() {
    for resumes_early in [false, true] {
        let mut document = workflow(
            "w",
            &[("e", "core.conformance.side-effect", json!({})), ("d", "core.delay", json!({"ms": 1000}))],
            &[],
        );
        document["settings"]["maxRetries"] = 1.into();
        let mut world = World::new(&[document]);
        world.create("w");
        world.give("r", pause(DrainPolicy::DrainCurrentNode)).unwrap();
        let fail = |world: &mut World, outcome| {
            let ordinal = world.activities[0].ordinal;
            world
                .give(
                    "r",
                    Input::ActivityDone { node_id: NodeId::new("e"), ordinal, reports: Vec::new(), outcome },
                )
                .unwrap();
        };
        fail(&mut world, Err(RunError::new("broken", "it broke")));
        world.pass(500);
        assert_eq!(
            world.activities.len(),
            1,
            "the time of the second attempt has come, and it does not begin"
        );
        if !resumes_early {
            world.pass(1000);
            assert_eq!(world.status(), RunStatus::Paused);
        }
        world.give("r", Input::Resume { reason: None }).unwrap();
        assert_eq!(world.activities.len(), 2);
        fail(&mut world, Ok(json!({})));
        world.pass(1000);
        assert_eq!(world.status(), RunStatus::Completed);
    }
}

/// Runs that wait for something other than a person.
fn waiting() -> [(&'static str, World); 3] {
    let child = workflow("child", &[("wait", "core.delay", json!({"ms": 50}))], &[]);
    let mut effect =
        World::new(&[workflow("w", &[("n", "conformance.secret.echo", json!({"secretId": "s"}))], &[])]);
    effect.create("w");
    let delay = workflow("w", &[("n", "core.delay", json!({"ms": 50}))], &[]);
    let mut delay = World::new(&[delay]);
    delay.create("w");
    let parent = workflow("w", &[("n", "core.subWorkflow", json!({"workflowId": "child"}))], &[]);
    let mut parent = World::new(&[parent, child]);
    parent.create("w");
    [("an effect", effect), ("a delay", delay), ("a child", parent)]
}

#[test]
fn the_next_event_after_a_pause_is_run_resumed() {
    for policy in [DrainPolicy::Immediate] {
        for crashes in [false, true] {
            for (name, mut world) in waiting() {
                world.give("r", pause(policy)).unwrap();
                let before = world.shape("r");
                let effect = world.activities.first().cloned();
                let outcome = json!({"secretSha256": "00", "secretLength": 3});
                let done = |ordinal: u32| Input::ActivityDone {
                    node_id: NodeId::new("n"),
                    ordinal,
                    reports: Vec::new(),
                    outcome: Ok(outcome.clone()),
                };
                if let Some(effect) = &effect {
                    assert_eq!(world.give("r", done(effect.ordinal)).unwrap(), []);
                }
                world.pass(100);
                if crashes {
                    assert!(restart(&mut world).is_empty());
                }
                assert_eq!(world.shape("r"), before, "{name} under {policy:?}");
                world.give("r", Input::Resume { reason: None }).unwrap();
                assert_eq!(world.shape("r")[before.len()], "run.resumed");
                if let Some(effect) = effect {
                    // The same effect is requested again, and its recorded result is returned.
                    let again = world.activities.last().unwrap();
                    assert_eq!(again.logical_invocation_id, effect.logical_invocation_id);
                    world.give("r", done(effect.ordinal)).unwrap();
                }
                world.pass(0);
                assert_eq!(world.status(), RunStatus::Completed, "{name} under {policy:?}");
                let ends = world.find(EventKind::NodeCompleted);
                assert_eq!(ends.len(), 1, "{name} under {policy:?}");
            }
        }
    }
}

#[test]
fn invalid_pauses_and_resumes_are_refused() {
    let mut world = World::new(&[delays()]);
    world.create("w");
    assert_eq!(
        world.give("r", Input::Resume { reason: None }),
        Err(Refusal::Conflict { status: RunStatus::Running })
    );
    world.pass(100);
    let over = Refusal::Conflict { status: RunStatus::Completed };
    assert_eq!(world.give("r", pause(DrainPolicy::Immediate)), Err(over.clone()));
    let cancel = Input::Cancel { reason: None, by: Principal::new("me"), parent_run_id: None };
    assert_eq!(world.give("r", cancel), Err(over));
}

#[test]
fn paused_time_does_not_count() {
    let mut document = delays();
    document["settings"]["timeout"] = 150.into();
    let mut world = World::new(&[document]);
    world.create("w");
    world.give("r", pause(DrainPolicy::Immediate)).unwrap();
    world.pass(10_000);
    assert_eq!(world.status(), RunStatus::Paused);
    world.give("r", Input::Resume { reason: None }).unwrap();
    world.pass(0);
    assert_eq!(world.status(), RunStatus::Completed);
}

/// Finding A5: a run timed out because an approval took longer than its time limit.
#[test]
fn time_in_which_a_run_waits_only_for_a_person_does_not_count() {
    let kinds = [
        ("core.approvalGate", json!({}), json!({"action": "accept"})),
        (
            "core.clarificationGate",
            json!({"questions": [{"id": "q", "question": "?"}]}),
            json!({"answers": {"q": 1}}),
        ),
        (
            "core.interrupt",
            json!({"kind": "external-event", "data": {"eventType": "e", "correlation": {}}}),
            json!({"any": 1}),
        ),
    ];
    for (kind, config, answer) in kinds {
        for crashes in [false, true] {
            let nodes = [
                ("before", "core.delay", json!({"ms": 60})),
                ("gate", kind, config.clone()),
                ("after", "core.delay", json!({"ms": 60})),
            ];
            let mut document = workflow("w", &nodes, &[("before", "gate"), ("gate", "after")]);
            document["settings"]["timeout"] = 150.into();
            let mut world = World::new(&[document.clone()]);
            world.create("w");
            world.pass(10_000);
            assert!(world.status().is_waiting(), "{kind}: {}", world.status());
            if crashes {
                restart(&mut world);
                world.pass(10_000);
            }
            world.resolve("gate", answer.clone()).unwrap();
            world.pass(60);
            assert_eq!(world.status(), RunStatus::Completed, "{kind}");
            // The remaining time is the same as before the wait.
            document["settings"]["timeout"] = 100.into();
            let mut world = World::new(&[document]);
            world.create("w");
            world.pass(10_000);
            if crashes {
                restart(&mut world);
            }
            world.resolve("gate", answer.clone()).unwrap();
            world.pass(39);
            assert_eq!(world.status(), RunStatus::Running, "{kind}");
            world.pass(1);
            assert_eq!(world.status(), RunStatus::Failed, "{kind}");
            assert_eq!(world.run().state.error.as_ref().unwrap().code, "run_timeout");
            assert_eq!(world.find(EventKind::CapBreached)[0].payload()["observed"], 101);
        }
    }
}

/// Finding A5: time counts while another node is executed, and after the answer.
#[test]
fn a_delay_beside_an_open_interrupt_counts() {
    let nodes = [("gate", "core.approvalGate", json!({})), ("beside", "core.delay", json!({"ms": 100}))];
    let mut document = workflow("w", &nodes, &[]);
    document["settings"]["timeout"] = 50.into();
    let mut world = World::new(&[document.clone()]);
    world.create("w");
    world.pass(50);
    assert_eq!(world.status(), RunStatus::Failed, "a delay counts as work, even beside an open question");
    document["settings"]["timeout"] = 150.into();
    let mut world = World::new(&[document]);
    world.create("w");
    world.pass(100_000);
    assert_eq!(world.status(), RunStatus::WaitingApproval);
    world.resolve("gate", json!({"action": "accept"})).unwrap();
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn a_pause_during_a_wait_is_subtracted_once() {
    let nodes = [("gate", "core.approvalGate", json!({})), ("after", "core.delay", json!({"ms": 60}))];
    let mut document = workflow("w", &nodes, &[("gate", "after")]);
    document["settings"]["timeout"] = 50.into();
    let mut world = World::new(&[document]);
    world.create("w");
    world.pass(1000);
    world.give("r", pause(DrainPolicy::DrainCurrentNode)).unwrap();
    world.pass(1000);
    world.give("r", Input::Resume { reason: None }).unwrap();
    world.pass(1000);
    world.resolve("gate", json!({"action": "accept"})).unwrap();
    assert_eq!((world.run().state.paused_ms, world.run().state.waited_ms), (1000, 2000));
    world.pass(49);
    assert_eq!(world.status(), RunStatus::Running);
    world.pass(1);
    assert_eq!(world.status(), RunStatus::Failed);
}

#[test]
fn a_paused_run_can_be_cancelled() {
    let mut world = World::new(&[delays()]);
    world.create("w");
    world.give("r", pause(DrainPolicy::Immediate)).unwrap();
    world.give("r", Input::Cancel { reason: None, by: Principal::new("me"), parent_run_id: None }).unwrap();
    assert_eq!(world.shape("r")[2..], ["run.paused", "node.cancelled a", "run.cancelled"]);
}

#[test]
fn an_answer_to_a_paused_run_takes_effect_on_resume() {
    let document = workflow("w", &[("gate", "core.approvalGate", json!({}))], &[]);
    let mut world = World::new(&[document]);
    world.create("w");
    world.give("r", pause(DrainPolicy::DrainCurrentNode)).unwrap();
    assert_eq!(world.snapshot("r")["interrupt"]["nodeId"], "gate", "the interrupt is not lost");
    world.resolve("gate", json!({"action": "accept"})).unwrap();
    assert_eq!(world.status(), RunStatus::Paused);
    assert_eq!(world.resolve("gate", json!({"action": "reject"})), Err(Refusal::AlreadyResolved));
    world.give("r", Input::Resume { reason: None }).unwrap();
    assert_eq!(
        world.shape("r")[5..],
        [
            "run.paused",
            "interrupt.resolved gate",
            "approval.received gate",
            "run.resumed",
            "node.resumed gate",
            "node.completed gate",
            "run.completed"
        ]
    );
}

/// Drops everything except the log, and recovers the run.
fn restart(world: &mut World) -> Vec<String> {
    let run = world.runs.get_mut("r").unwrap();
    run.state = RunState::fold(&run.definition, run.genesis.clone(), &run.events).unwrap();
    world.timers.clear();
    let added = world.give("r", Input::Recover).unwrap();
    crate::driver::shape(&added)
}

#[test]
fn a_restart_waits_only_for_the_rest_of_a_delay() {
    let mut world = World::new(&[delays()]);
    world.create("w");
    world.pass(60);
    assert_eq!(restart(&mut world), ["run.resumed"]);
    world.pass(39);
    assert_eq!(world.status(), RunStatus::Running);
    world.pass(1);
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn a_restart_after_the_end_of_a_delay_continues_immediately() {
    let mut world = World::new(&[delays()]);
    world.create("w");
    world.now = world.now.plus(500);
    assert_eq!(restart(&mut world)[..2], ["run.resumed", "node.completed a"]);
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn a_restart_of_a_run_that_waits_for_a_person_records_nothing() {
    let document = workflow("w", &[("gate", "core.approvalGate", json!({"timeoutMs": 1000}))], &[]);
    let mut world = World::new(&[document]);
    world.create("w");
    assert!(restart(&mut world).is_empty());
    assert!(
        world.timers.iter().any(|(_, _, key)| matches!(key, TimerKey::Interrupt { .. })),
        "its deadline is kept"
    );
    assert_eq!(world.status(), RunStatus::WaitingApproval);
}

#[test]
fn a_restart_requests_an_effect_again_with_the_same_id() {
    let document = workflow("w", &[("e", "core.conformance.side-effect", json!({}))], &[]);
    let mut world = World::new(&[document]);
    world.create("w");
    world.outcomes.insert(NodeId::new("e"), [Ok(json!({"count": 1}))].into());
    restart(&mut world);
    assert_eq!(world.asked.values().copied().collect::<Vec<_>>(), [2], "one identity, asked for twice");
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn an_effect_has_the_id_that_the_protocol_defines() {
    let world = World::new(&[delays()]);
    let id = |tenant: &str, run_id: &str, node: &str, ordinal: u32, provider: &str| {
        let mut genesis = world.genesis(run_id, "w", json!({}), json!({}));
        genesis.tenant = Tenant::new(tenant);
        flow::engine::ids::logical_invocation_id(&genesis, &NodeId::new(node), ordinal, provider)
    };
    let known = id("tenant", "run_1", "node", 3, "provider");
    // The SHA-256 of `openwop:activity:v2`, `tenant`, `run_1`, `node`, `3` and `provider`, separated by zero bytes, computed independently.
    assert_eq!(known, "IX9kPamzQ2GQQ4bTKfEemcydPRnqLA5y5LhnrPTbOtw");
    let others = [
        id("other", "run_1", "node", 3, "provider"),
        id("tenant", "run_2", "node", 3, "provider"),
        id("tenant", "run_1", "nodes", 3, "provider"),
        id("tenant", "run_1", "node", 4, "provider"),
        id("tenant", "run_1", "node", 3, "providers"),
    ];
    assert!(others.iter().all(|other| *other != known));
}

#[test]
fn retries_and_their_delays() {
    let mut document = workflow("w", &[("e", "core.conformance.side-effect", json!({}))], &[]);
    document["settings"]["maxRetries"] = 2.into();
    let broken = || Err(RunError::new("broken", "it broke"));
    let cases = [
        (vec![broken(), Ok(json!({}))], RunStatus::Completed, 2),
        (vec![broken(), broken(), Ok(json!({}))], RunStatus::Completed, 3),
        (vec![broken(), broken(), broken(), Ok(json!({}))], RunStatus::Failed, 3),
    ];
    for (outcomes, status, attempts) in cases {
        let mut world = World::new(&[document.clone()]);
        world.outcomes.insert(NodeId::new("e"), outcomes.into());
        world.create("w");
        assert_eq!(world.status(), RunStatus::Running);
        world.pass(60_000);
        assert_eq!(world.status(), status);
        let begun: Vec<Value> = world
            .find(EventKind::NodeStarted)
            .iter()
            .map(|event| event.payload()["attempt"].clone())
            .collect();
        assert_eq!(begun, (0..attempts).map(Value::from).collect::<Vec<_>>());
        let retried: Vec<(Value, Value)> = world
            .find(EventKind::NodeRetried)
            .iter()
            .map(|event| (event.payload()["attempt"].clone(), event.payload()["delayMs"].clone()))
            .collect();
        assert_eq!(retried, [(json!(1), json!(250)), (json!(2), json!(500))][..attempts - 1]);
        assert_eq!(world.asked.len(), 1, "every attempt makes the same effect");
        if status == RunStatus::Failed {
            assert_eq!(world.find(EventKind::NodeFailed)[0].payload()["attempts"], 3);
        }
    }
}

#[test]
fn the_duration_of_a_delay_comes_from_its_port_or_its_configuration() {
    let config = json!({"delayMs": 300, "durationMs": 400, "ms": 500});
    let (of_duration, plain) = (json!({"durationMs": 400, "ms": 500}), json!({"ms": 500}));
    let port = json!({"delayMs": {"type": "static", "value": 200}});
    let cases = [
        // House finding 3: an input of this name replaced every delay.
        (json!({"delaySeconds": 0.1}), json!({}), config.clone(), 300),
        (json!({}), port, config.clone(), 200),
        (json!({}), json!({}), config, 300),
        (json!({}), json!({}), of_duration, 400),
        (json!({}), json!({}), plain, 500),
        (json!({}), json!({}), json!({}), 0),
    ];
    for (inputs, ports, config, expected) in cases {
        let mut document = workflow("w", &[("d", "core.delay", config.clone())], &[]);
        document["nodes"][0]["inputs"] = ports;
        let mut world = World::new(&[document]);
        world.create_with("w", inputs, json!({}));
        if expected > 0 {
            world.pass(expected - 1);
            assert_eq!(world.status(), RunStatus::Running, "{config}: before {expected}");
            world.pass(1);
        }
        assert_eq!(world.status(), RunStatus::Completed, "{config}: at {expected}");
    }
}

#[test]
fn a_configured_failure_has_the_code_and_message_of_the_author() {
    for (config, code, message) in [
        (json!({}), "conformance_test_failure", "Intentional conformance failure"),
        (json!({"code": "mine", "message": "as planned"}), "mine", "as planned"),
    ] {
        let mut world = World::new(&[workflow("w", &[("f", "core.fail", config)], &[])]);
        world.create("w");
        assert_eq!(world.shape("r"), ["run.started", "node.started f", "node.failed f", "run.failed"]);
        let payload = &world.find(EventKind::RunFailed)[0].payload();
        assert_eq!(payload["failedNodeId"], "f");
        for error in [&payload["error"], &world.snapshot("r")["error"]] {
            assert_eq!((&error["code"], &error["message"]), (&json!(code), &json!(message)));
        }
    }
}

#[test]
fn a_run_that_takes_too_long_times_out() {
    let cases = [
        (json!({"timeout": 40}), json!({}), 7_u64 * 86_400_000, 40),
        (json!({"timeout": 0}), json!({"runTimeoutMs": 30}), 7 * 86_400_000, 30),
        (json!({}), json!({}), 20, 20),
    ];
    for (settings, configurable, limit, after) in cases {
        let mut document = delays();
        document["settings"] = settings;
        let mut world = World::new(&[document]);
        world.limits = Limits { max_run_duration_ms: limit, ..Limits::default() };
        world.create_with("w", json!({}), configurable);
        world.pass(after - 1);
        assert_eq!(world.status(), RunStatus::Running);
        world.pass(1);
        assert_eq!(world.shape("r")[2..], ["cap.breached", "node.cancelled a", "run.failed"]);
        let breach = &world.find(EventKind::CapBreached)[0].payload();
        assert!(breach["observed"].as_u64() > breach["limit"].as_u64() && breach["limit"] == after);
    }
}

#[test]
fn an_option_above_a_limit_of_the_host_is_reduced_to_it() {
    let plan: Vec<Value> = (0..9).map(|_| json!({"kind": "next-worker", "nextWorkerIds": ["w"]})).collect();
    let loops = workflow(
        "loops",
        &[
            ("s", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
            ("d", "core.dispatch", json!({})),
        ],
        &[("s", "d"), ("d", "s")],
    );
    let nodes = ["a", "b", "c"].map(|id| (id, "core.noop", json!({})));
    let chain = workflow("chain", &nodes, &[("a", "b"), ("b", "c")]);
    let limits = Limits {
        max_node_executions: 2,
        max_run_duration_ms: 40,
        max_loop_iterations: 1,
        ..Limits::default()
    };
    let cases = [
        ("chain", "recursionLimit", "node-executions", 2, "recursion_limit_exceeded"),
        ("w", "runTimeoutMs", "run-duration", 40, "run_timeout"),
        ("loops", "maxLoopIterations", "loop-iterations", 1, "loop_limit_exceeded"),
    ];
    for (workflow_id, option, kind, limit, code) in cases {
        let mut world = World::new(&[delays(), chain.clone(), loops.clone()]);
        world.limits = limits;
        if workflow_id == "loops" {
            world.limits.max_node_executions = 100;
            world.limits.max_run_duration_ms = 100_000;
        }
        world.create_with(workflow_id, json!({}), json!({option: 1_000_000_000}));
        world.pass(1000);
        let breach = &world.find(EventKind::CapBreached)[0].payload();
        assert_eq!((&breach["kind"], &breach["limit"]), (&json!(kind), &json!(limit)));
        assert!(breach["observed"].as_u64() > breach["limit"].as_u64(), "{breach:?}");
        assert_eq!(world.snapshot("r")["error"]["code"], code);
    }
}

#[test]
fn late_inputs_add_nothing() {
    let document = workflow(
        "w",
        &[("e", "core.conformance.side-effect", json!({})), ("d", "core.delay", json!({"ms": 10}))],
        &[],
    );
    let mut world = World::new(&[document]);
    world.outcomes.insert(NodeId::new("e"), [Ok(json!({}))].into());
    world.create("w");
    let before = world.run().state.clone();
    let timer = |iteration, attempt| Input::TimerDue {
        timer: TimerKey::Node { node_id: NodeId::new("d"), iteration, attempt },
    };
    let late = [
        Input::Create,
        Input::RunDeadline,
        timer(0, 0),
        timer(1, 0),
        timer(0, 1),
        Input::TimerDue { timer: TimerKey::Interrupt { interrupt_id: InterruptId::new("none") } },
        Input::ActivityDone {
            node_id: NodeId::new("e"),
            ordinal: 0,
            reports: Vec::new(),
            outcome: Ok(Value::Null),
        },
        Input::ActivityDone {
            node_id: NodeId::new("d"),
            ordinal: 0,
            reports: Vec::new(),
            outcome: Ok(Value::Null),
        },
        Input::ActivityDone {
            node_id: NodeId::new("none"),
            ordinal: 0,
            reports: Vec::new(),
            outcome: Ok(Value::Null),
        },
        Input::ChildEnded {
            run_id: RunId::new("none"),
            status: RunStatus::Completed,
            variables: serde_json::Map::new(),
            error: None,
        },
    ];
    for input in late {
        assert_eq!(world.give("r", input.clone()).unwrap(), [], "{input:?}");
        assert_eq!(world.run().state, before, "{input:?}");
    }
}

#[test]
fn an_early_timer_is_set_again() {
    let world = World::new(&[delays()]);
    let definition = &world.definitions["w"];
    let genesis = std::sync::Arc::new(world.genesis("r", "w", json!({}), json!({})));
    let mut state = RunState::new(definition, genesis);
    let none = |_: &WorkflowId| false;
    decide(definition, &mut state, Input::Create, world.now, &world.limits, &none).unwrap();
    let timer = TimerKey::Node { node_id: NodeId::new("a"), iteration: 0, attempt: 0 };
    let early = decide(
        definition,
        &mut state,
        Input::TimerDue { timer: timer.clone() },
        world.now.plus(99),
        &world.limits,
        &none,
    );
    assert_eq!(early.unwrap().effects, [Effect::SetTimer { timer, at: world.now.plus(100) }]);
}

#[test]
fn the_end_of_a_child_during_a_pause_is_recorded_on_resume() {
    let nodes = [("n", "core.subWorkflow", json!({"workflowId": "child", "outputMapping": {"got": "v"}}))];
    let mut child = workflow("child", &[("d", "core.delay", json!({"ms": 10}))], &[]);
    child["variables"] = json!([{"name": "v", "type": "number", "defaultValue": 5}]);
    let mut world = World::new(&[workflow("w", &nodes, &[]), child]);
    world.create("w");
    world.give("r", pause(DrainPolicy::Immediate)).unwrap();
    world.pass(100);
    assert_eq!(world.shape("r").last().unwrap(), "run.paused");
    world.give("r", Input::Resume { reason: None }).unwrap();
    assert_eq!((world.status(), &world.snapshot("r")["variables"]["got"]), (RunStatus::Completed, &json!(5)));
}

#[test]
fn variables_can_be_set_from_outside() {
    let mut document = delays();
    document["channels"] = json!({"c": {"reducer": "replace"}});
    let mut world = World::new(&[document]);
    world.create("w");
    let assign =
        |name: &str| Input::Assign { variables: [(name.to_owned(), json!(1))].into_iter().collect() };
    assert!(matches!(world.give("r", assign("c")), Err(Refusal::BadAnswer { .. })));
    world.give("r", assign("x")).unwrap();
    assert_eq!(world.snapshot("r")["variables"]["x"], 1);
    world.pass(100);
    assert_eq!(world.give("r", assign("x")), Err(Refusal::Conflict { status: RunStatus::Completed }));
}

#[test]
fn an_event_of_a_later_version_is_read_and_changes_nothing() {
    let mut world = World::new(&[workflow("w", &[("gate", "core.approvalGate", json!({}))], &[])]);
    world.create("w");
    let before = world.snapshot("r");
    let sequence = world.run().events.len();
    let line = json!({
        "eventId": "evt_9", "runId": "r", "type": "node.dreamt", "nodeId": "gate", "payload": {"of": "sheep"},
        "timestamp": "2026-10-26T07:33:21.000Z", "sequence": sequence, "schemaVersion": 99, "engineVersion": "9",
        "later": [{"more": true}],
    });
    let event = flow::event::wire::decode(line.to_string().as_bytes()).unwrap();
    assert_eq!(event.data.name(), "node.dreamt");
    let run = world.runs.get_mut("r").unwrap();
    run.state.apply(&run.definition, &event).unwrap();
    run.events.push(event);
    assert_eq!(world.snapshot("r"), before);
    world.resolve("gate", json!({"action": "accept"})).unwrap();
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn a_clock_that_is_set_back_does_not_affect_the_order_of_the_log() {
    let mut world = World::new(&[delays()]);
    world.create("w");
    world.now = canon::time::Timestamp(world.now.0 - 3_600_000);
    world.give("r", pause(DrainPolicy::Immediate)).unwrap();
    world.give("r", Input::Resume { reason: None }).unwrap();
    let times: Vec<_> = world.run().events.iter().map(|event| event.timestamp).collect();
    assert!(times.is_sorted());
}
