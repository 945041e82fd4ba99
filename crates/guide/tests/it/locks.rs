//! Rules of the record: keys, reasons, order, truncation.

use std::collections::BTreeSet;

use canon::budget::TRUNCATION_MARKER;
use canon::digest::Digest;
use guide::derive;
use guide::engine::{self, Start};
use guide::record::budgets::NOTES_BYTES;
use guide::record::{
    Autonomy, Block, Blocked, BlockerCode, DedupeKey, DivergenceReason, EngineState, Event, EventData,
    GapDetail, GapReason, GapSeverity, NodeId, ObservationKey, ObservationValue, OutputChannel,
    OutputPayload, Preferences, RiskPolicy, StepName, TraceKind, UserOnlyDependency, WorkflowSourceKind,
};
use guide::workflow::compiled::CompiledWorkflow;
use guide::workflow::pinned::PinnedWorkflow;
use serde_json::{Value, json};

use crate::harness::{Call, Harness, compiled, plain, workflow};

const NEVER_STOP: Preferences =
    Preferences { autonomy: Autonomy::FullAutoNeverStop, risk_policy: RiskPolicy::Conservative };

/// A workflow that can produce every kind of event.
fn everything() -> CompiledWorkflow {
    compiled(&json!({
        "id": "project.test", "name": "Test", "description": "A test.", "version": "1.0.0",
        "capabilities": {"web_browsing": "required"},
        "assessments": [{"id": "readiness", "purpose": "Is it ready?", "dimensions": [
            {"id": "evidence", "purpose": "Findings cite code", "levels": ["high", "low"]}]}],
        "steps": [{"id": "handoff", "title": "Hand off", "prompt": "Write.",
            "assessmentRefs": ["readiness"], "assessmentConsequences": [{"when": {"anyEqualsLevel": "low"},
                "effect": {"kind": "require_followup", "guidance": "Anchor each finding."}}]}],
    }))
}

fn observation(status: &str) -> Value {
    json!({"kind": "wr.capability_observation", "capability": "web_browsing", "status": status,
        "provenance": "probe_step"})
}

fn divergence(reason: &str, summary: &str) -> Value {
    json!({"kind": "wr.workflow_divergence", "reason": reason, "summary": summary})
}

/// A key with each id replaced by its kind, and each digest by its length.
fn spelling(key: &DedupeKey) -> String {
    let word = |part: &str| {
        let is_hex = part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        match part.rsplit_once('_') {
            Some((prefix, id)) if id.len() == 26 => format!("<{prefix}>"),
            _ if is_hex && part.len() >= 16 => format!("<{} hex>", part.len()),
            _ => part.to_owned(),
        }
    };
    let part = |part: &str| part.split("->").map(word).collect::<Vec<_>>().join("->");
    key.as_str().split(':').map(part).collect::<Vec<_>>().join(":")
}

/// The events of a start with an observation of the workspace.
fn start_events(now_ms: u64) -> Vec<Event> {
    let workflow = everything();
    engine::start(Start {
        session_id: derive::session_id(&[7; 16]),
        parent_session_id: None,
        workflow: &PinnedWorkflow::new(workflow),
        source_kind: WorkflowSourceKind::Project,
        source_ref: "workflows/test.json".to_owned(),
        goal: "test".to_owned(),
        context: serde_json::Map::new(),
        preferences: None,
        observations: vec![(
            ObservationKey::GitBranch,
            ObservationValue::ShortString("Feature/Ünïcode".to_owned()),
        )],
        now_ms,
    })
    .unwrap()
    .events
}

/// A session with every kind of event, except observations of a workspace.
fn full_log() -> Vec<Event> {
    let mut run = Harness::start(everything(), json!({}), None);
    let root = run.root.clone();
    run.checkpoint(&root, Some("here"));
    let probed = run.advance(&root, Call::artifact(observation("available")));
    let assess = |level: &str| json!({"kind": "wr.assessment", "dimensions": {"evidence": level}});
    let low = run.advance(&probed, Call { artifacts: vec![assess("low")], ..Call::notes("written") });
    let call = Call {
        artifacts: vec![assess("low"), divergence("efficiency_skip", "sampled")],
        context: json!({"found": true}).as_object().cloned(),
        preferences: Some(NEVER_STOP),
        ..Call::notes("written")
    };
    let done = run.advance(&low, call);
    assert!(run.snapshot(&done).is_complete());
    run.events
}

