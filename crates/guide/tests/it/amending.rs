//! Gaps are closed and notes are corrected by new records; recorded events never change.
#![expect(clippy::disallowed_methods, reason = "the ban on files is for the crate, not for its tests")]

use std::collections::BTreeSet;
use std::path::Path;

use guide::engine::EngineError;
use guide::project::recap::ancestor_recap;
use guide::project::{RunStatus, open_gaps, run_status};
use guide::record::{
    Autonomy, DelimiterSafe, EngineState, Event, EventData, EvidenceRef, GapId, GapResolution, NodeId,
    Pointer, Preferences, RiskPolicy,
};
use guide::state::SessionState;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::{Call, Harness, plain, workflow};

const NEVER_STOP: Preferences =
    Preferences { autonomy: Autonomy::FullAutoNeverStop, risk_policy: RiskPolicy::Conservative };

fn noted(id: &str) -> Value {
    json!({"id": id, "title": id, "prompt": "Do it."})
}

/// A run that continued without the notes of its first step and without the user's approval of the second.
fn with_two_gaps() -> (Harness, NodeId) {
    let confirmed = json!({"id": "two", "title": "Two", "prompt": "Do it.", "notesOptional": true,
        "requireConfirmation": true});
    let steps = json!([noted("one"), confirmed, plain("three")]);
    let mut run = Harness::start(workflow(steps), json!({}), Some(NEVER_STOP));
    let root = run.root.clone();
    let second = run.advance(&root, Call::nothing());
    let third = run.advance(&second, Call::nothing());
    assert_eq!(run.state.runs()[0].open_critical_gaps, 2);
    (run, third)
}

fn opened(run: &Harness) -> Vec<GapId> {
    let gaps = run.events.iter().filter_map(|event| match &event.data {
        EventData::GapRecorded { gap_id, resolution: GapResolution::Unresolved, .. } => Some(gap_id.clone()),
        _ => None,
    });
    gaps.collect()
}

fn closes(gap: &GapId) -> Value {
    json!({"kind": "wr.gap_resolution", "gapId": gap, "summary": "It was done after all.", "answeredBy": "user"})
}

fn status(run: &Harness) -> RunStatus {
    run_status(&run.state, &run.state.runs()[0])
}

fn completed_with(run: &Harness) -> u32 {
    let last = run.events.iter().rev().find_map(|event| match &event.data {
        EventData::RunCompleted { open_critical_gaps, .. } => Some(*open_critical_gaps),
        _ => None,
    });
    last.expect("the run was completed")
}

#[test]
fn a_run_is_complete_only_if_all_gaps_are_closed() {
    for (closed, expected) in
        [(0, RunStatus::CompleteWithGaps), (1, RunStatus::CompleteWithGaps), (2, RunStatus::Complete)]
    {
        let (mut run, third) = with_two_gaps();
        let artifacts = opened(&run).iter().take(closed).map(closes).collect();
        let done = run.advance(&third, Call { artifacts, ..Call::nothing() });
        assert!(run.snapshot(&done).is_complete());
        assert_eq!(status(&run), expected, "{closed} closed");
        assert_eq!(completed_with(&run) as usize, 2 - closed, "run_completed has the number of open gaps");
        let again = SessionState::fold(run.state.session_id().clone(), &run.events).unwrap();
        assert_eq!(again, run.state, "the state follows from the log");
    }
}

#[test]
fn closing_gaps_from_the_last_step_completes_a_run() {
    let (mut run, third) = with_two_gaps();
    run.advance(&third, Call::nothing());
    assert_eq!(status(&run), RunStatus::CompleteWithGaps);
    let artifacts = opened(&run).iter().map(closes).collect();
    run.advance(&third, Call { artifacts, ..Call::nothing() });
    assert_eq!(status(&run), RunStatus::Complete);
}

