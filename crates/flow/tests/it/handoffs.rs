//! Handoffs between agents, and the schemas of their inputs and outputs.

use flow::definition::{Capabilities, Definition};
use flow::event::{EventKind, event_id};
use flow::id::{NodeId, RunId};
use flow::run::RunStatus;
use serde_json::{Value, json};

use crate::driver::{World, workflow};

fn pinned(mut document: Value, node: usize, agent_id: &str) -> Value {
    document["nodes"][node]["agent"] = json!({"agentId": agent_id});
    document
}

fn required(mut document: Value, agent_id: &str) -> Value {
    document["metadata"]["requiresAgentId"] = agent_id.into();
    document
}

/// A supervisor that dispatches `a` and then `b`.
fn supervised(config: Value) -> Value {
    let plan = json!([{"kind": "next-worker", "nextWorkerIds": ["a", "b"]}, {"kind": "terminate"}]);
    let nodes = [
        ("s", "core.orchestrator.supervisor", json!({"mockDispatchPlan": plan})),
        ("d", "core.dispatch", config),
    ];
    workflow("w", &nodes, &[("s", "d"), ("d", "s")])
}

fn worker(id: &str) -> Value {
    workflow(id, &[("n", "core.noop", json!({}))], &[])
}

#[test]
fn a_dispatch_records_a_handoff_if_the_worker_has_another_agent() {
    let supervisor = "host:supervisor:s";
    let cases = [
        ("no agent is pinned", supervised(json!({})), worker("a"), worker("b"), vec![]),
        (
            "a worker by its first node, a worker by what it requires",
            supervised(json!({})),
            pinned(worker("a"), 0, "agents.one"),
            required(pinned(worker("b"), 0, "agents.one"), "agents.two"),
            vec![(supervisor, "agents.one"), (supervisor, "agents.two")],
        ),
        (
            "the supervisor is pinned, and a worker to the same agent",
            pinned(supervised(json!({})), 0, "agents.boss"),
            pinned(worker("a"), 0, "agents.boss"),
            pinned(worker("b"), 0, "agents.two"),
            vec![("agents.boss", "agents.two")],
        ),
        (
            "the dispatch is pinned itself",
            pinned(pinned(supervised(json!({})), 0, "agents.boss"), 1, "agents.router"),
            pinned(worker("a"), 0, "agents.boss"),
            worker("b"),
            vec![("agents.router", "agents.boss")],
        ),
        (
            "both at once",
            supervised(json!({"fanOutPolicy": "parallel"})),
            pinned(worker("a"), 0, "agents.one"),
            pinned(worker("b"), 0, "agents.two"),
            vec![(supervisor, "agents.one"), (supervisor, "agents.two")],
        ),
    ];
    for (name, document, a, b, expected) in cases {
        let mut world = World::new(&[document, a, b]);
        world.create("w");
        assert_eq!(world.status(), RunStatus::Completed, "{name}");
        let handoffs: Vec<(String, String)> = world
            .find(EventKind::AgentHandoff)
            .iter()
            .map(|event| {
                assert_eq!(event.node_id, Some(NodeId::new("d")), "{name}");
                assert_eq!(event.payload()["from"]["agentId"], event.payload()["fromAgentId"], "{name}");
                assert_eq!(event.payload()["to"]["agentId"], event.payload()["toAgentId"], "{name}");
                let text = |member: &str| event.payload()[member].as_str().unwrap().to_owned();
                (text("fromAgentId"), text("toAgentId"))
            })
            .collect();
        let expected: Vec<(String, String)> =
            expected.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
        assert_eq!(handoffs, expected, "{name}");
    }
}

#[test]
fn a_handoff_is_recorded_between_the_start_of_a_dispatch_and_its_child() {
    let mut world = World::new(&[supervised(json!({})), pinned(worker("a"), 0, "agents.one"), worker("b")]);
    world.create("w");
    let [handoff] = world.find(EventKind::AgentHandoff)[..] else { panic!("one handoff") };
    let events = &world.run().events;
    let place = usize::try_from(handoff.sequence).unwrap();
    let (before, after) = (&events[place - 1], &events[place + 1]);
    assert_eq!(before.payload()["phase"], "dispatch.began");
    assert_eq!(handoff.causation_id.as_deref(), Some(event_id(&RunId::new("r"), before.sequence).as_str()));
    assert_eq!(
        (&after.kind(), &after.payload()["childWorkflowId"]),
        (&EventKind::NodeDispatched, &json!("a"))
    );
}

/// A world with one agent whose input is `{text}` and whose output is `{extracted}`.
fn strict(document: Value) -> World {
    let mut world = World::new(&[required(document, "agents.strict")]);
    let task = json!({"required": ["text"], "additionalProperties": false, "properties": {"text": {"type": "string"}}});
    world.agents.insert("agents.strict".into(), (task, json!({"required": ["extracted"]})));
    world
}

