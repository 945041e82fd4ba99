//! Events: the table, recorded logs, and generated payloads.

use std::collections::BTreeSet;
use std::path::PathBuf;

use openwop::event::{Extra, Projection, TYPES, Unprojectable, by_v1, by_v2};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("not an object: {other}"),
    }
}

/// The table is a bijection, so a name can be translated in both directions.
#[test]
fn v2_event_code_registered() {
    let v1: BTreeSet<_> = TYPES.iter().map(|row| row.v1).collect();
    let v2: BTreeSet<_> = TYPES.iter().map(|row| row.v2).collect();
    assert_eq!((v1.len(), v2.len()), (118, 118));
    assert_eq!(TYPES.iter().filter(|row| row.v1 != row.v2).count(), 36);
    for row in TYPES {
        assert!(std::ptr::eq(by_v1(row.v1).unwrap(), row) && std::ptr::eq(by_v2(row.v2).unwrap(), row));
        let is_plain =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || b".-".contains(&byte));
        assert!(is_plain(row.v2), "{}", row.v2);
    }
}

/// The recorded logs of earlier versions of this program.
fn recorded() -> Vec<(String, Vec<Map<String, Value>>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../flow/tests/golden/logs");
    let mut logs: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(path.join("events.jsonl")).unwrap();
            // The runs of these logs have ids that are shorter than those of real runs.
            let text = text.replace("evt_r", "evt_run_0123456789abcdef");
            let events = text.lines().map(|line| object(serde_json::from_str(line).unwrap())).collect();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), events)
        })
        .collect();
    logs.sort_by(|left, right| left.0.cmp(&right.0));
    assert!(logs.len() > 10);
    logs
}

/// A member that version 2 admits for a type.
fn is_admitted(kind: &str, member: &str) -> bool {
    let row = by_v2(kind).unwrap();
    row.members.is_none_or(|members| members.contains(&member))
        || match row.extra {
            Extra::Closed => false,
            Extra::Hatch => ["x-", "openwop-", "vendor."].iter().any(|prefix| member.starts_with(prefix)),
            Extra::Open => true,
        }
}

/// Every event of every recorded log is valid in version 2, and comes back unchanged.
#[test]
fn v2_v1_events_translated() {
    let mut kinds = BTreeSet::new();
    for (name, events) in recorded() {
        let (mut forward, mut back) = (Projection::new("acme"), Projection::new("acme"));
        for event in events {
            let translated =
                forward.to_v2(event.clone()).unwrap_or_else(|error| panic!("{name}: {error}: {event:?}"));
            let kind = translated["type"].as_str().unwrap().to_owned();
            let members = [
                "causationId",
                "eventId",
                "nodeId",
                "payload",
                "runId",
                "schemaVersion",
                "sequence",
                "timestamp",
                "type",
            ];
            for member in translated.keys() {
                assert!(members.contains(&member.as_str()), "{name}: {member}");
            }
            for member in translated["payload"].as_object().unwrap().keys() {
                assert!(is_admitted(&kind, member), "{name}: {kind} has {member}");
            }
            assert!(translated["runId"].as_str().unwrap().starts_with("acme/"));
            let mut expected = Value::Object(event);
            if expected["payload"]["reducer"] == "message" {
                // The only loss: version 2 has no such reducer, and the type takes no extension members.
                expected["payload"]["reducer"] = "append".into();
            }
            assert_eq!(Value::Object(back.to_v1(translated).unwrap()), expected, "{name}");
            kinds.insert(kind);
        }
    }
    assert!(kinds.len() > 25, "{kinds:?}");
}

#[test]
fn v2_run_completed_outputs() {
    let event = |payload: Value| {
        object(json!({
            "eventId": "evt_run_1_9", "payload": payload, "runId": "run_1", "sequence": 9,
            "timestamp": "2026-01-01T00:00:00.000Z", "type": "run.completed",
        }))
    };
    for (payload, outputs) in [
        (json!({"durationMs": 1}), json!({})),
        (json!({"durationMs": 1, "outputs": {"a": 1}}), json!({"a": 1})),
    ] {
        let translated = Projection::new("t").to_v2(event(payload.clone())).unwrap();
        assert_eq!(translated["payload"]["outputs"], outputs);
        assert_eq!(Projection::new("t").to_v1(translated).unwrap()["payload"], payload);
    }
}

