//! The engine, case by case.

use guide::engine::EngineError;
use guide::project::{RunStatus, preferred_tip, run_status};
use guide::record::{
    Autonomy, Block, Blocked, BlockerCode, EdgeCauseKind, EngineState, EventData, GapSeverity, NodeKind,
    Preferences, RiskPolicy, TraceKind,
};
use serde_json::json;

use crate::harness::{Call, Harness, compiled, plain, workflow};

const NEVER_STOP: Preferences =
    Preferences { autonomy: Autonomy::FullAutoNeverStop, risk_policy: RiskPolicy::Conservative };

fn blocked(state: &EngineState) -> &Block {
    match state {
        EngineState::Blocked(Blocked { blocked, .. }) => blocked,
        other => panic!("not blocked: {other:?}"),
    }
}

fn blocker_codes(state: &EngineState) -> Vec<BlockerCode> {
    let (Block::RetryableBlock { blockers, .. } | Block::TerminalBlock { blockers, .. }) = blocked(state);
    blockers.blockers().iter().map(|blocker| blocker.code).collect()
}

#[test]
fn the_events_of_a_start_and_of_an_advance_are_in_the_specified_order() {
    let steps = json!([{"id": "one", "title": "One", "prompt": "Do it."}, plain("two")]);
    let mut run = Harness::start(workflow(steps), json!({"ticket": 7}), None);
    assert_eq!(
        run.kinds_since(0),
        [
            "session_created",
            "run_started",
            "node_created",
            "preferences_changed",
            "context_set",
            "decision_trace_appended"
        ]
    );
    let from = run.events.len();
    let root = run.root.clone();
    let call = Call { context: json!({"found": true}).as_object().cloned(), ..Call::notes("did it") };
    let second = run.advance(&root, call);
    assert_eq!(
        run.kinds_since(from),
        [
            "advance_recorded",
            "context_set",
            "decision_trace_appended",
            "node_created",
            "edge_created",
            "node_output_appended"
        ]
    );
    let last = run.advance(&second, Call::nothing());
    assert!(run.snapshot(&last).is_complete());
    assert_eq!(run.kinds_since(run.events.len() - 1), ["run_completed"]);
    let session_run = &run.state.runs()[0];
    assert_eq!(run_status(&run.state, session_run), RunStatus::Complete);
}

#[test]
fn missing_notes_block_and_the_retry_continues_from_the_blocked_node() {
    let steps = json!([{"id": "one", "title": "One", "prompt": "Do it."}, plain("two")]);
    let mut run = Harness::start(workflow(steps), json!({}), None);
    let root = run.root.clone();
    let block = run.advance(&root, Call::context(json!({"kept": 1})));
    assert_eq!(run.state.node(&block).unwrap().kind, NodeKind::BlockedAttempt);
    assert_eq!(blocker_codes(run.snapshot(&block)), [BlockerCode::MissingRequiredNotes]);
    assert!(
        matches!(blocked(run.snapshot(&block)), Block::RetryableBlock { retry_attempt_id, .. }
        if *retry_attempt_id == run.attempt(&block)),
        "the id of the retry is derived from the blocked node"
    );
    assert_eq!(run.pending(&block).as_deref(), Some("one"), "the same step is pending");
    let run_id = run.state.runs()[0].id.clone();
    assert!(run.state.context(&run_id).contains_key("kept"), "the context of a blocked attempt is kept");
    let next = run.advance(&block, Call::notes("did it"));
    assert_eq!(run.pending(&next).as_deref(), Some("two"));
}

#[test]
fn after_ten_consecutive_blocks_attempts_are_rejected() {
    let steps = json!([{"id": "one", "title": "One", "prompt": "Do it."}]);
    let mut run = Harness::start(workflow(steps), json!({}), None);
    let mut node = run.root.clone();
    for _ in 0..10 {
        node = run.advance(&node, Call::nothing());
    }
    let before = run.events.len();
    assert_eq!(run.try_advance(&node, Call::nothing()), Err(EngineError::TooManyBlocks { count: 10 }));
    assert_eq!(run.events.len(), before, "nothing is recorded");
    let done = run.advance(&node, Call::notes("at last"));
    assert!(run.snapshot(&done).is_complete(), "valid output is still accepted");
}

