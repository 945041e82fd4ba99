//! Declared context keys: a run that lacks one says so, and never skips the step that depends on it (finding
//! B1). What a blocked attempt sent of context and preferences is kept (findings B2 and B3).

use guide::engine::EngineError;
use guide::record::{
    Autonomy, BlockerCode, EngineState, Event, EventData, GapSeverity, NodeId, NodeKind, Pointer,
    Preferences, RiskPolicy,
};
use guide::state::SessionState;
use serde_json::{Value, json};

use crate::harness::{Call, Harness, plain, workflow};

const NEVER_STOP: Preferences =
    Preferences { autonomy: Autonomy::FullAutoNeverStop, risk_policy: RiskPolicy::Conservative };

/// A step that decides, one that its decision guards, and an end.
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
fn a_key_that_is_missing_or_invalid_blocks_with_what_to_send() {
    for (name, context, says) in [
        ("forgotten", None, "is missing"),
        ("deleted", Some(json!({"fixDecision": null})), "is missing"),
        ("misspelt", Some(json!({"fixdecision": "fix"})), "The context has `fixdecision`"),
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
        let told = blockers(&harness, &node);
        assert_eq!(told.len(), 1, "{name}: {told:?}");
        let (code, pointer, words) = &told[0];
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
fn never_stop_shows_the_guarded_step_and_discloses_one_critical_gap() {
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

/// Whatever becomes of a key behind the step that produced it, what it guards is not skipped without a word.
#[test]
fn a_key_that_is_spoilt_later_blocks_where_it_is_read() {
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
        assert_eq!(blockers(&harness, &blocked)[0].0, BlockerCode::MissingContextKey, "{name}: it stays so");
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

/// A step is skipped where its condition is decided without the missing key, and where nobody declares one.
#[test]
fn what_is_decided_without_the_key_is_skipped_as_before() {
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
fn what_the_first_step_requires_is_an_input_of_the_start() {
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

/// Findings B2 and B3: what came with a blocked attempt holds from then on, and a fold of the log says so too.
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
    assert_eq!(harness.state.node(&again).unwrap().kind, NodeKind::BlockedAttempt, "the brake holds");
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

/// A change beyond what the author recommends is reported once, with the attempt that makes it.
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

/// Finding B4: evidence behind the cut is in no record, so it satisfies no check.
#[test]
fn notes_are_checked_as_they_are_stored() {
    let steps = json!([
        {"id": "prove", "title": "P", "prompt": "P.", "validationCriteria":
            [{"type": "contains", "value": "Reproduced: yes", "message": "Say it"}]},
        plain("end-step"),
    ]);
    let filler: &'static str = "filler\n".repeat(800).leak();
    let behind: &'static str = format!("{filler}Reproduced: yes").leak();
    let before: &'static str = format!("Reproduced: yes\n{filler}").leak();
    let mut harness = Harness::start(workflow(steps), json!({}), None);
    let root = harness.root.clone();
    let blocked = harness.advance(&root, Call::notes(behind));
    let (code, _, words) = &blockers(&harness, &blocked)[0];
    assert_eq!(*code, BlockerCode::InvalidRequiredOutput);
    assert!(words.contains("Notes are 5,615 bytes; the limit is 4,096."), "{words}");
    let done = harness.advance(&blocked, Call::notes(before));
    assert_eq!(harness.pending(&done).as_deref(), Some("end-step"));
    let payloads: Vec<Value> = harness.events.iter().filter_map(stored_notes).collect();
    assert_eq!(payloads.len(), 1);
    assert_eq!(payloads[0]["sentBytes"], before.len());
    assert!(payloads[0]["notesMarkdown"].as_str().unwrap().ends_with("[TRUNCATED]"));
}

fn stored_notes(event: &Event) -> Option<Value> {
    match &event.data {
        EventData::NodeOutputAppended { payload, .. } => Some(json!(payload)),
        _ => None,
    }
}

/// Notes that were cut by nobody are written as they always were.
#[test]
fn short_notes_say_nothing_of_their_size() {
    let mut harness =
        Harness::start(workflow(json!([{"id": "one", "title": "O", "prompt": "O."}])), json!({}), None);
    let root = harness.root.clone();
    harness.advance(&root, Call::notes("did it"));
    let payloads: Vec<Value> = harness.events.iter().filter_map(stored_notes).collect();
    assert_eq!(payloads, [json!({"payloadKind": "notes", "notesMarkdown": "did it"})]);
}

/// Every workflow of the program that decides by a key declares it.
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