#[test]
fn every_kind_of_event_has_its_form_of_dedupe_key() {
    let mut spellings: BTreeSet<String> =
        full_log().iter().map(|event| spelling(&event.dedupe_key)).collect();
    spellings.extend(start_events(1).iter().map(|event| spelling(&event.dedupe_key)));
    let expected = [
        "advance_recorded:<sess>:<node>:<attempt>",
        "assessment_consequence_applied:<sess>:<attempt>:0",
        "assessment_recorded:<sess>:<attempt>:<16 hex>",
        "capability_observed:<sess>:<capobs>",
        "context_set:<sess>:<ctx>",
        "decision_trace_appended:<sess>:<trace>",
        "divergence_recorded:<sess>:<divergence>",
        "edge_created:<sess>:<run>:<node>-><node>:acked_step",
        "edge_created:<sess>:<run>:<node>-><node>:checkpoint:<attempt>",
        "gap_recorded:<sess>:<gap>",
        "node_created:<sess>:<run>:<node>",
        "node_output_appended:<sess>:<out>",
        "observation_recorded:<sess>:git_branch:<64 hex>",
        "preferences_changed:<sess>:<prefchg>",
        "run_completed:<sess>:<run>:<node>",
        "run_started:<sess>:<run>",
        "session_created:<sess>",
        "validation_performed:<sess>:<validation>",
    ];
    assert_eq!(spellings.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn a_key_depends_neither_on_the_clock_nor_on_its_event_id() {
    let keys = |now_ms| start_events(now_ms).into_iter().map(|event| event.dedupe_key).collect::<Vec<_>>();
    assert_eq!(keys(1), keys(1_700_000_000_000));
    let log = full_log();
    for event in &log {
        let key = event.dedupe_key.as_str();
        assert!(log.iter().all(|other| !key.contains(other.event_id.as_str())), "{key}");
        assert!(key.starts_with(event.data.kind()) && key.len() <= 256, "{key}");
        assert_eq!(DedupeKey::parse(key).as_ref(), Ok(&event.dedupe_key));
    }
    assert_eq!(log.iter().map(|event| &event.dedupe_key).collect::<BTreeSet<_>>().len(), log.len());
}

#[test]
fn parts_in_other_forms_are_replaced_by_their_digest() {
    for foreign in ["A", "ä", "a b", "a.b", "a\u{0}", &"x".repeat(300)] {
        let key = DedupeKey::of("gap_recorded", &["sess_x", foreign]);
        assert_eq!(spelling(&key), "gap_recorded:<64 hex>", "{foreign:?}");
        assert_eq!(key, DedupeKey::of("gap_recorded", &["sess_x", foreign]), "deterministically");
        assert_ne!(key, DedupeKey::of("gap_recorded", &["sess_y", foreign]));
    }
}

/// The blocker codes, and whether another attempt can help.
fn block(run: &Harness, node: &NodeId) -> (Vec<BlockerCode>, bool) {
    let EngineState::Blocked(Blocked { blocked, .. }) = run.snapshot(node) else {
        panic!("not blocked: {:?}", run.snapshot(node))
    };
    let (Block::RetryableBlock { blockers, .. } | Block::TerminalBlock { blockers, .. }) = blocked;
    let codes = blockers.blockers().iter().map(|blocker| blocker.code).collect();
    (codes, matches!(blocked, Block::RetryableBlock { .. }))
}

fn gaps(run: &Harness) -> Vec<(GapSeverity, GapReason)> {
    run.events
        .iter()
        .filter_map(|event| match &event.data {
            EventData::GapRecorded { severity, reason, .. } => Some((*severity, *reason)),
            _ => None,
        })
        .collect()
}

#[test]
fn a_reason_blocks_with_its_code_or_is_disclosed_as_its_gap() {
    use GapReason::{CapabilityMissing, ContractViolation, Unexpected};
    let contract = |reference: &str| json!({"id": "one", "title": "One", "prompt": "Do.", "outputContract": {"contractRef": reference}});
    let assessed = |level: &'static str| Call {
        artifacts: vec![json!({"kind": "wr.assessment", "dimensions": {"evidence": level}})],
        ..Call::notes("n")
    };
    let without_probe = || {
        let mut source = json!({
            "id": "project.test", "name": "Test", "description": "A test.", "version": "1.0.0",
            "assessments": [{"id": "readiness", "purpose": "Is it ready?", "dimensions": [
                {"id": "evidence", "purpose": "Findings cite code", "levels": ["high", "low"]}]}],
            "steps": [{"id": "handoff", "title": "Hand off", "prompt": "Write.", "assessmentRefs": ["readiness"],
                "assessmentConsequences": [{"when": {"anyEqualsLevel": "low"},
                    "effect": {"kind": "require_followup", "guidance": "Anchor."}}]}],
        });
        source["steps"].as_array_mut().unwrap().push(plain("end"));
        compiled(&source)
    };
    let decided = json!([
        {"id": "passes", "type": "loop", "title": "Passes", "loop": {"type": "while", "maxIterations": 1,
            "conditionSource": {"kind": "artifact_contract", "contractRef": "wr.contracts.loop_control"}},
         "body": [{"id": "again", "title": "Again?", "prompt": "Decide.",
            "outputContract": {"contractRef": "wr.contracts.loop_control"}}]},
        plain("end"),
    ]);
    let each = json!([
        plain("one"),
        {"id": "files", "type": "loop", "title": "Files",
         "loop": {"type": "forEach", "items": "files", "maxIterations": 5}, "body": [plain("open")]},
        plain("end"),
    ]);
    let claimed = json!({"kind": "wr.capability_observation", "capability": "web_browsing",
        "status": "available", "provenance": "manual_claim"});
    let mut unusable = workflow(json!([contract("wr.contracts.gate_verdict"), plain("end")]));
    unusable.contracts.clear();
    let cases: Vec<(&str, CompiledWorkflow, Call, BlockerCode, bool, GapReason)> = vec![
        (
            "no notes",
            workflow(json!([{"id": "one", "title": "One", "prompt": "Do."}, plain("end")])),
            Call::notes(" \n"),
            BlockerCode::MissingRequiredNotes,
            true,
            ContractViolation(GapDetail::MissingRequiredNotes),
        ),
        (
            "no artifact",
            workflow(json!([contract("wr.contracts.gate_verdict"), plain("end")])),
            Call::nothing(),
            BlockerCode::MissingRequiredOutput,
            true,
            ContractViolation(GapDetail::MissingRequiredOutput),
        ),
        (
            "an invalid artifact",
            workflow(json!([contract("wr.contracts.gate_verdict"), plain("end")])),
            Call::artifact(json!({"kind": "wr.gate_verdict", "verdict": 7})),
            BlockerCode::InvalidRequiredOutput,
            true,
            ContractViolation(GapDetail::InvalidRequiredOutput),
        ),
        (
            "an assessment that requires more work",
            without_probe(),
            assessed("low"),
            BlockerCode::AssessmentFollowupRequired,
            true,
            ContractViolation(GapDetail::AssessmentFollowupRequired),
        ),
        (
            "a loop past its limit",
            workflow(decided),
            Call::decide("continue"),
            BlockerCode::LoopLimitReached,
            true,
            Unexpected(GapDetail::InvariantViolation),
        ),
        (
            "a missing list",
            workflow(each),
            Call::nothing(),
            BlockerCode::MissingContextKey,
            true,
            Unexpected(GapDetail::InvariantViolation),
        ),
        (
            "a missing capability",
            everything(),
            Call::artifact(observation("unavailable")),
            BlockerCode::RequiredCapabilityUnavailable,
            false,
            CapabilityMissing(GapDetail::RequiredCapabilityUnavailable),
        ),
        (
            "a capability that is only claimed",
            everything(),
            Call::artifact(claimed),
            BlockerCode::RequiredCapabilityUnknown,
            false,
            CapabilityMissing(GapDetail::RequiredCapabilityUnknown),
        ),
        (
            "a missing confirmation",
            workflow(
                json!([{"id": "one", "title": "One", "prompt": "Do.", "requireConfirmation": true}, plain("end")]),
            ),
            Call::notes("n"),
            BlockerCode::UserOnlyDependency,
            true,
            GapReason::UserOnlyDependency(UserOnlyDependency::NeedsUserApproval),
        ),
        (
            "a rule that cannot be evaluated",
            unusable,
            Call::artifact(json!({"kind": "wr.gate_verdict"})),
            BlockerCode::InvariantViolation,
            false,
            Unexpected(GapDetail::EvaluationError),
        ),
    ];
    for (name, workflow, call, code, retryable, gap) in cases {
        let mut run = Harness::start(workflow.clone(), json!({}), None);
        let root = run.root.clone();
        let stopped = run.advance(&root, call.clone());
        assert_eq!(block(&run, &stopped), (vec![code], retryable), "{name}");
        assert_eq!(gaps(&run), [], "{name}: a block is not a gap");

        let mut run = Harness::start(workflow, json!({}), Some(NEVER_STOP));
        let root = run.root.clone();
        let before = gaps(&run).len();
        let next = run.advance(&root, call);
        assert!(!matches!(run.snapshot(&next), EngineState::Blocked(_)), "{name}: never-stop does not stop");
        assert_eq!(gaps(&run)[before..], [(GapSeverity::Critical, gap)], "{name}");
    }
}

#[test]
fn a_divergence_is_recorded_at_its_step() {
    let mut run = Harness::start(workflow(json!([plain("one"), plain("two")])), json!({}), None);
    let root = run.root.clone();
    let mut related = divergence("safety_stop", &"ü".repeat(400));
    related["relatedStepId"] = json!("two");
    let artifacts = vec![
        divergence("missing_user_context", "it was not specified"),
        divergence("because", "no such reason"),
        related,
        divergence("capability_unavailable", "no browser"),
        divergence("policy_constraint", "not allowed"),
        divergence("efficiency_skip", "sampled"),
    ];
    let next = run.advance(&root, Call { artifacts, ..Call::nothing() });
    assert_eq!(run.pending(&next).as_deref(), Some("two"), "a divergence blocks nothing");
    let mut found = Vec::new();
    for event in &run.events {
        if let EventData::DivergenceRecorded { reason, summary, related_step_id, .. } = &event.data {
            assert_eq!(event.scope.node_id(), Some(&root));
            assert!(summary.len() <= 512, "{}", summary.len());
            found.push((*reason, summary.ends_with(TRUNCATION_MARKER), related_step_id.clone()));
        }
    }
    let reasons: Vec<_> = found.iter().map(|(reason, ..)| *reason).collect();
    use DivergenceReason as Reason;
    assert_eq!(
        reasons,
        [
            Reason::MissingUserContext,
            Reason::SafetyStop,
            Reason::CapabilityUnavailable,
            Reason::PolicyConstraint,
            Reason::EfficiencySkip
        ]
    );
    assert!(found[1].1 && !found[0].1, "only the long one is truncated and marked");
    assert_eq!(found[1].2.as_ref().map(StepName::as_str), Some("two"));
}

#[test]
fn notes_come_first_and_artifacts_in_the_order_of_their_digests() {
    let artifacts: Vec<Value> = (0..12).map(|number| json!({"kind": "x", "number": number})).collect();
    let sent: Vec<Digest> = artifacts
        .iter()
        .map(|artifact| Digest::of_bytes(&canon::canonical::to_vec(artifact).unwrap()))
        .collect();
    assert!(!sent.is_sorted(), "otherwise this proves nothing");
    let digests_of = |artifacts: Vec<Value>| {
        let mut run = Harness::start(workflow(json!([plain("one"), plain("two")])), json!({}), None);
        let root = run.root.clone();
        run.advance(&root, Call { artifacts, ..Call::notes("did it") });
        let mut outputs = run.events.iter().filter_map(|event| match &event.data {
            EventData::NodeOutputAppended { output_channel, payload, .. } => {
                Some((*output_channel, payload.clone()))
            }
            _ => None,
        });
        let first = outputs.next().unwrap();
        assert_eq!(
            first,
            (
                OutputChannel::Recap,
                OutputPayload::Notes { notes_markdown: "did it".to_owned(), sent_bytes: None }
            )
        );
        outputs
            .map(|(_, payload)| match payload {
                OutputPayload::ArtifactRef(reference) => reference.sha256,
                OutputPayload::Notes { .. } => panic!("notes twice"),
            })
            .collect::<Vec<_>>()
    };
    let mut sorted = sent.clone();
    sorted.sort();
    assert_eq!(digests_of(artifacts.clone()), sorted);
    assert_eq!(
        digests_of(artifacts.into_iter().rev().collect()),
        sorted,
        "regardless of the order in which they were sent"
    );
}

#[test]
fn notes_are_truncated_at_their_budget_between_two_characters() {
    let long = |text: &str, bytes: usize| -> &'static str { text.repeat(bytes / text.len()).leak() };
    let room = NOTES_BYTES - TRUNCATION_MARKER.len();
    let cases: [(&str, &'static str, usize); 5] = [
        ("exactly as long as they may be", long("x", NOTES_BYTES), NOTES_BYTES),
        ("one byte over", "x".repeat(NOTES_BYTES + 1).leak(), NOTES_BYTES),
        ("two bytes a character", long("ü", 3 * NOTES_BYTES), room / 2 * 2 + TRUNCATION_MARKER.len()),
        ("three bytes a character", long("語", 3 * NOTES_BYTES), room / 3 * 3 + TRUNCATION_MARKER.len()),
        ("four bytes a character", long("🦀", 3 * NOTES_BYTES), room / 4 * 4 + TRUNCATION_MARKER.len()),
    ];
    for (name, notes, expected) in cases {
        let mut run = Harness::start(workflow(json!([plain("one"), plain("two")])), json!({}), None);
        let root = run.root.clone();
        run.advance(&root, Call::notes(notes));
        let kept = run.events.iter().find_map(|event| match &event.data {
            EventData::NodeOutputAppended {
                payload: OutputPayload::Notes { notes_markdown, .. }, ..
            } => Some(notes_markdown.clone()),
            _ => None,
        });
        let kept = kept.unwrap();
        assert_eq!(kept.len(), expected, "{name}");
        match kept.strip_suffix(TRUNCATION_MARKER) {
            Some(beginning) => assert!(notes.starts_with(beginning) && notes.len() > NOTES_BYTES, "{name}"),
            None => assert_eq!(kept, notes, "{name}"),
        }
    }
}

#[test]
fn a_long_trace_is_recorded_in_several_events_within_their_budget() {
    const LOOPS: usize = 40;
    let id = |number: usize| format!("{}-{number}", "ordeal-".repeat(8));
    let mut steps = vec![plain("one")];
    steps.extend((0..LOOPS).map(|number| {
        json!({"id": id(number), "type": "loop", "title": "Files", "body": [plain(&format!("open-{number}"))],
            "loop": {"type": "forEach", "items": "files", "maxIterations": 5}})
    }));
    steps.push(plain("end"));
    let mut run = Harness::start(workflow(Value::Array(steps)), json!({"files": []}), None);
    let root = run.root.clone();
    let from = run.events.len();
    let next = run.advance(&root, Call::nothing());
    assert_eq!(run.pending(&next).as_deref(), Some("end"));
    let traces: Vec<_> = run.events[from..]
        .iter()
        .filter_map(|event| match &event.data {
            EventData::DecisionTraceAppended { entries, .. } => Some(entries),
            _ => None,
        })
        .collect();
    for entries in &traces {
        assert!((1..=25).contains(&entries.len()), "{}", entries.len());
        assert!(entries.iter().all(|entry| entry.summary.len() <= 512 && entry.refs.len() <= 10));
        assert!(serde_json::to_vec(entries).unwrap().len() <= 8192, "{entries:?}");
    }
    let left =
        traces.iter().flat_map(|entries| entries.iter()).filter(|entry| entry.kind == TraceKind::ExitedLoop);
    assert_eq!(left.count(), LOOPS, "no entry is dropped");
}