#[test]
fn never_stop_records_a_critical_gap_and_continues() {
    let steps = json!([{"id": "one", "title": "One", "prompt": "Do it."}, plain("two")]);
    let mut run = Harness::start(workflow(steps), json!({}), Some(NEVER_STOP));
    let (seen, _) = run.walk(|_| Call::nothing());
    assert_eq!(seen, ["one", "two"]);
    let session_run = &run.state.runs()[0];
    assert_eq!(session_run.open_critical_gaps, 1);
    assert_eq!(run_status(&run.state, session_run), RunStatus::CompleteWithGaps);
}

#[test]
fn criteria_report_each_failed_rule_with_the_authors_message() {
    let steps = json!([{"id": "one", "title": "One", "prompt": "Find.", "validationCriteria": {"and": [
        {"type": "regex", "pattern": "Finding \\d+", "message": "List numbered findings"},
        {"type": "length", "min": 40, "message": "Explain them"},
    ]}}]);
    let mut run = Harness::start(workflow(steps), json!({}), None);
    let root = run.root.clone();
    let block = run.advance(&root, Call::notes("nothing"));
    let (Block::RetryableBlock { blockers, .. } | Block::TerminalBlock { blockers, .. }) =
        blocked(run.snapshot(&block));
    let message = &blockers.blockers()[0].message;
    assert!(message.contains("List numbered findings") && message.contains("Explain them"), "{message}");
    let done = run.advance(&block, Call::notes("Finding 1: the cache is stale because it is never cleared."));
    assert!(run.snapshot(&done).is_complete());
}

#[test]
fn a_loop_with_decisions_runs_until_stop() {
    let steps = json!([
        {"id": "passes", "type": "loop", "title": "Passes", "loop": {"type": "while", "maxIterations": 3,
            "conditionSource": {"kind": "artifact_contract", "contractRef": "wr.contracts.loop_control"}},
         "body": [plain("look"), {"id": "again", "title": "Again?", "prompt": "Decide.",
            "outputContract": {"contractRef": "wr.contracts.loop_control"}}]},
        plain("end"),
    ]);
    let mut run = Harness::start(workflow(steps), json!({}), None);
    let mut rounds = 0;
    let (seen, _) = run.walk(|pending| {
        if !pending.ends_with("::again") {
            return Call::nothing();
        }
        rounds += 1;
        Call::decide(if rounds < 2 { "continue" } else { "stop" })
    });
    assert_eq!(seen, ["passes@0::look", "passes@0::again", "passes@1::look", "passes@1::again", "end"]);
    use TraceKind::{EnteredLoop, EvaluatedCondition, ExitedLoop};
    assert_eq!(run.loop_trace(), [EnteredLoop, EvaluatedCondition, EvaluatedCondition, ExitedLoop]);
}

#[test]
fn continuing_past_the_limit_is_a_block_whose_fix_is_to_stop() {
    let steps = json!([
        {"id": "passes", "type": "loop", "title": "Passes", "loop": {"type": "while", "maxIterations": 2,
            "conditionSource": {"kind": "artifact_contract", "contractRef": "wr.contracts.loop_control"}},
         "body": [{"id": "again", "title": "Again?", "prompt": "Decide.",
            "outputContract": {"contractRef": "wr.contracts.loop_control"}}]},
        plain("end"),
    ]);
    let mut run = Harness::start(workflow(steps.clone()), json!({}), None);
    let root = run.root.clone();
    let second = run.advance(&root, Call::decide("continue"));
    let block = run.advance(&second, Call::decide("continue"));
    assert_eq!(blocker_codes(run.snapshot(&block)), [BlockerCode::LoopLimitReached]);
    let end = run.advance(&block, Call::decide("stop"));
    assert_eq!(run.pending(&end).as_deref(), Some("end"));

    let mut run = Harness::start(workflow(steps), json!({}), Some(NEVER_STOP));
    let (seen, _) =
        run.walk(|pending| if pending == "end" { Call::nothing() } else { Call::decide("continue") });
    assert_eq!(seen, ["passes@0::again", "passes@1::again", "end"], "never-stop leaves the loop");
    assert_eq!(run.state.runs()[0].open_critical_gaps, 1);
}

