//! A step is judged by what was sent since it became pending: a value of an earlier pass or of another branch does
//! not count (finding B1). A lower autonomy applies to the whole run, on whichever branch it was set (finding B3).

use guide::project::arrival::skipped_before;
use guide::record::{
    Autonomy, BlockerCode, EngineState, EventData, GapSeverity, NodeId, NodeKind, Preferences, RiskPolicy,
};
use guide::state::SessionState;
use serde_json::{Value, json};

use crate::harness::{Call, Harness, plain, workflow};

const NEVER_STOP: Preferences =
    Preferences { autonomy: Autonomy::FullAutoNeverStop, risk_policy: RiskPolicy::Conservative };

/// Checks each file, and repairs those that do not pass.
fn checked_files() -> Value {
    json!([
        {"id": "each", "type": "loop", "title": "Each",
         "loop": {"type": "forEach", "items": "files", "itemVar": "file", "maxIterations": 5}, "body": [
            {"id": "check", "title": "Check {{file}}", "prompt": "C.", "producesContext": {"passed": {"type": "boolean"}}},
            {"id": "repair", "title": "Repair {{file}}", "prompt": "R.", "notesOptional": true,
             "runCondition": {"var": "passed", "equals": false}}]},
        plain("end-step"),
    ])
}

/// A step that decides, a step that depends on the decision, and an end.
fn decided() -> Value {
    json!([
        {"id": "diagnose", "title": "D", "prompt": "D.",
         "producesContext": {"decision": {"enum": ["fix", "report"]}}},
        {"id": "fix", "title": "F", "prompt": "F.", "notesOptional": true,
         "runCondition": {"var": "decision", "equals": "fix"}},
        plain("report"),
    ])
}

fn sent(notes: &'static str, context: Value) -> Call {
    Call { notes: Some(notes), ..Call::context(context) }
}

/// The message of the only blocker of a node.
fn blocked_by_key(harness: &Harness, node: &NodeId) -> String {
    let EngineState::Blocked(state) = harness.snapshot(node) else { panic!("not blocked") };
    let blockers = state.blocked.blockers().blockers();
    assert_eq!(blockers.len(), 1, "{blockers:?}");
    assert_eq!(blockers[0].code, BlockerCode::MissingContextKey);
    blockers[0].message.clone()
}

#[test]
fn b1_a_key_must_be_sent_in_every_pass_of_a_loop() {
    let mut harness = Harness::start(workflow(checked_files()), json!({"files": ["f1", "f2"]}), None);
    let root = harness.root.clone();
    let second = harness.advance(&root, sent("f1 is fine", json!({"passed": true})));
    assert!(harness.prompt(&second).contains("- `passed`: true or false; true was sent earlier"));
    let blocked = harness.advance(&second, Call::notes("f2 is broken"));
    let message = blocked_by_key(&harness, &blocked);
    assert!(message.contains("`passed` was not sent in this visit of the step; its value true"), "{message}");
    let repair = harness.advance(&blocked, sent("f2 is broken", json!({"passed": false})));
    assert!(harness.pending(&repair).unwrap().ends_with("repair"));
}

/// The value of the start is the user's choice for the first pass, and not for later ones.
#[test]
fn b1_a_value_of_the_start_counts_for_the_first_pass() {
    let context = json!({"files": ["f1", "f2"], "passed": true});
    let mut harness = Harness::start(workflow(checked_files()), context, None);
    let root = harness.root.clone();
    assert!(harness.prompt(&root).contains("- `passed` is true (true or false)"));
    let second = harness.advance(&root, Call::notes("f1 is fine"));
    assert!(harness.pending(&second).unwrap().ends_with("check"));
    let blocked = harness.advance(&second, Call::notes("f2 is broken"));
    blocked_by_key(&harness, &blocked);
}

#[test]
fn b1_a_key_of_another_branch_does_not_count() {
    let mut harness = Harness::start(workflow(decided()), json!({}), None);
    let root = harness.root.clone();
    harness.advance(&root, sent("report it", json!({"decision": "report"})));
    let blocked = harness.advance(&root, Call::notes("the user says fix it"));
    assert!(blocked_by_key(&harness, &blocked).contains("its value \"report\" is an earlier one"));
    let fix = harness.advance(&blocked, sent("fix it", json!({"decision": "fix"})));
    assert_eq!(harness.pending(&fix).as_deref(), Some("fix"));
}

