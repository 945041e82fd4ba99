//! Random inputs in random order: the invariants of the log hold, and a replay repeats it.

use std::sync::Arc;

use flow::engine::replay::{Source, replay};
use flow::engine::{Deliverable, DrainPolicy, GuideFailure, GuideResult, Input};
use flow::id::{NodeId, Principal, RunId, WorkflowId};
use flow::interrupt::Via;
use flow::run::{Fork, ForkMode, RunStatus};
use flow::state::{RunError, RunState};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::driver::{World, shape, workflow};

/// Something that happens to a run.
#[derive(Clone, Debug)]
enum Happening {
    Pass(u64),
    Pause(bool),
    Resume,
    Restart,
    Cancel,
    Resolve(usize, usize),
    Perform(bool),
    ChildEnds(usize, usize),
    SessionBegins,
    SessionEnds(usize),
    Assign,
    Deadline,
}

const GATES: [&str; 7] = ["gate", "ask", "talk", "late", "sure", "d", "agent"];

fn answers() -> [Value; 8] {
    [
        json!({"action": "accept"}),
        json!({"action": "accept", "voter": "other"}),
        json!({"action": "reject"}),
        json!({"action": "ask"}),
        json!({"answers": {"q": 1, "proceed": true, "answer": "x"}}),
        json!({"content": "well"}),
        json!({"action": "close"}),
        json!(null),
    ]
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        6 => (0_u64..400).prop_map(Happening::Pass),
        2 => any::<bool>().prop_map(Happening::Pause),
        4 => Just(Happening::Resume),
        2 => Just(Happening::Restart),
        1 => Just(Happening::Cancel),
        12 => (0..GATES.len(), 0..answers().len()).prop_map(|(gate, answer)| Happening::Resolve(gate, answer)),
        3 => any::<bool>().prop_map(Happening::Perform),
        6 => (0_usize..6, 0_usize..3).prop_map(|(child, status)| Happening::ChildEnds(child, status)),
        3 => Just(Happening::SessionBegins),
        3 => (0_usize..3).prop_map(Happening::SessionEnds),
        1 => Just(Happening::Assign),
        1 => Just(Happening::Deadline),
    ];
    prop::collection::vec(one, 0..40)
}

