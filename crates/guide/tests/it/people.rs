//! Answers that a person gave directly, in contrast to claims of the caller (finding G2).

use canon::digest::Digest;
use guide::engine::{AnswerOutcome, PeopleAnswers, PersonAnswer, Unanswered};
use guide::record::{
    Autonomy, Block, Blocked, Blocker, BlockerCode, EngineState, EventData, NodeId, OutputPayload,
    Preferences, RiskPolicy,
};
use guide::workflow::compile::{self, Bindings};
use guide::workflow::compiled::CompiledWorkflow;
use guide::workflow::source::{self, Format};
use serde_json::{Value, json};

use crate::harness::{Call, Harness, plain, workflow};

const NEVER_STOP: Preferences =
    Preferences { autonomy: Autonomy::FullAutoNeverStop, risk_policy: RiskPolicy::Conservative };

/// A step that needs notes and approval, and a plain one.
fn approved(require_person: bool) -> CompiledWorkflow {
    let mut step =
        json!({"id": "deploy", "title": "Deploy", "prompt": "Deploy.", "requireConfirmation": true});
    if require_person {
        step["requirePerson"] = json!(true);
    }
    workflow(json!([step, plain("end")]))
}

fn begun(require_person: bool) -> Harness {
    Harness::start(approved(require_person), json!({}), None)
}

fn claim(outcome: &str) -> Value {
    json!({"kind": "wr.user_answer", "dependencyId": "confirmation", "answeredBy": "user", "outcome": outcome,
        "answer": "The user says so."})
}

fn said(outcome: AnswerOutcome) -> PersonAnswer {
    PersonAnswer { dependency_id: "confirmation".to_owned(), outcome, words: None, person: None }
}

fn elicited(outcome: AnswerOutcome) -> PeopleAnswers {
    PeopleAnswers { answers: vec![said(outcome)], unanswered: None }
}

fn no_answer(why: Unanswered) -> PeopleAnswers {
    PeopleAnswers { answers: Vec::new(), unanswered: Some(why) }
}

fn blocker(run: &Harness, node: &NodeId) -> Blocker {
    match run.snapshot(node) {
        EngineState::Blocked(Blocked { blocked: Block::RetryableBlock { blockers, .. }, .. }) => {
            blockers.blockers()[0].clone()
        }
        other => panic!("no retryable block: {other:?}"),
    }
}

/// The recorded answers, oldest first.
fn recorded(run: &Harness) -> Vec<Value> {
    let outputs = run.events.iter().filter_map(|event| match &event.data {
        EventData::NodeOutputAppended { payload: OutputPayload::ArtifactRef(artifact), .. } => {
            artifact.content.clone()
        }
        _ => None,
    });
    outputs.filter(|artifact| artifact["kind"] == "wr.user_answer").collect()
}

#[test]
fn the_log_has_the_provenance_of_answers_and_a_step_can_require_a_person() {
    use AnswerOutcome::{Given, Refused};
    let forged = |provenance: &str| {
        let mut forged = claim("given");
        forged["provenance"] = json!(provenance);
        forged["person"] = json!("another person");
        forged
    };
    let none = PeopleAnswers::default;
    let late = || no_answer(Unanswered::TimedOut { seconds: 300 });
    // The artifacts, the answers; whether the run continues without and with the requirement; what is
    // recorded.
    let cases = [
        ("a claim", vec![claim("given")], none(), true, false, vec!["claimed"]),
        ("a claim that says otherwise", vec![forged("elicited")], none(), true, false, vec!["claimed"]),
        ("another", vec![forged("console")], none(), true, false, vec!["claimed"]),
        ("a person", vec![], elicited(Given), true, true, vec!["elicited"]),
        ("a person who refuses", vec![], elicited(Refused), false, false, vec!["elicited"]),
        (
            "a claim against a no",
            vec![claim("given")],
            elicited(Refused),
            false,
            false,
            vec!["claimed", "elicited"],
        ),
        (
            "a yes against a claim",
            vec![claim("refused")],
            elicited(Given),
            true,
            true,
            vec!["claimed", "elicited"],
        ),
        ("no answer", vec![], none(), false, false, vec![]),
        ("no answer in time", vec![], late(), false, false, vec![]),
        ("a claim, and no answer in time", vec![claim("given")], late(), true, false, vec!["claimed"]),
    ];
    for (name, artifacts, people, freely, required, provenances) in cases {
        for (require_person, continues) in [(false, freely), (true, required)] {
            let mut run = begun(require_person);
            let root = run.root.clone();
            let call = Call { artifacts: artifacts.clone(), people: people.clone(), ..Call::notes("done") };
            let next = run.advance(&root, call);
            let is_blocked = matches!(run.snapshot(&next), EngineState::Blocked(_));
            assert_eq!(!is_blocked, continues, "{name}, required: {require_person}");
            let mut found: Vec<Value> =
                recorded(&run).iter().map(|answer| answer["provenance"].clone()).collect();
            found.sort_by_key(ToString::to_string);
            assert_eq!(json!(found), json!(provenances), "{name}");
            assert!(recorded(&run).iter().all(|answer| answer["person"].is_null()), "{name}");
            if is_blocked {
                assert_eq!(blocker(&run, &next).code, BlockerCode::UserOnlyDependency, "{name}");
            }
        }
    }
}