#[test]
fn b1_a_jump_is_not_decided_by_the_previous_pass() {
    let steps = json!([
        plain("build"),
        {"id": "try", "title": "T", "prompt": "T.", "producesContext": {"works": {"type": "boolean"}},
         "jumpIf": {"condition": {"var": "works", "equals": false}, "target": "build", "maxJumps": 2}},
        plain("end-step"),
    ]);
    let mut harness = Harness::start(workflow(steps), json!({}), None);
    let root = harness.root.clone();
    let first = harness.advance(&root, Call::nothing());
    let build = harness.advance(&first, sent("broken", json!({"works": false})));
    let second = harness.advance(&build, Call::nothing());
    let blocked = harness.advance(&second, Call::notes("it works now"));
    blocked_by_key(&harness, &blocked);
    let end = harness.advance(&blocked, sent("it works now", json!({"works": true})));
    assert_eq!(harness.pending(&end).as_deref(), Some("end-step"));
}

/// Finding B2 still holds: a retry need not repeat the keys of its blocked attempt, even if their value did not
/// change. They count for this visit only, and only until another branch replaces them.
#[test]
fn b1_the_keys_of_a_blocked_attempt_count_for_its_retry() {
    let mut harness = Harness::start(workflow(checked_files()), json!({"files": ["f1", "f2"]}), None);
    let root = harness.root.clone();
    let second = harness.advance(&root, sent("f1 is fine", json!({"passed": true})));
    let from = harness.events.len();
    let blocked = harness.advance(&second, Call::context(json!({"passed": true})));
    assert_eq!(
        harness.kinds_since(from),
        ["advance_recorded", "context_set", "node_created", "edge_created"],
        "the log says that the key was sent"
    );
    let event = harness.events.iter().rev().find(|event| event.data.kind() == "context_set").unwrap();
    assert_eq!(json!(event)["data"]["resentKeys"], json!(["passed"]));
    let read_back = SessionState::fold(harness.state.session_id().clone(), &harness.events).unwrap();
    assert_eq!(read_back, harness.state);
    let other = harness.advance(&second, sent("f2 is broken", json!({"passed": false})));
    assert!(harness.pending(&other).unwrap().ends_with("repair"));
    let again = harness.advance(&blocked, Call::notes("f2 is fine"));
    blocked_by_key(&harness, &again);
    let end = harness.advance(&again, sent("f2 is fine", json!({"passed": true})));
    assert_eq!(harness.pending(&end).as_deref(), Some("end-step"));
}

#[test]
fn b1_a_retry_does_not_repeat_the_keys_of_its_blocked_attempt() {
    let mut harness = Harness::start(workflow(checked_files()), json!({"files": ["f1", "f2"]}), None);
    let root = harness.root.clone();
    let second = harness.advance(&root, sent("f1 is fine", json!({"passed": true})));
    let blocked = harness.advance(&second, Call::context(json!({"passed": true})));
    assert!(harness.prompt(&blocked).contains("- `passed` is true (true or false)"));
    let end = harness.advance(&blocked, Call::notes("f2 is fine"));
    assert_eq!(harness.pending(&end).as_deref(), Some("end-step"));
}

/// Without a stop, the dependent step is shown, and one critical gap names the key.
#[test]
fn b1_never_stop_shows_the_step_that_an_earlier_value_would_skip() {
    let mut harness =
        Harness::start(workflow(checked_files()), json!({"files": ["f1", "f2"]}), Some(NEVER_STOP));
    let root = harness.root.clone();
    let second = harness.advance(&root, sent("f1 is fine", json!({"passed": true})));
    let repair = harness.advance(&second, Call::notes("f2 is broken"));
    assert!(harness.pending(&repair).unwrap().ends_with("repair"));
    let run = &harness.state.runs()[0];
    let gaps: Vec<_> = harness.state.gaps_of_run(run).map(|gap| (gap.severity, &gap.summary)).collect();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!(gaps[0].0, GapSeverity::Critical);
    assert!(gaps[0].1.contains("`passed`"), "{gaps:?}");
}

