//! The recorded scenarios.

use flow::engine::{Deliverable, DrainPolicy, GuideResult, Input};
use flow::id::{NodeId, Principal, WorkflowId};
use flow::interrupt::Via;
use flow::run::RunStatus;
use serde_json::{Value, json};

use crate::driver::{World, workflow};

/// A run to record: its name, its workflows, and its inputs.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) world: fn() -> World,
    pub(super) play: fn(&mut World),
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "chain",
        world: chain,
        play: |world| {
            world.create_with("chain", json!({"who": "Ada"}), json!({}));
        },
    },
    Scenario {
        name: "branches",
        world: branches,
        play: |world| {
            world.create("branches");
        },
    },
    Scenario {
        name: "delay-and-retry",
        world: delay_and_retry,
        play: |world| {
            world.create("delay-and-retry");
            world.pass(10_000);
        },
    },
    Scenario {
        name: "approval-quorum",
        world: approval_quorum,
        play: |world| {
            world.create("approval-quorum");
            for (voter, action) in [("ada", "reject"), ("ben", "accept"), ("cy", "ask"), ("cy", "accept")] {
                world.pass(1000);
                world
                    .resolve_as("r", "gate", json!({"action": action, "comment": "seen"}), voter, Via::Key)
                    .unwrap();
            }
        },
    },
    Scenario {
        name: "clarification",
        world: clarification,
        play: |world| {
            world.create("clarification");
            world.pass(500);
            world.resolve("ask", json!({"answers": {"colour": "red"}})).unwrap_err();
            world.resolve("ask", json!({"answers": {"colour": "red", "size": 4}})).unwrap();
        },
    },
    Scenario {
        name: "sub-workflow",
        world: sub_workflow,
        play: |world| {
            world.create_with("sub-workflow", json!({"amount": 20}), json!({}));
        },
    },
    Scenario {
        name: "guided",
        world: guided,
        play: |world| {
            world.create("guided");
            let session_id = world.guides[0].session_id.clone();
            let node_id = || "review".to_owned();
            world
                .give(
                    "r",
                    Input::GuideStarted { node_id: NodeId::new(node_id()), session_id: session_id.clone() },
                )
                .unwrap();
            world.pass(60_000);
            let outputs = json!({"sessionId": session_id, "status": "complete", "summary": "Reviewed."});
            let notes = Deliverable {
                path: "notes.md".into(),
                bytes: 6,
                sha256: "sha256:00".into(),
                data: json!({"path": "notes.md", "text": "Notes\n"}),
            };
            let result =
                GuideResult { outputs: outputs.as_object().unwrap().clone(), deliverables: vec![notes] };
            world
                .give(
                    "r",
                    Input::GuideEnded { node_id: NodeId::new(node_id()), session_id, outcome: Ok(result) },
                )
                .unwrap();
        },
    },
    Scenario {
        name: "fan-out",
        world: fan_out,
        play: |world| {
            world.create("fan-out");
            let children = world.children();
            world.pass(100);
            world.end_child(children[1].1.as_str(), RunStatus::Failed, json!({}));
            world.pass(100);
            world.end_child(children[2].1.as_str(), RunStatus::Completed, json!({"found": "second"}));
            world.end_child(children[0].1.as_str(), RunStatus::Completed, json!({"found": "first"}));
        },
    },
    Scenario {
        name: "channels",
        world: channels,
        play: |world| {
            world.create("channels");
            world.pass(60_000);
        },
    },
    Scenario {
        name: "conversation",
        world: conversation,
        play: |world| {
            world.create("conversation");
            for content in ["a blue one", "by Friday"] {
                world.pass(2000);
                world.resolve("talk", json!({"content": content})).unwrap();
            }
            world.resolve("talk", json!({"action": "close"})).unwrap();
        },
    },
    Scenario {
        name: "cancel-cascade",
        world: cancel_cascade,
        play: |world| {
            world.create("cancel-cascade");
            world.pass(1000);
            let cancel = Input::Cancel {
                reason: Some("not needed".into()),
                by: Principal::new("ada"),
                parent_run_id: None,
            };
            world.give("r", cancel).unwrap();
        },
    },
    Scenario {
        name: "pause-and-resume",
        world: pause_and_resume,
        play: |world| {
            world.create("pause-and-resume");
            world.pass(100);
            let policy = DrainPolicy::Immediate;
            world.give("r", Input::Pause { reason: Some("maintenance".into()), policy }).unwrap();
            world.resolve("gate", json!({"action": "accept"})).unwrap();
            world.pass(5000);
            world.give("r", Input::Resume { reason: None }).unwrap();
        },
    },
    Scenario {
        name: "governance-override",
        world: governance,
        play: |world| {
            world.create("governance-override");
            world.resolve_as("r", "gate", json!({"action": "accept"}), "ada", Via::Key).unwrap();
            let reason = json!({"action": "override", "reason": "an emergency"});
            world.resolve_as("r", "gate", reason, "ben", Via::Key).unwrap();
        },
    },
    Scenario {
        name: "loop-limit",
        world: loop_limit,
        play: |world| {
            world.create("loop-limit");
        },
    },
    Scenario {
        name: "deadline",
        world: deadline,
        play: |world| {
            world.create("deadline");
            world.pass(60_000);
        },
    },
];

