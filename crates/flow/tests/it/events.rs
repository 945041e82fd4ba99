//! Typed events: every kind with its required and optional members.

use std::collections::BTreeSet;

use flow::event::{Event, EventData, EventKind, wire};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Every kind, with values for its required and its optional members.
pub(crate) fn kinds() -> Vec<(EventKind, Value, Value)> {
    vec![
        (
            EventKind::RunStarted,
            json!({"inputs": {"a": {"b": 1.5}}, "owner": {"principal": "p", "tenant": "t"}, "workflowId": "text"}),
            json!({"tags": ["a"], "trigger": {"eventType": "e", "id": "i", "messageId": "m", "source": "s"}}),
        ),
        (EventKind::RunCompleted, json!({"durationMs": u64::MAX}), json!({"outputs": {"a": {"b": 1.5}}})),
        (
            EventKind::RunFailed,
            json!({"durationMs": u64::MAX, "error": {"code": "x", "message": "m", "details": null}}),
            json!({"failedNodeId": "text"}),
        ),
        (
            EventKind::RunCancelled,
            json!({"cancelledBy": "text", "durationMs": u64::MAX}),
            json!({"parentRunId": "text", "reason": "text"}),
        ),
        (
            EventKind::RunPaused,
            json!({"drainPolicy": "immediate", "pausedAt": "2026-10-26T07:33:20.123Z"}),
            json!({"reason": "text"}),
        ),
        (
            EventKind::RunResumed,
            json!({}),
            json!({"cause": "word", "reason": "word", "resumedAt": "2026-10-26T07:33:20.123Z"}),
        ),
        (
            EventKind::PauseRequested,
            json!({"drainPolicy": "immediate", "requestedAt": "2026-10-26T07:33:20.123Z"}),
            json!({"reason": "text"}),
        ),
        (
            EventKind::VersionPinned,
            json!({}),
            json!({"changeId": {"any": [1, null]}, "version": {"any": [1, null]}}),
        ),
        (EventKind::LoopbackLimit, json!({"iterations": 3, "limit": 3, "nodeId": "text"}), json!({})),
        (
            EventKind::CapBreached,
            json!({"kind": "word", "limit": u64::MAX, "observed": u64::MAX}),
            json!({"nodeId": "text"}),
        ),
        (
            EventKind::ReplayDiverged,
            json!({"atSequence": u64::MAX, "divergenceKind": "type-mismatch", "divergencePoint": "text", "originalEventId": "text", "sourceRunId": "text"}),
            json!({}),
        ),
        (
            EventKind::NodeStarted,
            json!({"attempt": 3, "nodeId": "text", "typeId": "word"}),
            json!({"dueAt": "2026-10-26T07:33:20.123Z"}),
        ),
        (
            EventKind::NodeCompleted,
            json!({"durationMs": u64::MAX, "nodeId": "text"}),
            json!({"outputs": {"a": {"b": 1.5}}}),
        ),
        (
            EventKind::NodeFailed,
            json!({"error": {"code": "x", "message": "m", "details": null}, "nodeId": "text"}),
            json!({"attempts": 3}),
        ),
        (
            EventKind::NodeSuspended,
            json!({"interruptId": "text", "key": "text", "kind": "approval", "nodeId": "text"}),
            json!({"agentId": "text", "contentTrust": {"any": [1, null]}, "conversationId": "text", "observed": 0.5, "reason": "word", "threshold": 0.5}),
        ),
        (
            EventKind::NodeResumed,
            json!({"interruptId": "text", "nodeId": "text", "resumeValue": {"any": [1, null]}}),
            json!({}),
        ),
        (
            EventKind::NodeRetried,
            json!({"attempt": 3, "delayMs": u64::MAX, "lastError": {"code": "x", "message": "m", "details": null}, "nodeId": "text"}),
            json!({}),
        ),
        (EventKind::NodeSkipped, json!({"nodeId": "text", "reason": "word"}), json!({})),
        (EventKind::NodeCancelled, json!({"nodeId": "text", "reason": "word"}), json!({})),
        (
            EventKind::NodeDispatched,
            json!({"childRunId": "text", "childWorkflowId": "text"}),
            json!({"childStatus": "waiting-input"}),
        ),
        (
            EventKind::VariableChanged,
            json!({"name": "text"}),
            json!({"next": {"any": [1, null]}, "nodeId": "text", "previous": {"any": [1, null]}}),
        ),
        (
            EventKind::ChannelWritten,
            json!({"channel": "text", "nodeId": "text", "reducer": "append", "value": {"any": [1, null]}, "writtenAt": "2026-10-26T07:33:20.123Z"}),
            json!({"schemaVersion": u64::MAX}),
        ),
        (
            EventKind::ArtifactCreated,
            json!({"artifactId": "text", "artifactType": "text", "nodeId": "text"}),
            json!({"summary": "text"}),
        ),
        (
            EventKind::LogAppended,
            json!({"level": "word", "message": "text"}),
            json!({"contentTrust": {"any": [1, null]}, "fields": {"any": [1, null]}, "nodeId": "text"}),
        ),
        (
            EventKind::OutputChunk,
            json!({"chunk": "text", "isLast": true, "nodeId": "text", "runId": "text"}),
            json!({"channel": {"any": [1, null]}, "meta": {"any": [1, null]}}),
        ),
        (
            EventKind::InterruptRequested,
            json!({"data": {"any": [1, null]}, "interruptId": "text", "key": "text", "kind": "approval", "nodeId": "text", "requestedAt": "2026-10-26T07:33:20.123Z", "runId": "text"}),
            json!({"resumeSchema": {"any": [1, null]}, "timeoutMs": u64::MAX}),
        ),
        (
            EventKind::InterruptResolved,
            json!({"interruptId": "text", "kind": "approval", "nodeId": "text", "outcome": "rejected", "resolvedAt": "2026-10-26T07:33:20.123Z", "resolvedBy": "text", "resumeValue": {"any": [1, null]}}),
            json!({"reason": "timeout"}),
        ),
        (
            EventKind::ApprovalRequested,
            json!({"interruptId": "text", "nodeId": "text"}),
            json!({"actions": {"any": [1, null]}, "approversList": {"any": [1, null]}, "artifactId": {"any": [1, null]}, "artifactType": {"any": [1, null]}, "contentTrust": {"any": [1, null]}, "requiredApprovals": {"any": [1, null]}, "title": {"any": [1, null]}}),
        ),
        (
            EventKind::ApprovalReceived,
            json!({"action": "text", "decidedAt": "2026-10-26T07:33:20.123Z", "decidedBy": "text", "nodeId": "text"}),
            json!({"comment": {"any": [1, null]}, "editedArtifactData": {"any": [1, null]}, "feedback": {"any": [1, null]}, "outcome": "rejected", "quorumProgress": {"granted": 1, "required": 2}, "refineFeedback": {"any": [1, null]}}),
        ),
        (
            EventKind::ApprovalGranted,
            json!({"gateId": "text", "principal": "text", "quorumProgress": {"granted": 1, "required": 2}}),
            json!({}),
        ),
        (
            EventKind::ApprovalRejected,
            json!({"gateId": "text", "principal": "text"}),
            json!({"reason": "text"}),
        ),
        (
            EventKind::ApprovalOverridden,
            json!({"gateId": "text", "principal": "text"}),
            json!({"reason": "text"}),
        ),
        (
            EventKind::ClarificationRequested,
            json!({"interruptId": "text", "nodeId": "text"}),
            json!({"contentTrust": {"any": [1, null]}, "questions": {"any": [1, null]}}),
        ),
        (
            EventKind::ClarificationResolved,
            json!({"answeredBy": "text", "answers": {"any": [1, null]}, "nodeId": "text"}),
            json!({}),
        ),
        (
            EventKind::ConversationOpened,
            json!({"capabilities": ["multi-turn"], "conversationId": "text", "initialTurn": {"content": [1], "from": "user", "messageId": "m:1", "role": "user", "ts": 7, "turnIndex": 1}}),
            json!({}),
        ),
        (
            EventKind::ConversationExchanged,
            json!({"conversationId": "text", "turn": {"content": [1], "from": "user", "messageId": "m:1", "role": "user", "ts": 7, "turnIndex": 1}, "turnIndex": u64::MAX}),
            json!({}),
        ),
        (
            EventKind::ConversationClosed,
            json!({"conversationId": "text", "finalTurn": {"content": [1], "from": "user", "messageId": "m:1", "role": "user", "ts": 7, "turnIndex": 1}, "turnIndex": u64::MAX}),
            json!({"outcome": {"any": [1, null]}}),
        ),
        (
            EventKind::AgentReasoned,
            json!({"agentId": "text", "reasoning": "text", "verbosity": "text"}),
            json!({"summary": "text", "tokenCount": {"any": [1, null]}}),
        ),
        (
            EventKind::AgentReasoningDelta,
            json!({"agentId": "text", "delta": "text", "sequence": u64::MAX, "verbosity": "text"}),
            json!({}),
        ),
        (
            EventKind::AgentToolCalled,
            json!({"agentId": "text", "callId": "text", "toolId": "text", "toolName": "text"}),
            json!({"argsHash": "text", "arguments": {"any": [1, null]}, "inputs": {"any": [1, null]}, "transport": "word"}),
        ),
        (
            EventKind::AgentToolReturned,
            json!({"agentId": "text", "callId": "text", "status": "word", "toolId": "text", "toolName": "text"}),
            json!({"contentTrust": "word", "durationMs": u64::MAX, "error": {"any": [1, null]}, "outcome": {"any": [1, null]}, "result": {"any": [1, null]}, "transport": "word"}),
        ),
        (
            EventKind::AgentHandoff,
            json!({"from": {"agentId": "a"}, "fromAgentId": "text", "to": {"agentId": "a"}, "toAgentId": "text"}),
            json!({"agentId": "text", "context": {"any": [1, null]}, "reason": "word"}),
        ),
        (
            EventKind::AgentDecided,
            json!({"agentId": "text", "decision": {"any": [1, null]}}),
            json!({"confidence": {"any": [1, null]}, "contentTrust": "word", "reasoning": {"any": [1, null]}}),
        ),
        (
            EventKind::OrchestratorDecided,
            json!({"agentId": "text", "decision": {"any": [1, null]}, "iteration": u64::MAX}),
            json!({}),
        ),
        (
            EventKind::AgentPromptResolved,
            json!({"chain": {"any": [1, null]}, "kind": "text", "nodeId": "text", "resolved": null}),
            json!({"agentId": "text"}),
        ),
        (
            EventKind::PromptComposed,
            json!({"hash": "text", "kind": "text", "nodeId": "text", "refs": ["a"]}),
            json!({"composed": "text", "contentTrust": "text", "systemPrompt": "text", "userPrompt": "text", "variableBindings": {"any": [1, null]}, "variableHashes": {"any": [1, null]}}),
        ),
        (
            EventKind::WorkflowChainEvent,
            json!({"parentRunId": "text", "phase": "dispatch.began", "workerId": "text"}),
            json!({"childRunId": "text", "error": {"code": "x", "message": "m", "details": null}, "harvestedKeys": ["a"]}),
        ),
        (
            EventKind::ConfidenceEscalated,
            json!({"confidence": 0.5, "escalationKind": "word", "floor": 0.5, "originalDecision": {"any": [1, null]}, "parentRunId": "text", "workerId": null}),
            json!({}),
        ),
        (
            EventKind::DispatchFanOut,
            json!({"childCount": u64::MAX, "fanOutPolicy": "word", "joinMode": "quorum", "maxConcurrency": u64::MAX}),
            json!({}),
        ),
        (
            EventKind::DispatchJoin,
            json!({"cancelledCount": u64::MAX, "completedCount": u64::MAX, "failedCount": u64::MAX, "joinOutcome": "partial", "mergeOrder": ["a"]}),
            json!({}),
        ),
        (
            EventKind::ModelCapabilityInsufficient,
            json!({"missingCapabilities": ["a"], "model": "text", "nodeId": "text", "provider": "text"}),
            json!({"fallbackAttempted": true}),
        ),
        (
            EventKind::ModelCapabilitySubstituted,
            json!({"fallbackModel": "text", "fallbackProvider": "text", "missingCapabilities": ["a"], "nodeId": "text", "originalModel": "text", "originalProvider": "text"}),
            json!({}),
        ),
        (
            EventKind::ProviderUsage,
            json!({"inputTokens": u64::MAX, "model": "text", "outputTokens": u64::MAX, "provider": "text"}),
            json!({"cacheHit": true, "cacheReadTokens": u64::MAX, "cacheWriteTokens": u64::MAX, "costEstimateUsd": 0.5, "nodeId": "text", "totalTokens": u64::MAX}),
        ),
        (
            EventKind::EnvelopeRetryAttempted,
            json!({"attempt": 3, "nodeId": "text", "previousError": "text", "reason": "text"}),
            json!({}),
        ),
        (
            EventKind::EnvelopeRetryExhausted,
            json!({"finalError": "text", "finalReason": "text", "nodeId": "text", "totalAttempts": 3}),
            json!({}),
        ),
        (
            EventKind::EnvelopeRefusal,
            json!({"model": "text", "nodeId": "text", "provider": "text"}),
            json!({"refusalText": "text", "safetyCategory": "text"}),
        ),
        (
            EventKind::EnvelopeTruncated,
            json!({"model": "text", "nodeId": "text", "outputTokenCount": u64::MAX, "partialPayloadAvailable": true, "provider": "text", "stopReason": "text"}),
            json!({}),
        ),
        (
            EventKind::EnvelopeNlToFormatEngaged,
            json!({"fallbackCalls": u64::MAX, "nodeId": "text", "originalEnvelopeType": "text"}),
            json!({}),
        ),
        (
            EventKind::EnvelopeRecoveryApplied,
            json!({"byteOffset": u64::MAX, "nodeId": "text", "path": "text"}),
            json!({}),
        ),
    ]
}

