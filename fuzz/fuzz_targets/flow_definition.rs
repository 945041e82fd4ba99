//! Any bytes, given to the reader of workflow definitions; what is accepted is run in memory.
//!
//! The first byte chooses: either the rest is bytes for the strict reader, or it picks and joins fragments of plausible
//! workflows, which get much further than arbitrary text does.
//!
//! * Reading never panics, and the same document has the same digest.
//! * Every rejection has a reason.
//! * A run of what is accepted never panics, whatever happens to it; the state is the fold of its events, and it can always
//!   be cancelled.
#![no_main]

use std::collections::VecDeque;
use std::sync::Arc;

use canon::time::Timestamp;
use canon::json;
use flow::definition::{Capabilities, Definition, NodeType};
use flow::id::{NodeId, Principal, RunId};
use flow::engine::{Decision, DrainPolicy, Effect, GuideResult, Input, Limits, Report, Reported, decide};
use flow::event::{Event, wire};
use flow::interrupt::Via;
use flow::run::{Genesis, RunStatus, SharedGenesis};
use flow::snapshot::snapshot;
use flow::state::{RunError, RunState};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

/// The number of inputs of a run.
const STEPS: usize = 60;
const LIMITS: Limits = Limits {
    max_node_executions: 200,
    max_run_duration_ms: 86_400_000,
    max_loop_iterations: 10,
    max_fan_out: 4,
    clarification_rounds: 3,
    // Small, so that inputs reach them.
    max_decision_steps: 100_000,
    max_run_steps: 200_000,
    max_append_bytes: 64 << 10,
    max_run_bytes: 256 << 10,
    max_pattern_bytes: 8 << 20,
};

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let mut source = Unstructured::new(rest);
    let document = if choice % 2 == 0 {
        match json::read(rest, &json::Limits::default()) {
            Ok(document) => document,
            Err(_) => return,
        }
    } else {
        workflow(&mut source).expect("an empty source still gives choices")
    };
    match Definition::check(&document, &Capabilities::OURS) {
        Ok(definition) => {
            let again =
                Definition::check(&document, &Capabilities::OURS).expect("accepted once, accepted twice");
            assert_eq!(definition.digest, again.digest);
            drive(&definition, &mut source).expect("an empty source still gives choices");
        }
        Err(problems) => {
            assert!(problems.iter().all(|problem| !problem.message.is_empty()) && !problems.is_empty())
        }
    }
});

/// A run, and its pending inputs.
struct Run<'d> {
    definition: &'d Definition,
    genesis: SharedGenesis,
    state: RunState,
    events: Vec<Event>,
    due: VecDeque<Input>,
    now: Timestamp,
}

fn drive(definition: &Definition, source: &mut Unstructured<'_>) -> Result<()> {
    let genesis = genesis(definition);
    let state = RunState::new(definition, genesis.clone());
    let now = Timestamp(1_793_000_000_000);
    let mut run = Run { definition, genesis, state, events: Vec::new(), due: VecDeque::new(), now };
    run.take(Input::Create, source)?;
    for _ in 0..STEPS {
        if run.state.status.is_terminal() {
            break;
        }
        let happening = source.int_in_range(0..=9)?;
        let input = match (run.due.pop_front(), happening) {
            (due, 0) => {
                run.due.extend(due);
                Input::Pause { reason: None, policy: DrainPolicy::Immediate }
            }
            (due, 1) => {
                run.due.extend(due);
                Input::Resume { reason: None }
            }
            (due, 2) => {
                run.due.extend(due);
                run.state = RunState::fold(definition, run.genesis.clone(), &run.events).expect("dense");
                Input::Recover
            }
            (Some(due), _) => due,
            (None, _) => match answer(&run, source)? {
                Some(input) => input,
                None => Input::Resume { reason: None },
            },
        };
        run.take(input, source)?;
    }
    if !run.state.status.is_terminal() {
        run.take(Input::Cancel { reason: None, by: Principal::new("me"), parent_run_id: None }, source)?;
    }
    assert!(run.state.status.is_terminal(), "a run can always be cancelled");
    Ok(())
}