/// Child runs that are recorded separately: the scenario of the parent, the folder, and the workflow of the child.
pub(super) const CHILDREN: &[(&str, &str, &str)] =
    &[("sub-workflow", "sub-workflow-child", "doubled"), ("cancel-cascade", "cancel-cascade-child", "waits")];

fn chain() -> World {
    let mut document = workflow(
        "chain",
        &[
            ("begin", "core.start", json!({})),
            ("greet", "core.setVariable", json!({"name": "greeting"})),
            (
                "known",
                "core.conditional",
                json!({"expression": "variables.greeting != null && inputs.who == 'Ada'"}),
            ),
            ("last", "core.getVariable", json!({"name": "greeting"})),
            ("end", "core.end", json!({})),
        ],
        &[("begin", "greet"), ("greet", "known"), ("known", "last"), ("last", "end")],
    );
    document["nodes"][1]["inputs"] = json!({"value": {"type": "expression", "expression": "inputs.who"}});
    document["edges"][2]["sourceOutput"] = "true".into();
    document["variables"] = json!([
        {"name": "who", "type": "string", "required": true},
        {"name": "greeting", "type": "string"},
        {"name": "pin", "type": "string", "defaultValue": "0000", "sensitive": true},
    ]);
    World::new(&[document])
}

fn branches() -> World {
    let mut document = workflow(
        "branches",
        &[
            ("fork", "core.parallel", json!({})),
            ("left", "core.identity", json!({})),
            ("right", "core.fail", json!({"code": "no_stock", "message": "the shelf is empty"})),
            ("never", "core.noop", json!({})),
            ("mend", "core.noop", json!({})),
            ("either", "core.merge", json!({})),
            ("after", "core.merge", json!({})),
            ("clean", "core.noop", json!({})),
        ],
        &[
            ("fork", "left"),
            ("fork", "right"),
            ("left", "never"),
            ("right", "mend"),
            ("left", "either"),
            ("right", "either"),
            ("never", "after"),
            ("mend", "after"),
            ("right", "clean"),
        ],
    );
    document["nodes"][1]["inputs"] = json!({"count": {"type": "static", "value": 3}});
    document["nodes"][7]["disabled"] = true.into();
    document["edges"][2]["condition"] = json!({"type": "equals", "left": "output.count", "right": 4});
    for (edge, rule) in [
        (3, "any_failed"),
        (4, "any_success"),
        (5, "any_success"),
        (6, "all_complete"),
        (7, "all_complete"),
        (8, "all_complete"),
    ] {
        document["edges"][edge]["triggerRule"] = rule.into();
    }
    World::new(&[document])
}

fn delay_and_retry() -> World {
    let mut document = workflow(
        "delay-and-retry",
        &[
            ("wait", "core.delay", json!({"delayMs": 1500})),
            ("try", "core.fail", json!({"code": "flaky", "message": "not today"})),
            ("give-up", "core.noop", json!({})),
        ],
        &[("wait", "try"), ("try", "give-up")],
    );
    document["nodes"][1]["settings"] = json!({"maxRetries": 2});
    document["edges"][1]["triggerRule"] = "any_failed".into();
    World::new(&[document])
}

fn approval_quorum() -> World {
    let config = json!({
        "title": "Ship it?", "requiredApprovals": 2, "rejectionPolicy": "majority",
        "actions": ["accept", "reject", "ask"], "approversList": ["ada", "ben", "cy"], "timeoutMs": 60_000,
    });
    World::new(&[workflow(
        "approval-quorum",
        &[("gate", "core.approvalGate", config), ("ship", "core.noop", json!({}))],
        &[("gate", "ship")],
    )])
}

fn clarification() -> World {
    let questions = json!([
        {"id": "colour", "question": "Which colour?"},
        {"id": "size", "question": "Which size?", "schema": {"type": "integer"}},
    ]);
    World::new(&[workflow(
        "clarification",
        &[("ask", "core.clarificationGate", json!({"questions": questions})), ("end", "core.end", json!({}))],
        &[("ask", "end")],
    )])
}

fn sub_workflow() -> World {
    let config = json!({
        "workflowId": "doubled", "inputMapping": {"n": "amount", "note": "missing"}, "outputMapping": {"total": "n"},
    });
    let mut parent = workflow(
        "sub-workflow",
        &[("child", "core.subWorkflow", config), ("end", "core.end", json!({}))],
        &[("child", "end")],
    );
    parent["variables"] = json!([{"name": "amount", "type": "number"}, {"name": "total", "type": "number"}]);
    let mut child =
        workflow("doubled", &[("set", "core.setVariable", json!({"name": "n", "value": 40}))], &[]);
    child["variables"] = json!([
        {"name": "n", "type": "number", "required": true},
        {"name": "note", "type": "string", "defaultValue": "unsaid"},
    ]);
    World::new(&[parent, child])
}

