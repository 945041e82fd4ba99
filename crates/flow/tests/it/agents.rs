//! The events of agents and their order: the mock agent and the supervisor.

use flow::definition::{Capabilities, Definition, NodeType};
use flow::engine::bounds::MAX_REASONING_BYTES;
use flow::event::{EventKind, event_id};
use flow::id::RunId;
use flow::run::RunStatus;
use serde_json::{Value, json};

use crate::driver::{World, workflow};

fn mock(config: Value) -> World {
    mock_with(config, json!({}))
}

fn mock_with(config: Value, configurable: Value) -> World {
    let mut world =
        World::new(&[workflow("conformance-a", &[("m", "core.conformance.mock-agent", config)], &[])]);
    world.create_with("conformance-a", json!({}), configurable);
    world
}

fn kinds_of_agent_events(world: &World) -> Vec<&str> {
    world.kinds().into_iter().filter(|kind| kind.starts_with("agent.")).collect()
}

#[test]
fn a_mock_agent_records_configured_events_in_order() {
    let tool = |id: &str| json!({"toolId": id, "arguments": {"x": 1}, "result": 1, "durationMs": 3});
    let all = json!({
        "mockReasoning": {"summary": "s", "streamChunks": ["a", "b"]}, "mockToolCalls": [tool("one"), tool("two")],
        "mockHandoff": {"toAgentId": "agents.next", "reason": "because", "context": {"c": 1}},
        "mockDecision": {"decision": "go", "confidence": 0.9},
    });
    let order = [
        "agent.reasoning.delta",
        "agent.reasoning.delta",
        "agent.reasoned",
        "agent.toolCalled",
        "agent.toolReturned",
        "agent.toolCalled",
        "agent.toolReturned",
        "agent.handoff",
        "agent.decided",
    ];
    assert_eq!(kinds_of_agent_events(&mock(all.clone())), order);
    let each: [(&str, &[&str]); 4] = [
        ("mockReasoning", &["agent.reasoning.delta", "agent.reasoning.delta", "agent.reasoned"]),
        (
            "mockToolCalls",
            &["agent.toolCalled", "agent.toolReturned", "agent.toolCalled", "agent.toolReturned"],
        ),
        ("mockHandoff", &["agent.handoff"]),
        ("mockDecision", &["agent.decided"]),
    ];
    for (member, expected) in each {
        let mut config = json!({});
        config[member] = all[member].clone();
        assert_eq!(kinds_of_agent_events(&mock(config)), expected, "{member}");
    }
    assert_eq!(kinds_of_agent_events(&mock(json!({}))), Vec::<&str>::new());
    assert_eq!(
        kinds_of_agent_events(&mock(json!({"mockConfidence": 0.9}))),
        ["agent.decided"],
        "a decision of its own"
    );
}

#[test]
fn a_mock_decision_is_recorded_with_its_reasoning_and_confidence() {
    let decided = |config: Value| {
        let world = mock(config);
        (world.find(EventKind::AgentDecided)[0].payload().clone(), world.status())
    };
    let agent = "host:mock-agent:m";
    let cases = [
        (
            json!({"mockDecision": {"decision": "go", "confidence": 0.9, "reasoning": "why"}}),
            json!({"agentId": agent, "decision": "go", "confidence": 0.9, "reasoning": "why"}),
        ),
        // The shorthand applies only to agents without another decision.
        (
            json!({"mockDecision": {"decision": "go"}, "mockConfidence": 0.1}),
            json!({"agentId": agent, "decision": "go"}),
        ),
        (
            json!({"mockDecision": {"decision": "go", "confidence": 0.9}, "mockConfidence": 0.1}),
            json!({"agentId": agent, "decision": "go", "confidence": 0.9}),
        ),
    ];
    for (config, expected) in cases {
        let (decision, status) = decided(config.clone());
        assert_eq!((Value::Object(decision), status), (expected, RunStatus::Completed), "{config}");
    }
}