#[test]
fn a_missing_decision_blocks_and_is_never_a_decision() {
    let steps = json!([
        {"id": "passes", "type": "loop", "title": "Passes", "loop": {"type": "while", "maxIterations": 3,
            "conditionSource": {"kind": "artifact_contract", "contractRef": "wr.contracts.loop_control"}},
         "body": [{"id": "again", "title": "Again?", "prompt": "Decide.",
            "outputContract": {"contractRef": "wr.contracts.loop_control"}}]},
    ]);
    for artifacts in [vec![], vec![json!({"kind": "wr.loop_control", "decision": "maybe"})]] {
        let mut run = Harness::start(workflow(steps.clone()), json!({}), None);
        let root = run.root.clone();
        let block = run.advance(&root, Call { artifacts, ..Call::nothing() });
        assert_eq!(run.pending(&block).as_deref(), Some("passes@0::again"));
        assert!(matches!(run.snapshot(&block), EngineState::Blocked(_)));
    }
}

#[test]
fn for_and_for_each_loops_nest() {
    let steps = json!([
        {"id": "files", "type": "loop", "title": "Files", "loop": {"type": "forEach", "items": "files", "maxIterations": 10},
         "body": [
            {"id": "open", "title": "Open {{currentItem}}", "prompt": "Open {{currentItem}}.", "notesOptional": true},
            {"id": "twice", "type": "loop", "title": "Twice", "loop": {"type": "for", "count": 2, "maxIterations": 5},
             "body": [plain("read")]},
         ]},
        plain("end"),
    ]);
    let mut run = Harness::start(workflow(steps.clone()), json!({"files": ["a", "b"]}), None);
    let (seen, _) = run.walk(|_| Call::nothing());
    assert_eq!(
        seen,
        [
            "files@0::open",
            "files@0/twice@0::read",
            "files@0/twice@1::read",
            "files@1::open",
            "files@1/twice@0::read",
            "files@1/twice@1::read",
            "end"
        ]
    );
    let mut empty = Harness::start(workflow(steps.clone()), json!({"files": []}), None);
    assert_eq!(empty.walk(|_| Call::nothing()).0, ["end"], "no items, no iteration");
    use TraceKind::{EvaluatedCondition, ExitedLoop};
    assert_eq!(empty.loop_trace(), [EvaluatedCondition, ExitedLoop], "the trace has it");
    let missing = Harness::try_start(workflow(steps), json!({}), None).err();
    assert!(matches!(missing, Some(EngineError::CannotBegin { .. })), "{missing:?}");
}

#[test]
fn a_step_is_skipped_while_its_condition_does_not_hold_and_runs_once_it_does() {
    let steps = json!([
        {"id": "deep", "title": "Deep", "prompt": "Dig.", "notesOptional": true,
         "runCondition": {"var": "rigor", "equals": "thorough"}},
        plain("plain"),
        plain("end"),
    ]);
    let mut run = Harness::start(workflow(steps), json!({}), None);
    let root = run.root.clone();
    assert_eq!(run.pending(&root).as_deref(), Some("plain"));
    let next = run.advance(&root, Call::context(json!({"rigor": "Thorough"})));
    assert_eq!(run.pending(&next).as_deref(), Some("deep"), "an earlier step can still run later");
}

