use std::collections::BTreeSet;

use canon::digest::Digest;
use proptest::prelude::*;
use serde_json::json;

use super::testing::{Log, workflow_hash};
use super::*;
use crate::project::{preferred_tip, tips};
use crate::record::{
    AdvanceIntent, AdvanceOutcome, Autonomy, CapabilityStatus, ClaimDetail, ClaimedBy, ClaimedStatus,
    Confidence, EdgeCause, EdgeCauseKind, EnforcementGrade, EventData, GapResolution, NodeKind,
    ObservationValue, OutputPayload, PreferenceChange, PreferenceSource, ProbeDetail, Provenance, RiskPolicy,
    Scope, SnapshotRef, StepName, UseResult,
};

fn created(parent: Option<NodeId>, node_kind: NodeKind, hash: Digest) -> EventData {
    let snapshot_ref = SnapshotRef(Digest::of_bytes(b"s"));
    EventData::NodeCreated { node_kind, parent_node_id: parent, workflow_hash: hash, snapshot_ref }
}

fn edge(log: &Log, from: usize, to: usize, edge_kind: EdgeKind, kind: EdgeCauseKind) -> EventData {
    let cause = EdgeCause { kind, event_id: log.events[0].event_id.clone() };
    let (from_node_id, to_node_id) = (log.nodes[from].clone(), log.nodes[to].clone());
    EventData::EdgeCreated { edge_kind, from_node_id, to_node_id, cause }
}

fn advanced(log: &mut Log, to: &NodeId) -> EventData {
    let outcome = AdvanceOutcome::Advanced { to_node_id: to.clone() };
    EventData::AdvanceRecorded { attempt_id: log.attempt(), intent: AdvanceIntent::AckPending, outcome }
}

fn capability(status: CapabilityStatus, strong: bool, grade: EnforcementGrade) -> EventData {
    let provenance = if strong {
        let detail = ProbeDetail {
            probe_template_id: "t".to_owned(),
            probe_step_id: StepName::parse("probe").unwrap(),
            result: UseResult::Success,
        };
        Provenance::ProbeStep { enforcement_grade: grade, detail }
    } else {
        let detail = ClaimDetail { claimed_by: ClaimedBy::Agent, claim: ClaimedStatus::Available };
        Provenance::ManualClaim { enforcement_grade: grade, detail }
    };
    EventData::CapabilityObserved {
        cap_obs_id: "o".to_owned(),
        capability: Capability::Delegation,
        status,
        provenance,
    }
}

fn preferences(effective: Preferences, delta: Vec<PreferenceChange>) -> EventData {
    EventData::PreferencesChanged {
        change_id: "c".to_owned(),
        source: PreferenceSource::User,
        delta,
        effective,
    }
}

/// Root, a step, a blocked attempt at it, and a checkpoint of the root with notes and a gap.
fn sample() -> Log {
    let mut log = Log::start("sample");
    let step = log.advance(0, NodeKind::Step);
    log.advance(step, NodeKind::BlockedAttempt);
    log.checkpoint(0);
    log.notes(0, "done", None);
    log.gap(step, None);
    log
}