impl Run<'_> {
    fn take(&mut self, input: Input, source: &mut Unstructured<'_>) -> Result<()> {
        self.now = self.now.plus(source.int_in_range(0..=100_000)?);
        let before = self.state.clone();
        let known = |id: &WorkflowId| *id != "nowhere";
        match decide(self.definition, &mut self.state, input, self.now, &LIMITS, &known) {
            Ok(decision) => self.append(decision, source),
            Err(_) => {
                assert_eq!(self.state, before, "a refusal changes nothing");
                Ok(())
            }
        }
    }

    fn append(&mut self, decision: Decision, source: &mut Unstructured<'_>) -> Result<()> {
        for event in &decision.events {
            let text = wire::encode(&RunId::new("r"), event);
            assert_eq!(wire::decode(text.as_bytes()).expect("what was written is read"), *event);
        }
        self.events.extend(decision.events);
        let folded = RunState::fold(self.definition, self.genesis.clone(), &self.events).expect("dense");
        assert_eq!(folded, self.state, "the fold of the events is the state");
        let _ = snapshot(self.definition, &self.state, self.now);
        for effect in decision.effects {
            let error = || RunError::new("broken", "it broke");
            if let Effect::Guide(guide) = &effect {
                let (node_id, session_id) = (guide.node_id.clone(), guide.session_id.clone());
                self.due.push_back(Input::GuideStarted { node_id, session_id });
            }
            self.due.extend(match effect {
                Effect::SetTimer { timer, at } => {
                    self.now = self.now.max(Timestamp(at.0.min(self.now.0 + 1_000_000)));
                    Some(Input::TimerDue { timer })
                }
                Effect::StartChild(start) => Some(if source.arbitrary()? {
                    let (run_id, status) = (start.run_id, RunStatus::Completed);
                    Input::ChildEnded { run_id, status, variables: start.inputs, error: None }
                } else {
                    Input::ChildRefused { run_id: start.run_id, error: error() }
                }),
                Effect::CancelChild { run_id } => Some(Input::ChildEnded {
                    run_id,
                    status: RunStatus::Cancelled,
                    variables: Map::new(),
                    error: None,
                }),
                Effect::Activity(activity) => Some(Input::ActivityDone {
                    node_id: activity.node_id,
                    ordinal: activity.ordinal,
                    reports: reports(source)?,
                    outcome: if source.arbitrary()? { Ok(json!({"count": 1})) } else { Err(error()) },
                }),
                Effect::Guide(guide) => Some(Input::GuideEnded {
                    node_id: guide.node_id,
                    session_id: guide.session_id,
                    outcome: Ok(GuideResult { outputs: Map::new(), deliverables: Vec::new() }),
                }),
                Effect::ClearTimer { .. }
                | Effect::EndGuide { .. }
                | Effect::InterruptRaised { .. }
                | Effect::InterruptClosed { .. }
                | Effect::StoreArtifact { .. } => None,
            });
        }
        Ok(())
    }
}

/// The reports of an effect.
fn reports(source: &mut Unstructured<'_>) -> Result<Vec<Reported>> {
    let mut reports = Vec::new();
    for _ in 0..source.int_in_range(0..=3)? {
        let values = [json!(1), json!([1]), json!({"a": 1}), json!("x")];
        let value = source.choose(&values)?;
        let name = *source.choose(&["c", "conversation", "x"])?;
        reports.push(if source.arbitrary()? {
            Report::WriteChannel { channel: name.to_owned(), value: value.clone() }.into()
        } else {
            Report::SetVariable { name: name.to_owned(), value: value.clone() }.into()
        });
    }
    Ok(reports)
}

/// An answer to something that is asked.
fn answer(run: &Run<'_>, source: &mut Unstructured<'_>) -> Result<Option<Input>> {
    let asked: Vec<&NodeId> = run.state.interrupts.keys().collect();
    if asked.is_empty() {
        return Ok(None);
    }
    let answers = [
        json!({"action": "accept"}),
        json!({"action": "accept", "voter": "other"}),
        json!({"action": "reject", "reason": "no"}),
        json!({"action": "refine", "refineFeedback": {"scope": "whole"}}),
        json!({"answers": {"q": 1, "proceed": true, "answer": "x"}}),
        json!({"content": "well"}),
        json!({"action": "close"}),
        json!({"decision": {"kind": "terminate"}}),
        Value::Null,
    ];
    Ok(Some(Input::Resolve {
        node_id: (*source.choose(&asked)?).clone(),
        interrupt_id: None,
        resume_value: source.choose(&answers)?.clone(),
        by: Principal::new("me"),
        grants: vec!["approver".into()],
        via: if source.arbitrary()? { Via::Token } else { Via::Key },
    }))
}