#[test]
fn skipped_steps_run_in_order_once_they_can_and_the_run_continues() {
    let when = |id: &str, value: &str| {
        json!({"id": id, "title": id, "prompt": "Dig.", "notesOptional": true,
            "runCondition": {"var": "rigor", "equals": value}})
    };
    let body = json!([plain("inner")]);
    let round = json!({"id": "round", "type": "loop", "title": "Round", "loop": {"type": "for", "count": 1, "maxIterations": 1},
        "body": body, "runCondition": {"var": "rigor", "equals": "thorough"}});
    let steps = json!([
        when("early", "thorough"),
        plain("one"),
        round,
        plain("two"),
        when("late", "quick"),
        plain("three"),
        plain("four")
    ]);
    let mut run = Harness::start(workflow(steps), json!({}), None);
    let mut node = run.root.clone();
    let mut seen = Vec::new();
    while let Some(pending) = run.pending(&node) {
        let call = match pending.as_str() {
            "three" => Call::context(json!({"rigor": "thorough"})),
            "round@0::inner" => Call::context(json!({"rigor": "quick"})),
            _ => Call::nothing(),
        };
        node = run.advance(&node, call);
        seen.push(pending);
    }
    assert_eq!(seen, ["one", "two", "three", "early", "round@0::inner", "late", "four"]);
}

#[test]
fn advancing_an_old_node_creates_a_branch_but_checkpoints_do_not() {
    let steps = json!([plain("one"), plain("two"), plain("three")]);
    let mut run = Harness::start(workflow(steps), json!({}), None);
    let root = run.root.clone();
    run.checkpoint(&root, Some("before anything"));
    let first = run.advance(&root, Call::nothing());
    let second = run.advance(&root, Call::nothing());
    assert_ne!(first, second);
    let causes: Vec<EdgeCauseKind> = run
        .events
        .iter()
        .filter_map(|event| match &event.data {
            EventData::EdgeCreated { cause, .. } => Some(cause.kind),
            _ => None,
        })
        .collect();
    assert_eq!(
        causes,
        [EdgeCauseKind::CheckpointCreated, EdgeCauseKind::FirstAdvance, EdgeCauseKind::NonTipAdvance]
    );
    let tip = preferred_tip(&run.state, &run.state.runs()[0]).unwrap();
    assert_eq!(tip.id, second, "the branch with the latest activity");
    assert!(run.loop_trace().contains(&TraceKind::DetectedNonTipAdvance));
}

#[test]
fn an_assessment_that_requires_more_work_blocks_the_step() {
    let source = json!({
        "id": "project.test", "name": "Test", "description": "A test.", "version": "1.0.0",
        "assessments": [{"id": "readiness", "purpose": "Is it ready?", "dimensions": [
            {"id": "evidence", "purpose": "Findings cite code", "levels": ["high", "low"]}]}],
        "steps": [{"id": "handoff", "title": "Hand off", "prompt": "Write.", "notesOptional": true,
            "assessmentRefs": ["readiness"], "assessmentConsequences": [{"when": {"anyEqualsLevel": "low"},
                "effect": {"kind": "require_followup", "guidance": "Anchor each finding."}}]}],
    });
    let mut run = Harness::start(compiled(&source), json!({}), None);
    let root = run.root.clone();
    let missing = run.advance(&root, Call::nothing());
    assert_eq!(blocker_codes(run.snapshot(&missing)), [BlockerCode::MissingRequiredOutput]);
    let assess =
        |level: &str| Call::artifact(json!({"kind": "wr.assessment", "dimensions": {"evidence": level}}));
    let low = run.advance(&missing, assess(" LOW "));
    assert_eq!(blocker_codes(run.snapshot(&low)), [BlockerCode::AssessmentFollowupRequired]);
    let done = run.advance(&low, assess("high"));
    assert!(run.snapshot(&done).is_complete());
    let kinds = run.kinds_since(0);
    assert!(kinds.contains(&"assessment_recorded") && kinds.contains(&"assessment_consequence_applied"));
}

#[test]
fn preferences_apply_from_a_node_on_and_exceeding_the_recommendation_is_recorded() {
    let source = json!({
        "id": "project.test", "name": "Test", "description": "A test.", "version": "1.0.0",
        "recommendedPreferences": {"recommendedAutonomy": "guided"},
        "steps": [plain("one"), plain("two")],
    });
    let mut run = Harness::start(compiled(&source), json!({}), None);
    let root = run.root.clone();
    let next = run.advance(&root, Call { preferences: Some(NEVER_STOP), ..Call::nothing() });
    assert_eq!(run.state.node(&next).unwrap().preferences, NEVER_STOP);
    assert_eq!(run.state.node(&root).unwrap().preferences, Preferences::default());
    let session_run = &run.state.runs()[0];
    let gaps: Vec<_> = run.state.gaps_of_run(session_run).map(|gap| gap.severity).collect();
    assert_eq!(gaps, [GapSeverity::Warning], "it is disclosed and does not block");
}

