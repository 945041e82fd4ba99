//! Declared context keys: a run that lacks one reports it, and never skips the step that depends on it
//! (finding B1). The context and preferences that a blocked attempt sent are kept (findings B2 and B3).

use guide::engine::EngineError;
use guide::project::arrival::{Skipped, StepPlace, selected_at, skipped_before};
use guide::record::{
    Autonomy, BlockerCode, EngineState, Event, EventData, GapSeverity, NodeId, NodeKind, Pointer,
    Preferences, RiskPolicy,
};
use guide::state::SessionState;
use serde_json::{Value, json};

use crate::harness::{Call, Harness, plain, workflow};

const NEVER_STOP: Preferences =
    Preferences { autonomy: Autonomy::FullAutoNeverStop, risk_policy: RiskPolicy::Conservative };

/// A step that decides, a step that depends on the decision, and an end.
fn decided() -> Value {
    let decision = json!({"fixDecision": {"enum": ["fix", "report"]}});
    json!([
        {"id": "diagnose", "title": "D", "prompt": "D.", "notesOptional": true, "producesContext": decision},
        {"id": "fix", "title": "F", "prompt": "F.", "notesOptional": true,
         "runCondition": {"var": "fixDecision", "equals": "fix"}},
        plain("report"),
    ])
}

fn blockers(harness: &Harness, node: &NodeId) -> Vec<(BlockerCode, Pointer, String)> {
    let EngineState::Blocked(state) = harness.snapshot(node) else { return Vec::new() };
    let (guide::record::Block::RetryableBlock { blockers, .. }
    | guide::record::Block::TerminalBlock { blockers, .. }) = &state.blocked;
    blockers
        .blockers()
        .iter()
        .map(|one| {
            let words = format!("{} {}", one.message, one.suggested_fix.as_deref().unwrap_or_default());
            (one.code, one.pointer.clone(), words)
        })
        .collect()
}