fn fan_out() -> World {
    let plan =
        json!([{"kind": "next-worker", "nextWorkerIds": ["one", "two", "three", "four"], "confidence": 0.9}]);
    let join = json!({
        "fanOutPolicy": "parallel", "maxConcurrency": 4, "outputMapping": {"found": "found"},
        "joinPolicy": {"mode": "quorum", "quorum": 2, "onChildFailure": "absorb"},
    });
    let parent = workflow(
        "fan-out",
        &[
            ("lead", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
            ("send", "core.dispatch", join),
        ],
        &[("lead", "send"), ("send", "lead")],
    );
    let child = |id| workflow(id, &[("n", "core.noop", json!({}))], &[]);
    let mut world = World::new(&[parent, child("one"), child("two"), child("three"), child("four")]);
    world.by_hand = ["one", "two", "three", "four"].map(WorkflowId::new).into();
    world
}

fn channels() -> World {
    let write = |name: &str, value: Value| json!({"channelName": name, "value": value});
    let mut document = workflow(
        "channels",
        &[
            ("note", "core.channelWrite", write("notes", json!("tick"))),
            ("add", "core.channelWrite", write("sum", json!(2))),
            ("vote", "core.channelWrite", write("ballot", json!({"voter": "ada", "for": "red"}))),
            ("rate", "core.channelWrite", write("reviews", json!("fine"))),
            ("join", "core.channelWrite", write("facts", json!({"b": 2}))),
            ("say", "core.channelWrite", write("talk", json!({"messageId": "m1", "content": "hello"}))),
            ("wait", "core.delay", json!({"delayMs": 4000})),
            ("read", "core.getVariable", json!({"name": "notes"})),
        ],
        &[
            ("note", "add"),
            ("add", "vote"),
            ("vote", "rate"),
            ("rate", "join"),
            ("join", "say"),
            ("say", "wait"),
            ("wait", "note"),
            ("wait", "read"),
        ],
    );
    document["channels"] = json!({
        "notes": {"reducer": "append", "ttlMs": 5000, "maxSize": 10},
        "sum": {"reducer": "counter", "default": 1},
        "ballot": {"reducer": "votes", "ttlMs": 5000},
        "reviews": {"reducer": "feedback"},
        "facts": {"reducer": "merge", "default": {"a": 1}, "sensitive": true},
        "talk": {"reducer": "message"},
    });
    document["edges"][6]["condition"] = json!({"type": "expression", "expression": "sum < 7"});
    World::new(&[document])
}

fn conversation() -> World {
    let mut document = workflow(
        "conversation",
        &[("talk", "core.conversationGate", json!({"prompt": "What do you need?", "turnCount": 5}))],
        &[],
    );
    document["channels"] = json!({"conversation": {"reducer": "message"}});
    World::new(&[document])
}

fn cancel_cascade() -> World {
    let parent = workflow(
        "cancel-cascade",
        &[
            ("child", "core.subWorkflow", json!({"workflowId": "waits"})),
            (
                "ask",
                "core.interrupt",
                json!({"kind": "external-event", "data": {"eventType": "shop.paid", "correlation": {"order": 7}}, "timeoutMs": 9000}),
            ),
        ],
        &[],
    );
    let child = workflow("waits", &[("gate", "core.approvalGate", json!({}))], &[]);
    World::new(&[parent, child])
}

fn pause_and_resume() -> World {
    World::new(&[workflow(
        "pause-and-resume",
        &[
            ("wait", "core.delay", json!({"delayMs": 1000})),
            ("gate", "core.approvalGate", json!({})),
            ("end", "core.end", json!({})),
        ],
        &[("wait", "end"), ("gate", "end")],
    )])
}

fn governance() -> World {
    let config = json!({
        "requiredRole": "approver", "quorum": 3, "override": {"requiredRole": "approver"},
        "overrideBypassesQuorum": true, "timeoutSec": 60,
    });
    World::new(&[workflow(
        "governance-override",
        &[("gate", "core.openwop.governance.approvalGate", config)],
        &[],
    )])
}

fn guided() -> World {
    let config = json!({"workflow": "project.review", "goal": "Review it", "timeoutMs": 3_600_000});
    World::new(&[workflow(
        "guided",
        &[("review", "interlock.guided", config), ("end", "core.end", json!({}))],
        &[("review", "end")],
    )])
}

fn loop_limit() -> World {
    let mut document = workflow(
        "loop-limit",
        &[("count", "core.loop", json!({"maxIterations": 9})), ("work", "core.noop", json!({}))],
        &[("count", "work"), ("work", "count")],
    );
    document["settings"] = json!({"maxLoopbackIterations": 2});
    World::new(&[document])
}

fn deadline() -> World {
    let mut document = workflow(
        "deadline",
        &[
            ("wait", "core.delay", json!({"delayMs": 20_000})),
            ("ask", "core.interrupt", json!({"kind": "custom", "data": {"customKind": "sign"}})),
        ],
        &[],
    );
    document["settings"] = json!({"timeout": 5000});
    World::new(&[document])
}