/// A workflow of plausible parts: most are accepted.
fn workflow(source: &mut Unstructured<'_>) -> Result<Value> {
    let count = source.int_in_range(1..=7)?;
    let mut nodes = Vec::new();
    for place in 0..count {
        let kinds: Vec<NodeType> = NodeType::all().collect();
        let kind = *source.choose(&kinds)?;
        let mut node = json!({
            "id": format!("n{place}"), "typeId": kind.as_str(), "name": "n", "position": {"x": 0, "y": 0},
            "config": config(kind, source)?, "inputs": inputs(source, count)?,
        });
        if source.ratio(1, 8)? {
            node["disabled"] = true.into();
        }
        if source.ratio(1, 8)? {
            node["settings"] = json!({"maxRetries": source.int_in_range(0..=3)?});
        }
        nodes.push(node);
    }
    let mut edges = Vec::new();
    for place in 0..source.int_in_range(0..=10)? {
        let mut edge = json!({
            "id": format!("e{place}"),
            "sourceNodeId": format!("n{}", source.int_in_range(0..=count - 1)?),
            "targetNodeId": format!("n{}", source.int_in_range(0..=count - 1)?),
        });
        if source.ratio(1, 2)? {
            let rules = ["all_success", "any_success", "all_complete", "none_failed", "any_failed"];
            edge["triggerRule"] = (*source.choose(&rules)?).into();
        }
        if source.ratio(1, 3)? {
            edge["condition"] = source.choose(&conditions())?.clone();
        }
        edges.push(edge);
    }
    let reducers = ["replace", "append", "merge", "counter", "votes", "feedback", "message"];
    let mut channel = json!({"reducer": source.choose(&reducers)?});
    if source.arbitrary()? {
        channel["maxSize"] = source.int_in_range(1..=3)?.into();
    }
    if source.arbitrary()? {
        channel["ttlMs"] = 1000.into();
    }
    if source.arbitrary()? {
        channel["default"] = source.choose(&[json!([1, 2]), json!({"a": 1}), json!(3), json!("x")])?.clone();
    }
    Ok(json!({
        // The types for tests of hosts are served under such an id.
        "id": "conformance-own", "name": "w", "version": "1", "nodes": nodes, "edges": edges, "triggers": [],
        "variables": [{"name": "x", "type": "number", "defaultValue": 1}, {"name": "secret", "type": "string", "sensitive": true}],
        "channels": {"c": channel, "conversation": {"reducer": "message"}},
        "metadata": {}, "settings": {"maxRetries": source.int_in_range(0..=2)?, "maxLoopbackIterations": 2},
    }))
}

fn conditions() -> [Value; 6] {
    [
        json!({"type": "expression", "expression": "output.approved == true || x >= 2"}),
        json!({"type": "expression", "expression": "status == 'failed'"}),
        json!({"type": "equals", "left": "x", "right": 1}),
        json!({"type": "notEquals", "left": "output.kind", "right": "terminate"}),
        json!({"type": "contains", "left": "c", "right": "x"}),
        json!({"type": "regex", "left": "status", "right": "^comp"}),
    ]
}

fn inputs(source: &mut Unstructured<'_>, count: usize) -> Result<Value> {
    let mut inputs = Map::new();
    for name in ["value", "x", "c", "condition"] {
        if source.ratio(1, 5)? {
            let from = format!("n{}", source.int_in_range(0..=count - 1)?);
            let port = match source.int_in_range(0..=3)? {
                0 => {
                    json!({"type": "static", "value": source.choose(&[json!(1), json!({"voter": "v"}), json!([])])?})
                }
                1 => json!({"type": "expression", "expression": "x"}),
                2 => json!({"type": "connection", "nodeId": from, "outputKey": "output", "optional": true}),
                _ => {
                    json!({"type": "variable", "variableName": "x", "optional": source.arbitrary::<bool>()?})
                }
            };
            inputs.insert(name.into(), port);
        }
    }
    Ok(Value::Object(inputs))
}