#[test]
fn a_missing_or_invalid_key_blocks_with_what_to_send() {
    for (name, context, says) in [
        ("forgotten", None, "is missing"),
        ("deleted", Some(json!({"fixDecision": null})), "is missing"),
        ("misspelled", Some(json!({"fixdecision": "fix"})), "The context has `fixdecision`"),
        (
            "not allowed",
            Some(json!({"fixDecision": "fix it"})),
            "is \"fix it\"; it must be one of \"fix\", \"report\"",
        ),
        ("of another type", Some(json!({"fixDecision": ["fix"]})), "is [\"fix\"]"),
        ("the placeholder", Some(json!({"fixDecision": "<fix | report>"})), "is \"<fix | report>\""),
    ] {
        let mut harness = Harness::start(workflow(decided()), json!({}), None);
        let root = harness.root.clone();
        let call = context.map_or_else(Call::nothing, Call::context);
        let node = harness.advance(&root, call);
        assert_eq!(harness.state.node(&node).unwrap().kind, NodeKind::BlockedAttempt, "{name}");
        let found = blockers(&harness, &node);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        let (code, pointer, words) = &found[0];
        assert_eq!(*code, BlockerCode::MissingContextKey, "{name}");
        assert_eq!(json!(pointer), json!({"kind": "context_key", "key": "fixdecision"}), "{name}");
        assert!(words.contains(says), "{name}: {words}");
        assert!(words.contains(r#"{"fixDecision":"<fix | report>"}"#), "{name}: {words}");

        for (answer, next) in [("fix", "fix"), (" Report", "report")] {
            let mut harness = Harness::start(workflow(decided()), json!({}), None);
            let root = harness.root.clone();
            let node = harness.advance(&root, Call::context(json!({"fixDecision": "fix it"})));
            let node = harness.advance(&node, Call::context(json!({"fixDecision": answer})));
            assert_eq!(harness.pending(&node).as_deref(), Some(next), "{name}");
        }
    }
}

#[test]
fn never_stop_shows_the_dependent_step_and_discloses_one_critical_gap() {
    for (name, context) in [("forgotten", json!({})), ("not allowed", json!({"fixDecision": "fix it"}))] {
        let mut harness = Harness::start(workflow(decided()), json!({}), Some(NEVER_STOP));
        let (seen, end) = harness.walk(|step| match step {
            "diagnose" => Call::context(context.clone()),
            _ => Call::nothing(),
        });
        assert_eq!(seen, ["diagnose", "fix", "report"], "{name}");
        let run = harness.state.run(&harness.state.node(&end).unwrap().run_id).unwrap();
        let gaps: Vec<_> = harness.state.gaps_of_run(run).collect();
        assert_eq!(gaps.len(), 1, "{name}: {gaps:?}");
        assert_eq!(gaps[0].severity, GapSeverity::Critical, "{name}");
        assert!(gaps[0].summary.contains("`fixDecision`"), "{name}: {}", gaps[0].summary);
    }
}

/// If a key becomes invalid after the step that produced it, the steps that depend on it are not silently
/// skipped.
#[test]
fn a_key_that_becomes_invalid_blocks_where_it_is_read() {
    let decision = json!({"fixDecision": {"enum": ["fix", "report"]}});
    let steps = json!([
        {"id": "diagnose", "title": "D", "prompt": "D.", "notesOptional": true, "producesContext": decision},
        plain("think"),
        {"id": "fix", "title": "F", "prompt": "F.", "notesOptional": true,
         "runCondition": {"var": "fixDecision", "equals": "fix"}},
        plain("report"),
    ]);
    for (name, spoilt) in
        [("deleted", json!({"fixDecision": null})), ("changed", json!({"fixDecision": "x"}))]
    {
        let mut harness = Harness::start(workflow(steps.clone()), json!({}), None);
        let root = harness.root.clone();
        let think = harness.advance(&root, Call::context(json!({"fixDecision": "report"})));
        let blocked = harness.advance(&think, Call::context(spoilt.clone()));
        assert_eq!(blockers(&harness, &blocked)[0].0, BlockerCode::MissingContextKey, "{name}");
        let blocked = harness.advance(&blocked, Call::nothing());
        assert_eq!(
            blockers(&harness, &blocked)[0].0,
            BlockerCode::MissingContextKey,
            "{name}: it stays blocked"
        );
        let fix = harness.advance(&blocked, Call::context(json!({"fixDecision": "fix"})));
        assert_eq!(harness.pending(&fix).as_deref(), Some("fix"), "{name}");

        let mut harness = Harness::start(workflow(steps.clone()), json!({}), Some(NEVER_STOP));
        let (seen, _) = harness.walk(|step| match step {
            "diagnose" => Call::context(json!({"fixDecision": "report"})),
            "think" => Call::context(spoilt.clone()),
            _ => Call::nothing(),
        });
        assert_eq!(seen, ["diagnose", "think", "fix", "report"], "{name}");
    }
}

/// A step is skipped if its condition is decided without the missing key, or if the key is not declared.
#[test]
fn conditions_that_do_not_need_the_key_are_decided() {
    let size = json!({"size": {"enum": ["small", "large"]}});
    let kind = json!({"kind": {"type": "string"}});
    let both = json!({"and": [{"var": "size", "equals": "large"}, {"var": "kind", "equals": "x"}]});
    let steps = json!([
        {"id": "measure", "title": "M", "prompt": "M.", "notesOptional": true, "producesContext": size},
        {"id": "look", "title": "L", "prompt": "L.", "notesOptional": true, "requiresContext": kind,
         "runCondition": both},
        plain("end-step"),
    ]);
    let mut harness = Harness::start(workflow(steps.clone()), json!({}), None);
    let root = harness.root.clone();
    let small = harness.advance(&root, Call::context(json!({"size": "small"})));
    assert_eq!(harness.pending(&small).as_deref(), Some("end-step"));
    let mut harness = Harness::start(workflow(steps), json!({}), None);
    let blocked = harness.advance(&root, Call::context(json!({"size": "large"})));
    assert_eq!(json!(blockers(&harness, &blocked)[0].1)["key"], "kind");
}

#[test]
fn keys_of_the_first_step_are_inputs_of_the_start() {
    let steps = json!([
        {"id": "read", "title": "R", "prompt": "R.", "notesOptional": true,
         "requiresContext": {"ticket": {"type": "string"}, "count": {"type": "number"}}},
        plain("end-step"),
    ]);
    for (name, context, keys) in [
        ("nothing", json!({}), vec!["count", "ticket"]),
        ("one of two", json!({"ticket": "T-1"}), vec!["count"]),
        ("of another type", json!({"ticket": "T-1", "count": "3"}), vec!["count"]),
        ("the placeholder", json!({"ticket": "<ticket: text>", "count": 3}), vec!["ticket"]),
    ] {
        let refused = Harness::try_start(workflow(steps.clone()), context, None);
        let Err(error @ EngineError::MissingInputs { .. }) = refused.map(|_| ()) else { panic!("{name}") };
        let EngineError::MissingInputs { faults } = &error else { unreachable!("matched above") };
        assert_eq!(faults.iter().map(|fault| fault.key.as_str()).collect::<Vec<_>>(), keys, "{name}");
        assert!(error.envelope().suggestion().contains("start_workflow"), "{name}");
    }
    Harness::start(workflow(steps.clone()), json!({"ticket": "T-1", "count": 3}), None);
    let unattended = Harness::start(workflow(steps), json!({}), Some(NEVER_STOP));
    let run = &unattended.state.runs()[0];
    assert_eq!((run.open_critical_gaps, unattended.pending(&unattended.root).as_deref()), (2, Some("read")));
}

/// Findings B2 and B3: what a blocked attempt sent applies from then on, and can be computed again from the
/// log.
#[test]
fn context_and_preferences_of_a_blocked_attempt_are_kept() {
    let steps = json!([
        {"id": "scope", "title": "S", "prompt": "S."},
        {"id": "lenses", "title": "L", "prompt": "L.", "notesOptional": true,
         "runCondition": {"var": "size", "equals": "large"}},
        plain("end-step"),
    ]);
    let mut harness = Harness::start(workflow(steps), json!({"kept": 1}), Some(NEVER_STOP));
    let root = harness.root.clone();
    let guided = Preferences { autonomy: Autonomy::Guided, ..NEVER_STOP };
    let from = harness.events.len();
    let blocked = harness.advance(
        &root,
        Call { preferences: Some(guided), ..Call::context(json!({"size": "large", "kept": null})) },
    );
    assert_eq!(
        harness.kinds_since(from),
        ["advance_recorded", "context_set", "node_created", "edge_created", "preferences_changed"]
    );
    let again = harness.advance(&blocked, Call::nothing());
    assert_eq!(harness.state.node(&again).unwrap().kind, NodeKind::BlockedAttempt, "the change is kept");
    let read_back = SessionState::fold(harness.state.session_id().clone(), &harness.events).unwrap();
    for state in [&harness.state, &read_back] {
        let run = &state.runs()[0];
        assert_eq!(json!(state.context(&run.id)), json!({"goal": "test", "size": "large"}));
        assert_eq!(state.preferences_at(&blocked), Some(guided));
        assert_eq!(state.preferences_at(&again), Some(guided));
    }
    let lenses = harness.advance(&again, Call::notes("did it"));
    assert_eq!(harness.pending(&lenses).as_deref(), Some("lenses"), "the context was kept");
}

/// A change beyond the author's recommendation is reported once, with the attempt that makes it.
#[test]
fn preferences_beyond_the_recommendation_are_disclosed_by_the_blocked_attempt() {
    let source = json!({
        "id": "project.test", "name": "T", "description": "T.", "version": "1.0.0",
        "recommendedPreferences": {"recommendedAutonomy": "guided"},
        "steps": [{"id": "one", "title": "O", "prompt": "O."}, plain("two")],
    });
    let mut harness = Harness::start(crate::harness::compiled(&source), json!({}), None);
    let root = harness.root.clone();
    let wanted = Preferences { autonomy: Autonomy::FullAutoStopOnUserDeps, ..Preferences::default() };
    let blocked = harness.advance(&root, Call { preferences: Some(wanted), ..Call::nothing() });
    harness.advance(&blocked, Call::notes("did it"));
    let gaps =
        harness.events.iter().filter(|event| matches!(event.data, EventData::GapRecorded { .. })).count();
    assert_eq!(gaps, 1);
}

/// Finding B4: validation reads what is stored. Notes longer than a recap are stored completely in the same
/// append; notes over the limit are blocked with both sizes, and record nothing.
#[test]
fn notes_are_validated_as_they_are_stored() {
    let steps = json!([
        {"id": "prove", "title": "P", "prompt": "P.", "validationCriteria":
            [{"type": "contains", "value": "Reproduced: yes", "message": "Say it"}]},
        plain("end-step"),
    ]);
    let evidence_after = |bytes: usize| -> &'static str {
        format!("{}Reproduced: yes", "x".repeat(bytes - "Reproduced: yes".len())).leak()
    };
    for (name, bytes, stored) in
        [("as long as a recap", 4096, 1), ("a byte longer", 4097, 2), ("as long as notes may be", 65_536, 2)]
    {
        let mut harness = Harness::start(workflow(steps.clone()), json!({}), None);
        let root = harness.root.clone();
        let notes = evidence_after(bytes);
        let done = harness.advance(&root, Call::notes(notes));
        assert_eq!(harness.pending(&done).as_deref(), Some("end-step"), "{name}");
        let payloads: Vec<Value> = harness.events.iter().filter_map(stored_notes).collect();
        assert_eq!(payloads.len(), stored, "{name}");
        if stored == 2 {
            assert_eq!(payloads[0]["sentBytes"], bytes, "{name}");
            assert!(payloads[0]["notesMarkdown"].as_str().unwrap().ends_with("[TRUNCATED]"), "{name}");
            let whole = json!({"kind": "wr.notes", "notesMarkdown": notes});
            let digest = canon::digest::Digest::of_canonical(&whole).unwrap();
            assert_eq!(payloads[1]["sha256"], digest.to_string(), "{name}");
            assert_eq!(harness.artifacts[&digest], canon::canonical::to_vec(&whole).unwrap(), "{name}");
        }
    }
    let mut harness = Harness::start(workflow(steps.clone()), json!({}), None);
    let root = harness.root.clone();
    let blocked = harness.advance(&root, Call::notes(evidence_after(65_537)));
    let found = blockers(&harness, &blocked);
    let sizes = |(code, _, words): &(BlockerCode, Pointer, String)| {
        *code == BlockerCode::InvalidRequiredOutput
            && words.contains("The notes are 65,537 bytes; the limit is 65,536.")
    };
    assert!(
        matches!(found.as_slice(), [one] if sizes(one)),
        "the evidence is not reported as missing: {found:?}"
    );
    assert!(harness.events.iter().all(|event| stored_notes(event).is_none()));

    // A run that never stops stores the beginning, and says what that lacks.
    let mut harness = Harness::start(workflow(steps), json!({}), Some(NEVER_STOP));
    let root = harness.root.clone();
    harness.advance(&root, Call::notes(evidence_after(65_537)));
    let gap = |event: &Event| match &event.data {
        EventData::GapRecorded { summary, .. } => Some(summary.clone()),
        _ => None,
    };
    let gaps: Vec<String> = harness.events.iter().filter_map(gap).collect();
    assert!(gaps.iter().any(|gap| gap.contains("the limit is 65,536")), "{gaps:?}");
    assert!(gaps.iter().any(|gap| gap.contains("Say it (not found in the notes)")), "{gaps:?}");
}

fn stored_notes(event: &Event) -> Option<Value> {
    match &event.data {
        EventData::NodeOutputAppended { payload, .. } => Some(json!(payload)),
        _ => None,
    }
}

/// Notes that were not truncated are recorded without their size.
#[test]
fn short_notes_are_recorded_without_their_size() {
    let mut harness =
        Harness::start(workflow(json!([{"id": "one", "title": "O", "prompt": "O."}])), json!({}), None);
    let root = harness.root.clone();
    harness.advance(&root, Call::notes("did it"));
    let payloads: Vec<Value> = harness.events.iter().filter_map(stored_notes).collect();
    assert_eq!(payloads, [json!({"payloadKind": "notes", "notesMarkdown": "did it"})]);
}

/// A start must provide the inputs that a workflow declares. A run that never stops starts with a critical
/// gap, and shows the step that depends on the input.
#[test]
fn inputs_are_checked_before_anything_is_recorded() {
    let source = json!({
        "id": "project.test", "name": "T", "description": "T.", "version": "1.0.0",
        "inputs": {"size": {"enum": ["small", "large"]}},
        "steps": [
            plain("begin"),
            {"id": "deep", "title": "Deep", "prompt": "D.", "notesOptional": true,
             "runCondition": {"var": "size", "equals": "large"}},
            plain("end-step"),
        ],
    });
    let workflow = crate::harness::compiled(&source);
    for (name, context, says) in [
        ("missing", json!({}), "the context key `size` is missing; it must be one of \"small\", \"large\""),
        ("not allowed", json!({"size": "huge"}), "is \"huge\"; it must be one of"),
    ] {
        let refused = Harness::try_start(workflow.clone(), context, None).err().unwrap();
        assert!(matches!(refused, EngineError::MissingInputs { .. }), "{name}");
        assert!(refused.to_string().contains(says), "{name}: {refused}");
    }
    let mut small = Harness::start(workflow.clone(), json!({"size": "small"}), None);
    assert_eq!(small.walk(|_| Call::nothing()).0, ["begin", "end-step"]);
    let mut unknown = Harness::start(workflow, json!({}), Some(NEVER_STOP));
    let gaps = |harness: &Harness| {
        let gap = |event: &Event| match &event.data {
            EventData::GapRecorded { severity, .. } => Some(*severity),
            _ => None,
        };
        harness.events.iter().filter_map(gap).collect::<Vec<_>>()
    };
    assert_eq!(gaps(&unknown), [GapSeverity::Critical]);
    assert_eq!(unknown.walk(|_| Call::nothing()).0, ["begin", "deep", "end-step"]);
    assert_eq!(gaps(&unknown), [GapSeverity::Critical], "one gap for one key");
}

/// A key of a skipped step: its name, the allowed values, and the recorded value.
type Key = (String, Option<String>, Option<Value>);

/// Finding B1: the node after a skipped step has the keys that decided it, their allowed values, and the
/// recorded value. A step that stays skipped is listed once.
#[test]
fn skipped_steps_have_the_keys_that_decided_it() {
    let steps = json!([
        {"id": "diagnose", "title": "D", "prompt": "D.", "notesOptional": true,
         "producesContext": {"fixDecision": {"enum": ["fix", "report"]}}},
        {"id": "fix", "title": "Fix it", "prompt": "F.", "notesOptional": true,
         "runCondition": {"var": "fixDecision", "equals": "fix"}},
        plain("report"),
        {"type": "loop", "id": "rounds", "title": "Rounds", "loop":
            {"type": "forEach", "items": "parts", "maxIterations": 3}, "body": [plain("part")]},
        plain("end-step"),
    ]);
    let mut harness = Harness::start(workflow(steps), json!({"parts": []}), None);
    let root = harness.root.clone();
    let report = harness.advance(&root, Call::context(json!({"fixDecision": "report"})));
    let end = harness.advance(&report, Call::context(json!({"parts": [], "fixDecision": "Report"})));
    let read_back = SessionState::fold(harness.state.session_id().clone(), &harness.events).unwrap();
    for state in [&harness.state, &read_back] {
        let skipped = |node: &NodeId| -> Vec<(String, Vec<Key>)> {
            let found = skipped_before(state, &harness.workflow, state.node(node).unwrap());
            let keys = |skipped: Skipped| {
                skipped.keys.into_iter().map(|key| (key.key, key.allowed, key.value)).collect()
            };
            found.into_iter().map(|skipped| (skipped.title.clone(), keys(skipped))).collect()
        };
        assert_eq!(skipped(&root), []);
        let allowed = Some("one of \"fix\", \"report\"".to_owned());
        let key = ("fixDecision".to_owned(), allowed, Some(json!("report")));
        assert_eq!(skipped(&report), [("Fix it".to_owned(), vec![key])]);
        assert_eq!(skipped(&end), [("Rounds".to_owned(), vec![("parts".to_owned(), None, Some(json!([])))])]);
        let place =
            |node: &NodeId| selected_at(state, state.node(node).unwrap()).unwrap().step_id.to_string();
        assert_eq!([place(&root), place(&report), place(&end)], ["diagnose", "report", "end-step"]);
    }
    let back = harness.advance(&end, Call::context(json!({"fixDecision": "fix"})));
    assert_eq!(
        harness.pending(&back).as_deref(),
        Some("fix"),
        "a skipped step becomes pending once it can run"
    );
}

/// Finding R6: one numbering, the position in the workflow, and the iteration in a loop.
#[test]
fn a_step_has_one_number_and_an_iteration_in_a_loop() {
    let steps = json!([
        plain("first"),
        {"type": "loop", "id": "rounds", "title": "Rounds", "loop":
            {"type": "for", "count": 2, "maxIterations": 5}, "body": [plain("part-a"), plain("part-b")]},
        {"type": "loop", "id": "again", "title": "Again", "loop": {"type": "while", "maxIterations": 4,
            "conditionSource": {"kind": "artifact_contract", "contractRef": "wr.contracts.loop_control"}},
         "body": [plain("look"), {"id": "decide", "title": "D", "prompt": "D.",
            "outputContract": {"contractRef": "wr.contracts.loop_control"}}]},
    ]);
    let mut harness = Harness::start(workflow(steps), json!({}), None);
    let mut node = harness.root.clone();
    let mut places = Vec::new();
    while harness.pending(&node).is_some() && places.len() < 8 {
        let place = {
            let selected = selected_at(&harness.state, harness.state.node(&node).unwrap()).unwrap();
            let innermost = selected.innermost.as_ref().map(|(loop_id, iteration)| (loop_id, *iteration));
            let context = serde_json::Map::new();
            StepPlace::of(&harness.workflow, &selected.step_id, innermost, &context).unwrap().to_string()
        };
        places.push(place);
        node = harness.advance(&node, Call::decide("continue"));
    }
    assert_eq!(
        places,
        [
            "step 1 of 5",
            "step 2 of 5, pass 1 of 2",
            "step 3 of 5, pass 1 of 2",
            "step 2 of 5, pass 2 of 2",
            "step 3 of 5, pass 2 of 2",
            "step 4 of 5, pass 1 of at most 4",
            "step 5 of 5, pass 1 of at most 4",
            "step 4 of 5, pass 2 of at most 4",
        ]
    );
}

/// Finding G6: the metrics that a workflow requests are declared keys of its last step.
#[test]
fn requested_metrics_are_validated() {
    let source = json!({
        "id": "project.test", "name": "T", "description": "T.", "version": "1.0.0", "metricsProfile": "ticket",
        "steps": [plain("begin"), plain("end-step")],
    });
    let mut harness = Harness::start(crate::harness::compiled(&source), json!({}), None);
    let root = harness.root.clone();
    let last = harness.advance(&root, Call::nothing());
    let blocked = harness
        .advance(&last, Call::context(json!({"metrics_outcome": "great", "metrics_ticket_ids": "T-1"})));
    let found = blockers(&harness, &blocked);
    let words: String = found.into_iter().map(|(_, _, words)| words).collect();
    assert!(words.contains("`metrics_outcome` is \"great\"; it must be one of \"success\""), "{words}");
    assert!(words.contains("`metrics_ticket_ids` is \"T-1\"; it must be a list"), "{words}");
    let sent = json!({"metrics_outcome": "success", "metrics_ticket_ids": ["T-1"]});
    let done = harness.advance(&blocked, Call::context(sent));
    assert_eq!(harness.pending(&done), None, "the run is complete");
}

/// Bug 7 (finding G6): the metrics are required once, at the end, even if the last item of the file is skipped or
/// repeated.
#[test]
fn g6_metrics_are_required_if_the_last_item_may_not_run() {
    let conditional = json!({"id": "more-work", "title": "M", "prompt": "M.", "notesOptional": true,
        "runCondition": {"var": "more", "equals": true}});
    let looped = json!({"id": "each", "type": "loop", "title": "Each",
        "loop": {"type": "forEach", "items": "parts", "maxIterations": 3}, "body": [plain("part")]});
    for (name, last, context) in [
        ("a skipped step", &conditional, json!({"more": false, "parts": []})),
        ("a step with a condition that holds", &conditional, json!({"more": true, "parts": []})),
        ("a loop that does not run", &looped, json!({"more": false, "parts": []})),
        ("a loop", &looped, json!({"more": false, "parts": [1, 2]})),
    ] {
        let source = json!({
            "id": "project.test", "name": "T", "description": "T.", "version": "1.0.0", "metricsProfile": "review",
            "inputs": {"more": {"type": "boolean"}}, "steps": [plain("begin"), last],
        });
        let mut harness = Harness::start(crate::harness::compiled(&source), context, None);
        let mut node = harness.root.clone();
        while !harness.pending(&node).unwrap().ends_with("__metrics") {
            node = harness.advance(&node, Call::nothing());
            assert!(blockers(&harness, &node).is_empty(), "{name}");
        }
        let blocked = harness.advance(&node, Call::nothing());
        assert_eq!(blockers(&harness, &blocked).len(), 2, "{name}");
        let sent = json!({"metrics_outcome": "success", "metrics_pr_numbers": []});
        let done = harness.advance(&blocked, Call::context(sent));
        assert_eq!(harness.pending(&done), None, "{name}: the run is complete");
    }
}

/// Bug 16: an approval that depends on a key of a later step would never be asked for.
#[test]
fn a_condition_on_a_key_of_a_later_step_is_a_warning() {
    use guide::workflow::compile::{self, Bindings};
    use guide::workflow::compiled::WarningCode;
    use guide::workflow::source::{self, Format};
    let danger = json!({"danger": {"type": "boolean"}});
    let produces = json!({"id": "weigh", "title": "W", "prompt": "W.", "producesContext": danger});
    let risky = json!({"id": "risky", "title": "R", "prompt": "R.",
        "requireConfirmation": {"kind": "human_approval", "condition": {"var": "danger", "equals": true}}});
    let mut own = risky.clone();
    own["producesContext"] = danger.clone();
    let mut requires = risky.clone();
    requires["requiresContext"] = danger;
    for (name, steps, warns) in [
        ("later", json!([risky, produces]), true),
        ("earlier", json!([produces, risky]), false),
        ("itself", json!([own]), false),
        ("required", json!([requires, produces]), false),
    ] {
        let text = json!({"id": "project.test", "name": "T", "description": "T.", "version": "1.0.0", "steps": steps});
        let source = source::parse(text.to_string().as_bytes(), Format::Json).unwrap();
        let advice = compile::compile(&source, &Bindings::default()).unwrap().advice;
        let codes: Vec<_> = advice.iter().map(|warning| warning.code).collect();
        assert_eq!(codes, vec![WarningCode::ContextKeyProducedLater; usize::from(warns)], "{name}");
    }
}

/// Every bundled workflow declares the keys that its conditions read.
#[test]
fn bundled_workflows_declare_the_keys_that_their_conditions_read() {
    use guide::workflow::{
        compile::{self, Bindings},
        ids::SourceOrigin,
        registry::bundled,
        source::Format,
    };
    for one in bundled() {
        let source = one.source.as_bytes();
        let validated = compile::validate(source, Format::Json, SourceOrigin::Bundled, &Bindings::default());
        assert_eq!(validated.compiled.map(|compiled| compiled.advice), Some(Vec::new()), "{}", one.id);
    }
}