#[test]
fn invalid_events_are_rejected() {
    type Change = fn(&mut Log);
    let cases: &[(&str, Change, &str)] = &[
        ("a missing index", |log| log.events.last_mut().unwrap().event_index.0 += 1, "EVENT_INDEX_GAP"),
        (
            "another session",
            |log| log.events.last_mut().unwrap().session_id = SessionId::derived(&["other"]),
            "EVENT_OTHER_SESSION",
        ),
        (
            "created twice",
            |log| {
                log.push(Scope::Session, EventData::SessionCreated { parent_session_id: None });
            },
            "EVENT_WRONG_PLACE",
        ),
        (
            "a key again",
            |log| {
                let key = log.events[1].dedupe_key.clone();
                log.events.last_mut().unwrap().dedupe_key = key;
            },
            "EVENT_DUPLICATE",
        ),
        (
            "an event id again",
            |log| {
                let id = log.events[1].event_id.clone();
                log.events.last_mut().unwrap().event_id = id;
            },
            "EVENT_DUPLICATE",
        ),
        (
            "a scope that does not fit",
            |log| log.events.last_mut().unwrap().scope = Scope::Session,
            "EVENT_WRONG_PLACE",
        ),
        (
            "a run again",
            |log| {
                let data = log.events[1].data.clone();
                log.push(Scope::Run(log.run.clone()), data);
            },
            "EVENT_DUPLICATE",
        ),
        (
            "in a run that never started",
            |log| {
                let data = created(None, NodeKind::Step, workflow_hash());
                log.push(Scope::Node(RunId::derived(&["no"]), NodeId::derived(&["no"])), data);
            },
            "EVENT_UNKNOWN_REFERENCE",
        ),
        (
            "a node again",
            |log| {
                let data = created(Some(log.nodes[0].clone()), NodeKind::Step, workflow_hash());
                log.push(log.at(1), data);
            },
            "EVENT_DUPLICATE",
        ),
        (
            "a second root",
            |log| {
                let scope = Scope::Node(log.run.clone(), NodeId::derived(&["new"]));
                log.push(scope, created(None, NodeKind::Step, workflow_hash()));
            },
            "EVENT_WRONG_PLACE",
        ),
        (
            "an unknown parent",
            |log| {
                let scope = Scope::Node(log.run.clone(), NodeId::derived(&["new"]));
                log.push(scope, created(Some(NodeId::derived(&["no"])), NodeKind::Step, workflow_hash()));
            },
            "EVENT_UNKNOWN_REFERENCE",
        ),
        (
            "another workflow",
            |log| {
                let scope = Scope::Node(log.run.clone(), NodeId::derived(&["new"]));
                log.push(scope, created(Some(log.nodes[0].clone()), NodeKind::Step, Digest::of_bytes(b"x")));
            },
            "EVENT_CONTRADICTION",
        ),
        (
            "a parent in another run",
            |log| {
                let other = RunId::derived(&["second"]);
                let data = log.events[1].data.clone();
                log.push(Scope::Run(other.clone()), data);
                let data = created(Some(log.nodes[0].clone()), NodeKind::Step, workflow_hash());
                log.push(Scope::Node(other, NodeId::derived(&["new"])), data);
            },
            "EVENT_UNKNOWN_REFERENCE",
        ),
        (
            "below another node than its attempt",
            |log| {
                let new = NodeId::derived(&["new"]);
                let data = advanced(log, &new);
                log.push(log.at(1), data);
                let data = created(Some(log.nodes[0].clone()), NodeKind::Step, workflow_hash());
                log.push(Scope::Node(log.run.clone(), new), data);
            },
            "EVENT_CONTRADICTION",
        ),
        (
            "an attempt that leads to a node of another",
            |log| {
                let to = log.nodes[1].clone();
                let data = advanced(log, &to);
                log.push(log.at(0), data);
            },
            "EVENT_CONTRADICTION",
        ),
        (
            "an attempt with two outcomes",
            |log| {
                let new = NodeId::derived(&["new"]);
                let mut data = advanced(log, &new);
                log.push(log.at(1), data.clone());
                if let EventData::AdvanceRecorded { outcome, .. } = &mut data {
                    *outcome = AdvanceOutcome::Advanced { to_node_id: NodeId::derived(&["newer"]) };
                }
                log.push(log.at(1), data);
            },
            "EVENT_DUPLICATE",
        ),
        (
            "an edge again",
            |log| {
                let data = edge(log, 0, 1, EdgeKind::AckedStep, EdgeCauseKind::FirstAdvance);
                log.push(Scope::Run(log.run.clone()), data);
            },
            "EVENT_CONTRADICTION",
        ),
        (
            "an edge that skips a node",
            |log| {
                let data = edge(log, 0, 2, EdgeKind::AckedStep, EdgeCauseKind::FirstAdvance);
                log.push(Scope::Run(log.run.clone()), data);
            },
            "EVENT_CONTRADICTION",
        ),
        (
            "an edge with a cause of another kind",
            |log| {
                let last = log.nodes.len();
                let scope = Scope::Node(log.run.clone(), NodeId::derived(&["new"]));
                log.nodes.push(NodeId::derived(&["new"]));
                log.push(scope, created(Some(log.nodes[0].clone()), NodeKind::Step, workflow_hash()));
                let data = edge(log, 0, last, EdgeKind::AckedStep, EdgeCauseKind::CheckpointCreated);
                log.push(Scope::Run(log.run.clone()), data);
            },
            "EVENT_CONTRADICTION",
        ),
        (
            "an edge whose cause is not in the log",
            |log| {
                let last = log.nodes.len();
                let scope = Scope::Node(log.run.clone(), NodeId::derived(&["new"]));
                log.nodes.push(NodeId::derived(&["new"]));
                log.push(scope, created(Some(log.nodes[0].clone()), NodeKind::Step, workflow_hash()));
                let mut data = edge(log, 0, last, EdgeKind::AckedStep, EdgeCauseKind::FirstAdvance);
                if let EventData::EdgeCreated { cause, .. } = &mut data {
                    cause.event_id = EventId::derived(&["no"]);
                }
                log.push(Scope::Run(log.run.clone()), data);
            },
            "EVENT_UNKNOWN_REFERENCE",
        ),
        (
            "an output that corrects nothing",
            |log| {
                log.notes(0, "x", Some(&OutputId::derived(&["no"])));
            },
            "EVENT_UNKNOWN_REFERENCE",
        ),
        (
            "an output that corrects another node's",
            |log| {
                let first = log.notes(0, "x", None);
                log.notes(1, "y", Some(&first));
            },
            "EVENT_CONTRADICTION",
        ),
        (
            "an output that corrects another channel's",
            |log| {
                let first = log.notes(0, "x", None);
                log.notes(0, "y", Some(&first));
                if let EventData::NodeOutputAppended { output_channel, .. } =
                    &mut log.events.last_mut().unwrap().data
                {
                    *output_channel = OutputChannel::Artifact;
                }
            },
            "EVENT_CONTRADICTION",
        ),
        (
            "a gap that resolves nothing",
            |log| {
                log.gap(0, Some(&GapId::derived(&["no"])));
            },
            "EVENT_UNKNOWN_REFERENCE",
        ),
        (
            "preferences without their change",
            |log| {
                let data = preferences(
                    Preferences::default(),
                    vec![PreferenceChange::RiskPolicy(RiskPolicy::Aggressive)],
                );
                log.push(log.at(0), data);
            },
            "EVENT_CONTRADICTION",
        ),
        (
            "a claim that calls itself strong",
            |log| {
                let data = capability(CapabilityStatus::Available, false, EnforcementGrade::Strong);
                log.push(log.at(0), data);
            },
            "EVENT_CONTRADICTION",
        ),
        (
            "completed by an unknown node",
            |log| {
                let data =
                    EventData::RunCompleted { tip_node_id: NodeId::derived(&["no"]), open_critical_gaps: 0 };
                log.push(Scope::Run(log.run.clone()), data);
            },
            "EVENT_CONTRADICTION",
        ),
    ];
    let mut seen = BTreeSet::new();
    for (name, change, expected) in cases {
        let mut log = sample();
        change(&mut log);
        let (last, before) = log.events.split_last().unwrap();
        let mut state =
            SessionState::fold(log.session.clone(), before).unwrap_or_else(|error| panic!("{name}: {error}"));
        let untouched = state.clone();
        let refused = state.apply(last).expect_err(name);
        assert_eq!(refused.code().as_str(), *expected, "{name}: {refused}");
        assert_eq!(refused.envelope().code(), *expected, "{name}");
        assert!(state == untouched, "{name}: a rejected event changes nothing");
        seen.insert(*expected);
    }
    let mut full = SessionState::new(SessionId::derived(&["full"]));
    full.next_index = EventIndex(SESSION_EVENTS);
    let mut log = Log::start("full");
    log.events[1].event_index = full.next_index;
    seen.insert(full.apply(&log.events[1]).unwrap_err().code().as_str());
    let all: BTreeSet<_> = FoldErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(seen, all, "every code is produced");
}

