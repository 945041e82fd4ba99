//! Any bytes, line by line, given to the reader of run events, and the events to the fold.
//!
//! * Reading never panics; what is accepted is written and read again the same.
//! * Folding any sequence of events never panics, and folding it again gives the same state.
//! * A run with such a log can be shown, recovered and cancelled.
#![no_main]

use std::sync::{Arc, LazyLock};

use canon::time::Timestamp;
use flow::definition::{Capabilities, Definition};
use flow::engine::{Input, Limits, decide};
use flow::id::{NodeId, Principal, RunId, Tenant};
use flow::event::{Event, EventData, EventKind, wire};
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
        let mut payload = needed();
        for _ in 0..source.int_in_range(0..=5)? {
            let (name, value) = source.choose(&members())?.clone();
            payload.insert(name.into(), value);
        }
        // Fields that the kind does not have cannot be recorded.
        let Ok((data, _)) = EventData::read(kind, payload) else { continue };
        events.push(Event {
            sequence: 0,
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
                .map(str::to_owned),
            data,
            extra: Map::new(),
            timestamp: Timestamp(NOW.0.saturating_sub(source.int_in_range(0..=1000)?)),
            causation_id: None,
        });
    }
    Ok(events)
}

/// The fields of event kinds, with valid values.
fn needed() -> Map<String, Value> {
    let members = json!({"action": "text", "agentId": "text", "answeredBy": "text", "answers": {"any": [1, null]}, "artifactId": "text", "artifactType": "text", "atSequence": u64::MAX, "attempt": 3, "byteOffset": u64::MAX, "callId": "text", "cancelledBy": "text", "cancelledCount": u64::MAX, "capabilities": ["multi-turn"], "chain": {"any": [1, null]}, "channel": "text", "childCount": u64::MAX, "childRunId": "text", "childWorkflowId": "text", "chunk": "text", "completedCount": u64::MAX, "confidence": 0.5, "conversationId": "text", "data": {"any": [1, null]}, "decidedAt": "2026-10-26T07:33:20.123Z", "decidedBy": "text", "decision": {"any": [1, null]}, "delayMs": u64::MAX, "delta": "text", "divergenceKind": "type-mismatch", "divergencePoint": "text", "drainPolicy": "immediate", "durationMs": u64::MAX, "error": {"code": "x", "message": "m", "details": null}, "escalationKind": "word", "failedCount": u64::MAX, "fallbackCalls": u64::MAX, "fallbackModel": "text", "fallbackProvider": "text", "fanOutPolicy": "word", "finalError": "text", "finalReason": "text", "finalTurn": {"content": [1], "from": "user", "messageId": "m:1", "role": "user", "ts": 7, "turnIndex": 1}, "floor": 0.5, "from": {"agentId": "a"}, "fromAgentId": "text", "gateId": "text", "hash": "text", "initialTurn": {"content": [1], "from": "user", "messageId": "m:1", "role": "user", "ts": 7, "turnIndex": 1}, "inputTokens": u64::MAX, "inputs": {"a": {"b": 1.5}}, "interruptId": "text", "isLast": true, "iteration": u64::MAX, "iterations": 3, "joinMode": "quorum", "joinOutcome": "partial", "key": "text", "kind": "approval", "lastError": {"code": "x", "message": "m", "details": null}, "level": "word", "limit": 3, "maxConcurrency": u64::MAX, "mergeOrder": ["a"], "message": "text", "missingCapabilities": ["a"], "model": "text", "name": "text", "nodeId": "text", "observed": u64::MAX, "originalDecision": {"any": [1, null]}, "originalEnvelopeType": "text", "originalEventId": "text", "originalModel": "text", "originalProvider": "text", "outcome": "rejected", "outputTokenCount": u64::MAX, "outputTokens": u64::MAX, "owner": {"principal": "p", "tenant": "t"}, "parentRunId": "text", "partialPayloadAvailable": true, "path": "text", "pausedAt": "2026-10-26T07:33:20.123Z", "phase": "dispatch.began", "previousError": "text", "principal": "text", "provider": "text", "quorumProgress": {"granted": 1, "required": 2}, "reason": "word", "reasoning": "text", "reducer": "append", "refs": ["a"], "requestedAt": "2026-10-26T07:33:20.123Z", "resolvedAt": "2026-10-26T07:33:20.123Z", "resolvedBy": "text", "resumeValue": {"any": [1, null]}, "runId": "text", "sequence": u64::MAX, "sourceRunId": "text", "status": "word", "stopReason": "text", "to": {"agentId": "a"}, "toAgentId": "text", "toolId": "text", "toolName": "text", "totalAttempts": 3, "turn": {"content": [1], "from": "user", "messageId": "m:1", "role": "user", "ts": 7, "turnIndex": 1}, "turnIndex": u64::MAX, "typeId": "word", "value": {"any": [1, null]}, "verbosity": "text", "workerId": "text", "workflowId": "text", "writtenAt": "2026-10-26T07:33:20.123Z"});
    members.as_object().cloned().unwrap_or_default()
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
        ("error", json!({"code": "x", "message": "m"})),
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
