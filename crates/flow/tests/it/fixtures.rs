//! Every conformance workflow that requires no host and no model, run to its specified outcome.

use std::collections::BTreeMap;

use flow::engine::{Input, Refusal};
use flow::event::EventKind;
use flow::id::{NodeId, Principal, RunId};
use flow::interrupt::Via;
use flow::run::RunStatus;
use serde_json::{Value, json};

use crate::driver::World;
use crate::schemas;

fn documents() -> Option<BTreeMap<String, Value>> {
    let Ok(files) = std::fs::read_dir(schemas::folder().join("fixtures")) else {
        eprintln!("NOT CHECKED: there are no fixtures at {}", schemas::folder().display());
        return None;
    };
    let paths = files.map(|file| file.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let documents = paths.map(|path| {
        let document: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        (document["id"].as_str().unwrap().to_owned(), document)
    });
    Some(documents.collect())
}

/// The fixtures that require a model, a pack, prompts or memory, which this crate does not have.
const ELSEWHERE: [&str; 8] = [
    "conformance-a2a-task-roundtrip",
    "conformance-agent-channel-dispatch",
    "conformance-agent-memory-",
    "conformance-envelope-",
    "conformance-mcp-",
    "conformance-phase4-",
    "conformance-prompt-",
    "conformance-wasm-",
];

fn world() -> Option<World> {
    let documents = documents()?;
    let here: Vec<Value> = documents
        .into_iter()
        .filter(|(id, _)| {
            id != "conformance-stream-text" && !ELSEWHERE.iter().any(|other| id.starts_with(other))
        })
        .map(|(_, document)| document)
        .collect();
    assert_eq!(here.len(), 61, "a fixture was added or is gone: say what is to come of it");
    Some(World::new(&here))
}

type Check = fn(&mut World);

/// Fixtures that complete without input, with the time that they take.
#[test]
fn fixtures_that_complete() {
    let nothing: Check = |_| {};
    let cases: Vec<(&str, Value, u64, Check)> = vec![
        ("conformance-noop", json!({"undeclared": "sk-canary"}), 0, |world| {
            assert_eq!(world.kinds(), ["run.started", "node.started", "node.completed", "run.completed"]);
            assert!(!format!("{:?}{}", world.run().events, world.snapshot("r")).contains("sk-canary"));
        }),
        ("conformance-identity", json!({"payload": {"deep": [1, {"x": null}]}}), 0, |world| {
            assert_eq!(world.snapshot("r")["variables"]["payload"], json!({"deep": [1, {"x": null}]}));
        }),
        ("conformance-multi-node", json!({}), 0, |world| {
            let order: Vec<_> =
                world.find(EventKind::NodeCompleted).iter().map(|e| e.node_id.clone().unwrap()).collect();
            assert_eq!(order, ["a", "b", "c"]);
        }),
        ("conformance-idempotent", json!({"nonce": "n"}), 0, nothing),
        ("conformance-cap-breach", json!({}), 0, nothing),
        ("conformance-configurable-schema", json!({}), 0, nothing),
        ("conformance-version-fold", json!({}), 0, nothing),
        ("conformance-agent-pack-export", json!({}), 0, nothing),
        ("conformance-agent-pack-install", json!({}), 0, nothing),
        ("conformance-agent-pack-provenance", json!({}), 0, nothing),
        ("conformance-agent-pack-handoff-schema-validation", json!({}), 0, nothing),
        ("conformance-agent-identity", json!({}), 0, |world| {
            assert!(world.snapshot("r")["agent"]["agentId"].is_string());
            assert!(!world.kinds().iter().any(|kind| kind.starts_with("agent.")));
        }),
        ("conformance-delay", json!({}), 1000, nothing),
        ("conformance-delay", json!({"delayMs": 20}), 20, nothing),
        ("conformance-dispatch-cancellable-child", json!({}), 30_000, nothing),
        ("conformance-channel-ttl", json!({}), 300, |world| {
            let events = world.snapshot("r")["variables"]["events"].clone();
            assert_eq!(events.as_array().unwrap().len(), 1);
            assert_eq!(events[0]["value"], "d");
            assert!(events[0]["_ts"].is_number());
        }),
        ("conformance-message-reducer", json!({}), 0, |world| {
            let messages = world.snapshot("r")["channels"]["messages"].clone();
            let mut ids: Vec<String> =
                messages.as_array().unwrap().iter().map(|m| m["messageId"].to_string()).collect();
            let written = world.find(EventKind::ChannelWritten).len();
            ids.sort();
            ids.dedup();
            assert_eq!((ids.len(), messages.as_array().unwrap().len(), written), (2, 2, 3));
        }),
        ("conformance-agent-reasoning", json!({}), 0, |world| {
            let agent: Vec<&str> =
                world.kinds().into_iter().filter(|kind| kind.starts_with("agent.")).collect();
            assert_eq!(
                agent,
                [
                    "agent.reasoned",
                    "agent.toolCalled",
                    "agent.toolReturned",
                    "agent.handoff",
                    "agent.decided"
                ]
            );
            let (called, returned) =
                (&world.find(EventKind::AgentToolCalled)[0], &world.find(EventKind::AgentToolReturned)[0]);
            assert_eq!(called.payload()["callId"], returned.payload()["callId"]);
            assert_eq!(called.payload()["agentId"], "core.conformance.reasoning-agent");
        }),
        ("conformance-agent-reasoning-streaming", json!({}), 0, |world| {
            let deltas = world.find(EventKind::AgentReasoningDelta);
            let whole: String =
                deltas.iter().map(|delta| delta.payload()["delta"].as_str().unwrap().to_owned()).collect();
            assert_eq!(world.find(EventKind::AgentReasoned)[0].payload()["reasoning"], whole);
            assert_eq!(deltas.len(), 3);
        }),
        ("conformance-conversation-lifecycle", json!({}), 0, |world| {
            let said: Vec<&str> =
                world.kinds().into_iter().filter(|kind| kind.starts_with("conversation.")).collect();
            assert_eq!(said, ["conversation.opened", "conversation.exchanged", "conversation.closed"]);
        }),
        ("conformance-conversation-replay", json!({}), 0, |world| {
            assert_eq!(world.find(EventKind::ConversationExchanged).len(), 3);
            assert_eq!(world.snapshot("r")["channels"]["conversation"].as_array().unwrap().len(), 4);
        }),
        ("conformance-conversation-vs-clarification", json!({}), 0, |world| {
            assert!(!world.kinds().iter().any(|kind| kind.starts_with("clarification.")));
        }),
        ("conformance-subworkflow-parent", json!({}), 0, |world| {
            assert_eq!(world.snapshot("r")["variables"]["childOutcome"], "child-completed");
            let done = world.run().state.node(1).outputs.clone();
            let child = world.snapshot(done["childRunId"].as_str().unwrap());
            assert_eq!(
                (&done["childStatus"], &child["parentRunId"], &child["parentNodeId"]),
                (&json!("completed"), &json!("r"), &json!("subwf-call"))
            );
        }),
        ("conformance-subworkflow-child", json!({}), 0, nothing),
        ("conformance-subworkflow-input-mapping-child", json!({}), 0, nothing),
        ("conformance-subworkflow-input-mapping", json!({}), 0, |world| {
            let (_, child) = world.children()[0].clone();
            assert_eq!(world.snapshot(child.as_str())["variables"]["receivedPrdId"], "prd-1");
        }),
        ("conformance-subworkflow-input-mapping-no-default", json!({}), 0, |world| {
            let (_, child) = world.children()[0].clone();
            assert!(
                !world.snapshot(child.as_str())["variables"]
                    .as_object()
                    .unwrap()
                    .contains_key("receivedPrdId")
            );
        }),
        ("conformance-dispatch-loop", json!({}), 0, |world| {
            let decided = world.find(EventKind::OrchestratorDecided);
            let kinds: Vec<Value> =
                decided.iter().map(|event| event.payload()["decision"]["kind"].clone()).collect();
            assert_eq!(kinds, ["next-worker", "terminate"]);
        }),
        ("conformance-dispatch-input-mapping-child", json!({}), 0, nothing),
        ("conformance-dispatch-input-mapping", json!({}), 0, |world| {
            let (_, child) = world.children()[0].clone();
            assert_eq!(world.snapshot(child.as_str())["inputs"]["childGreeting"], "Alice");
        }),
        ("conformance-dispatch-input-mapping-no-default", json!({}), 0, |world| {
            let (_, child) = world.children()[0].clone();
            assert!(world.snapshot(child.as_str())["inputs"].get("childGreeting").is_none());
        }),
        ("conformance-dispatch-output-mapping-child", json!({}), 0, nothing),
        ("conformance-dispatch-output-mapping", json!({}), 0, |world| {
            assert_eq!(world.snapshot("r")["variables"]["parentResult"], "done");
        }),
        ("conformance-dispatch-cross-worker-handoff-child-a", json!({}), 0, nothing),
        ("conformance-dispatch-cross-worker-handoff-child-b", json!({}), 0, nothing),
        ("conformance-dispatch-cross-worker-handoff", json!({}), 0, |world| {
            let (_, child) = world.children()[1].clone();
            assert_eq!(world.snapshot(child.as_str())["inputs"]["input"], "hello");
        }),
        ("conformance-dispatch-per-worker-override", json!({}), 0, |world| {
            let inputs: Vec<Value> = world
                .children()
                .iter()
                .map(|(_, child)| world.snapshot(child.as_str())["inputs"]["input"].clone())
                .collect();
            assert_eq!(inputs, ["default-x-value", "shared-value"]);
        }),
        ("conformance-orchestrator-dispatch", json!({}), 0, |world| {
            assert!(world.snapshot("r")["runOrchestrator"]["agentId"].is_string());
        }),
        ("conformance-orchestrator-terminate", json!({}), 0, |world| {
            assert_eq!(world.find(EventKind::OrchestratorDecided).len(), 1);
        }),
        ("conformance-multi-agent-handoff-child", json!({}), 0, nothing),
        ("conformance-multi-agent-handoff", json!({}), 0, |world| {
            let chain = world.find(EventKind::WorkflowChainEvent);
            let phases: Vec<Value> = chain.iter().map(|event| event.payload()["phase"].clone()).collect();
            assert_eq!(
                phases,
                ["dispatch.began", "dispatch.succeeded", "child.completed", "output.harvested"]
            );
            for pair in chain.windows(2) {
                let cause = flow::event::event_id(&RunId::new("r"), pair[0].sequence);
                assert_eq!(pair[1].causation_id.as_deref(), Some(cause.as_str()));
            }
            assert_eq!(world.snapshot("r")["variables"]["parentResult"], "handoff-complete");
        }),
        ("openwop-smoke-cost-emit", json!({}), 0, |world| {
            assert_eq!(
                world.snapshot("r")["metrics"]["openwopCost"]["tokens"],
                json!({"input": 100, "output": 50})
            );
            assert!(!format!("{:?}", world.run().events).contains("CANARY"));
        }),
        ("openwop-smoke-byok-roundtrip", json!({}), 0, |world| {
            assert_eq!(world.snapshot("r")["variables"]["resolve-secret"]["secretLength"], 9);
        }),
    ];
    for (id, inputs, wait, check) in cases {
        let Some(mut world) = world() else { return };
        let secret = json!({"secretSha256": "0".repeat(64), "secretLength": 9});
        world.outcomes.insert(NodeId::new("resolve-secret"), [Ok(secret)].into());
        world.create_with(id, inputs, json!({}));
        if wait > 0 {
            assert_eq!(world.status(), RunStatus::Running, "{id}");
            world.pass(wait);
        }
        assert_eq!(world.status(), RunStatus::Completed, "{id}: {:#?}", world.run().state.error);
        check(&mut world);
    }
}

/// Fixtures that fail, with their error code.
#[test]
fn fixtures_that_fail() {
    let cases = [
        ("conformance-failure", json!({}), 0, "conformance_test_failure"),
        ("conformance-dispatch-deterministic-fail-child", json!({}), 0, "hvmap_1b_failed_fixture"),
        ("conformance-cap-breach", json!({"recursionLimit": 3}), 0, "recursion_limit_exceeded"),
        ("conformance-run-duration-breach", json!({"runTimeoutMs": 1000}), 1000, "run_timeout"),
        ("conformance-capability-missing", json!({}), 0, "capability_not_provided"),
        ("conformance-model-capability-insufficient", json!({}), 0, "capability_not_provided"),
    ];
    for (id, configurable, wait, code) in cases {
        let Some(mut world) = world() else { return };
        world.create_with(id, json!({}), configurable);
        world.pass(wait);
        assert_eq!(world.status(), RunStatus::Failed, "{id}");
        assert_eq!(world.snapshot("r")["error"]["code"], code, "{id}");
        match id {
            "conformance-cap-breach" => {
                let breach = &world.find(EventKind::CapBreached)[0].payload();
                assert_eq!(
                    (&breach["kind"], &breach["limit"], &breach["nodeId"]),
                    (&json!("node-executions"), &json!(3), &json!("n4"))
                );
                assert_eq!(world.find(EventKind::NodeStarted).len(), 3);
            }
            "conformance-capability-missing" => {
                assert!(
                    world.snapshot("r")["error"]["message"]
                        .as_str()
                        .unwrap()
                        .contains("conformance.never-provided")
                );
                assert!(world.find(EventKind::NodeStarted).is_empty());
            }
            "conformance-model-capability-insufficient" => assert_eq!(
                world.kinds(),
                ["run.started", "model.capability.insufficient", "node.failed", "run.failed"]
            ),
            _ => {}
        }
    }
}

/// Fixtures that wait: the status, the node, an answer, and the status after it.
#[test]
fn fixtures_that_wait() {
    use RunStatus::{Completed, Failed, WaitingApproval, WaitingExternal, WaitingInput};
    let order = json!({"orderId": "fixture-order-1", "status": "completed"});
    let cases = [
        ("conformance-approval", WaitingApproval, "gate", json!({"action": "accept"}), Completed),
        ("conformance-approval", WaitingApproval, "gate", json!({"action": "reject"}), Failed),
        (
            "conformance-interrupt-auth-required",
            WaitingApproval,
            "gate",
            json!({"action": "accept"}),
            Completed,
        ),
        (
            "conformance-interrupt-parent-child-cancel-child",
            WaitingApproval,
            "child-gate",
            json!({"action": "accept"}),
            Completed,
        ),
        (
            "conformance-subworkflow-mid-run-mutation-child",
            WaitingApproval,
            "child-gate",
            json!({"action": "accept"}),
            Completed,
        ),
        ("conformance-clarification", WaitingInput, "ask", json!({"answers": {"q1": "blue"}}), Completed),
        (
            "conformance-clarification",
            WaitingInput,
            "ask",
            json!({"answers": [{"id": "q1", "answer": "blue"}]}),
            Completed,
        ),
        (
            "conformance-interrupt-external-event",
            WaitingExternal,
            "wait-for-external",
            order.clone(),
            Completed,
        ),
        (
            "conformance-interrupt-external-event",
            WaitingExternal,
            "wait-for-external",
            json!({"eventPayload": order}),
            Completed,
        ),
        (
            "conformance-agent-low-confidence",
            WaitingApproval,
            "low-conf-decider",
            json!({"action": "accept"}),
            Completed,
        ),
        (
            "conformance-agent-low-confidence",
            WaitingApproval,
            "low-conf-decider",
            json!({"action": "reject"}),
            Failed,
        ),
        (
            "conformance-orchestrator-low-confidence",
            WaitingApproval,
            "supervisor",
            json!({"action": "accept"}),
            WaitingApproval,
        ),
        (
            "conformance-multi-agent-confidence-escalation",
            WaitingInput,
            "dispatch",
            json!({"answers": {"proceed": "yes"}}),
            Completed,
        ),
        (
            "conformance-multi-agent-confidence-escalation",
            WaitingInput,
            "dispatch",
            json!({"answers": {"proceed": "no"}}),
            Completed,
        ),
        (
            "conformance-conversation-capability-negotiation",
            WaitingApproval,
            "convo",
            json!({"action": "close"}),
            Completed,
        ),
    ];
    for (id, waiting, node, answer, after) in cases {
        let Some(mut world) = world() else { return };
        world.create(id);
        assert_eq!(world.status(), waiting, "{id}");
        let snapshot = world.snapshot("r");
        assert_eq!(
            (&snapshot["currentNodeId"], &snapshot["interrupt"]["nodeId"]),
            (&json!(node), &json!(node))
        );
        assert!(
            world.find(EventKind::OrchestratorDecided).is_empty() || !id.contains("orchestrator"),
            "{id}"
        );
        if id.contains("escalation") {
            assert_eq!(world.find(EventKind::ConfidenceEscalated).len(), 1);
            assert!(world.find(EventKind::WorkflowChainEvent).is_empty());
        }
        world.resolve(node, answer).unwrap();
        assert_eq!(world.status(), after, "{id}");
        let started = id.contains("escalation") && world.find(EventKind::WorkflowChainEvent).len() == 3;
        assert_eq!(started, world.children().len() == 1 && id.contains("escalation"), "{id}");
    }
}

#[test]
fn a_quorum_of_three() {
    use RunStatus::{Completed, Failed, WaitingApproval};
    let cases: [(&[(&str, &str)], RunStatus); 6] = [
        (&[("a", "accept"), ("b", "accept")], WaitingApproval),
        (&[("a", "accept"), ("b", "accept"), ("c", "accept")], Completed),
        (&[("a", "accept"), ("a", "accept"), ("a", "accept")], WaitingApproval),
        (&[("a", "reject")], WaitingApproval),
        (&[("a", "reject"), ("b", "reject")], Failed),
        (&[("a", "reject"), ("a", "accept"), ("b", "accept"), ("c", "accept")], Completed),
    ];
    for (votes, after) in cases {
        let Some(mut world) = world() else { return };
        world.create("conformance-interrupt-quorum");
        for (voter, action) in votes {
            let added = world.resolve("gate", json!({"action": action, "voter": voter})).unwrap();
            assert!(
                added.iter().any(|event| event.kind() == EventKind::ApprovalReceived),
                "each vote is recorded"
            );
        }
        assert_eq!(world.status(), after, "{votes:?}");
        if after == Failed {
            assert_eq!(world.snapshot("r")["error"]["code"], "interrupt_rejected");
        }
    }
}

#[test]
fn cancelling_a_parent_cancels_its_child() {
    let Some(mut world) = world() else { return };
    world.create("conformance-interrupt-parent-child-cancel");
    let (_, child) = world.children()[0].clone();
    assert_eq!(world.runs[&child].state.status, RunStatus::WaitingApproval);
    assert_eq!(world.snapshot("r")["childRuns"][0]["runId"], child.as_str());
    world
        .give(
            "r",
            Input::Cancel { reason: Some("enough".into()), by: Principal::new("me"), parent_run_id: None },
        )
        .unwrap();
    let cancelled = world.runs[&child].events.last().unwrap();
    assert_eq!(
        (&cancelled.payload()["reason"], &cancelled.payload()["parentRunId"]),
        (&json!("parent-cancelled"), &json!("r"))
    );
    let late = world.resolve_as(child.as_str(), "child-gate", json!({"action": "accept"}), "me", Via::Key);
    assert_eq!(late, Err(Refusal::InterruptGone));
    let own = world.run().events.last().unwrap();
    assert_eq!((own.payload().get("parentRunId"), &own.payload()["reason"]), (None, &json!("enough")));
}

#[test]
fn a_cancelled_delay() {
    let Some(mut world) = world() else { return };
    world.create("conformance-cancellable");
    world.give("r", Input::Cancel { reason: None, by: Principal::new("me"), parent_run_id: None }).unwrap();
    assert_eq!(world.kinds(), ["run.started", "node.started", "node.cancelled", "run.cancelled"]);
    assert!(world.timers.is_empty(), "nothing wakes a run that is over");
}

#[test]
fn a_child_keeps_its_initial_inputs() {
    let Some(mut world) = world() else { return };
    world.create("conformance-subworkflow-mid-run-mutation");
    let (_, child) = world.children()[0].clone();
    assert_eq!(world.status(), RunStatus::WaitingApproval);
    world.give("r", Input::Recover).unwrap();
    world.resolve_as(child.as_str(), "child-gate", json!({"action": "accept"}), "me", Via::Key).unwrap();
    assert_eq!(world.snapshot(child.as_str())["variables"]["receivedPrdId"], "seeded-id");
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(world.started.len(), 2, "a restart asks again for what is under way");
}
