//! Forks: replays and branches.

use std::sync::Arc;

use flow::engine::replay::{Source, replay};
use flow::engine::{DrainPolicy, Effect, Input};
use flow::event::{Event, EventKind};
use flow::id::{NodeId, Principal, RunId, WorkflowId};
use flow::interrupt::{ANONYMOUS, Via};
use flow::run::{Fork, ForkMode, RunStatus};
use flow::state::{RunError, RunState};
use serde_json::{Value, json};

use crate::driver::{PACK_TYPE, World, rewrite, shape, workflow};
use crate::progress::report_chunk;
use crate::suspended::{done, waits};

fn fork(world: &World, from: u64, mode: ForkMode) -> flow::run::Genesis {
    let mut genesis = (*world.run().genesis).clone();
    genesis.run_id = RunId::new(format!("fork-{from}"));
    genesis.fork = Some(Fork { source_run_id: RunId::new("r"), from_sequence: from, mode });
    genesis
}

/// Replays `r` from a sequence number. Returns the complete log of the fork, its state, and its effects.
fn replayed(world: &mut World, from: u64) -> (Vec<Event>, RunState, Vec<Effect>) {
    let genesis = fork(world, from, ForkMode::Replay);
    let (run_id, now) = (genesis.run_id.clone(), world.now.plus(86_400_000));
    let definition = world.run().definition.clone();
    let source = Source { run_id: &RunId::new("r"), events: &world.run().events };
    let copied = source.copied(&run_id, from);
    let nothing = |_: &WorkflowId| -> bool { panic!("a replay must not query the environment") };
    let (state, decision) =
        replay(&definition, Arc::new(genesis.clone()), source, from, now, &world.limits, &nothing);
    let events: Vec<Event> = copied.into_iter().chain(decision.events).collect();
    let folded = RunState::fold(&definition, Arc::new(genesis), &events).unwrap();
    assert_eq!(folded, state, "the fold of the fork's log is its state");
    (events, state, decision.effects)
}

