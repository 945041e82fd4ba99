//! Bodies for run comparison, run ancestry and the audit log.

use std::borrow::Cow;
use std::collections::BTreeMap;

use flow::event::EventKind;
use flow::history::{self, ComparedEvent, EventDifference, StateDifference};
use flow::id::{NodeId, RunId};
use runs::audit::AuditReport;
use runs::read::ParentRun;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// How two runs differ.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Difference<'d> {
    #[schemars(with = "String")]
    a: &'d RunId,
    #[schemars(with = "String")]
    b: &'d RunId,
    /// The first event that differs.
    diverged_at_seq: Option<u64>,
    event_diffs: Vec<EventDiff<'d>>,
    /// The members of their snapshots that differ.
    #[schemars(with = "super::fields::Object")]
    state_diff: BTreeMap<&'static str, Sides<'d>>,
    /// Whether more events differ than are listed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct EventDiff<'d> {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "super::fields::Object")]
    a_event: Option<Compared<'d>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "super::fields::Object")]
    b_event: Option<Compared<'d>>,
    op: Op,
    seq: u64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Op {
    Changed,
    Removed,
    Added,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Compared<'d> {
    node_id: Option<&'d NodeId>,
    payload: &'d Map<String, Value>,
    r#type: &'d str,
}

#[derive(Serialize)]
struct Sides<'d> {
    a: &'d Value,
    b: &'d Value,
}

impl<'d> Difference<'d> {
    pub(in crate::http) fn of(a: &'d RunId, b: &'d RunId, difference: &'d history::Difference) -> Self {
        let event_diff = |event: &'d EventDifference| EventDiff {
            a_event: event.a.as_ref().map(Compared::of),
            b_event: event.b.as_ref().map(Compared::of),
            op: match (&event.a, &event.b) {
                (Some(_), Some(_)) => Op::Changed,
                (Some(_), None) => Op::Removed,
                (None, _) => Op::Added,
            },
            seq: event.sequence,
        };
        let sides = |StateDifference { member, a, b }: &'d StateDifference| (*member, Sides { a, b });
        Self {
            a,
            b,
            diverged_at_seq: difference.diverged_at,
            event_diffs: difference.events.iter().map(event_diff).collect(),
            state_diff: difference.state.iter().map(sides).collect(),
            truncated: difference.is_truncated,
        }
    }
}

impl<'d> Compared<'d> {
    fn of(event: &'d ComparedEvent) -> Self {
        Self {
            node_id: event.node_id.as_ref(),
            payload: &event.payload,
            r#type: EventKind::as_str(&event.kind),
        }
    }
}

/// The origin of a run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Ancestry<'r> {
    host_id: Cow<'static, str>,
    parent: Option<Parent<'r>>,
    #[schemars(with = "String")]
    run_id: &'r RunId,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Parent<'r> {
    /// The type of the node that started the run.
    cause: &'r str,
    host_id: Cow<'static, str>,
    #[schemars(with = "String")]
    run_id: &'r RunId,
}

/// The name of this host in an ancestry.
const SELF: Cow<'static, str> = Cow::Borrowed("self");

impl<'r> Ancestry<'r> {
    pub(in crate::http) fn of(run_id: &'r RunId, parent: Option<&'r ParentRun>) -> Self {
        let parent =
            parent.map(|parent| Parent { cause: &parent.type_id, host_id: SELF, run_id: &parent.run_id });
        Self { host_id: SELF, parent, run_id }
    }
}