#[test]
fn nodes_have_their_position() {
    let mut log = Log::start("where");
    log.context(json!({"goal": "first"}));
    let step = log.advance(0, NodeKind::Step);
    let blocked = log.advance(step, NodeKind::BlockedAttempt);
    let (bookmark, attempt) = log.checkpoint(blocked);
    let again = log.advance(blocked, NodeKind::BlockedAttempt);
    log.context(json!({"goal": "second"}));
    let done = log.advance(again, NodeKind::Step);
    let state = log.state();
    let table: Vec<_> = [0, step, blocked, bookmark, again, done]
        .map(|at| state.node(&log.nodes[at]).unwrap())
        .iter()
        .map(|node| {
            (node.depth, node.step_ordinal, node.blocked_chain, node.attempts(), node.checkpoint_count())
        })
        .collect();
    assert_eq!(
        table,
        [
            (0, 1, 0, 1, 0),
            (1, 2, 0, 1, 0),
            (2, 2, 1, 1, 1),
            (3, 2, 1, 0, 0),
            (3, 2, 2, 1, 0),
            (4, 3, 0, 0, 0)
        ]
    );
    assert_eq!(state.checkpoint_of(&log.nodes[blocked], &attempt).unwrap().id, log.nodes[bookmark]);
    assert!(state.checkpoint_of(&log.nodes[step], &attempt).is_none());
    assert_eq!(state.context(&log.run)["goal"], "second");
    let contexts =
        [0, step, again, done].map(|at| state.node(&log.nodes[at]).unwrap().context_index.unwrap());
    assert_eq!(contexts[0], contexts[2], "an older node keeps its context");
    assert_eq!(Some(contexts[3]), state.context_index(&log.run));
    let root = state.root_of(state.run(&log.run).unwrap()).unwrap();
    let (attempt, advance) = root.advances().next().unwrap();
    assert_eq!(state.advance(&root.id, attempt), Some(advance));
    assert_eq!(advance.outcome, AdvanceOutcome::Advanced { to_node_id: log.nodes[step].clone() });
    assert_eq!(state.index_of(&log.events[3].dedupe_key), Some(EventIndex(3)));
    assert_eq!((state.first_timestamp_ms(), state.next_index().0), (Some(1000), log.events.len() as u64));
}