/// The brake holds on the way back: stricter preferences of the run apply to every branch.
#[test]
fn b3_stricter_preferences_of_the_run_apply_to_a_branch() {
    let steps = json!([{"id": "one", "title": "O", "prompt": "O."}, plain("two")]);
    let mut harness = Harness::start(workflow(steps), json!({}), Some(NEVER_STOP));
    let root = harness.root.clone();
    let guided = Preferences { autonomy: Autonomy::Guided, ..NEVER_STOP };
    harness.advance(&root, Call { preferences: Some(guided), ..Call::nothing() });
    let found = harness.state.node(&root).unwrap();
    assert_eq!(harness.state.current_preferences(found), guided);
    let from = harness.events.len();
    let branch = harness.advance(&root, Call::nothing());
    assert_eq!(harness.state.node(&branch).unwrap().kind, NodeKind::BlockedAttempt);
    assert_eq!(harness.state.preferences_at(&branch), Some(guided));
    assert_eq!(
        harness.kinds_since(from),
        ["advance_recorded", "node_created", "edge_created", "preferences_changed"],
        "the branch has them in the log"
    );
    // The user may also raise it again, and a retry keeps what the branch has.
    let two = harness.advance(&branch, Call { preferences: Some(NEVER_STOP), ..Call::nothing() });
    assert_eq!(harness.pending(&two).as_deref(), Some("two"));
    let read_back = SessionState::fold(harness.state.session_id().clone(), &harness.events).unwrap();
    assert_eq!(read_back.preferences_at(&two), Some(NEVER_STOP));
}

/// Going back to a node does not give it more autonomy than it had.
#[test]
fn b3_higher_preferences_of_another_branch_do_not_apply() {
    let steps = json!([{"id": "one", "title": "O", "prompt": "O."}, plain("two")]);
    let mut harness = Harness::start(workflow(steps), json!({}), None);
    let root = harness.root.clone();
    harness.advance(&root, Call { preferences: Some(NEVER_STOP), ..Call::nothing() });
    let branch = harness.advance(&root, Call::nothing());
    assert_eq!(harness.state.node(&branch).unwrap().kind, NodeKind::BlockedAttempt);
    assert_eq!(harness.state.preferences_at(&branch), Some(Preferences::default()));
}

/// Bug 12: the title of a skipped step has the item of the pass in which it was skipped.
#[test]
fn skipped_steps_of_a_loop_have_the_title_of_their_pass() {
    let mut harness = Harness::start(workflow(checked_files()), json!({"files": ["f1", "f2"]}), None);
    let root = harness.root.clone();
    let second = harness.advance(&root, sent("f1 is fine", json!({"passed": true})));
    let end = harness.advance(&second, sent("f2 is fine", json!({"passed": true})));
    let titles = |node: &NodeId| -> Vec<String> {
        let found = skipped_before(&harness.state, &harness.workflow, harness.state.node(node).unwrap());
        found.into_iter().map(|skipped| skipped.title).collect()
    };
    assert_eq!((titles(&second), titles(&end)), (vec!["Repair f1".into()], vec!["Repair f2".into()]));
}

/// The log of an earlier version does not say in which pass a step was skipped.
#[test]
fn skipped_steps_of_an_old_log_have_the_title_of_the_author() {
    let mut harness = Harness::start(workflow(checked_files()), json!({"files": ["f1", "f2"]}), None);
    let root = harness.root.clone();
    let second = harness.advance(&root, sent("f1 is fine", json!({"passed": true})));
    let mut old = harness.events.clone();
    for event in &mut old {
        if let EventData::DecisionTraceAppended { entries, .. } = &mut event.data {
            entries
                .iter_mut()
                .filter(|entry| entry.skipped().is_some())
                .for_each(|entry| entry.refs.truncate(1));
        }
    }
    let state = SessionState::fold(harness.state.session_id().clone(), &old).unwrap();
    let found = skipped_before(&state, &harness.workflow, state.node(&second).unwrap());
    assert_eq!(found[0].title, "Repair {{file}}");
}