fn world(retries: u64) -> World {
    let plan = json!([
        {"kind": "next-worker", "nextWorkerIds": ["one", "two", "one"]},
        {"kind": "ask-user", "prompt": "And now?"},
        {"kind": "next-worker", "nextWorkerIds": ["two"], "confidence": 0.1},
    ]);
    let join = json!({
        "fanOutPolicy": "parallel", "maxConcurrency": 2, "outputMapping": {"got": "v"},
        "joinPolicy": {"mode": "quorum", "quorum": 2, "onChildFailure": "absorb"},
    });
    let nodes = [
        (
            "gate",
            "core.approvalGate",
            json!({"requiredApprovals": 2, "actions": ["accept", "reject", "ask"]}),
        ),
        ("ask", "core.clarificationGate", json!({"questions": [{"id": "q", "question": "?"}]})),
        ("talk", "core.conversationGate", json!({"turnCount": 3})),
        ("late", "core.approvalGate", json!({"timeoutMs": 900})),
        ("sure", "core.conformance.mock-agent", json!({"mockConfidence": 0.1})),
        ("wait", "core.delay", json!({"ms": 100})),
        ("effect", "core.conformance.side-effect", json!({})),
        ("sub", "core.subWorkflow", json!({"workflowId": "one", "outputMapping": {"got": "v"}})),
        ("s", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
        ("d", "core.dispatch", join),
        ("write", "core.channelWrite", json!({"channelName": "c", "value": 1, "ttlMs": 300})),
        ("agent", "interlock.guided", json!({"workflow": "project.review", "timeoutMs": 800})),
        ("end", "core.end", json!({})),
    ];
    let edges = [
        ("gate", "wait"),
        ("wait", "effect"),
        ("effect", "sub"),
        ("s", "d"),
        ("d", "s"),
        ("late", "write"),
        ("write", "late"),
        ("sub", "end"),
        ("talk", "end"),
        ("ask", "end"),
        ("agent", "end"),
    ];
    let mut document = workflow("w", &nodes, &edges);
    document["edges"][6]["condition"] = json!({"type": "expression", "expression": "size < 3"});
    for edge in 7..11 {
        document["edges"][edge]["triggerRule"] = "all_complete".into();
    }
    document["settings"] = json!({"maxRetries": retries, "timeout": 5000});
    let child = |id| workflow(id, &[("n", "core.noop", json!({}))], &[]);
    let mut world = World::new(&[document, child("one"), child("two")]);
    world.by_hand = ["one", "two"].map(WorkflowId::new).into();
    world
}

fn happen(world: &mut World, happening: &Happening) {
    let input = match happening {
        Happening::Pass(milliseconds) => return world.pass(*milliseconds),
        Happening::Pause(immediate) => {
            let policy = if *immediate { DrainPolicy::Immediate } else { DrainPolicy::DrainCurrentNode };
            Input::Pause { reason: None, policy }
        }
        Happening::Resume => Input::Resume { reason: None },
        Happening::Restart => {
            let run = world.runs.get_mut("r").unwrap();
            run.state = RunState::fold(&run.definition, run.genesis.clone(), &run.events).unwrap();
            world.timers.clear();
            Input::Recover
        }
        Happening::Cancel => Input::Cancel { reason: None, by: Principal::new("me"), parent_run_id: None },
        Happening::Resolve(gate, answer) => {
            // Most answers are invalid for most gates, and are refused.
            let _ = world.resolve(GATES[*gate], answers()[*answer].clone());
            return;
        }
        Happening::Perform(works) => {
            let outcome =
                if *works { Ok(json!({"count": 1})) } else { Err(RunError::new("broken", "it broke")) };
            Input::ActivityDone { node_id: NodeId::new("effect"), ordinal: 0, reports: Vec::new(), outcome }
        }
        Happening::ChildEnds(child, status) => {
            let Some((_, run_id)) = world.children().get(*child).cloned() else { return };
            let status = [RunStatus::Completed, RunStatus::Failed, RunStatus::Cancelled][*status];
            let variables = [("v".to_owned(), json!(*child))].into_iter().collect();
            let error = (status == RunStatus::Failed).then(|| RunError::new("broken", "it broke"));
            Input::ChildEnded { run_id, status, variables, error }
        }
        Happening::SessionBegins => {
            let Some(guide) = world.guides.last() else { return };
            Input::GuideStarted { node_id: guide.node_id.clone(), session_id: guide.session_id.clone() }
        }
        Happening::SessionEnds(how) => {
            let Some(guide) = world.guides.last() else { return };
            let file = Deliverable {
                path: "notes.md".into(),
                bytes: 1,
                sha256: "sha256:00".into(),
                data: json!({"text": "x"}),
            };
            let error = RunError::new("broken", "it broke");
            let outcome = match how {
                0 => Ok(GuideResult { deliverables: vec![file], ..GuideResult::default() }),
                1 => Err(GuideFailure { error, is_retryable: true }),
                _ => Err(GuideFailure::lasting(error)),
            };
            let (node_id, session_id) = (guide.node_id.clone(), guide.session_id.clone());
            Input::GuideEnded { node_id, session_id, outcome }
        }
        Happening::Assign => Input::Assign { variables: [("x".to_owned(), json!(1))].into_iter().collect() },
        Happening::Deadline => Input::RunDeadline,
    };
    let _ = world.give("r", input);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_invariants_hold_for_any_inputs(happenings in happenings(), retries in 0_u64..3, from in 0_usize..200) {
        let mut world = world(retries);
        world.create("w");
        for happening in &happenings {
            happen(&mut world, happening);
        }
        // The driver checked every decision. A fork repeats them all.
        let run = world.run();
        let from = u64::try_from(from.min(run.events.len() - 1)).unwrap();
        let mut genesis = (*run.genesis).clone();
        genesis.run_id = RunId::new("fork");
        genesis.fork = Some(Fork { source_run_id: RunId::new("r"), from_sequence: from, mode: ForkMode::Replay });
        let genesis = Arc::new(genesis);
        let source = Source { run_id: &RunId::new("r"), events: &run.events };
        let (state, decision) = replay(
            &run.definition, genesis.clone(), source, from, world.now, &world.limits, &|_: &WorkflowId| false,
        );
        let log: Vec<_> = source.copied(&RunId::new("fork"), from).into_iter().chain(decision.events).collect();
        let (made, was) = (shape(&log), shape(&run.events));
        prop_assert_eq!(&made[..was.len().min(made.len())], &was[..]);
        prop_assert_eq!(&RunState::fold(&run.definition, genesis, &log).unwrap(), &state);
        let split = usize::try_from(from).unwrap();
        let before = RunState::fold(&run.definition, run.genesis.clone(), &run.events[..split]).unwrap();
        let mut resumed = crate::checkpoints::restored(&run.definition, &before);
        for event in &run.events[split..] {
            resumed.apply(&run.definition, event).unwrap();
        }
        prop_assert_eq!(&resumed, &run.state);
    }
}

/// Payloads with known members, some of them of the wrong type.
fn payloads() -> impl Strategy<Value = Value> {
    let member = prop_oneof![
        Just(("childRunId", json!("c"))),
        Just(("childWorkflowId", json!("one"))),
        Just(("childStatus", json!("completed"))),
        Just(("attempt", json!(3))),
        Just(("attempt", json!(u64::MAX))),
        Just(("delayMs", json!(u64::MAX))),
        Just(("dueAt", json!("2026-10-26T07:33:20.123Z"))),
        Just(("error", json!({"code": "x", "message": "m"}))),
        Just(("outputs", json!({"kind": "next-worker", "size": 1}))),
        Just(("outputs", json!([]))),
        Just(("decision", json!({"kind": "next-worker", "nextWorkerIds": ["one", "two"]}))),
        Just(("decision", json!({"kind": "ask-user"}))),
        Just(("kind", json!("approval"))),
        Just(("kind", json!("conversation.exchange"))),
        Just(("interruptId", json!("i"))),
        Just(("data", json!({"turnIndex": u64::MAX, "actions": ["accept"], "questions": 1}))),
        Just(("timeoutMs", json!(u64::MAX))),
        Just(("resumeValue", json!({"action": "accept"}))),
        Just(("data", json!({"correlation": {"sessionId": "sess_x"}}))),
        Just(("turnIndex", json!(u64::MAX))),
        Just(("name", json!("x"))),
        Just(("next", json!([1]))),
        Just(("channel", json!("c"))),
        Just(("value", json!({"messageId": 1}))),
        Just(("reducer", json!("append"))),
        Just(("reducer", json!("votes"))),
        Just(("reason", json!("timeout"))),
        Just(("nodeId", json!(7))),
    ];
    prop::collection::vec(member, 0..8).prop_map(|members| members.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn an_arbitrary_log_can_be_folded_and_continued(
        facts in prop::collection::vec((0_usize..60, 0_usize..14, any::<u32>(), payloads()), 0..40),
        happenings in happenings(),
    ) {
        use flow::engine::decide;
        use flow::event::{Event, EventData, EventKind};
        let mut world = world(1);
        world.limits.max_node_executions = 200;
        let definition = world.definitions["w"].clone();
        let genesis = Arc::new(world.genesis("r", "w", json!({}), json!({})));
        let mut state = RunState::new(&definition, genesis);
        for (sequence, (kind, node, bits, members)) in facts.into_iter().enumerate() {
            let kind = match sequence {
                0 => EventKind::RunStarted,
                _ => EventKind::WRITTEN[kind % EventKind::WRITTEN.len()].clone(),
            };
            let mut payload = crate::events::payload(&kind, bits);
            for (name, value) in members.as_object().unwrap() {
                let mut other = payload.clone();
                other.insert(name.clone(), value.clone());
                // An invalid payload cannot be recorded.
                if EventData::read(kind.clone(), other.clone()).is_ok() {
                    payload = other;
                }
            }
            let event = Event {
                node_id: definition.nodes.get(node).map(|node| node.id.clone()),
                timestamp: world.now,
                ..crate::events::event(u64::try_from(sequence).unwrap(), kind, payload)
            };
            state.apply(&definition, &event).unwrap();
            prop_assert_eq!(&crate::checkpoints::restored(&definition, &state), &state);
        }
        let _ = flow::snapshot::snapshot(&definition, &state, world.now);
        let known = |_: &WorkflowId| true;
        for input in [Input::Recover, Input::Resume { reason: None }, Input::Fork] {
            let mut state = state.clone();
            let _ = decide(&definition, &mut state, input, world.now, &world.limits, &known);
            for happening in &happenings {
                if let Happening::Resolve(gate, answer) = happening {
                    let resolve = Input::Resolve {
                        node_id: NodeId::new(GATES[*gate]),
                        interrupt_id: None,
                        resume_value: answers()[*answer].clone(),
                        by: Principal::new("me"),
                        grants: vec![],
                        via: Via::Key,
                    };
                    let _ = decide(&definition, &mut state, resolve, world.now, &world.limits, &known);
                }
            }
            let cancel = Input::Cancel { reason: None, by: Principal::new("me"), parent_run_id: None };
            let _ = decide(&definition, &mut state, cancel, world.now, &world.limits, &known);
            prop_assert!(state.status.is_terminal());
        }
    }
}
