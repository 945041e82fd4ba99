//! Valid answers, invalid answers, and missing answers.

use flow::engine::{Input, Refusal};
use flow::event::EventKind;
use flow::id::{InterruptId, NodeId, Principal};
use flow::interrupt::{ANONYMOUS, Via};
use flow::run::RunStatus;
use serde_json::{Value, json};

use crate::driver::{World, workflow};

fn one(kind: &str, config: Value) -> World {
    let mut world = World::new(&[workflow("w", &[("n", kind, config)], &[])]);
    world.create("w");
    world
}

enum Expected {
    Bad,
    Semantic,
    Forbidden,
    Taken(RunStatus),
}

#[test]
fn answers_and_what_follows() {
    use Expected::{Bad, Forbidden, Semantic, Taken};
    use RunStatus::{Completed, Failed, WaitingApproval, WaitingInput};
    let gate = "core.approvalGate";
    let all = json!({"actions": ["accept", "reject", "refine", "edit-accept", "ask"]});
    let listed = json!({"approversList": ["ann"]});
    let question =
        json!({"questions": [{"id": "q", "question": "How many?", "schema": {"type": "integer"}}]});
    let custom = json!({"kind": "custom", "data": {"customKind": "x"}, "resumeSchema": {"required": ["ok"]}});
    let event = json!({"kind": "external-event", "data": {"eventType": "e", "correlation": {"id": 7}}});
    let cases = [
        (gate, json!({}), json!({"action": "accept"}), Taken(Completed)),
        (gate, json!({}), json!({"action": "refine"}), Bad),
        (gate, json!({}), json!({"action": "dance"}), Bad),
        (gate, json!({}), json!("accept"), Bad),
        (gate, json!({}), json!({}), Bad),
        (gate, json!({}), json!({"decision": "approved"}), Taken(Completed)),
        (gate, json!({}), json!({"decision": "rejected"}), Taken(Failed)),
        (gate, all.clone(), json!({"decision": "rejected", "feedback": "shorter"}), Taken(Completed)),
        (gate, all.clone(), json!({"action": "refine"}), Bad),
        (
            gate,
            all.clone(),
            json!({"action": "refine", "refineFeedback": {"scope": "whole"}}),
            Taken(Completed),
        ),
        (gate, all.clone(), json!({"action": "edit-accept"}), Bad),
        (gate, all.clone(), json!({"action": "edit-accept", "editedArtifactData": {}}), Taken(Completed)),
        (gate, all, json!({"action": "ask", "feedback": "why?"}), Taken(WaitingApproval)),
        (gate, listed.clone(), json!({"action": "accept", "voter": "bob"}), Forbidden),
        (gate, listed, json!({"action": "accept", "voter": "ann"}), Taken(Completed)),
        ("core.clarificationGate", question.clone(), json!({"answers": {}}), Bad),
        ("core.clarificationGate", question.clone(), json!({"answers": {"q": "three"}}), Bad),
        ("core.clarificationGate", question.clone(), json!({"answers": {"q": null}}), Bad),
        ("core.clarificationGate", question, json!({"answers": {"q": 3}}), Taken(Completed)),
        ("core.interrupt", custom.clone(), json!({}), Bad),
        ("core.interrupt", custom.clone(), json!({"ok": 1}), Taken(Completed)),
        ("core.interrupt", event.clone(), json!({"id": 8}), Semantic),
        ("core.interrupt", event.clone(), json!({}), Semantic),
        ("core.interrupt", event, json!({"id": 7, "more": true}), Taken(Completed)),
        (
            "core.openwop.governance.approvalGate",
            json!({"requiredRole": "approver"}),
            json!({"action": "accept"}),
            Taken(Completed),
        ),
        (
            "core.openwop.governance.approvalGate",
            json!({"requiredRole": "board"}),
            json!({"action": "accept"}),
            Forbidden,
        ),
        ("core.openwop.governance.approvalGate", json!({}), json!({"action": "reject"}), Taken(Failed)),
        (
            "core.openwop.governance.approvalGate",
            json!({}),
            json!({"action": "override", "reason": "x"}),
            Bad,
        ),
        (
            "core.openwop.governance.approvalGate",
            json!({"override": {"requiredRole": "approver"}}),
            json!({"action": "override"}),
            Bad,
        ),
        (
            "core.openwop.governance.approvalGate",
            json!({"quorum": 2, "override": {"requiredRole": "approver"}, "overrideBypassesQuorum": true}),
            json!({"action": "override", "reason": "fire"}),
            Taken(Completed),
        ),
        (
            "core.openwop.governance.approvalGate",
            json!({"quorum": 2}),
            json!({"action": "accept"}),
            Taken(WaitingApproval),
        ),
    ];
    assert_ne!(WaitingInput, WaitingApproval);
    for (kind, config, answer, expected) in cases {
        let name = format!("{kind} {config} {answer}");
        let mut world = one(kind, config);
        let waiting = world.status();
        let taken = world.resolve("n", answer);
        match expected {
            Bad => {
                assert!(
                    matches!(taken, Err(Refusal::BadAnswer { semantic: false, .. })),
                    "{name}: {taken:?}"
                );
            }
            Semantic => {
                assert!(matches!(taken, Err(Refusal::BadAnswer { semantic: true, .. })), "{name}: {taken:?}");
            }
            Forbidden => assert!(matches!(taken, Err(Refusal::Forbidden { .. })), "{name}: {taken:?}"),
            Taken(after) => {
                taken.unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
                assert_eq!(world.status(), after, "{name}");
                continue;
            }
        }
        assert_eq!(world.status(), waiting, "{name}: it still waits");
    }
}