#[test]
fn a_resolution_refers_to_the_gap_and_its_evidence() {
    let (mut run, third) = with_two_gaps();
    let gap = opened(&run)[0].clone();
    let from = run.events.len();
    let artifacts = vec![json!({"kind": "x"}), closes(&gap), closes(&gap)];
    run.advance(&third, Call { artifacts, ..Call::nothing() });
    let written: Vec<&Event> =
        run.events[from..].iter().filter(|event| event.data.kind() == "gap_recorded").collect();
    assert_eq!(written.len(), 1, "a gap is closed once");
    let EventData::GapRecorded { resolution, evidence_refs, summary, .. } = &written[0].data else {
        panic!("a gap")
    };
    assert_eq!(*resolution, GapResolution::Resolves { resolves_gap_id: gap.clone() });
    assert_eq!(summary, "The user answered: It was done after all.");
    let known = |evidence: &EvidenceRef| {
        match evidence {
        EvidenceRef::Event { event_id } => run.events.iter().any(|event| event.event_id == *event_id),
        EvidenceRef::Output { output_id } => run.events.iter().any(|event| {
            matches!(&event.data, EventData::NodeOutputAppended { output_id: other, .. } if other == output_id)
        }),
    }
    };
    assert_eq!(evidence_refs.len(), 2);
    assert!(evidence_refs.iter().all(known), "{evidence_refs:?}");
    // Closing it again, from another branch, records nothing.
    let from = run.events.len();
    run.advance(&third, Call::artifact(closes(&gap)));
    assert!(!run.kinds_since(from).contains(&"gap_recorded"));
}

#[test]
fn invalid_resolutions_are_rejected_and_record_nothing() {
    let (mut run, third) = with_two_gaps();
    let [notes, approval] = <[GapId; 2]>::try_from(opened(&run)).unwrap();
    let with = |mut artifact: Value, name: &str, member: Value| {
        artifact[name] = member;
        artifact
    };
    let mut unsigned = closes(&approval);
    unsigned.as_object_mut().unwrap().remove("answeredBy");
    let cases = [
        ("an unknown gap", with(closes(&notes), "gapId", json!("gap_unknown")), "no gap with the id"),
        ("no gap at all", with(closes(&notes), "gapId", json!("…")), "no gap with the id"),
        ("no summary", with(closes(&notes), "summary", json!(" ")), "is empty or still the placeholder"),
        ("an unknown field", with(closes(&notes), "because", json!("x")), "`because` is an unknown field"),
        // Bug 13b: in the caller's terms.
        (
            "an unknown giver",
            with(closes(&notes), "answeredBy", json!("agent")),
            r#"`answeredBy` is "agent"; it must be "user" or "coordinator""#,
        ),
        (
            "a number",
            with(closes(&notes), "summary", json!(3)),
            "`summary` has the wrong type; it must be a string",
        ),
        ("what only the user can close", unsigned, "only the user can close"),
        (
            "an answer of the caller's own",
            with(closes(&approval), "answeredBy", json!("coordinator")),
            "only the user can close",
        ),
    ];
    for (name, artifact, expected) in cases {
        let before = run.events.len();
        let error = run.try_advance(&third, Call::artifact(artifact)).unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
        assert_eq!(error.code().as_str(), "VALIDATION_ERROR", "{name}");
        assert_eq!(run.events.len(), before, "{name}");
        if let EngineError::UnknownGap { open, .. } = &error {
            assert_eq!(open, &[approval.clone(), notes.clone()], "{name}: the newest first");
        }
    }
    let unsigned =
        json!({"kind": "wr.gap_resolution", "gapId": notes, "summary": "They are in the archive."});
    run.advance(&third, Call::artifact(unsigned));
    assert_eq!(
        run.state.runs()[0].open_critical_gaps,
        1,
        "the caller may close gaps that do not need the user"
    );
}