#[test]
fn later_nodes_inherit_preferences_and_capabilities() {
    let mut log = Log::start("inherit");
    let before = log.advance(0, NodeKind::Step);
    let bold = Preferences { autonomy: Autonomy::FullAutoNeverStop, risk_policy: RiskPolicy::Conservative };
    log.push(log.at(0), preferences(bold, vec![PreferenceChange::Autonomy(Autonomy::FullAutoNeverStop)]));
    log.push(log.at(0), capability(CapabilityStatus::Unavailable, true, EnforcementGrade::Strong));
    log.push(log.at(0), capability(CapabilityStatus::Available, false, EnforcementGrade::Weak));
    let after = log.advance(0, NodeKind::Step);
    let state = log.state();
    let at = |node: usize| state.preferences_at(&log.nodes[node]).unwrap();
    assert_eq!((at(0), at(after), at(before)), (bold, bold, Preferences::default()));
    let view = state.capability_at(&log.nodes[after], Capability::Delegation);
    assert_eq!(view.latest.unwrap().status, CapabilityStatus::Available);
    assert_eq!(
        view.strong.unwrap().status,
        CapabilityStatus::Unavailable,
        "a claim does not override a test"
    );
    let none = CapabilityView::default();
    assert_eq!(state.capability_at(&log.nodes[before], Capability::Delegation), none);
    assert_eq!(state.capability_at(&log.nodes[after], Capability::WebBrowsing), none);
}

#[test]
fn corrections_and_resolutions_are_links() {
    let mut log = Log::start("links");
    let first = log.notes(0, "first", None);
    let second = log.notes(0, "second", Some(&first));
    let gap = log.gap(0, None);
    let other = log.gap(0, None);
    assert_eq!(log.state().runs()[0].open_critical_gaps, 2);
    let resolver = log.gap(0, Some(&gap));
    log.gap(0, Some(&gap));
    let state = log.state();
    assert_eq!(state.output(&first).unwrap().superseded_by, Some(second.clone()));
    assert_eq!(state.output(&second).unwrap().notes(), Some("second"));
    assert_eq!(state.gap(&gap).unwrap().resolved_by, Some(resolver));
    assert!(state.gap(&other).unwrap().is_open() && !state.gap(&gap).unwrap().is_open());
    assert_eq!((state.runs()[0].open_gaps, state.runs()[0].open_critical_gaps), (1, 1));
    assert_eq!(state.gaps_of_run(&state.runs()[0]).count(), 4, "the history is kept");
}