#[test]
fn a_block_says_what_happened_and_where_to_answer() {
    let cases = [
        (vec![claim("given")], PeopleAnswers::default(), "requires that a person gives it directly"),
        (vec![], no_answer(Unanswered::TimedOut { seconds: 300 }), "did not answer within 300 seconds"),
        (vec![], no_answer(Unanswered::Dismissed), "closed the question without an answer"),
        (vec![], no_answer(Unanswered::Failed), "could not get an answer"),
        (vec![], elicited(AnswerOutcome::Refused), "the answer is no"),
    ];
    for (artifacts, people, expected) in cases {
        let mut run = begun(true);
        let root = run.root.clone();
        let next = run.advance(&root, Call { artifacts, people, ..Call::notes("done") });
        let blocker = blocker(&run, &next);
        assert!(blocker.message.contains(expected), "{expected}: {}", blocker.message);
        let place = format!("`/console/sessions/{}`", run.state.session_id());
        let fix = blocker.suggested_fix.unwrap();
        assert!(fix.contains(&place) && fix.ends_with("first."), "{fix}");
    }
}

#[test]
fn a_console_answer_counts_for_the_next_attempt_and_the_caller_cannot_override_it() {
    let mut run = begun(true);
    let root = run.root.clone();
    let waits = run.advance(&root, Call::notes("done"));
    let open = run.waiting(&waits);
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].0.id.as_str(), open[0].1), ("confirmation", None));
    assert_eq!(run.waiting(&root), [], "there is no output to approve yet");
    let anna = PersonAnswer { person: Some("anna".to_owned()), ..said(AnswerOutcome::Refused) };
    run.answer_in_console(&waits, &anna);
    assert_eq!(run.waiting(&waits)[0].1, Some(AnswerOutcome::Refused));
    let refused = run.advance(&waits, Call { artifacts: vec![claim("given")], ..Call::notes("done") });
    assert!(blocker(&run, &refused).message.contains("the answer is no"), "a claim does not override it");
    assert_eq!(run.waiting(&refused)[0].1, None, "the question is open again");
    let yes = PersonAnswer { outcome: AnswerOutcome::Given, words: Some("Go ahead.".to_owned()), ..anna };
    run.answer_in_console(&refused, &yes);
    let sloppy = run.advance(&refused, Call::nothing());
    assert_eq!(blocker(&run, &sloppy).code, BlockerCode::MissingRequiredNotes);
    assert_eq!(run.waiting(&sloppy), [], "the approval survives the blocked attempt");
    let next = run.advance(&sloppy, Call::notes("done"));
    assert_eq!(run.pending(&next).as_deref(), Some("end"));
    let last = recorded(&run).pop().unwrap();
    let notes = json!({"kind": "wr.notes", "notesMarkdown": "done"});
    let notes = Digest::of_bytes(canon::canonical::string_of(&notes).as_bytes()).to_hex();
    let no_artifacts = Digest::of_bytes(b"").to_hex();
    assert_eq!(
        last,
        json!({"kind": "wr.user_answer", "dependencyId": "confirmation", "answeredBy": "user", "outcome": "given",
            "answer": "Go ahead.", "provenance": "console", "person": "anna", "notesSha256": notes,
            "artifactsSha256": no_artifacts})
    );
}

