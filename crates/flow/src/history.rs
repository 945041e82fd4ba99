//! The comparison of two runs.

use serde_json::{Map, Value};

use crate::event::EventKind;
use crate::event::wire::RawEvent;
use crate::id::NodeId;

/// The maximum number of event differences in a comparison.
pub const MAX_DIFFERENCES: usize = 1000;

/// How two runs differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// The first sequence number at which their logs differ.
    pub diverged_at: Option<u64>,
    /// The events that differ, the first [`MAX_DIFFERENCES`] of them.
    pub events: Vec<EventDifference>,
    /// The members of their snapshots that differ.
    pub state: Vec<StateDifference>,
    /// Whether more events differ than are listed.
    pub is_truncated: bool,
}

/// The events of both logs at one sequence number. At least one log has an event there.
#[derive(Clone, Debug, PartialEq)]
pub struct EventDifference {
    pub sequence: u64,
    pub a: Option<ComparedEvent>,
    pub b: Option<ComparedEvent>,
}

/// The parts of an event that do not depend on when and in which run it happened: no id, run or time.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedEvent {
    pub kind: EventKind,
    pub node_id: Option<NodeId>,
    pub payload: Map<String, Value>,
}

/// A member of two snapshots that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct StateDifference {
    pub member: &'static str,
    pub a: Value,
    pub b: Value,
}

/// A log and the snapshot of its run.
#[derive(Clone, Copy, Debug)]
pub struct History<'h> {
    pub events: &'h [RawEvent],
    pub snapshot: &'h Value,
}

/// Compares two runs.
pub fn difference(a: History<'_>, b: History<'_>) -> Difference {
    let mut difference =
        Difference { state: state_difference(a.snapshot, b.snapshot), ..Difference::default() };
    for index in 0..a.events.len().max(b.events.len()) {
        let (left, right) = (a.events.get(index).map(comparable), b.events.get(index).map(comparable));
        if left == right {
            continue;
        }
        let sequence = index as u64;
        difference.diverged_at.get_or_insert(sequence);
        if difference.events.len() < MAX_DIFFERENCES {
            difference.events.push(EventDifference { sequence, a: left, b: right });
        } else {
            difference.is_truncated = true;
            break;
        }
    }
    difference
}

fn comparable(event: &RawEvent) -> ComparedEvent {
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
    ComparedEvent { kind: event.kind.clone(), node_id: event.node_id.clone(), payload }
}

fn state_difference(a: &Value, b: &Value) -> Vec<StateDifference> {
    let members = ["status", "variables", "channels", "error", "currentNodeId"].into_iter();
    members
        .filter_map(|member| {
            let value_in = |snapshot: &Value| snapshot.get(member).cloned().unwrap_or(Value::Null);
            let (a, b) = (value_in(a), value_in(b));
            (a != b).then_some(StateDifference { member, a, b })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use canon::time::Timestamp;
    use serde_json::json;

    use super::*;

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
    fn a_difference_lists_differing_events_and_members_but_not_times() {
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
        let history = |events, snapshot| History { events, snapshot };
        let same = difference(history(&one, &snapshot), history(&slower, &snapshot));
        assert_eq!(same, Difference::default());
        let failed = json!({"status": "failed"});
        let differs = difference(history(&one, &snapshot), history(&other, &failed));
        assert_eq!(differs.diverged_at, Some(1));
        let sides: Vec<_> = differs
            .events
            .iter()
            .map(|event| (event.sequence, event.a.is_some(), event.b.is_some()))
            .collect();
        assert_eq!(sides, [(1, true, true), (2, false, true)]);
        let status = StateDifference { member: "status", a: json!("completed"), b: json!("failed") };
        assert_eq!(differs.state, [status]);
    }
}