#[test]
fn the_status_of_a_run_shows_what_it_waits_for() {
    use RunStatus::{WaitingApproval, WaitingExternal, WaitingInput};
    let asked = |kind: &str, data: Value| json!({"kind": kind, "data": data});
    let cases = [
        ("core.interrupt", json!({"kind": "approval"}), "approval", WaitingApproval),
        (
            "core.interrupt",
            asked("clarification", json!({"questions": [{"id": "q", "question": "?"}]})),
            "clarification",
            WaitingInput,
        ),
        (
            "core.interrupt",
            asked("external-event", json!({"eventType": "e", "correlation": {"id": 7}})),
            "external-event",
            WaitingExternal,
        ),
        ("core.interrupt", asked("custom", json!({"customKind": "x"})), "custom", WaitingInput),
        ("core.conversationGate", json!({}), "conversation.exchange", WaitingApproval),
        ("core.conformance.mock-agent", json!({"mockConfidence": 0.1}), "low-confidence", WaitingApproval),
    ];
    for (type_id, config, kind, status) in cases {
        let world = one(type_id, config);
        assert_eq!(world.status(), status, "{kind}");
        let requested = &world.find(EventKind::InterruptRequested)[0];
        assert_eq!(
            (&requested.payload()["kind"], &requested.node_id),
            (&json!(kind), &Some(NodeId::new("n")))
        );
        for member in ["interruptId", "key", "requestedAt", "data"] {
            assert!(requested.payload().contains_key(member), "{kind}: {member}");
        }
        let shown = &world.snapshot("r")["interrupt"];
        assert_eq!((&shown["kind"], &shown["nodeId"]), (&json!(kind), &json!("n")));
        assert_eq!(shown["data"], requested.payload()["data"], "{kind}");
    }
}

#[test]
fn one_rejection_is_a_veto_unless_the_policy_is_majority() {
    use RunStatus::{Failed, WaitingApproval};
    for (policy, required, after) in [
        (json!(null), 2, vec![Failed]),
        (json!("single-veto"), 3, vec![Failed]),
        (json!("majority"), 2, vec![WaitingApproval, Failed]),
        (json!("majority"), 4, vec![WaitingApproval, WaitingApproval, Failed]),
    ] {
        let mut config = json!({"requiredApprovals": required});
        if !policy.is_null() {
            config["rejectionPolicy"] = policy.clone();
        }
        let mut world = one("core.approvalGate", config);
        for (voter, status) in after.into_iter().enumerate() {
            let vote = json!({"action": "reject", "voter": voter.to_string()});
            let events = world.resolve("n", vote).unwrap();
            let vote = events.iter().find(|event| event.kind() == EventKind::ApprovalReceived).unwrap();
            assert_eq!(vote.payload()["decidedBy"], voter.to_string(), "a vote has its voter");
            assert!(vote.payload()["decidedAt"].is_string() && vote.payload()["action"] == "reject");
            assert_eq!(world.status(), status, "{policy} of {required} after {voter}");
        }
    }
}

