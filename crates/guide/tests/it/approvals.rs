//! An approval counts only for what was approved (finding 2 of issue 15).

use canon::digest::Digest;
use guide::engine::{AnswerOutcome, PeopleAnswers, PersonAnswer};
use guide::project::{submitted_artifacts, submitted_notes};
use guide::record::{BlockerCode, EngineState, Event, EventData, NodeId, OutputPayload};
use guide::state::SessionState;
use guide::verification::{CommandEnd, CommandOutcome, CommandResult, Verification};
use serde_json::{Value, json};

use crate::harness::{Call, Harness, plain, workflow};

const TYPO: &str = "Fixed a typo.";
const DROPPED: &str = "Dropped the production database.";

/// A step that a person has to approve, with more members; then one that takes notes, and the last.
fn begun(members: Value) -> Harness {
    let mut step = json!({"id": "fix", "title": "Fix", "prompt": "Fix it.", "requireConfirmation": true,
        "requirePerson": true});
    step.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    Harness::start(workflow(json!([step, noted("next"), plain("end")])), json!({}), None)
}

fn noted(id: &str) -> Value {
    json!({"id": id, "title": id, "prompt": "Do it."})
}

fn approval() -> PersonAnswer {
    PersonAnswer {
        dependency_id: "confirmation".to_owned(),
        outcome: AnswerOutcome::Given,
        words: None,
        person: None,
    }
}

fn approving(notes: &'static str) -> Call {
    Call { people: PeopleAnswers { answers: vec![approval()], unanswered: None }, ..Call::notes(notes) }
}

fn tests(code: i32) -> Option<Verification> {
    let outcome = CommandOutcome::Ran {
        argv: vec!["make".to_owned()],
        ended: CommandEnd::Exited { code },
        duration_ms: 1,
        output_sha256: Digest::of_bytes(b""),
        output_bytes: 0,
        output_tail: String::new(),
    };
    let commands = vec![CommandResult { name: "tests".to_owned(), outcome }];
    Some(Verification { commands, ..Verification::default() })
}

fn codes(run: &Harness, node: &NodeId) -> Vec<BlockerCode> {
    match run.snapshot(node) {
        EngineState::Blocked(state) => {
            state.blocked.blockers().blockers().iter().map(|one| one.code).collect()
        }
        EngineState::Init | EngineState::Running(_) | EngineState::Complete => Vec::new(),
    }
}

fn corrects(notes: &str) -> Value {
    json!({"kind": "wr.notes_correction", "notesMarkdown": notes})
}

/// The text of the notes that wait for a person at a node.
fn shown(run: &Harness, node: &NodeId) -> Option<Value> {
    let notes = submitted_notes(&run.state, run.state.node(node).unwrap())?;
    Some(notes.content.clone().unwrap()["notesMarkdown"].clone())
}

/// Bug 2a: the person approved, the command failed, and the next attempt has other notes.
#[test]
fn an_approval_of_a_failed_attempt_does_not_count_for_other_notes() {
    let mut run = begun(json!({"evidence": {"commands": ["tests"]}}));
    let root = run.root.clone();
    let failed = run.advance(&root, Call { verification: tests(1), ..approving(TYPO) });
    assert_eq!(
        codes(&run, &failed),
        [BlockerCode::InvalidRequiredOutput],
        "approved, but the command failed"
    );
    assert_eq!(shown(&run, &failed), Some(json!(TYPO)), "the record has the text that was approved");

    assert_eq!(run.questions(&failed, Call::notes(TYPO)), [], "these notes are approved");
    assert_eq!(
        run.questions(&failed, Call::notes(DROPPED)).len(),
        1,
        "the person is asked about other notes"
    );
    let other = run.advance(&failed, Call::notes(DROPPED));
    assert_eq!(codes(&run, &other), [BlockerCode::UserOnlyDependency]);
    let EngineState::Blocked(state) = run.snapshot(&other) else { panic!("blocked") };
    let message = &state.blocked.blockers().blockers()[0].message;
    assert!(message.contains("a person approved it with other notes or artifacts"), "{message}");
    assert_eq!(run.waiting(&other)[0].1, None, "the console asks again");

    let done = run.advance(&other, Call { verification: tests(0), ..Call::notes(TYPO) });
    assert_eq!(run.pending(&done).as_deref(), Some("next"), "the approved notes still count");
}