#[test]
fn a_missing_required_capability_blocks_unless_the_policy_allows_it() {
    let source = json!({
        "id": "project.test", "name": "Test", "description": "A test.", "version": "1.0.0",
        "capabilities": {"web_browsing": "required"},
        "steps": [plain("one")],
    });
    let observation = |status: &str| {
        Call::artifact(
            json!({"kind": "wr.capability_observation", "capability": "web_browsing", "status": status,
            "provenance": "probe_step"}),
        )
    };
    let mut run = Harness::start(compiled(&source), json!({}), None);
    let root = run.root.clone();
    let probe = run.pending(&root).unwrap();
    assert_ne!(probe, "one", "the compiler inserted a probe");
    let block = run.advance(&root, observation("unavailable"));
    assert_eq!(blocker_codes(run.snapshot(&block)), [BlockerCode::RequiredCapabilityUnavailable]);
    assert_eq!(run.try_advance(&block, Call::nothing()), Err(EngineError::TerminalBlock));
    let fork = run.advance(&root, observation("available"));
    assert_eq!(run.pending(&fork).as_deref(), Some("one"));

    let bold = Preferences { autonomy: Autonomy::Guided, risk_policy: RiskPolicy::Aggressive };
    let mut run = Harness::start(compiled(&source), json!({}), Some(bold));
    let root = run.root.clone();
    let next = run.advance(&root, observation("unavailable"));
    assert_eq!(run.pending(&next).as_deref(), Some("one"));
}

/// A loop with a decision step in its body.
fn decided(id: &str, body: serde_json::Value) -> serde_json::Value {
    json!({"id": id, "type": "loop", "title": id, "loop": {"type": "while", "maxIterations": 3,
        "conditionSource": {"kind": "artifact_contract", "contractRef": "wr.contracts.loop_control"}}, "body": body})
}

fn decision_step(id: &str) -> serde_json::Value {
    json!({"id": id, "title": id, "prompt": "Decide.", "outputContract": {"contractRef": "wr.contracts.loop_control"}})
}

#[test]
fn a_decision_applies_to_its_own_loop_once() {
    let inner = decided("inner", json!([decision_step("inner-again")]));
    let outer = decided("outer", json!([plain("work"), inner, decision_step("outer-again")]));
    let mut run = Harness::start(workflow(json!([outer, plain("end")])), json!({}), None);
    let mut rounds = 0;
    let (seen, _) = run.walk(|pending| {
        if pending.ends_with("::inner-again") {
            return Call::decide("stop");
        }
        if pending.ends_with("::outer-again") {
            rounds += 1;
            return Call::decide(if rounds < 2 { "continue" } else { "stop" });
        }
        Call::nothing()
    });
    assert_eq!(
        seen,
        [
            "outer@0::work",
            "outer@0/inner@0::inner-again",
            "outer@0::outer-again",
            "outer@1::work",
            "outer@1/inner@0::inner-again",
            "outer@1::outer-again",
            "end"
        ]
    );
}

#[test]
fn an_inner_loop_can_iterate_over_a_list_in_the_outer_item() {
    let steps = json!([
        {"id": "files", "type": "loop", "title": "Files",
         "loop": {"type": "forEach", "items": "files", "itemVar": "file", "maxIterations": 5},
         "body": [{"id": "lines", "type": "loop", "title": "Lines",
            "loop": {"type": "forEach", "items": "file", "itemVar": "line", "maxIterations": 5},
            "body": [{"id": "read", "title": "Read {{line}}", "prompt": "Read {{line}}.", "notesOptional": true}]}]},
    ]);
    let files = json!({"files": [["a"], ["b", "c"]]});
    let mut run = Harness::start(workflow(steps), files.clone(), None);
    let mut titles = Vec::new();
    let mut node = run.root.clone();
    while run.pending(&node).is_some() {
        let facts = guide::render::PromptInput {
            blockers: &[],
            workflow: &run.workflow,
            state: run.snapshot(&node),
            context: files.as_object().unwrap(),
            visit: &guide::visit::Visit::default(),
            occasion: guide::render::Occasion::Advance,
        };
        titles.push(guide::render::pending(facts).unwrap().title);
        node = run.advance(&node, Call::nothing());
    }
    assert_eq!(titles, ["Read a", "Read b", "Read c"]);
}