/// A payload of a kind: the required members, and the optional members whose bits are set.
pub(crate) fn payload(kind: &EventKind, bits: u32) -> Map<String, Value> {
    let (_, needed, more) = kinds().into_iter().find(|(known, ..)| known == kind).unwrap();
    let mut payload = needed.as_object().unwrap().clone();
    let chosen = more.as_object().unwrap().clone().into_iter().enumerate();
    payload.extend(chosen.filter(|(place, _)| bits >> (place % 32) & 1 == 1).map(|(_, member)| member));
    payload
}

pub(crate) fn event(sequence: u64, kind: EventKind, payload: Map<String, Value>) -> Event {
    let (data, extra) = EventData::read(kind, payload).unwrap();
    let timestamp = canon::time::Timestamp(1_793_000_000_123);
    Event { sequence, node_id: None, data, extra, timestamp, causation_id: None }
}

/// The text of an event in the form before events had types: every object sorted by name.
fn sorted(event: &Event, payload: &Map<String, Value>) -> String {
    let document = json!({
        "eventId": "evt_r_0", "payload": payload, "runId": "r", "sequence": event.sequence,
        "timestamp": event.timestamp.to_rfc3339(), "type": event.data.name(),
    });
    document.to_string()
}

#[test]
fn every_kind_is_in_the_table_once() {
    let known: BTreeSet<String> = kinds().into_iter().map(|(kind, ..)| kind.to_string()).collect();
    let written: BTreeSet<String> = EventKind::WRITTEN.iter().map(ToString::to_string).collect();
    assert_eq!(known, written);
    assert_eq!(kinds().len(), written.len());
}