/// Finding H1: the votes of a token and of a key count as two only if two principals cast them.
#[test]
fn one_principal_has_one_vote_however_it_is_cast() {
    let key = |by: &'static str| (by, Via::Key, None);
    let token = |by: &'static str| (by, Via::Token, None);
    // The votes in order at gates that require two approvals, and whether the last one closes them.
    let cases = [
        ("two keys", vec![key("ann"), key("ben")], true),
        ("a key twice", vec![key("ann"), key("ann")], false),
        ("a token and a key of two principals", vec![token("ann"), key("ben")], true),
        ("a token and a key of one principal", vec![token("ann"), key("ann")], false),
        ("a key and a token of one principal", vec![key("ann"), token("ann")], false),
        ("two tokens of one principal", vec![token("ann"), token("ann")], false),
        ("an anonymous token first", vec![token(ANONYMOUS), key("ann")], false),
        ("an anonymous token second", vec![key("ann"), token(ANONYMOUS)], false),
        ("an anonymous token twice", vec![token(ANONYMOUS), token(ANONYMOUS)], false),
        ("an anonymous token beside two", vec![token(ANONYMOUS), key("ann"), key("ben")], true),
        (
            "a token that names others",
            vec![("ann", Via::Token, Some("ben")), ("ann", Via::Token, Some("cy"))],
            false,
        ),
    ];
    for (name, votes, opens) in cases {
        let governed = json!({"quorum": 2});
        for (gate, config) in [
            ("core.approvalGate", json!({"requiredApprovals": 2})),
            ("core.openwop.governance.approvalGate", governed),
        ] {
            let mut world = one(gate, config);
            for (by, via, voter) in &votes {
                let mut answer = json!({"action": "accept"});
                if let Some(voter) = voter {
                    answer["voter"] = (*voter).into();
                }
                let events = world.resolve_as("r", "n", answer, by, *via).unwrap();
                let vote = events.iter().find_map(|event| {
                    let payload = event.payload();
                    payload.get("decidedBy").or_else(|| payload.get("principal")).cloned()
                });
                assert_eq!(vote, Some(json!(by)), "{gate}, {name}: the record names who voted");
            }
            let expected = if opens { RunStatus::Completed } else { RunStatus::WaitingApproval };
            assert_eq!(world.status(), expected, "{gate}, {name}");
        }
    }
}

/// Finding H1: if one vote suffices, an anonymous token still decides, and its rejection is still a veto.
#[test]
fn an_anonymous_token_decides_if_one_vote_suffices() {
    for (required, action, status) in [
        (1, "accept", RunStatus::Completed),
        (1, "reject", RunStatus::Failed),
        (2, "reject", RunStatus::Failed),
    ] {
        let mut world = one("core.approvalGate", json!({"requiredApprovals": required}));
        world.resolve_as("r", "n", json!({"action": action}), ANONYMOUS, Via::Token).unwrap();
        assert_eq!(world.status(), status, "{action} of {required}");
    }
}