#[test]
fn an_unregistered_type_and_an_answer_without_a_question_are_refused() {
    let event = |kind: &str, payload: Value| {
        object(json!({
            "eventId": "evt_run_1_9", "nodeId": "gate", "payload": payload, "runId": "run_1", "sequence": 9,
            "timestamp": "2026-01-01T00:00:00.000Z", "type": kind,
        }))
    };
    let mut projection = Projection::new("t");
    assert_eq!(
        projection.to_v2(event("acme.thing", json!({}))),
        Err(Unprojectable::Type("acme.thing".to_owned()))
    );
    let granted = event(
        "approval.granted",
        json!({"gateId": "gate", "principal": "p", "quorumProgress": {"granted": 1, "required": 1}}),
    );
    assert!(projection.lacks(&granted));
    assert!(matches!(projection.to_v2(granted.clone()), Err(Unprojectable::Question { .. })));
    let suspended = event(
        "node.suspended",
        json!({"interruptId": "run_1:gate:0", "key": "k", "kind": "approval", "nodeId": "gate"}),
    );
    projection.observe(&suspended);
    assert!(!projection.lacks(&granted));
    let translated = projection.to_v2(granted.clone()).unwrap();
    let payload = &translated["payload"];
    assert_eq!(payload["decision"], "granted");
    assert_eq!(payload["nodeId"], "gate");
    assert_eq!(payload["resolvedBy"]["subjectId"], "p");
    assert_eq!(payload["interruptId"], openwop::id::interrupt("t", "run_1:gate:0"));
    assert_eq!(projection.to_v1(translated).unwrap(), granted);
    // A member without a place on a closed type.
    let closed = event(
        "provider.usage",
        json!({"provider": "p", "model": "m", "inputTokens": 1, "outputTokens": 1, "new": 1}),
    );
    assert_eq!(
        projection.to_v2(closed),
        Err(Unprojectable::Member { kind: "provider.usage".to_owned(), member: "new".to_owned() })
    );
}

#[test]
fn a_pause_that_waits_for_nodes_is_a_log_line() {
    let event = object(json!({
        "eventId": "evt_run_1_9", "payload": {"drainPolicy": "drain-current-node", "requestedAt": "2026-01-01T00:00:00.000Z"},
        "runId": "run_1", "sequence": 9, "timestamp": "2026-01-01T00:00:00.000Z", "type": "interlock.pauseRequested",
    }));
    let mut projection = Projection::new("t");
    let translated = projection.to_v2(event.clone()).unwrap();
    assert_eq!(translated["type"], "log.appended");
    assert_eq!(projection.to_v1(translated).unwrap(), event);
}

fn payload() -> impl Strategy<Value = Map<String, Value>> {
    let name = prop_oneof![
        "[a-z][a-zA-Z]{0,10}",
        "x-[a-z]{1,5}",
        "x-interlock-[a-z-]{0,8}",
        Just("toolId".to_owned()),
        Just("toolName".to_owned()),
        Just("from".to_owned()),
        Just("fromAgentId".to_owned()),
        Just("agentId".to_owned()),
        Just("outputs".to_owned()),
        Just("attempts".to_owned()),
        Just("inputs".to_owned()),
        Just("arguments".to_owned()),
    ];
    let value = prop_oneof![
        Just(json!(0)),
        Just(json!(null)),
        Just(json!({"agentId": "a"})),
        Just(json!("a")),
        Just(json!([{"b": 1}])),
    ];
    proptest::collection::btree_map(name, value, 0..6).prop_map(|members| members.into_iter().collect())
}

proptest! {
    /// Whatever a newer version adds to a payload with extension members: it comes back.
    #[test]
    fn payloads_come_back(payload in payload(), place in 0..TYPES.len()) {
        let row = &TYPES[place];
        // These types are derived from the envelope and from the question, which generated members contradict.
        let derived = ["interrupt.", "approval.", "clarification.", "node.suspended", "node.resumed"];
        prop_assume!(row.extra == Extra::Hatch && !derived.iter().any(|start| row.v1.starts_with(start)));
        // The names that the projection itself gives.
        let ours = ["x-interlock-absent", "x-interlock-causation", "x-interlock-pause", "x-interlock-key"];
        prop_assume!(payload.keys().all(|name| !ours.contains(&name.as_str())));
        // These members have another shape in every log.
        let typed = ["owner", "error", "lastError", "divergencePoint"];
        prop_assume!(payload.keys().all(|name| !typed.contains(&name.as_str())));
        let event = object(json!({
            "eventId": "evt_run_1_9", "nodeId": "n", "payload": payload, "runId": "run_1", "sequence": 9,
            "timestamp": "2026-01-01T00:00:00.000Z", "type": row.v1, "causationId": "short",
        }));
        let translated = Projection::new("t").to_v2(event.clone()).unwrap();
        for member in translated["payload"].as_object().unwrap().keys() {
            prop_assert!(is_admitted(row.v2, member), "{} has {}", row.v2, member);
        }
        prop_assert_eq!(Projection::new("t").to_v1(translated).unwrap(), event);
    }
}