#[test]
fn verbosity_decides_whether_the_complete_reasoning_is_recorded() {
    let long = "ä".repeat(MAX_REASONING_BYTES);
    let whole = |chunks: &[&str]| json!({"mockReasoning": {"summary": "s", "trace": long, "tokenCount": 7, "streamChunks": chunks}});
    let summary = &long[..MAX_REASONING_BYTES];
    for (verbosity, config, expected) in [
        (None, whole(&[]), summary),
        (Some("summary"), whole(&[]), summary),
        (Some("full"), whole(&[]), long.as_str()),
        (Some("summary"), whole(&[&long]), long.as_str()),
        (Some("full"), json!({"mockReasoning": {"summary": "s", "tokenCount": 7}}), "s"),
    ] {
        let configurable = verbosity.map_or(json!({}), |wanted| json!({"reasoningVerbosity": wanted}));
        let world = mock_with(config, configurable);
        let payload = &world.find(EventKind::AgentReasoned)[0].payload();
        assert!(payload["reasoning"] == expected, "{verbosity:?}");
        assert_eq!((&payload["summary"], &payload["tokenCount"]), (&json!("s"), &json!(7)));
    }
}

#[test]
fn a_tool_call_and_its_result_have_the_same_id() {
    let error = json!({"error": "forbidden", "message": "no", "details": {"who": "you"}});
    let failing = json!({"toolId": "t", "error": error});
    let world = mock(json!({"mockToolCalls": [{"toolId": "t", "result": {"r": 1}}, failing]}));
    let (called, returned) =
        (world.find(EventKind::AgentToolCalled), world.find(EventKind::AgentToolReturned));
    assert_eq!((called.len(), returned.len()), (2, 2));
    for (call, answer) in called.iter().zip(&returned) {
        assert_eq!(call.payload()["callId"], answer.payload()["callId"]);
        assert_eq!(answer.causation_id.as_deref(), Some(event_id(&RunId::new("r"), call.sequence).as_str()));
        for (today, before) in [("toolName", "toolId"), ("inputs", "arguments")] {
            assert_eq!(call.payload()[today], call.payload()[before], "both names of the same");
        }
    }
    assert_ne!(called[0].payload()["callId"], called[1].payload()["callId"]);
    assert_eq!(returned[0].payload()["status"], "ok");
    assert_eq!(
        (&returned[1].payload()["status"], &returned[1].payload()["error"]),
        (
            &json!("error"),
            &json!({"code": "forbidden", "error": "forbidden", "message": "no", "details": {"who": "you"}})
        )
    );
}

#[test]
fn the_agent_id_comes_from_the_configuration_the_pin_or_the_node() {
    let document = |config: Value, pin: Option<&str>| {
        let mut document = workflow("conformance-a", &[("m", "core.conformance.mock-agent", config)], &[]);
        if let Some(pin) = pin {
            document["nodes"][0]["agent"] = json!({"agentId": pin});
        }
        document
    };
    let decides = |mut config: Value| {
        config["mockDecision"] = json!({"decision": 1});
        config
    };
    let cases = [
        (document(decides(json!({"agentId": "agents.config"})), Some("agents.pin")), "agents.config"),
        (document(decides(json!({})), Some("agents.pin")), "agents.pin"),
        (document(decides(json!({})), None), "host:mock-agent:m"),
    ];
    for (document, expected) in cases {
        let mut world = World::new(&[document]);
        world.create("conformance-a");
        assert_eq!(world.find(EventKind::AgentDecided)[0].payload()["agentId"], expected);
    }
}

#[test]
fn streamed_reasoning_is_numbered_and_adds_up_to_the_recorded_one() {
    let chunks = ["Because ", "", "of ", "ä"];
    let world = mock(json!({"mockReasoning": {"summary": "short", "streamChunks": chunks}}));
    let deltas = world.find(EventKind::AgentReasoningDelta);
    let numbers: Vec<Value> = deltas.iter().map(|event| event.payload()["sequence"].clone()).collect();
    assert_eq!(numbers, [json!(0), json!(1), json!(2), json!(3)]);
    let [reasoned] = world.find(EventKind::AgentReasoned)[..] else { panic!("one end of the block") };
    assert_eq!(reasoned.payload()["reasoning"], chunks.concat());
    assert!(deltas.iter().all(|delta| delta.sequence < reasoned.sequence));
    assert!(deltas.iter().all(|delta| delta.payload()["agentId"] == reasoned.payload()["agentId"]));
}