/// Finding H1: a listed name in the body does not help the token of a person who is not listed.
#[test]
fn a_token_votes_as_its_holder_at_a_gate_with_a_list() {
    let mut world = one("core.approvalGate", json!({"approversList": ["ann"]}));
    let as_ann = json!({"action": "accept", "voter": "ann"});
    let refused = world.resolve_as("r", "n", as_ann.clone(), "ben", Via::Token);
    assert!(matches!(refused, Err(Refusal::Forbidden { .. })));
    world.resolve_as("r", "n", as_ann, "ann", Via::Token).unwrap();
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn a_decision_at_the_threshold_is_accepted() {
    for (confidence, threshold, is_final) in [
        (json!(0.7), None, true),
        (json!(0.69), None, false),
        (json!(0.69), Some(0.69), true),
        (json!(0.9), Some(0.95), false),
        (json!(null), None, true),
    ] {
        let plan = json!([{"kind": "terminate"}]);
        let mut config = json!({"mockDispatchPlan": plan});
        if !confidence.is_null() {
            config["mockConfidence"] = confidence.clone();
        }
        let nodes = [("s", "core.orchestrator.supervisor", config), ("d", "core.dispatch", json!({}))];
        let mut world = World::new(&[workflow("w", &nodes, &[("s", "d"), ("d", "s")])]);
        let options = threshold.map_or(json!({}), |threshold| json!({"escalationThreshold": threshold}));
        world.create_with("w", json!({}), options);
        let decided = !world.find(EventKind::OrchestratorDecided).is_empty();
        assert_eq!((decided, world.status() == RunStatus::Completed), (is_final, is_final), "{confidence}");
        if !is_final {
            let payload = &world.find(EventKind::NodeSuspended)[0].payload();
            assert_eq!(payload["reason"], "low-confidence");
            assert_eq!(
                (&payload["observed"], &payload["threshold"]),
                (&confidence, &json!(threshold.unwrap_or(0.7)))
            );
        }
    }
}

#[test]
fn a_token_cannot_answer_an_interrupt_that_requires_a_key() {
    let mut world = one("core.approvalGate", json!({"profile": "openwop-interrupt-auth-required"}));
    let by_token = world.resolve_as("r", "n", json!({"action": "accept"}), "alice", Via::Token);
    assert!(matches!(by_token, Err(Refusal::Forbidden { .. })));
    world.resolve("n", json!({"action": "accept"})).unwrap();
}

#[test]
fn missing_and_closed_interrupts_cannot_be_answered() {
    let mut world = World::new(&[workflow(
        "w",
        &[("n", "core.approvalGate", json!({})), ("m", "core.noop", json!({}))],
        &[],
    )]);
    world.create("w");
    let accept = || json!({"action": "accept"});
    assert_eq!(world.resolve("x", accept()), Err(Refusal::NoInterrupt));
    assert_eq!(world.resolve("m", accept()), Err(Refusal::NoInterrupt));
    world.resolve("n", accept()).unwrap();
    assert_eq!(world.resolve("n", accept()), Err(Refusal::AlreadyResolved));
}

#[test]
fn interrupts_time_out() {
    let cases = [
        ("core.approvalGate", json!({"timeoutMs": 100}), "interrupt_rejected"),
        ("core.openwop.governance.approvalGate", json!({"timeoutSec": 0.1}), "interrupt_rejected"),
        (
            "core.clarificationGate",
            json!({"questions": [{"id": "q", "question": "?"}], "timeoutMs": 100}),
            "interrupt_timeout",
        ),
        (
            "core.interrupt",
            json!({"kind": "custom", "data": {"customKind": "x"}, "timeoutMs": 100}),
            "interrupt_timeout",
        ),
    ];
    for (kind, config, code) in cases {
        let mut world = one(kind, config);
        world.pass(99);
        assert!(world.status().is_waiting());
        world.pass(1);
        assert_eq!(world.snapshot("r")["error"]["code"], code, "{kind}");
        let resolved = &world.find(EventKind::InterruptResolved)[0].payload();
        assert_eq!((&resolved["outcome"], &resolved["reason"]), (&json!("rejected"), &json!("timeout")));
        assert_eq!(world.resolve("n", json!({"action": "accept"})), Err(Refusal::AlreadyResolved));
    }
}

#[test]
fn a_rejection_follows_a_conditional_edge() {
    let mut document = workflow(
        "w",
        &[
            ("draft", "core.noop", json!({})),
            ("gate", "core.approvalGate", json!({})),
            ("done", "core.noop", json!({})),
        ],
        &[("draft", "gate"), ("gate", "draft"), ("gate", "done")],
    );
    document["edges"][1]["condition"] = json!({"type": "equals", "left": "output.action", "right": "reject"});
    document["edges"][2]["condition"] = json!({"type": "equals", "left": "output.action", "right": "accept"});
    let mut world = World::new(&[document]);
    world.create("w");
    let first = world.run().state.interrupts["gate"].id.clone();
    world.resolve("gate", json!({"action": "reject"})).unwrap();
    assert_eq!(world.status(), RunStatus::WaitingApproval);
    assert_ne!(world.run().state.interrupts["gate"].id, first, "another question has another id");
    world.resolve("gate", json!({"action": "accept"})).unwrap();
    assert_eq!(world.status(), RunStatus::Completed);
    let begun: Vec<_> =
        world.find(EventKind::NodeStarted).iter().map(|event| event.node_id.clone().unwrap()).collect();
    assert_eq!(begun, ["draft", "gate", "draft", "gate", "done"]);
}

#[test]
fn a_gate_does_not_block_other_branches() {
    let document = workflow(
        "w",
        &[
            ("gate", "core.approvalGate", json!({})),
            ("d", "core.delay", json!({"ms": 5})),
            ("n", "core.noop", json!({})),
        ],
        &[("d", "n")],
    );
    let mut world = World::new(&[document]);
    world.create("w");
    assert_eq!(world.status(), RunStatus::Running, "something works still");
    world.pass(5);
    assert_eq!(world.status(), RunStatus::WaitingApproval);
    world.resolve("gate", json!({"action": "accept"})).unwrap();
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn a_conversation_continues_until_it_is_closed() {
    let mut world = one("core.conversationGate", json!({"prompt": "Hello", "schema": {"type": "string"}}));
    assert_eq!(world.find(EventKind::NodeSuspended)[0].payload()["reason"], "conversation-input");
    assert!(matches!(world.resolve("n", json!({"content": 5})), Err(Refusal::BadAnswer { .. })));
    world.resolve("n", json!({"content": "one"})).unwrap();
    world.resolve("n", json!({"content": "two"})).unwrap();
    assert_eq!(world.status(), RunStatus::WaitingApproval);
    world.resolve("n", json!({"action": "close"})).unwrap();
    assert_eq!(
        world.shape("r")[2..],
        [
            "conversation.opened n",
            "node.suspended n",
            "interrupt.requested n",
            "conversation.exchanged n",
            "conversation.exchanged n",
            "interrupt.resolved n",
            "conversation.closed n",
            "node.resumed n",
            "node.completed n",
            "run.completed",
        ]
    );
    let turns: Vec<Value> = world
        .find(EventKind::ConversationExchanged)
        .iter()
        .map(|event| event.payload()["turnIndex"].clone())
        .collect();
    assert_eq!(turns, [1, 2]);
}

#[test]
fn a_conversation_closes_at_its_turn_limit() {
    let mut world = one("core.conversationGate", json!({"turnCount": 2}));
    world.resolve("n", json!({"content": "one"})).unwrap();
    assert_eq!(world.status(), RunStatus::WaitingApproval);
    world.resolve("n", json!({"content": "two"})).unwrap();
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(world.find(EventKind::ConversationExchanged).len(), 2);
}

#[test]
fn the_events_of_an_approval_are_in_order() {
    let mut world = one("core.approvalGate", json!({}));
    world.resolve("n", json!({"action": "accept", "comment": "fine"})).unwrap();
    assert_eq!(
        world.shape("r"),
        [
            "run.started",
            "node.started n",
            "node.suspended n",
            "interrupt.requested n",
            "approval.requested n",
            "interrupt.resolved n",
            "approval.received n",
            "node.resumed n",
            "node.completed n",
            "run.completed",
        ]
    );
    let received = &world.find(EventKind::ApprovalReceived)[0].payload();
    assert_eq!((&received["decidedBy"], &received["comment"]), (&json!("somebody"), &json!("fine")));
}

#[test]
fn a_gate_shows_its_inputs_without_sensitive_ones() {
    let port = |name: &str| json!({"type": "variable", "variableName": name});
    for (config, shown) in [
        (json!({}), json!({"notes": "all is well", "key": "[REDACTED]", "sum": "[REDACTED]"})),
        (json!({"artifactData": {"notes": "chosen"}}), json!({"notes": "chosen"})),
    ] {
        let mut document = workflow("w", &[("gate", "core.approvalGate", config)], &[]);
        document["variables"] = json!([
            {"name": "notes", "type": "string", "defaultValue": "all is well"},
            {"name": "key", "type": "string", "defaultValue": "sesame", "sensitive": true},
        ]);
        let sum = json!({"type": "expression", "expression": "variables.key"});
        document["nodes"][0]["inputs"] = json!({"notes": port("notes"), "key": port("key"), "sum": sum});
        let mut world = World::new(&[document]);
        let run = world.create("w");
        let asked = run.events.iter().find(|event| event.kind() == EventKind::InterruptRequested);
        assert_eq!(asked.unwrap().payload()["data"]["artifactData"], shown);
    }
}

#[test]
fn a_repeated_external_event_is_recognized_and_does_not_answer_the_next_interrupt() {
    let event = json!({"kind": "external-event", "data": {"eventType": "e", "correlation": {"id": 7}}});
    let nodes = [("n", "core.interrupt", event), ("m", "core.noop", json!({}))];
    let mut world = World::new(&[workflow("w", &nodes, &[("n", "m"), ("m", "n")])]);
    world.create("w");
    let open = |world: &World| world.run().state.interrupts["n"].id.clone();
    let resolve = |world: &mut World, id: &str, value: &Value| {
        let input = Input::Resolve {
            node_id: NodeId::new("n"),
            interrupt_id: Some(InterruptId::new(id)),
            resume_value: value.clone(),
            by: Principal::new("alice"),
            grants: Vec::new(),
            via: Via::Token,
        };
        world.give("r", input)
    };
    let first = open(&world);
    let (given, other) = (json!({"id": 7, "n": 1.0}), json!({"id": 7, "n": 2}));
    resolve(&mut world, first.as_str(), &given).unwrap();
    // The loop was restarted: the same node waits for the next event.
    let second = open(&world);
    assert_ne!(first, second);
    assert_eq!(resolve(&mut world, first.as_str(), &given), Err(Refusal::AlreadyResolved));
    assert_eq!(open(&world), second);
    let known = |world: &World, id: Option<&InterruptId>, value: &Value| {
        world.run().state.was_delivered(&NodeId::new("n"), id, value)
    };
    assert!(known(&world, Some(&first), &json!({"n": 1, "id": 7})), "the same in another spelling");
    for (id, value) in [(Some(&first), &other), (Some(&second), &given), (None, &given)] {
        assert!(!known(&world, id, value), "{id:?} {value}");
    }
    resolve(&mut world, second.as_str(), &other).unwrap();
    assert!(known(&world, Some(&first), &given) && known(&world, Some(&second), &other));
    assert!(!world.run().state.was_delivered(&NodeId::new("nowhere"), None, &given));
}

#[test]
fn answers_that_are_not_external_events_are_not_deliveries() {
    let event =
        json!({"kind": "external-event", "data": {"eventType": "e", "correlation": {}}, "timeoutMs": 50});
    let custom = json!({"kind": "custom", "data": {"customKind": "x"}});
    let mut late = one("core.interrupt", event.clone());
    late.pass(50);
    let mut cancelled = one("core.interrupt", event);
    cancelled
        .give("r", Input::Cancel { reason: None, by: Principal::new("me"), parent_run_id: None })
        .unwrap();
    let mut another = one("core.interrupt", custom);
    another.resolve("n", Value::Null).unwrap();
    for world in [late, cancelled, another] {
        assert!(world.status().is_terminal());
        assert!(!world.run().state.was_delivered(&NodeId::new("n"), None, &Value::Null));
    }
}