/// House finding 8: an event without a required member was silently ignored.
#[test]
fn a_missing_required_member_is_named_in_the_error() {
    for (kind, needed, _) in kinds() {
        for (member, value) in needed.as_object().unwrap() {
            // These members may be null, and therefore also missing.
            if value.is_null() {
                continue;
            }
            let mut payload = payload(&kind, u32::MAX);
            payload.remove(member);
            let error = EventData::read(kind.clone(), payload).unwrap_err();
            assert_eq!(error.to_string(), format!("the payload of `{kind}` has no `{member}`"));
        }
    }
}

#[test]
fn a_member_of_another_type_is_named_in_the_error() {
    for (kind, needed, more) in kinds() {
        let members = needed.as_object().unwrap().iter().chain(more.as_object().unwrap());
        for (member, value) in
            members.filter(|(_, value)| !value.is_null() && **value != json!({"any": [1, null]}))
        {
            let mut payload = payload(&kind, u32::MAX);
            payload.insert(member.clone(), if value.is_boolean() { json!(7) } else { json!(true) });
            let error = EventData::read(kind.clone(), payload).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("the payload of `{kind}` has `{member}` with the wrong type")
            );
        }
    }
}

fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter_map("a number", |number| Some(Value::Number(serde_json::Number::from_f64(number)?))),
        "\\PC{0,8}|[\u{0}-\u{1f}\"\\\\]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{0,3}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The bytes of an event are the same as before events had types, decoding restores the event, and its computed size is its length.
    #[test]
    fn events_are_read_back_and_written_as_before(
        kind in 0..EventKind::WRITTEN.len(), bits in any::<u32>(), value in json_values(), newer in json_values(),
    ) {
        let kind = EventKind::WRITTEN[kind].clone();
        let mut members = payload(&kind, bits);
        // Values of users can be anything, and a newer version may add members.
        for member in members.values_mut().filter(|member| **member == json!({"any": [1, null]})) {
            *member = value.clone();
        }
        for name in ["aNewMember", "zNewMember"].iter().take(bits as usize % 3) {
            members.insert((*name).to_owned(), newer.clone());
        }
        let event = event(0, kind, members.clone());
        let text = wire::encode(&flow::id::RunId::new("r"), &event);
        prop_assert_eq!(&text, &sorted(&event, &members));
        prop_assert_eq!(wire::decode(text.as_bytes()).unwrap(), event.clone());
        prop_assert_eq!(event.payload(), members.clone());
        prop_assert_eq!(flow::event::payload_bytes(&members), Value::Object(members).to_string().len() as u64);
    }
}