#[test]
fn a_blocked_attempt_closes_and_corrects_nothing() {
    let steps = json!([noted("one"), noted("two"), plain("end")]);
    let mut run = Harness::start(workflow(steps), json!({}), Some(NEVER_STOP));
    let root = run.root.clone();
    run.advance(&root, Call::nothing());
    let guided = Some(Preferences::default());
    let second = run.advance(&root, Call { preferences: guided, ..Call::notes("first") });
    let artifacts =
        vec![closes(&opened(&run)[0]), json!({"kind": "wr.notes_correction", "notesMarkdown": "better"})];
    let from = run.events.len();
    let block = run.advance(&second, Call { artifacts: artifacts.clone(), ..Call::nothing() });
    assert!(matches!(run.snapshot(&block), EngineState::Blocked(_)));
    assert!(!run.kinds_since(from).contains(&"gap_recorded"));
    assert_eq!(run.state.runs()[0].open_critical_gaps, 1);
    assert_eq!(recap(&run, &block), ["first"]);
    let next = run.advance(&block, Call { artifacts, ..Call::notes("second") });
    assert_eq!(run.state.runs()[0].open_critical_gaps, 0, "the retry sends it again");
    assert_eq!(recap(&run, &next), ["second", "better"]);
}

#[test]
fn the_gap_of_a_loop_limit_has_loop_iteration_and_maximum() {
    let steps = json!([
        {"id": "passes", "type": "loop", "title": "Passes", "loop": {"type": "while", "maxIterations": 2,
            "conditionSource": {"kind": "artifact_contract", "contractRef": "wr.contracts.loop_control"}},
         "body": [{"id": "again", "title": "Again?", "prompt": "Decide.",
            "outputContract": {"contractRef": "wr.contracts.loop_control"}}]},
        plain("end"),
    ]);
    let mut run = Harness::start(workflow(steps), json!({}), Some(NEVER_STOP));
    let root = run.root.clone();
    let second = run.advance(&root, Call::decide("continue"));
    run.advance(&second, Call::decide("continue"));
    let gap = run.state.gap(&opened(&run)[0]).unwrap();
    let loop_id = DelimiterSafe::parse("passes").unwrap();
    assert_eq!(gap.pointer, Some(Pointer::Loop { loop_id, iteration: 1, max_iterations: 2 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn closing_gaps_in_any_order_leaves_the_others_open(
        steps in 1..=8_usize,
        order in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..=12),
    ) {
        let mut list: Vec<Value> = (0..steps).map(|number| noted(&format!("step-{number}"))).collect();
        list.extend((0..=order.len()).map(|number| plain(&format!("plain-{number}"))));
        let mut run = Harness::start(workflow(Value::Array(list)), json!({}), Some(NEVER_STOP));
        let mut node = run.root.clone();
        for _ in 0..steps {
            node = run.advance(&node, Call::nothing());
        }
        let gaps = opened(&run);
        let mut open: BTreeSet<GapId> = gaps.iter().cloned().collect();
        for (index, forks) in order {
            let gap = index.get(&gaps);
            open.remove(gap);
            let next = run.advance(&node, Call::artifact(closes(gap)));
            // A gap is closed for the whole run, regardless of the branch.
            node = if forks { node } else { next };
            let found: BTreeSet<GapId> =
                open_gaps(&run.state, &run.state.runs()[0]).map(|gap| gap.id.clone()).collect();
            prop_assert_eq!(&found, &open);
            prop_assert_eq!(run.state.runs()[0].open_critical_gaps as usize, open.len());
        }
    }
}

fn recap(run: &Harness, node: &NodeId) -> Vec<String> {
    let node = run.state.node(node).unwrap();
    ancestor_recap(&run.state, node, 4096).entries.into_iter().map(|entry| entry.text).collect()
}

fn corrects(notes: &str) -> Value {
    json!({"kind": "wr.notes_correction", "notesMarkdown": notes})
}

#[test]
fn corrected_notes_replace_those_of_the_previous_step_and_the_history_is_kept() {
    let steps = json!([noted("one"), noted("two"), noted("three"), plain("end")]);
    let mut run = Harness::start(workflow(steps), json!({}), None);
    let root = run.root.clone();
    let second = run.advance(&root, Call::notes("one, wrong"));
    let bookmark = run.checkpoint(&second, Some("here"));
    let block = run.advance(&bookmark, Call::nothing());
    let third = run.advance(&block, Call { artifacts: vec![corrects("one, right")], ..Call::notes("two") });
    assert_eq!(recap(&run, &third), ["two", "here", "one, right"], "across a checkpoint and a block");
    let other = run.advance(&second, Call { artifacts: vec![corrects("one, better")], ..Call::notes("two") });
    assert_eq!(recap(&run, &other), ["two", "one, better"], "and again, from another branch");
    let supersedes: Vec<bool> = run
        .events
        .iter()
        .filter_map(|event| match &event.data {
            EventData::NodeOutputAppended { supersedes_output_id, .. } => {
                Some(supersedes_output_id.is_some())
            }
            _ => None,
        })
        .collect();
    assert_eq!(supersedes.iter().filter(|it| **it).count(), 2);
    let notes: Vec<String> = run
        .events
        .iter()
        .filter(|event| event.scope.node_id() == Some(&second) && event.data.kind() == "node_output_appended")
        .map(|event| serde_json::to_value(event).unwrap()["data"]["payload"]["notesMarkdown"].to_string())
        .collect();
    assert_eq!(notes, ["\"one, wrong\"", "\"one, right\"", "\"one, better\""], "on the same node");
}

#[test]
fn invalid_corrections_are_rejected() {
    let mut run = Harness::start(workflow(json!([plain("one"), plain("two")])), json!({}), None);
    let root = run.root.clone();
    let second = run.advance(&root, Call::nothing());
    for (name, node, artifact, expected) in [
        ("at the beginning", &root, corrects("x"), "has no notes to correct"),
        ("where there are none", &second, corrects("x"), "has no notes to correct"),
        ("with nothing", &second, corrects(" "), "is empty or still the placeholder"),
        ("with the placeholder", &second, corrects(guide::placeholder::CORRECTION), "still the placeholder"),
        ("without notes", &second, json!({"kind": "wr.notes_correction"}), "`notesMarkdown` is missing"),
    ] {
        let before = run.events.len();
        let error = run.try_advance(node, Call::artifact(artifact)).unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
        assert_eq!(run.events.len(), before, "{name}");
    }
}

/// A log with every event that has gaps with pointers, resolutions of gaps, and corrected notes.
#[test]
fn the_golden_log_is_still_written_and_read() {
    let members = json!({"id": "deploy", "title": "Deploy", "prompt": "Deploy.", "requireConfirmation": true,
        "userDependencies": [{"id": "when", "reason": "needs_user_choice", "choiceKind": "external_side_effect",
            "what": "Today or tomorrow?"}]});
    let steps = json!([noted("build"), members, plain("end")]);
    let mut run = Harness::start(workflow(steps), json!({}), Some(NEVER_STOP));
    let root = run.root.clone();
    let second = run.advance(&root, Call::notes("built, wrongly"));
    let answer = json!({"kind": "wr.user_answer", "dependencyId": "when", "answeredBy": "user", "outcome": "given",
        "answer": "Tomorrow."});
    let third =
        run.advance(&second, Call { artifacts: vec![answer, corrects("built")], ..Call::notes("deployed") });
    let approval = opened(&run)[0].clone();
    run.advance(&third, Call::artifact(closes(&approval)));
    assert_eq!(status(&run), RunStatus::Complete);
    let text: String =
        run.events.iter().map(|event| String::from_utf8(event.encode()).unwrap() + "\n").collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/logs/users.jsonl");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "the log has changed; if that is intended, run again with UPDATE_GOLDEN=1");
    for (line, event) in text.lines().zip(&run.events) {
        assert_eq!(&Event::decode(line.as_bytes()).unwrap(), event);
    }
}
