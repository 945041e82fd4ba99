//! Any bytes at all, line by line, given to the reader of run events, and the events to the fold.
//!
//! * Reading never panics; what is accepted is written and read again the same.
//! * Folding any sequence of events never panics, and folding it again gives the same state.
//! * A run with such a log can be shown, recovered and cancelled.
#![no_main]

use std::sync::{Arc, LazyLock};

use canon::time::Timestamp;
use flow::definition::{Capabilities, Definition};
use flow::engine::{Input, Limits, decide};
use flow::event::{Event, EventKind, wire};
use flow::id::{NodeId, Principal, RunId, Tenant};
use flow::run::{Genesis, SharedGenesis};
use flow::snapshot::snapshot;
use flow::state::RunState;
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

static WORKFLOW: LazyLock<(Definition, SharedGenesis)> = LazyLock::new(|| {
    let definition = Definition::check(&document(), &Capabilities::OURS).expect("the workflow is one");
    let genesis = genesis(&definition);
    (definition, genesis)
});

const NOW: Timestamp = Timestamp(1_793_000_000_000);

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let events = if choice % 2 == 0 {
        rest.split(|byte| *byte == b'\n').filter_map(|line| wire::decode(line).ok()).collect()
    } else {
        plausible(&mut Unstructured::new(rest)).expect("an empty source still gives choices")
    };
    for event in &events {
        let text = wire::encode("r", event);
        assert_eq!(wire::decode(text.as_bytes()).expect("what was written is read"), *event);
    }
    fold(events);
});

fn fold(mut events: Vec<Event>) {
    let (definition, genesis) = &*WORKFLOW;
    for (sequence, event) in (0..).zip(&mut events) {
        event.sequence = sequence;
    }
    let state = RunState::fold(definition, genesis.clone(), &events).expect("the sequence is dense");
    assert_eq!(state, RunState::fold(definition, genesis.clone(), &events).expect("and again"));
    let _ = snapshot(definition, &state, NOW);
    let limits = Limits { max_node_executions: 100, ..Limits::default() };
    for input in [Input::Recover, Input::Resume { reason: None }, Input::Fork, Input::RunDeadline] {
        let mut state = state.clone();
        let _ = decide(definition, &mut state, input, NOW, &limits, &|_: &str| true);
        let cancel = Input::Cancel { reason: None, by: "me".into(), parent_run_id: None };
        let _ = decide(definition, &mut state, cancel, NOW, &limits, &|_: &str| true);
        assert!(state.status.is_terminal());
    }
}

/// Events of known kinds, about nodes that there are, with members that the fold reads.
fn plausible(source: &mut Unstructured<'_>) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    while events.len() < 60 && !source.is_empty() {
        let kind = if events.is_empty() {
            EventKind::RunStarted
        } else {
            source.choose(EventKind::WRITTEN)?.clone()
        };
        let mut payload = Map::new();
        for _ in 0..source.int_in_range(0..=5)? {
            let (name, value) = source.choose(&members())?.clone();
            payload.insert(name.into(), value);
        }
        events.push(Event {
            sequence: 0,
            kind,
            node_id: source
                .choose(&[
                    None,
                    Some("gate"),
                    Some("ask"),
                    Some("s"),
                    Some("d"),
                    Some("sub"),
                    Some("write"),
                    Some("wait"),
                ])?
                .map(NodeId::new),
            payload,
            timestamp: Timestamp(NOW.0.saturating_sub(source.int_in_range(0..=1000)?)),
            causation_id: None,
        });
    }
    Ok(events)
}

fn members() -> [(&'static str, Value); 22] {
    [
        ("childRunId", json!("c")),
        ("childWorkflowId", json!("one")),
        ("childStatus", json!("failed")),
        ("attempt", json!(u64::MAX)),
        ("attempt", json!(1)),
        ("delayMs", json!(u64::MAX)),
        ("dueAt", json!("2026-10-26T07:33:20.123Z")),
        ("error", json!({"code": "x"})),
        ("outputs", json!({"kind": "next-worker"})),
        ("decision", json!({"kind": "next-worker", "nextWorkerIds": ["one", "two"]})),
        ("decision", json!({"kind": "ask-user", "prompt": "?"})),
        ("kind", json!("approval")),
        ("kind", json!("conversation.exchange")),
        ("interruptId", json!("i")),
        ("data", json!({"turnIndex": u64::MAX, "actions": ["accept"]})),
        ("timeoutMs", json!(u64::MAX)),
        ("resumeValue", json!({"action": "accept"})),
        ("name", json!("x")),
        ("next", json!([1])),
        ("channel", json!("c")),
        ("value", json!({"messageId": 1})),
        ("reducer", json!("votes")),
    ]
}

fn document() -> Value {
    let node = |id: &str, kind: &str, config: Value| json!({"id": id, "typeId": kind, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}});
    let edge = |id: &str, from: &str, to: &str| json!({"id": id, "sourceNodeId": from, "targetNodeId": to});
    json!({
        "id": "w", "name": "w", "version": "1", "triggers": [], "metadata": {}, "settings": {"maxRetries": 1},
        "nodes": [
            node("gate", "core.approvalGate", json!({"requiredApprovals": 2})),
            node("ask", "core.clarificationGate", json!({"questions": [{"id": "q", "question": "?"}]})),
            node("s", "core.orchestrator.supervisor", json!({})),
            node("d", "core.dispatch", json!({"fanOutPolicy": "parallel"})),
            node("sub", "core.subWorkflow", json!({"workflowId": "one", "outputMapping": {"got": "v"}})),
            node("write", "core.channelWrite", json!({"channelName": "c", "value": 1, "ttlMs": 300})),
            node("wait", "core.delay", json!({"ms": 100})),
        ],
        "edges": [
            edge("a", "gate", "wait"), edge("b", "wait", "sub"), edge("c", "s", "d"), edge("d", "d", "s"),
            edge("e", "ask", "write"), edge("f", "write", "ask"),
        ],
        "variables": [{"name": "x", "type": "array"}],
    })
}

fn genesis(definition: &Definition) -> SharedGenesis {
    Arc::new(Genesis {
        run_id: RunId::new("r"),
        tenant: Tenant::new("t"),
        principal: Principal::new("p"),
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
        created_at: NOW,
        forced_engine_version: None,
        test: false,
        trace: None,
        trigger: None,
    })
}