fn config(kind: NodeType, source: &mut Unstructured<'_>) -> Result<Value> {
    let small = source.int_in_range(1..=3)?;
    let flag: bool = source.arbitrary()?;
    let worker = |id: &str| json!({"kind": "next-worker", "nextWorkerIds": [id, "two", "three"]});
    Ok(match kind {
        NodeType::Conditional => json!({"expression": "x > 1"}),
        NodeType::Loop => json!({"maxIterations": small, "items": [1, 2]}),
        NodeType::Delay => json!({"ms": small * 1000 - 1000}),
        NodeType::SetVariable => json!({"name": if flag { "x" } else { "c" }, "value": small}),
        NodeType::GetVariable => json!({"variableName": if flag { "c" } else { "x" }}),
        NodeType::Interrupt => {
            let kinds = [
                "approval",
                "clarification",
                "external-event",
                "custom",
                "conversation.exchange",
                "low-confidence",
            ];
            json!({
                "kind": source.choose(&kinds)?, "key": "k", "timeoutMs": small * 1000 - 1000,
                "data": source.choose(&[json!({}), json!({"questions": [{"id": "q"}]}), json!(null), json!([1])])?,
                "resumeSchema": source.choose(&[json!({}), json!(true), json!({"required": ["action"]})])?,
            })
        }
        NodeType::ApprovalGate => json!({
            "requiredApprovals": small, "actions": ["accept", "reject", "refine", "ask"],
            "rejectionPolicy": if flag { "majority" } else { "single-veto" }, "timeoutMs": 5000,
        }),
        NodeType::GovernanceGate => {
            json!({"quorum": small, "requiredRole": "approver", "override": {}, "timeoutSec": 5})
        }
        NodeType::ClarificationGate => json!({"questions": [{"id": "q", "question": "?"}]}),
        NodeType::ChannelWrite => json!({
            "channelName": if flag { "c" } else { "other" }, "ttlMs": 500,
            "value": source.choose(&[json!(1), json!({"voter": "v", "n": 1}), json!("text"), json!([])])?,
        }),
        NodeType::SubWorkflow => json!({
            "workflowId": if flag { "one" } else { "nowhere" }, "onChildFailure": if flag { "absorb" } else { "fail-parent" },
            "inputMapping": {"x": "x", "y": "none"}, "outputMapping": {"x": "x"},
        }),
        NodeType::Supervisor => json!({
            "mockDispatchPlan": [
                worker(if flag { "one" } else { "nowhere" }),
                {"kind": "ask-user", "prompt": "?"},
                {"kind": "next-worker", "nextWorkerIds": ["one"], "confidence": 0.1},
                {"kind": "terminate"},
            ],
            "mockConfidence": small as f64 / 3.0,
        }),
        NodeType::Dispatch => {
            let mode = *source.choose(&["wait-all", "quorum", "first", "race"])?;
            let failure = *source.choose(&["collect", "fail-fast", "absorb"])?;
            match source.int_in_range(0..=3)? {
                0 => json!({"iterationCap": small}),
                1 => json!({"fanOutPolicy": "reject", "askUserRouting": "clarification"}),
                _ => json!({
                    "fanOutPolicy": "parallel", "maxConcurrency": small, "outputMapping": {"x": "x"},
                    "joinPolicy": {"mode": mode, "quorum": small, "onChildFailure": failure},
                }),
            }
        }
        NodeType::ConversationGate => json!({"turnCount": small, "mockAutoResume": flag, "schema": {}}),
        NodeType::MockAgent => json!({"mockConfidence": 0.1, "mockReasoning": true}),
        NodeType::SecretEcho => json!({"secretId": "s"}),
        _ => json!({}),
    })
}

fn genesis(definition: &Definition) -> SharedGenesis {
    Arc::new(Genesis {
        run_id: "r".into(),
        tenant: "t".into(),
        principal: "p".into(),
        workflow_id: definition.id.clone(),
        definition: definition.digest,
        scope_id: None,
        inputs: Map::new(),
        configurable: Map::new(),
        tags: Vec::new(),
        metadata: Map::new(),
        callback_url: None,
        parent: None,
        fork: None,
        created_at: 1_793_000_000_000,
        forced_engine_version: None,
        test: false,
        trace: None,
        trigger: None,
    })
}