fn error(world: &World) -> (String, Option<NodeId>) {
    let failed = world.find(EventKind::NodeFailed);
    let failed = failed.first().expect("a node that failed");
    (failed.payload()["error"]["code"].as_str().unwrap().to_owned(), failed.node_id.clone())
}

/// House finding 10: on a host without seams, `scenario` is an ordinary input, whatever the id of the workflow is.
#[test]
fn a_task_that_violates_the_schema_of_the_agent_fails_the_run_before_any_node_starts() {
    let two = [("b", "core.noop", json!({})), ("c", "core.noop", json!({}))];
    // A successor that handles failures must not start, because the agent must not see the task.
    let mut document = workflow("conformance-w", &two, &[("b", "c")]);
    document["edges"][0]["triggerRule"] = "any_failed".into();
    for inputs in [json!({}), json!({"text": 1}), json!({"text": "x", "scenario": "x"})] {
        let mut world = strict(document.clone());
        world.mocks = false;
        world.create_with("conformance-w", inputs.clone(), json!({}));
        assert_eq!(world.status(), RunStatus::Failed, "{inputs}");
        assert_eq!(error(&world), ("handoff_task_schema_violation".to_owned(), Some(NodeId::new("b"))));
        assert_eq!(world.kinds(), ["run.started", "node.failed", "run.failed"]);
        assert_eq!(
            world.find(EventKind::NodeFailed)[0].payload()["error"]["details"]["agentId"],
            "agents.strict"
        );
    }
    let mut world = strict(document);
    world.create_with("conformance-w", json!({"text": "x"}), json!({}));
    assert_eq!(world.find(EventKind::NodeStarted).len(), 1, "a task that fits is handed over");
}

#[test]
fn a_return_value_that_violates_the_schema_of_the_agent_is_not_recorded() {
    let ends = |value: Value| {
        let mut document =
            workflow("w", &[("n", "core.noop", json!({})), ("end", "core.end", json!({}))], &[("n", "end")]);
        document["nodes"][1]["inputs"] = json!({"extracted": {"type": "static", "value": value}});
        document
    };
    let mut world = strict(ends(json!("all of it")));
    world.create_with("w", json!({"text": "x"}), json!({}));
    assert_eq!(world.status(), RunStatus::Completed);

    let mut off = ends(json!(0));
    off["nodes"][1]["inputs"] = json!({"body": {"type": "static", "value": "off-schema-body"}});
    let mut world = strict(off);
    world.create_with("w", json!({"text": "x"}), json!({}));
    assert_eq!(world.status(), RunStatus::Failed);
    assert_eq!(error(&world), ("handoff_return_schema_violation".to_owned(), Some(NodeId::new("end"))));
    let log = format!("{:?}", world.run().events);
    assert!(!log.contains("off-schema-body"), "{log}");
}

#[test]
fn a_conformance_scenario_is_not_part_of_the_task_and_can_test_the_return_value() {
    let cases = [
        (json!({"text": "x", "scenario": "valid-task"}), None),
        (json!({"scenario": "invalid-task"}), Some("handoff_task_schema_violation")),
        (json!({"text": "x", "scenario": "mock-return-violation"}), Some("handoff_return_schema_violation")),
    ];
    for (inputs, expected) in cases {
        let mut world = strict(workflow("conformance-x", &[("n", "core.identity", json!({}))], &[]));
        world.create_with("conformance-x", inputs.clone(), json!({}));
        match expected {
            None => assert_eq!(world.status(), RunStatus::Completed, "{inputs}"),
            Some(code) => assert_eq!(error(&world).0, code, "{inputs}"),
        }
    }
}

#[test]
fn an_agent_that_is_not_installed_accepts_anything() {
    let mut world = World::new(&[required(worker("w"), "agents.elsewhere")]);
    world.create_with("w", json!({"any": 1}), json!({}));
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn a_worker_with_an_invalid_task_fails_its_dispatch() {
    let mut world = World::new(&[supervised(json!({})), required(worker("a"), "agents.never"), worker("b")]);
    world.agents.insert("agents.never".into(), (json!(false), json!(true)));
    world.create("w");
    assert_eq!(world.status(), RunStatus::Failed);
    let failed = world.find(EventKind::NodeFailed);
    assert_eq!(
        failed[0].payload()["error"]["details"]["childError"]["code"],
        "handoff_task_schema_violation"
    );
    assert_eq!(world.children().len(), 1, "the next worker is not started");
}

#[test]
fn an_agent_without_an_id_is_refused_at_registration() {
    for wrong in [json!(1), json!("ab"), json!("x".repeat(257)), json!(null)] {
        let mut document = worker("w");
        document["metadata"]["requiresAgentId"] = wrong.clone();
        let problems = Definition::check(&document, &Capabilities::OURS).unwrap_err();
        assert_eq!(problems[0].path, "/metadata/requiresAgentId", "{wrong}");
        let known = Definition::check(&document, &Capabilities::EVERYTHING).unwrap();
        assert_eq!(known.required_agent, None, "one that was registered before is not refused for it");
    }
}
