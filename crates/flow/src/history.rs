//! Two histories side by side.

use serde_json::{Map, Value, json};

use crate::event::wire::RawEvent;

/// The most differences that a comparison lists.
pub const MAX_DIFFERENCES: usize = 1000;

/// How two runs differ, as the protocol tells it.
pub fn difference(a: (&str, &[RawEvent], &Value), b: (&str, &[RawEvent], &Value)) -> Value {
    let mut listed = Vec::new();
    let mut diverged = None;
    let mut total = 0;
    let length = a.1.len().max(b.1.len());
    for place in 0..length {
        let (left, right) = (a.1.get(place), b.1.get(place));
        let same = matches!((left, right), (Some(left), Some(right)) if shape(left) == shape(right));
        if same {
            continue;
        }
        diverged.get_or_insert(place);
        total += 1;
        if listed.len() >= MAX_DIFFERENCES {
            continue;
        }
        let mut entry = Map::new();
        entry.insert("seq".into(), place.into());
        let op = match (left, right) {
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "removed",
            _ => "added",
        };
        entry.insert("op".into(), op.into());
        entry.extend(left.map(|event| ("aEvent".to_owned(), shape(event))));
        entry.extend(right.map(|event| ("bEvent".to_owned(), shape(event))));
        listed.push(Value::Object(entry));
    }
    let mut document = json!({
        "a": a.0,
        "b": b.0,
        "divergedAtSeq": diverged,
        "eventDiffs": listed,
        "stateDiff": state_difference(a.2, b.2),
    });
    if total > MAX_DIFFERENCES {
        document["truncated"] = Value::Bool(true);
    }
    document
}

/// What of an event is the same whenever it happens: not its id, its run or its time.
fn shape(event: &RawEvent) -> Value {
    let mut payload = event.payload.clone();
    for volatile in [
        "durationMs",
        "runId",
        "interruptId",
        "requestedAt",
        "resolvedAt",
        "decidedAt",
        "writtenAt",
        "pausedAt",
    ] {
        payload.remove(volatile);
    }
    json!({"type": event.kind.as_str(), "nodeId": event.node_id, "payload": payload})
}

/// The members of two snapshots that differ, each with both values.
fn state_difference(a: &Value, b: &Value) -> Value {
    let mut differences = Map::new();
    for name in ["status", "variables", "channels", "error", "currentNodeId"] {
        let (left, right) = (a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null));
        if left != right {
            differences.insert(name.to_owned(), json!({"a": left, "b": right}));
        }
    }
    Value::Object(differences)
}

#[cfg(test)]
mod tests {
    use canon::time::Timestamp;

    use super::*;
    use crate::event::EventKind;

    fn event(sequence: u64, kind: EventKind, payload: &Value) -> RawEvent {
        RawEvent {
            sequence,
            kind,
            node_id: None,
            payload: payload.as_object().unwrap().clone(),
            timestamp: Timestamp(sequence),
            causation_id: (sequence > 0).then(|| format!("evt_source_{}", sequence - 1)),
        }
    }

    #[test]
    fn a_history_equals_itself_and_differs_where_it_differs() {
        let one = [
            event(0, EventKind::RunStarted, &json!({})),
            event(1, EventKind::RunCompleted, &json!({"durationMs": 5})),
        ];
        let slower = [
            event(0, EventKind::RunStarted, &json!({})),
            event(1, EventKind::RunCompleted, &json!({"durationMs": 9})),
        ];
        let other = [
            event(0, EventKind::RunStarted, &json!({})),
            event(1, EventKind::NodeStarted, &json!({})),
            event(2, EventKind::RunFailed, &json!({})),
        ];
        let snapshot = json!({"status": "completed"});
        let same = difference(("a", &one, &snapshot), ("b", &slower, &snapshot));
        assert_eq!(
            same,
            json!({"a": "a", "b": "b", "divergedAtSeq": null, "eventDiffs": [], "stateDiff": {}})
        );
        let differs = difference(("a", &one, &snapshot), ("b", &other, &json!({"status": "failed"})));
        assert_eq!(differs["divergedAtSeq"], 1);
        assert_eq!(differs["eventDiffs"][0]["op"], "changed");
        assert_eq!(differs["eventDiffs"][1]["op"], "added");
        assert_eq!(differs["stateDiff"], json!({"status": {"a": "completed", "b": "failed"}}));
    }
}