/// What a walk through the audit log found.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Verified {
    anomalies: Vec<Anomaly>,
    chain_valid: bool,
    checkpoints: Vec<Checkpoint>,
    checkpoints_valid: bool,
    from_seq: u64,
    /// The entries that were signed and are gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "[Range; 1]")]
    missing: Option<[Range; 1]>,
    to_seq: u64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Anomaly {
    actual_prev_hash: String,
    at_seq: u64,
    expected_prev_hash: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Checkpoint {
    at_sequence: u64,
    checkpoint: String,
    merkle_root: String,
    signature: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Range {
    from_seq: u64,
    to_seq: u64,
}

impl From<AuditReport> for Verified {
    fn from(report: AuditReport) -> Self {
        let anomalies = report.anomalies.iter().map(|anomaly| Anomaly {
            actual_prev_hash: anomaly.actual.to_hex(),
            at_seq: anomaly.at,
            expected_prev_hash: anomaly.expected.to_hex(),
        });
        let checkpoints = report.checkpoints.iter().map(|checkpoint| Checkpoint {
            at_sequence: checkpoint.at_sequence(),
            checkpoint: checkpoint.id().to_owned(),
            merkle_root: checkpoint.root().to_hex(),
            signature: checkpoint.signature(),
        });
        let range = |missing: std::ops::RangeInclusive<u64>| {
            let (from_seq, to_seq) = missing.into_inner();
            [Range { from_seq, to_seq }]
        };
        Self {
            anomalies: anomalies.collect(),
            chain_valid: report.is_chain_valid,
            checkpoints: checkpoints.collect(),
            checkpoints_valid: report.are_checkpoints_valid,
            from_seq: report.from,
            missing: report.missing.map(range),
            to_seq: report.to,
        }
    }
}

#[cfg(test)]
mod tests {
    use canon::digest::Digest;
    use flow::id::Tenant;
    use runs::AuditKey;
    use runs::audit::checkpoint::Checkpoint as Signed;
    use runs::audit::merkle::Tree;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_has_the_members_of_the_protocol() {
        let mut tree = Tree::default();
        let digest = Digest::of_bytes(b"entry");
        tree.push(digest);
        let checkpoint = Signed::sign(&AuditKey::from_seed([9; 32]), &Tenant::new("acme"), tree);
        let shown = json!({
            "atSequence": 0,
            "checkpoint": checkpoint.id(),
            "merkleRoot": checkpoint.root().to_hex(),
            "signature": checkpoint.signature(),
        });
        let report = AuditReport {
            from: 0,
            to: 5,
            is_chain_valid: false,
            are_checkpoints_valid: true,
            checkpoints: vec![checkpoint],
            anomalies: vec![runs::audit::Anomaly { at: 3, expected: digest, actual: digest }],
            missing: Some(4..=5),
        };
        let hash = digest.to_hex();
        let expected = json!({
            "anomalies": [{"actualPrevHash": hash, "atSeq": 3, "expectedPrevHash": hash}],
            "chainValid": false,
            "checkpoints": [shown],
            "checkpointsValid": true,
            "fromSeq": 0,
            "missing": [{"fromSeq": 4, "toSeq": 5}],
            "toSeq": 5,
        });
        // As text, because the order of the members is part of it.
        let written = serde_json::to_string(&Verified::from(report)).unwrap();
        assert_eq!(written, expected.to_string());
    }

    #[test]
    fn a_difference_has_the_members_of_the_protocol() {
        let event =
            |kind: EventKind| ComparedEvent { kind, node_id: Some(NodeId::new("n")), payload: Map::new() };
        let (started, failed) = (event(EventKind::RunStarted), event(EventKind::RunFailed));
        let difference = history::Difference {
            diverged_at: Some(1),
            events: vec![
                EventDifference { sequence: 1, a: Some(started.clone()), b: Some(failed.clone()) },
                EventDifference { sequence: 2, a: Some(started), b: None },
                EventDifference { sequence: 3, a: None, b: Some(failed) },
            ],
            state: vec![StateDifference { member: "status", a: json!("completed"), b: json!("failed") }],
            is_truncated: true,
        };
        let shown = |kind: &str| json!({"nodeId": "n", "payload": {}, "type": kind});
        let (started, failed) = (shown("run.started"), shown("run.failed"));
        let expected = json!({
            "a": "run_a",
            "b": "run_b",
            "divergedAtSeq": 1,
            "eventDiffs": [
                {"aEvent": started, "bEvent": failed, "op": "changed", "seq": 1},
                {"aEvent": started, "op": "removed", "seq": 2},
                {"bEvent": failed, "op": "added", "seq": 3},
            ],
            "stateDiff": {"status": {"a": "completed", "b": "failed"}},
            "truncated": true,
        });
        let (a, b) = (RunId::new("run_a"), RunId::new("run_b"));
        let written = serde_json::to_string(&Difference::of(&a, &b, &difference)).unwrap();
        assert_eq!(written, expected.to_string());
    }
}