#[test]
fn no_reasoning_is_recorded_if_the_caller_turns_it_off() {
    let config =
        json!({"mockReasoning": {"summary": "s", "streamChunks": ["a"]}, "mockDecision": {"decision": 1}});
    let world = mock_with(config, json!({"reasoningVerbosity": "off"}));
    assert_eq!(kinds_of_agent_events(&world), ["agent.decided"]);
}

#[test]
fn a_decision_below_the_threshold_waits_for_a_person_and_one_at_it_does_not() {
    for (confidence, threshold, waits) in [
        (0.69, None, true),
        (0.7, None, false),
        (0.71, None, false),
        (0.7, Some(0.8), true),
        (0.1, Some(0.1), false),
        (0.0, Some(0.0), false),
    ] {
        let configurable = threshold.map_or(json!({}), |threshold| json!({"escalationThreshold": threshold}));
        let mut world =
            mock_with(json!({"mockDecision": {"decision": "go", "confidence": confidence}}), configurable);
        let expected = if waits { RunStatus::WaitingApproval } else { RunStatus::Completed };
        assert_eq!(world.status(), expected, "{confidence} of {threshold:?}");
        if !waits {
            continue;
        }
        let suspended = &world.find(EventKind::NodeSuspended)[0].payload();
        assert_eq!(
            (&suspended["reason"], &suspended["kind"]),
            (&json!("low-confidence"), &json!("low-confidence"))
        );
        assert_eq!(
            (&suspended["observed"], &suspended["threshold"]),
            (&json!(confidence), &json!(threshold.unwrap_or(0.7)))
        );
        assert!(suspended["interruptId"].is_string() && suspended["agentId"].is_string());
        world.resolve("m", json!({"action": "accept"})).unwrap();
        assert_eq!(world.status(), RunStatus::Completed);
    }
}

#[test]
fn a_supervisor_with_low_confidence_decides_nothing_until_a_person_accepts() {
    let pending = json!({"kind": "terminate", "reason": "held"});
    let config = json!({"mockConfidence": 0.1, "mockPendingDecision": pending});
    let mut world = World::new(&[workflow("w", &[("s", "core.orchestrator.supervisor", config)], &[])]);
    world.create("w");
    assert_eq!(world.status(), RunStatus::WaitingApproval);
    assert_eq!(world.find(EventKind::OrchestratorDecided).len(), 0);
    world.resolve("s", json!({"action": "accept"})).unwrap();
    assert_eq!(world.find(EventKind::OrchestratorDecided)[0].payload()["decision"], pending);
}

#[test]
fn data_nodes_record_no_agent_events() {
    let mut document =
        workflow("w", &[("a", "core.identity", json!({})), ("b", "core.noop", json!({}))], &[("a", "b")]);
    for (place, agent_id) in [(0, "agents.one"), (1, "agents.two")] {
        document["nodes"][place]["agent"] = json!({"agentId": agent_id});
    }
    let mut world = World::new(&[document]);
    world.create("w");
    assert_eq!((world.status(), kinds_of_agent_events(&world).len()), (RunStatus::Completed, 0));
}