/// Bug 2b: the notes of an attempt that waits for a person are recorded, and the answer is bound to them.
#[test]
fn an_approval_in_the_console_counts_only_for_the_notes_that_it_shows() {
    let mut run = begun(json!({}));
    let root = run.root.clone();
    let waits = run.advance(&root, Call::notes(TYPO));
    assert_eq!(shown(&run, &waits), Some(json!(TYPO)));
    let bookmark = run.checkpoint(&waits, None);
    assert_eq!(shown(&run, &bookmark), Some(json!(TYPO)), "a checkpoint shows those of its attempt");
    run.answer_in_console(&waits, &approval());
    let other = run.advance(&waits, Call::notes(DROPPED));
    assert_eq!(codes(&run, &other), [BlockerCode::UserOnlyDependency]);
    assert_eq!(shown(&run, &other), Some(json!(DROPPED)));
    let done = run.advance(&other, Call::notes(TYPO));
    assert_eq!(run.pending(&done).as_deref(), Some("next"));

    let mut optional = begun(json!({"notesOptional": true}));
    let root = optional.root.clone();
    let waits = optional.advance(&root, Call::nothing());
    optional.answer_in_console(&waits, &approval());
    let other = optional.advance(&waits, Call::notes(DROPPED));
    assert_eq!(codes(&optional, &other), [BlockerCode::UserOnlyDependency], "nothing was approved");
}

/// An approval is about the artifacts too: a caller cannot replace them after the person saw them.
#[test]
fn an_approval_counts_only_for_the_artifacts_that_the_person_saw() {
    let plan = |target: &str| json!({"kind": "project.plan", "target": target});
    let sends = |artifacts: Vec<Value>| Call { artifacts, ..Call::notes(TYPO) };
    let mut run = begun(json!({}));
    let root = run.root.clone();
    let waits = run.advance(&root, sends(vec![plan("staging"), plan("test")]));
    let shown: Vec<_> = submitted_artifacts(&run.state, run.state.node(&waits).unwrap())
        .map(|artifact| artifact.content.clone().unwrap()["target"].clone())
        .collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    run.answer_in_console(&waits, &approval());
    for other in [vec![plan("production"), plan("test")], vec![plan("staging")], Vec::new()] {
        assert_eq!(run.questions(&waits, sends(other.clone())).len(), 1, "{other:?}");
    }
    assert_eq!(run.questions(&waits, sends(vec![plan("test"), plan("staging")])), [], "in any order");
    let other = run.advance(&waits, sends(vec![plan("production")]));
    assert_eq!(codes(&run, &other), [BlockerCode::UserOnlyDependency]);
    assert_eq!(run.waiting(&other)[0].1, None, "the console asks again");
    let done = run.advance(&other, sends(vec![plan("staging"), plan("test")]));
    assert_eq!(run.pending(&done).as_deref(), Some("next"), "the approved output still counts");
}

/// An attempt without the notes that the step requires has nothing to approve.
#[test]
fn the_console_does_not_ask_to_approve_missing_notes() {
    let mut run = begun(json!({"userDependencies": [
        {"id": "when", "reason": "needs_user_choice", "choiceKind": "scope_boundary", "what": "Now?"}]}));
    let root = run.root.clone();
    let waits = run.advance(&root, Call::nothing());
    let asked: Vec<String> = run.waiting(&waits).into_iter().map(|(question, _)| question.id).collect();
    assert_eq!(asked, ["when"], "a choice can be made before the work");
}

/// A choice is what the work is based on: it counts for the notes that follow from it.
#[test]
fn a_choice_counts_for_any_notes() {
    let step = json!({"id": "pick", "title": "Pick", "prompt": "Pick.", "requirePerson": true, "userDependencies": [
        {"id": "when", "reason": "needs_user_choice", "choiceKind": "scope_boundary", "what": "Now?"}]});
    let mut run = Harness::start(workflow(json!([step, plain("end")])), json!({}), None);
    let root = run.root.clone();
    let waits = run.advance(&root, Call::notes("I need to know when."));
    let answer =
        PersonAnswer { dependency_id: "when".to_owned(), words: Some("Tomorrow.".to_owned()), ..approval() };
    run.answer_in_console(&waits, &answer);
    let done = run.advance(&waits, Call::notes("Planned for tomorrow, as the user says."));
    assert_eq!(run.pending(&done).as_deref(), Some("end"));
}

/// Of several approvals, the one of the notes that are sent counts, unless a refusal followed.
#[test]
fn each_of_several_approvals_counts_for_its_notes() {
    for (refuses, stops) in [(false, false), (true, true)] {
        let mut run = begun(json!({}));
        let root = run.root.clone();
        let waits = run.advance(&root, Call::notes(TYPO));
        run.answer_in_console(&waits, &approval());
        let other = run.advance(&waits, Call::notes(DROPPED));
        if refuses {
            run.answer_in_console(&other, &PersonAnswer { outcome: AnswerOutcome::Refused, ..approval() });
        }
        run.answer_in_console(&other, &approval());
        let next = run.advance(&other, Call::notes(TYPO));
        assert_eq!(!codes(&run, &next).is_empty(), stops, "refuses: {refuses}");
    }
}