#[derive(Clone, Debug)]
enum Action {
    Step(usize),
    Block(usize),
    Complete(usize),
    Checkpoint(usize),
    Notes(usize),
    Correct(usize),
    Gap(usize),
    Resolve,
    Context,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let node = 0..64_usize;
    let action = prop_oneof![
        4 => node.clone().prop_map(Action::Step),
        2 => node.clone().prop_map(Action::Block),
        1 => node.clone().prop_map(Action::Complete),
        2 => node.clone().prop_map(Action::Checkpoint),
        2 => node.clone().prop_map(Action::Notes),
        1 => node.clone().prop_map(Action::Correct),
        2 => node.prop_map(Action::Gap),
        1 => Just(Action::Resolve),
        1 => Just(Action::Context),
    ];
    prop::collection::vec(action, 0..24)
}

fn log_of(actions: &[Action]) -> Log {
    let mut log = Log::start("property");
    let mut gaps = Vec::new();
    for action in actions {
        let at = |node: &usize| node % log.nodes.len();
        match action {
            Action::Step(node) => _ = log.advance(at(node), NodeKind::Step),
            Action::Block(node) => _ = log.advance(at(node), NodeKind::BlockedAttempt),
            Action::Complete(node) => _ = log.complete(at(node)),
            Action::Checkpoint(node) => _ = log.checkpoint(at(node)),
            Action::Notes(node) => _ = log.notes(at(node), "notes", None),
            Action::Correct(node) => {
                let node = at(node);
                let first = log.notes(node, "wrong", None);
                log.notes(node, "right", Some(&first));
            }
            Action::Gap(node) => gaps.push(log.gap(at(node), None)),
            Action::Resolve => {
                if let Some(gap) = gaps.pop() {
                    log.gap(0, Some(&gap));
                }
            }
            Action::Context => log.context(json!({"at": log.events.len()})),
        }
    }
    log
}