#[test]
fn the_configuration_of_a_mock_agent_is_closed() {
    let check = |config: Value| {
        let document = workflow("w", &[("m", "core.conformance.mock-agent", config)], &[]);
        let seams = Capabilities { mock_agent: true, ..Capabilities::OURS };
        Definition::check(&document, &seams).err().map(|problems| problems[0].path.clone())
    };
    assert_eq!(check(json!({})), None);
    let wrong = [
        json!({"unknown": 1}),
        json!({"agentId": "ab"}),
        json!({"mockToolCalls": [{"toolId": "t"}]}),
        json!({"mockToolCalls": [{"toolId": "t", "result": 1, "error": {"error": "e", "message": "m"}}]}),
        json!({"mockToolCalls": [{"result": 1}]}),
        json!({"mockHandoff": {}}),
        json!({"mockHandoff": {"toAgentId": "ab"}}),
        json!({"mockDecision": {"confidence": 0.5}}),
        json!({"mockDecision": {"decision": 1, "confidence": 1.5}}),
        json!({"mockConfidence": -0.1}),
        json!({"mockReasoning": {}}),
        json!({"mockReasoning": {"summary": "s", "extra": 1}}),
        json!({"mockReasoning": {"summary": 1}}),
        json!({"mockReasoning": {"summary": "s", "trace": 1}}),
        json!({"mockReasoning": {"summary": "s", "tokenCount": -1}}),
        json!({"mockReasoning": {"summary": "s", "tokenCount": 1.5}}),
        json!({"mockToolCalls": [{"toolId": "t", "result": 1, "extra": 1}]}),
        json!({"mockToolCalls": [{"toolId": "t", "result": 1, "durationMs": "long"}]}),
        json!({"mockToolCalls": [{"toolId": "t", "error": "e"}]}),
        json!({"mockToolCalls": [{"toolId": "t", "error": {"error": "e"}}]}),
        json!({"mockToolCalls": [{"toolId": "t", "error": {"error": "", "message": "m"}}]}),
        json!({"mockToolCalls": [{"toolId": "t", "error": {"error": "e", "message": "m", "extra": 1}}]}),
        json!({"mockToolCalls": [{"toolId": "t", "error": {"error": "e", "message": "m", "details": 1}}]}),
        json!({"mockHandoff": {"toAgentId": "abc", "extra": 1}}),
        json!({"mockHandoff": {"toAgentId": "abc", "reason": 1}}),
        json!({"mockDecision": {"decision": 1, "extra": 1}}),
        json!({"mockDecision": {"decision": 1, "reasoning": 1}}),
    ];
    for config in wrong {
        assert!(check(config.clone()).is_some(), "{config}");
    }
}

/// House finding 10: the id of a workflow enabled mocks on any host.
#[test]
fn mock_nodes_require_enabled_seams_regardless_of_the_workflow_id() {
    let supervisor = ("core.orchestrator.supervisor", json!({"mockConfidence": 0.5}));
    let mocks = NodeType::all().filter(|kind| kind.is_mock()).map(|kind| (kind.as_str(), json!({})));
    let mocks: Vec<_> = mocks.chain([supervisor]).collect();
    assert!(mocks.len() > 8, "{mocks:?}");
    let served = Capabilities { models: true, ..Capabilities::OURS };
    let seams = Capabilities { mock_agent: true, ..served.clone() };
    let gated = |document: &Value, capabilities: &Capabilities| {
        let problems = Definition::check(document, capabilities).err().unwrap_or_default();
        problems.iter().any(|problem| problem.required_capability == Some("conformance.mockAgent"))
    };
    for (type_id, config) in mocks {
        for id in ["mine", "conformance-mine", "openwop-smoke-mine"] {
            let document = workflow(id, &[("m", type_id, config.clone())], &[]);
            assert!(gated(&document, &served), "{id} {type_id}");
            assert!(!gated(&document, &seams), "{id} {type_id}");
            assert!(!gated(&document, &Capabilities::EVERYTHING), "{id} {type_id} was registered before");
        }
    }
}

/// House finding 10: a mock node that an earlier version registered can be read, and fails if seams are disabled.
#[test]
fn a_stored_mock_node_fails_on_a_host_without_seams() {
    for (type_id, config) in [
        ("core.conformance.mock-agent", json!({})),
        ("core.orchestrator.supervisor", json!({"mockConfidence": 0.5, "mockDispatchPlan": []})),
    ] {
        for (mocks, status) in [(false, RunStatus::Failed), (true, RunStatus::Completed)] {
            let mut world = World::new(&[workflow("conformance-a", &[("m", type_id, config.clone())], &[])]);
            world.mocks = mocks;
            world.create("conformance-a");
            let asks = world.status() == RunStatus::WaitingApproval;
            assert!(world.status() == status || (mocks && asks), "{type_id} {mocks}: {}", world.status());
            if !mocks {
                let error = world.run().state.error.clone().unwrap();
                assert_eq!(error.code, "capability_not_provided");
                assert_eq!(error.details, Some(json!({"capability": "conformance.mockAgent"})));
            }
        }
    }
}