/// A refusal counts until the person answers again: other notes and a claim do not replace it.
#[test]
fn a_refusal_counts_for_any_notes() {
    let mut run = begun(json!({"requirePerson": false}));
    let root = run.root.clone();
    let waits = run.advance(&root, Call::notes(DROPPED));
    run.answer_in_console(&waits, &PersonAnswer { outcome: AnswerOutcome::Refused, ..approval() });
    let claim = json!({"kind": "wr.user_answer", "dependencyId": "confirmation", "answeredBy": "user",
        "outcome": "given", "answer": "The user says so.", "notesSha256": "forged"});
    let next = run.advance(&waits, Call { artifacts: vec![claim], ..Call::notes(TYPO) });
    assert_eq!(codes(&run, &next), [BlockerCode::UserOnlyDependency]);
}

/// Logs of earlier versions: an answer without a digest counts for any notes.
#[test]
fn an_answer_without_a_digest_counts_for_any_notes() {
    let mut run = begun(json!({}));
    let root = run.root.clone();
    let waits = run.advance(&root, Call::notes(TYPO));
    run.answer_in_console(&waits, &approval());
    let mut bound = 0;
    let old: Vec<Event> = run
        .events
        .iter()
        .map(|event| {
            let mut event = event.clone();
            if let EventData::NodeOutputAppended { payload: OutputPayload::ArtifactRef(artifact), .. } =
                &mut event.data
                && let Some(Value::Object(answer)) = &mut artifact.content
                && answer.remove("notesSha256").is_some()
                && answer.remove("artifactsSha256").is_some()
            {
                bound += 1;
                let bytes = canon::canonical::string_of(&Value::Object(answer.clone()));
                artifact.sha256 = Digest::of_bytes(bytes.as_bytes());
                artifact.byte_length = bytes.len() as u64;
            }
            event
        })
        .collect();
    assert_eq!(bound, 1, "the answer is bound to the notes");
    run.state = SessionState::fold(run.state.session_id().clone(), &old).unwrap();
    run.events = old;
    let next = run.advance(&waits, Call::notes(DROPPED));
    assert_eq!(run.pending(&next).as_deref(), Some("next"), "the meaning of old answers does not change");
}

/// Bug 2c: notes that a person approved are not replaced without the person.
#[test]
fn a_correction_does_not_replace_approved_notes() {
    for by_console in [false, true] {
        let mut run = begun(json!({}));
        let root = run.root.clone();
        let next = if by_console {
            let waits = run.advance(&root, Call::notes(TYPO));
            run.answer_in_console(&waits, &approval());
            run.advance(&waits, Call::notes(TYPO))
        } else {
            run.advance(&root, approving(TYPO))
        };
        let before = run.events.len();
        let call = Call { artifacts: vec![corrects(DROPPED)], ..Call::notes("n") };
        let error = run.try_advance(&next, call).unwrap_err();
        assert!(error.to_string().contains("a person approved the notes of step `fix`"), "{error}");
        assert_eq!(run.events.len(), before, "nothing is recorded");
        // The way that the error names: the step again, with the person.
        assert_eq!(run.questions(&root, Call::notes(DROPPED)).len(), 1, "by_console: {by_console}");
    }
}

/// Bug 2d: corrected notes pass the same rules as the notes that they replace.
#[test]
fn a_correction_passes_the_criteria_of_its_step() {
    let rules = json!([{"type": "contains", "value": "Reproduced: yes", "message": "Say whether it was reproduced."}]);
    let checked = json!({"id": "try", "title": "Try", "prompt": "Try.", "validationCriteria": rules});
    let cited = json!({"id": "cite", "title": "Cite", "prompt": "Cite.", "evidence": {"citations": true}});
    let steps = json!([checked, noted("next"), cited, noted("more"), plain("end")]);
    let mut run = Harness::start(workflow(steps), json!({}), None);
    let root = run.root.clone();
    let second = run.advance(&root, Call::notes("Reproduced: yes"));
    let correcting = |notes: &str| Call { artifacts: vec![corrects(notes)], ..Call::notes("n") };
    let error = run.try_advance(&second, correcting("never mind")).unwrap_err();
    assert!(error.to_string().contains("does not pass the rules of step `try`"), "{error}");
    assert!(error.to_string().contains("Say whether it was reproduced."), "{error}");
    // Only the stored beginning counts.
    let late = format!("{} Reproduced: yes", "x".repeat(5000));
    assert!(run.try_advance(&second, correcting(&late)).is_err());
    let third = run.advance(&second, correcting("Reproduced: yes, twice"));
    let fourth =
        run.advance(&third, Call { verification: Some(Verification::default()), ..Call::notes("c") });
    let error = run.try_advance(&fourth, correcting("src/gone.rs:7")).unwrap_err();
    assert!(error.to_string().contains("the host verified the citations"), "{error}");
}