#[test]
fn people_are_asked_only_if_nothing_else_is_missing() {
    let ask = |run: &Harness, call: Call| run.questions(&run.root, call).len();
    for require_person in [false, true] {
        let run = begun(require_person);
        assert_eq!(ask(&run, Call::notes("done")), 1);
        assert_eq!(ask(&run, Call::nothing()), 0, "the notes are missing too");
        let claimed = Call { artifacts: vec![claim("given")], ..Call::notes("done") };
        assert_eq!(ask(&run, claimed), 1, "a claim is not a direct answer");
        let never_stops = Call { preferences: Some(NEVER_STOP), ..Call::notes("done") };
        assert_eq!(ask(&run, never_stops), 0, "never-stop does not ask");
    }
    let mut run = begun(true);
    let root = run.root.clone();
    let waits = run.advance(&root, Call::notes("done"));
    run.answer_in_console(&waits, &said(AnswerOutcome::Given));
    assert_eq!(run.questions(&waits, Call::notes("done")), [], "the person answered already");
    let coordinator = json!({"id": "review", "title": "r", "prompt": "Do.", "notesOptional": true,
        "requireConfirmation": {"kind": "coordinator_eval"}});
    let run = Harness::start(workflow(json!([coordinator, plain("end")])), json!({}), None);
    assert_eq!(ask(&run, Call::nothing()), 1);
    assert_eq!(ask(&run, Call::artifact(claim("given"))), 0, "the coordinator may say so");
    let choice = json!({"id": "pick", "title": "p", "prompt": "Do.", "notesOptional": true, "userDependencies": [
        {"id": "when", "reason": "needs_user_choice", "choiceKind": "scope_boundary", "what": "Now, {{goal}}?"}]});
    let run = Harness::start(workflow(json!([choice, plain("end")])), json!({}), None);
    let asked = run.questions(&run.root, Call::nothing());
    assert_eq!((asked[0].what.as_str(), asked[0].needs_words), ("Now, test?", true));
}

#[test]
fn a_gap_that_needs_a_person_is_not_closed_by_a_claim() {
    let mut run = Harness::start(approved(true), json!({}), Some(NEVER_STOP));
    let root = run.root.clone();
    let next = run.advance(&root, Call { artifacts: vec![claim("given")], ..Call::notes("done") });
    let gap = run.events.iter().find_map(|event| match &event.data {
        EventData::GapRecorded { gap_id, .. } => Some(gap_id.to_string()),
        _ => None,
    });
    let closes = json!({"kind": "wr.gap_resolution", "gapId": gap.unwrap(), "summary": "They said yes.",
        "answeredBy": "user"});
    let error = run.try_advance(&next, Call::artifact(closes)).unwrap_err();
    assert!(error.to_string().contains("a caller cannot send"), "{error}");
}

#[test]
fn require_person_is_pinned_only_if_set_and_needs_a_user_dependency() {
    let step = |run: &CompiledWorkflow| serde_json::to_value(&run.steps[0]).unwrap();
    assert_eq!(step(&approved(true))["requirePerson"], true);
    assert!(
        step(&approved(false)).get("requirePerson").is_none(),
        "the bytes of other workflows do not change"
    );
    let mut bare = plain("deploy");
    bare["requirePerson"] = json!(true);
    let text = json!({"id": "project.test", "name": "Test", "description": "A test.", "version": "1.0.0",
        "steps": [bare]})
    .to_string();
    let parsed = source::parse(text.as_bytes(), Format::Json).unwrap();
    let problems = compile::compile(&parsed, &Bindings::default()).unwrap_err();
    assert!(format!("{problems:?}").contains("needs nothing from the user"), "{problems:?}");
}