#[test]
fn never_stop_discloses_the_obstacles_of_a_start() {
    let steps = json!([
        {"id": "files", "type": "loop", "title": "Files", "loop": {"type": "forEach", "items": "files", "maxIterations": 5},
         "body": [plain("open")]},
        plain("end"),
    ]);
    let run = Harness::start(workflow(steps), json!({}), Some(NEVER_STOP));
    assert_eq!(run.pending(&run.root).as_deref(), Some("end"));
    assert_eq!(run.state.runs()[0].open_critical_gaps, 1);
}

#[test]
fn a_missing_input_is_reported_in_the_authors_spelling() {
    let steps = json!([
        plain("one"),
        {"id": "files", "type": "loop", "title": "Files", "loop": {"type": "forEach", "items": "fileList", "maxIterations": 5},
         "body": [plain("open")]},
    ]);
    let mut run = Harness::start(workflow(steps), json!({}), None);
    let root = run.root.clone();
    let block = run.advance(&root, Call::nothing());
    let (Block::RetryableBlock { blockers, .. } | Block::TerminalBlock { blockers, .. }) =
        blocked(run.snapshot(&block));
    assert!(blockers.blockers()[0].suggested_fix.as_ref().unwrap().contains("\"fileList\""));
    let next = run.advance(&block, Call::context(json!({"fileList": ["a"]})));
    assert_eq!(run.pending(&next).as_deref(), Some("files@0::open"));
}

#[test]
fn a_self_reported_probe_is_only_a_claim() {
    let mut run = Harness::start(workflow(json!([plain("one"), plain("two")])), json!({}), None);
    let root = run.root.clone();
    let claim = json!({"kind": "wr.capability_observation", "capability": "delegation", "status": "available",
        "provenance": "probe_step"});
    let next = run.advance(&root, Call::artifact(claim));
    let view = run.state.capability_at(&next, guide::record::Capability::Delegation);
    assert!(view.latest.is_some() && view.strong.is_none(), "{view:?}");
}

#[test]
fn a_report_has_ten_reasons_and_counts_the_rest_and_never_stop_discloses_all() {
    let names: Vec<String> = (0..14).map(|index| format!("question{index:02}")).collect();
    let assessments: Vec<_> = names
        .iter()
        .map(|name| {
            json!({"id": name, "purpose": "Is it?", "dimensions": [
                {"id": format!("{name}-dimension"), "purpose": "So", "levels": ["high", "low"]}]})
        })
        .collect();
    let source = json!({
        "id": "project.test", "name": "Test", "description": "A test.", "version": "1.0.0",
        "assessments": assessments,
        "steps": [{"id": "ask", "title": "Ask", "prompt": "Ask.", "notesOptional": true, "assessmentRefs": names}],
    });
    let mut run = Harness::start(compiled(&source), json!({}), None);
    let root = run.root.clone();
    let node = run.advance(&root, Call::nothing());
    let Block::RetryableBlock { blockers, .. } = blocked(run.snapshot(&node)) else {
        panic!("it can be retried")
    };
    let messages: Vec<&str> = blockers.blockers().iter().map(|blocker| blocker.message.as_str()).collect();
    assert_eq!(messages.len(), 10);
    assert!(messages[9].ends_with(" There are 4 more reasons."), "{messages:#?}");
    assert!(messages[..9].iter().all(|message| !message.contains("more reasons")));

    let mut run = Harness::start(compiled(&source), json!({}), Some(NEVER_STOP));
    let root = run.root.clone();
    let done = run.advance(&root, Call::nothing());
    assert!(run.snapshot(&done).is_complete());
    assert_eq!(run.state.runs()[0].open_critical_gaps, 14);
}