/// The rule for the preferred tip, implemented literally from the events only.
fn literal_tip(log: &Log) -> Option<NodeId> {
    let parent_of = |node: &NodeId| {
        log.events.iter().find_map(|event| match &event.data {
            EventData::NodeCreated { parent_node_id, .. } if event.scope.node_id() == Some(node) => {
                parent_node_id.clone()
            }
            _ => None,
        })
    };
    let touches = |event: &Event, node: &NodeId| match &event.data {
        EventData::NodeCreated { .. }
        | EventData::NodeOutputAppended { .. }
        | EventData::GapRecorded { .. }
        | EventData::CapabilityObserved { .. }
        | EventData::PreferencesChanged { .. }
        | EventData::DivergenceRecorded { .. } => event.scope.node_id() == Some(node),
        EventData::EdgeCreated { to_node_id, .. } => to_node_id == node,
        _ => false,
    };
    let leaves = log
        .nodes
        .iter()
        .filter(|node| !log.nodes.iter().any(|other| parent_of(other).as_ref() == Some(node)));
    leaves
        .map(|leaf| {
            let path: Vec<NodeId> = std::iter::successors(Some(leaf.clone()), parent_of).collect();
            let last = log.events.iter().rposition(|event| path.iter().any(|node| touches(event, node)));
            let made = log.nodes.iter().position(|node| node == leaf);
            (last, made, leaf.clone())
        })
        .max()
        .map(|(_, _, leaf)| leaf)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn folding_a_prefix_then_the_rest_equals_folding_all(actions in actions(), cut in any::<prop::sample::Index>()) {
        let log = log_of(&actions);
        let (prefix, rest) = log.events.split_at(cut.index(log.events.len() + 1));
        let mut state = SessionState::fold(log.session.clone(), prefix).unwrap();
        for event in rest {
            state.apply(event).unwrap();
        }
        prop_assert!(state == log.state());
    }

    #[test]
    fn a_log_with_two_swapped_events_is_rejected_and_changes_nothing(
        actions in actions(),
        left in any::<prop::sample::Index>(),
        right in any::<prop::sample::Index>(),
    ) {
        let log = log_of(&actions);
        let mut events = log.events.clone();
        let (left, right) = (left.index(events.len()), right.index(events.len()));
        events.swap(left, right);
        // The indexes are corrected, so that only the content of the events is invalid.
        for renumber in [false, true] {
            let mut state = SessionState::new(log.session.clone());
            for (index, event) in events.iter().enumerate() {
                let mut event = event.clone();
                if renumber {
                    event.event_index = EventIndex(index as u64);
                }
                let before = state.clone();
                if state.apply(&event).is_err() {
                    prop_assert!(state == before);
                }
            }
            prop_assert!(renumber || left == right || state != log.state());
        }
    }

    #[test]
    fn the_preferred_tip_follows_the_rule(actions in actions()) {
        let log = log_of(&actions);
        let state = log.state();
        let run = state.run(&log.run).unwrap();
        let tip = preferred_tip(&state, run).map(|tip| tip.id.clone());
        prop_assert_eq!(&tip, &literal_tip(&log));
        let tips = tips(&state, run);
        prop_assert_eq!(tip, tips.first().map(|tip| tip.node.id.clone()));
        prop_assert_eq!(tips.len(), run.leaf_count as usize);
        prop_assert_eq!(tips[0].last_activity_index, run.last_activity_index);
    }

    #[test]
    fn ancestors_are_the_nodes_on_the_path_to_the_root(actions in actions()) {
        let log = log_of(&actions);
        let state = log.state();
        for lower in &log.nodes {
            let lower = state.node(lower).unwrap();
            let above: BTreeSet<&NodeId> = state.lineage(lower).map(|node| &node.id).collect();
            for upper in &log.nodes {
                let upper = state.node(upper).unwrap();
                prop_assert_eq!(state.is_ancestor_or_self(upper, lower), above.contains(&upper.id));
            }
        }
    }

    #[test]
    fn open_gaps_are_counted_correctly(actions in actions()) {
        let log = log_of(&actions);
        let state = log.state();
        let run = &state.runs()[0];
        let open = state.gaps_of_run(run).filter(|gap| gap.is_open()).count();
        prop_assert_eq!(open, run.open_gaps as usize);
        for gap in state.gaps_of_run(run) {
            if let GapResolution::Resolves { resolves_gap_id } = &gap.resolution {
                prop_assert_eq!(state.gap(resolves_gap_id).unwrap().resolved_by.as_ref(), Some(&gap.id));
            }
        }
    }
}

#[test]
fn artifacts_have_no_notes() {
    let payload = OutputPayload::ArtifactRef(crate::record::ArtifactRef {
        sha256: Digest::of_bytes(b"{}"),
        content_type: "application/json".to_owned(),
        byte_length: 2,
        content: None,
    });
    let mut log = Log::start("artifact");
    let output_id = OutputId::derived(&["a"]);
    let data = EventData::NodeOutputAppended {
        output_id: output_id.clone(),
        supersedes_output_id: None,
        output_channel: OutputChannel::Artifact,
        payload,
    };
    log.push(log.at(0), data);
    assert_eq!(log.state().output(&output_id).unwrap().notes(), None);
}

#[test]
fn the_last_observation_of_a_key_counts() {
    let mut log = Log::start("observed");
    log.advance(0, NodeKind::Step);
    let observe = |log: &mut Log, scope: Scope, branch: &str| {
        let value = ObservationValue::ShortString(branch.to_owned());
        let data = EventData::ObservationRecorded {
            key: ObservationKey::GitBranch,
            value,
            confidence: Confidence::High,
        };
        log.push(scope, data);
    };
    observe(&mut log, Scope::Session, "main");
    let node = log.at(0);
    observe(&mut log, node, "feature");
    let state = log.state();
    let latest = state.observation(ObservationKey::GitBranch).unwrap();
    assert_eq!((latest.value.text().as_str(), latest.index), ("feature", EventIndex(7)));
    let input = crate::project::resume::ranking_input(&state, &state.runs()[0], None).unwrap();
    assert_eq!(input.git_branch.as_deref(), Some("feature"), "the ranking uses it");
}