/// Runs with all kinds of inputs.
fn sources() -> Vec<(&'static str, World)> {
    let mut all = Vec::new();
    let mut add = |name, document: Value, others: Vec<Value>, drive: fn(&mut World)| {
        let mut documents = vec![document];
        documents.extend(others);
        let mut world = World::new(&documents);
        world.converses = name != "a question without conversations";
        let broken = Err(RunError::new("broken", "it broke"));
        world.outcomes.insert(NodeId::new("effect"), [broken, Ok(json!({"count": 1}))].into());
        world
            .outcomes
            .insert(NodeId::new("secret"), [Ok(json!({"secretSha256": "00", "secretLength": 3}))].into());
        world
            .agents
            .insert("agents.strict".into(), (json!({"maxProperties": 0}), json!({"required": ["a"]})));
        world.agents.insert("agents.never".into(), (json!(false), json!(true)));
        world.create("w");
        drive(&mut world);
        all.push((name, world));
    };
    let mut retried = workflow(
        "w",
        &[
            ("effect", "core.conformance.side-effect", json!({})),
            ("secret", "conformance.secret.echo", json!({"secretId": "s"})),
            ("wait", "core.delay", json!({"ms": 40})),
            ("end", "core.noop", json!({})),
        ],
        &[("effect", "end"), ("secret", "end"), ("wait", "end")],
    );
    retried["settings"]["maxRetries"] = 1.into();
    add("effects, retries and delays", retried, vec![], |world| world.pass(1000));

    let gates = [
        (
            "gate",
            "core.approvalGate",
            json!({"requiredApprovals": 2, "actions": ["accept", "reject", "ask"]}),
        ),
        ("ask", "core.clarificationGate", json!({"questions": [{"id": "q", "question": "?"}]})),
        ("talk", "core.conversationGate", json!({})),
        ("late", "core.approvalGate", json!({"timeoutMs": 500})),
        ("wait", "core.delay", json!({"ms": 40})),
        ("sure", "core.conformance.mock-agent", json!({"mockConfidence": 0.1})),
        (
            "governed",
            "core.openwop.governance.approvalGate",
            json!({"requiredRole": "approver", "quorum": 2}),
        ),
    ];
    add("gates of all kinds", workflow("w", &gates, &[("gate", "wait")]), vec![], |world| {
        world.resolve("gate", json!({"action": "ask"})).unwrap();
        world.resolve("talk", json!({"content": "one"})).unwrap();
        world.resolve("gate", json!({"action": "accept", "voter": "a"})).unwrap();
        world.pass(7);
        let variables = [("x".to_owned(), json!(1)), ("y".to_owned(), json!(2))].into_iter().collect();
        world.give("r", Input::Assign { variables }).unwrap();
        world.resolve("ask", json!({"answers": {"q": 1}})).unwrap();
        world.give("r", Input::Pause { reason: None, policy: DrainPolicy::Immediate }).unwrap();
        world.resolve("gate", json!({"action": "accept", "voter": "b"})).unwrap();
        world.pass(5);
        world.give("r", Input::Resume { reason: Some("go".into()) }).unwrap();
        world.resolve_as("r", "governed", json!({"action": "accept"}), "x", Via::Key).unwrap();
        world.resolve_as("r", "governed", json!({"action": "accept"}), "y", Via::Key).unwrap();
        world.pass(20);
        world.give("r", Input::Recover).unwrap();
        world.resolve("talk", json!({"action": "close", "content": "two"})).unwrap();
        world.resolve("sure", json!({"action": "accept"})).unwrap();
        world.pass(1000);
        assert_eq!(world.status(), RunStatus::Failed, "the late gate was not answered");
    });

    let plan = json!([
        {"kind": "next-worker", "nextWorkerIds": ["good", "bad", "slow"]},
        {"kind": "next-worker", "nextWorkerIds": ["good"], "confidence": 0.2},
        {"kind": "terminate"},
    ]);
    let config = json!({"fanOutPolicy": "parallel", "joinPolicy": {"mode": "quorum", "quorum": 1}, "outputMapping": {"got": "v"}});
    let nodes = [
        ("s", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
        ("d", "core.dispatch", config),
        ("sub", "core.subWorkflow", json!({"workflowId": "bad", "onChildFailure": "absorb"})),
        ("art", "conformance.artifact.emit", json!({})),
    ];
    let mut good = workflow("good", &[("n", "core.delay", json!({"ms": 30}))], &[]);
    good["nodes"][0]["agent"] = json!({"agentId": "agents.good"});
    good["variables"] = json!([{"name": "v", "type": "number", "defaultValue": 5}]);
    let others = vec![
        good,
        workflow("bad", &[("n", "core.fail", json!({}))], &[]),
        workflow("slow", &[("n", "core.delay", json!({"ms": 500}))], &[]),
    ];
    add(
        "workers and children",
        workflow("w", &nodes, &[("s", "d"), ("d", "s"), ("sub", "art")]),
        others,
        |world| {
            world.pass(40);
            world.resolve("d", json!({"answers": {"proceed": true}})).unwrap();
            world.pass(1000);
            assert_eq!((world.status(), world.cancelled.len()), (RunStatus::Completed, 1));
        },
    );

    let plan = json!([{"kind": "ask-user", "prompt": "Which one?"}]);
    let nodes = [
        ("s", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
        ("d", "core.dispatch", json!({})),
    ];
    let asking = workflow("w", &nodes, &[("s", "d"), ("d", "s")]);
    add("a question without conversations", asking, vec![], |world| {
        world.resolve("d", json!({"answers": {"answer": "this"}})).unwrap();
        assert_eq!(world.status(), RunStatus::Completed);
    });

    add(
        "cancelled",
        workflow("w", &[("a", "core.delay", json!({"ms": 40})), ("b", "core.approvalGate", json!({}))], &[]),
        vec![],
        |world| {
            world
                .give(
                    "r",
                    Input::Cancel {
                        reason: Some("no".into()),
                        by: Principal::new("me"),
                        parent_run_id: None,
                    },
                )
                .unwrap();
        },
    );
    let write = |value: u64| json!({"channelName": "c", "value": value});
    let aging = [
        ("a", "core.channelWrite", write(1)),
        ("b", "core.delay", json!({"ms": 60})),
        ("c", "core.channelWrite", write(2)),
        ("d", "core.delay", json!({"ms": 60})),
        ("e", "core.channelWrite", write(3)),
    ];
    let mut aging = workflow("w", &aging, &[("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]);
    aging["channels"] = json!({"c": {"reducer": "append", "ttlMs": 100}});
    add("entries that age", aging, vec![], |world| {
        world.pass(1000);
        assert_eq!(world.run().state.channels["c"].value, json!([2, 3]));
    });
    let mut timed = workflow("w", &[("a", "core.delay", json!({"ms": 400}))], &[]);
    timed["settings"]["timeout"] = 50.into();
    add("too long", timed, vec![], |world| world.pass(60));

    let asks = [("a", PACK_TYPE, json!({})), ("b", PACK_TYPE, json!({}))];
    let mut asking = workflow("w", &asks, &[("a", "b")]);
    asking["nodes"][0]["settings"] = json!({"maxRetries": 1});
    add("work that waits for people", asking.clone(), vec![], |world| {
        waits(world, "a", 0, json!({"kind": "custom", "data": {"customKind": "x"}}));
        world.resolve("a", json!({"first": true})).unwrap();
        waits(world, "a", 1, json!({"kind": "approval", "timeoutMs": 50}));
        world.pass(50);
        done(world, "a", 2, Err(RunError::new("again", "once more")));
        world.pass(500);
        done(world, "a", 2, Ok(json!({"output": 1})));
        waits(
            world,
            "b",
            0,
            json!({"kind": "clarification", "data": {"questions": [{"id": "q", "question": "?"}]}, "timeoutMs": 9}),
        );
        world.pass(9);
        assert_eq!(world.status(), RunStatus::Failed, "the interrupt timed out");
    });
    let both = workflow("w", &asks, &[]);
    add("an effect with progress reports", both.clone(), vec![], |world| {
        for (node_id, text) in [("a", "one"), ("a", " two"), ("b", "three"), ("a", " four")] {
            report_chunk(world, node_id, text).unwrap();
            world.pass(3);
        }
        done(world, "b", 0, Ok(json!({"output": 1})));
        world.give("r", Input::Pause { reason: None, policy: DrainPolicy::Immediate }).unwrap();
        world.give("r", Input::Resume { reason: None }).unwrap();
        report_chunk(world, "a", " five").unwrap();
        done(world, "a", 0, Ok(json!({"output": 2})));
        assert_eq!(world.status(), RunStatus::Completed);
    });
    add("an effect that is cancelled after progress reports", both, vec![], |world| {
        report_chunk(world, "a", "one").unwrap();
        world
            .give("r", Input::Cancel { reason: None, by: Principal::new("me"), parent_run_id: None })
            .unwrap();
    });
    add("work that is cancelled", asking, vec![], |world| {
        world
            .give("r", Input::Cancel { reason: None, by: Principal::new("me"), parent_run_id: None })
            .unwrap();
    });

    let ends = [("n", "core.noop", json!({})), ("end", "core.end", json!({}))];
    for (name, agent_id) in
        [("a return that is refused", "agents.strict"), ("a task that is refused", "agents.never")]
    {
        let mut handed = workflow("w", &ends, &[("n", "end")]);
        handed["metadata"]["requiresAgentId"] = agent_id.into();
        add(name, handed, vec![], |world| assert_eq!(world.status(), RunStatus::Failed));
    }
    all
}

/// Finding H1: earlier versions added the vote of an anonymous token to that of a key. A replay of their logs repeats that.
#[test]
fn a_log_whose_quorum_includes_an_anonymous_token_is_replayed_completely() {
    for (gate, config) in [
        ("core.approvalGate", json!({"requiredApprovals": 2})),
        ("core.openwop.governance.approvalGate", json!({"quorum": 2})),
    ] {
        let mut world = World::new(&[workflow("w", &[("gate", gate, config)], &[])]);
        world.create("w");
        for by in ["first", "second"] {
            world.resolve_as("r", "gate", json!({"action": "accept"}), by, Via::Key).unwrap();
        }
        let run = world.runs.get_mut("r").unwrap();
        for event in &mut run.events {
            for member in ["decidedBy", "principal"] {
                if event.payload().get(member) == Some(&json!("first")) {
                    rewrite(event, member, ANONYMOUS.into());
                }
            }
        }
        let (events, state, _) = replayed(&mut world, 0);
        assert_eq!(state.status, RunStatus::Completed, "{gate}");
        assert!(events.iter().all(|event| event.kind() != EventKind::ReplayDiverged), "{gate}");
    }
}

#[test]
fn a_replay_of_an_ended_run_repeats_it_from_every_sequence_number() {
    for (name, mut world) in sources() {
        let source = world.run().events.clone();
        let status = world.status();
        assert!(status.is_terminal(), "{name}");
        for from in 0..u64::try_from(source.len()).unwrap() {
            let (events, state, effects) = replayed(&mut world, from);
            assert_eq!(shape(&events), shape(&source), "{name} from {from}");
            assert_eq!(effects, [], "{name} from {from}: a replay has no effect");
            assert_eq!(state.status, status);
            let times = |events: &[Event]| events.iter().map(|event| event.timestamp).collect::<Vec<_>>();
            assert_eq!(times(&events), times(&source), "{name}: the events have the times of the source");
            assert_eq!(state.variables, world.run().state.variables, "{name}");
            assert_eq!(state.channels, world.run().state.channels, "{name}: entries age as they did");
        }
    }
}

#[test]
fn a_replay_repeats_ids_that_are_known_outside() {
    let (_, mut world) = sources().swap_remove(2);
    let (_, state, _) = replayed(&mut world, 0);
    let ids = |state: &RunState| state.children.iter().map(|child| child.run_id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&state), ids(&world.run().state));
    assert_eq!(
        state.artifacts.keys().collect::<Vec<_>>(),
        world.run().state.artifacts.keys().collect::<Vec<_>>()
    );
}

#[test]
fn a_replay_of_an_open_run_ends_where_its_source_ends() {
    let document = workflow(
        "w",
        &[("gate", "core.approvalGate", json!({})), ("e", "core.conformance.side-effect", json!({}))],
        &[("gate", "e")],
    );
    let mut world = World::new(&[document]);
    world.create("w");
    let (events, state, _) = replayed(&mut world, 0);
    assert_eq!((shape(&events), state.status), (shape(&world.run().events), RunStatus::WaitingApproval));
    // The fork then continues without effects.
    let definition = world.run().definition.clone();
    let mut alone = state;
    let accept = Input::Resolve {
        node_id: NodeId::new("gate"),
        interrupt_id: None,
        resume_value: json!({"action": "accept"}),
        by: Principal::new("me"),
        grants: vec![],
        via: Via::Key,
    };
    let decision =
        flow::engine::decide(&definition, &mut alone, accept, world.now, &world.limits, &world.environment())
            .unwrap();
    assert_eq!(alone.error.unwrap().code, "replay_source_missing");
    assert!(!decision.effects.iter().any(|effect| matches!(effect, Effect::Activity(_))));
    // The source requested its effect, and no result is recorded.
    world.resolve("gate", json!({"action": "accept"})).unwrap();
    let (events, state, effects) = replayed(&mut world, 2);
    assert_eq!(state.error.unwrap().code, "replay_source_missing");
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Activity(_))));
    assert_eq!(shape(&events)[shape(&events).len() - 2..], ["node.failed e", "run.failed"]);
}

#[test]
fn a_replay_with_another_definition_records_where_it_diverges() {
    let nodes = |middle| {
        workflow(
            "w",
            &[("a", "core.noop", json!({})), (middle, "core.noop", json!({})), ("z", "core.noop", json!({}))],
            &[("a", middle), (middle, "z")],
        )
    };
    let mut world = World::new(&[nodes("m")]);
    world.create("w");
    let other = World::new(&[nodes("k")]);
    let genesis = Arc::new(fork(&world, 0, ForkMode::Replay));
    let source = Source { run_id: &RunId::new("r"), events: &world.run().events };
    let definition = &other.definitions["w"];
    let (state, decision) =
        replay(definition, genesis.clone(), source, 0, world.now, &world.limits, &|_: &WorkflowId| false);
    let diverged: Vec<&Event> =
        decision.events.iter().filter(|event| event.kind() == EventKind::ReplayDiverged).collect();
    assert_eq!(diverged.len(), 1);
    assert_eq!(
        (&diverged[0].payload()["atSequence"], &diverged[0].payload()["divergenceKind"]),
        (&json!(3), &json!("type-mismatch"))
    );
    assert_eq!(state.status, RunStatus::Completed);
    assert_eq!(RunState::fold(definition, genesis, &decision.events).unwrap(), state);
}

#[test]
fn a_branch_continues_from_every_sequence_number() {
    for (name, source) in sources() {
        let events = source.run().events.clone();
        for from in 0..u64::try_from(events.len()).unwrap() {
            let mut world = World::new(&[]);
            world.definitions = source.definitions.clone();
            world.now = source.now;
            let genesis = fork(&source, from, ForkMode::Branch);
            let run_id = genesis.run_id.clone();
            world.put(genesis);
            let copied = Source { run_id: &RunId::new("r"), events: &events }.copied(&run_id, from);
            let run = world.runs.get_mut(&run_id).unwrap();
            for event in &copied {
                run.state.apply(&run.definition, event).unwrap();
            }
            run.events = copied;
            for node in ["effect", "secret"] {
                world.outcomes.insert(NodeId::new(node), [Ok(json!({}))].into());
            }
            for node in ["a", "b"] {
                world.outcomes.insert(NodeId::new(node), vec![Ok(json!({})); 3].into());
            }
            // The children of the source have ended: the host reports that when they are requested again.
            for (id, run) in source.runs.iter().filter(|(id, _)| *id != "r") {
                let mut genesis = (*run.genesis).clone();
                genesis.parent.as_mut().unwrap().run_id = run_id.clone();
                world.put(genesis);
                world.runs.get_mut(id).unwrap().state.status = run.state.status;
            }
            world.give(run_id.as_str(), Input::Fork).unwrap();
            world.pass(10_000);
            for _ in 0..4 {
                let open: Vec<(NodeId, flow::interrupt::InterruptKind)> = world.runs[&run_id]
                    .state
                    .interrupts
                    .values()
                    .map(|open| (open.node_id.clone(), open.kind))
                    .collect();
                for (node, kind) in open {
                    let answer = match kind.as_str() {
                        "clarification" => json!({"answers": {"q": 1, "proceed": true, "answer": "this"}}),
                        "conversation.exchange" => json!({"action": "close"}),
                        _ => json!({"action": "accept", "voter": "v"}),
                    };
                    let _ = world.resolve_as(run_id.as_str(), node.as_str(), answer.clone(), "one", Via::Key);
                    let _ = world.resolve_as(
                        run_id.as_str(),
                        node.as_str(),
                        json!({"action": "accept", "voter": "u"}),
                        "two",
                        Via::Key,
                    );
                }
                world.pass(10_000);
            }
            let status = world.runs[&run_id].state.status;
            assert!(status.is_terminal(), "{name} from {from}: {status} {:#?}", world.shape(run_id.as_str()));
        }
    }
}

#[test]
fn a_log_with_the_end_of_a_node_during_a_pause_is_replayed_unchanged() {
    let nodes = [("a", "core.delay", json!({"ms": 100})), ("b", "core.noop", json!({}))];
    let mut world = World::new(&[workflow("w", &nodes, &[("a", "b")])]);
    world.create("w");
    world.give("r", Input::Pause { reason: None, policy: DrainPolicy::Immediate }).unwrap();
    world.pass(100);
    world.give("r", Input::Resume { reason: None }).unwrap();
    let run = world.runs.get_mut("r").unwrap();
    let paused = run.events.iter_mut().find(|event| event.kind() == EventKind::RunPaused).unwrap();
    rewrite(paused, "drainPolicy", "drain-current-node".into());
    let place = run.events.iter().position(|event| event.kind() == EventKind::RunResumed).unwrap();
    run.events.swap(place, place + 1);
    for (sequence, event) in run.events[place..place + 2].iter_mut().enumerate() {
        event.sequence = (place + sequence) as u64;
    }
    let was = shape(&run.events);
    assert_eq!(was[2..5], ["run.paused", "node.completed a", "run.resumed"]);
    for from in [0, 3, 4, 5] {
        let (events, state, effects) = replayed(&mut world, from);
        assert_eq!((shape(&events), state.status), (was.clone(), RunStatus::Completed), "from {from}");
        assert_eq!(effects, []);
    }
}
