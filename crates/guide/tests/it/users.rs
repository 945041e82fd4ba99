//! User dependencies: what blocks a run, what unblocks it, and what is disclosed instead.

use guide::project::{RunStatus, run_status};
use guide::record::{
    Autonomy, Block, BlockReason, Blocked, Blocker, BlockerCode, EngineState, EventData, GapReason,
    GapSeverity, NodeId, OutputPayload, Pointer, Preferences, RiskPolicy, StepName, UserOnlyDependency,
};
use guide::render::{self, Occasion, PromptInput};
use guide::workflow::compiled::{CompiledWorkflow, Condition};
use serde_json::{Value, json};

use crate::harness::{Call, Harness, plain, workflow};

const MODES: [Autonomy; 3] =
    [Autonomy::Guided, Autonomy::FullAutoStopOnUserDeps, Autonomy::FullAutoNeverStop];

fn preferences(autonomy: Autonomy) -> Option<Preferences> {
    Some(Preferences { autonomy, risk_policy: RiskPolicy::Conservative })
}

/// A workflow with a step that has these fields, and a plain one.
fn needing(members: Value) -> CompiledWorkflow {
    let mut step = plain("deploy");
    step.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    workflow(json!([step, plain("end")]))
}

fn dependency(reason: &str) -> Value {
    let mut dependency = json!({"id": "thing", "reason": reason, "what": "The thing for {{goal}}."});
    if reason == "needs_user_choice" {
        dependency["choiceKind"] = json!("irreversible_action");
    }
    dependency
}

fn answer(id: &str) -> Value {
    json!({"kind": "wr.user_answer", "dependencyId": id, "answeredBy": "user", "outcome": "given",
        "answer": "Yes, go ahead."})
}

/// The object with one member changed or removed.
fn with(mut value: Value, name: &str, member: Value) -> Value {
    let members = value.as_object_mut().unwrap();
    members.remove(name);
    if !member.is_null() {
        members.insert(name.to_owned(), member);
    }
    value
}

fn blockers(run: &Harness, node: &NodeId) -> Vec<Blocker> {
    match run.snapshot(node) {
        EngineState::Blocked(Blocked { blocked: Block::RetryableBlock { blockers, .. }, .. }) => {
            blockers.blockers().to_vec()
        }
        other => panic!("no retryable block: {other:?}"),
    }
}

fn gaps(run: &Harness) -> Vec<(GapSeverity, GapReason, Option<Pointer>)> {
    let gaps = run.events.iter().filter_map(|event| match &event.data {
        EventData::GapRecorded { severity, reason, pointer, .. } => {
            Some((*severity, *reason, pointer.clone()))
        }
        _ => None,
    });
    gaps.collect()
}

#[test]
fn each_dependency_blocks_or_is_disclosed_by_never_stop() {
    let at_step = Pointer::WorkflowStep { step_id: StepName::parse("deploy").unwrap() };
    assert_eq!(UserOnlyDependency::ALL.len(), 6, "the set is closed");
    for (name, detail) in UserOnlyDependency::ALL {
        assert_eq!(json!(detail), json!(name), "the name is that of the wire");
        for autonomy in MODES {
            let workflow = needing(json!({"userDependencies": [dependency(name)]}));
            let mut run = Harness::start(workflow, json!({}), preferences(autonomy));
            let root = run.root.clone();
            let next = run.advance(&root, Call::nothing());
            if autonomy == Autonomy::FullAutoNeverStop {
                assert_eq!(run.pending(&next).as_deref(), Some("end"), "{name}: never-stop continues");
                let gap =
                    (GapSeverity::Critical, GapReason::UserOnlyDependency(*detail), Some(at_step.clone()));
                assert_eq!(gaps(&run), [gap], "{name}");
                let end = run.advance(&next, Call::nothing());
                assert!(run.snapshot(&end).is_complete());
                assert_eq!(run_status(&run.state, &run.state.runs()[0]), RunStatus::CompleteWithGaps);
                continue;
            }
            let found = blockers(&run, &next);
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(
                (found[0].code, &found[0].pointer),
                (BlockerCode::UserOnlyDependency, &at_step),
                "{name}"
            );
            assert!(found[0].message.contains("The thing for test."), "{}", found[0].message);
            let fix = found[0].suggested_fix.as_deref().unwrap();
            assert!(fix.contains(r#""dependencyId":"thing""#), "the fix has an example: {fix}");
            assert!(
                matches!(run.snapshot(&next), EngineState::Blocked(Blocked { blocked: Block::RetryableBlock {
                    reason: BlockReason::UserOnlyDependency { detail: found, .. }, .. }, .. }) if found == detail)
            );
            assert_eq!(gaps(&run), [], "{name}: a block is not a gap");
            assert_eq!(run_status(&run.state, &run.state.runs()[0]), RunStatus::Blocked);
            let on = run.advance(&next, Call::artifact(answer("thing")));
            assert_eq!(run.pending(&on).as_deref(), Some("end"), "{name}: the answer unblocks it");
        }
    }
}

#[test]
fn only_a_complete_answer_unblocks_a_step() {
    let cases: Vec<(&str, Vec<Value>, Option<&str>)> = vec![
        ("a yes", vec![answer("thing")], None),
        (
            "a no, and then a yes",
            vec![with(answer("thing"), "outcome", json!("refused")), answer("thing")],
            None,
        ),
        ("nothing", vec![], Some("no answer was sent. ")),
        (
            "notes of another kind",
            vec![json!({"kind": "x", "dependencyId": "thing"})],
            Some("no answer was sent"),
        ),
        ("an answer to something else", vec![answer("thin")], Some(r#"an answer to "thin" was sent"#)),
        (
            "a yes, and then a no",
            vec![answer("thing"), with(answer("thing"), "outcome", json!("refused"))],
            Some("the answer is no: \"Yes, go ahead.\""),
        ),
        (
            "an answer of the caller's own",
            vec![with(answer("thing"), "answeredBy", json!("coordinator"))],
            Some("only the user can"),
        ),
        (
            "an answer without `answeredBy`",
            vec![with(answer("thing"), "answeredBy", Value::Null)],
            Some("`answeredBy` is missing; it must be \"user\" or \"coordinator\""),
        ),
        (
            "an empty answer",
            vec![with(answer("thing"), "answer", json!(" "))],
            Some("is empty or still the placeholder"),
        ),
        (
            "neither yes nor no",
            vec![with(answer("thing"), "outcome", json!("maybe"))],
            Some("`outcome` is \"maybe\"; it must be \"given\" or \"refused\""),
        ),
        (
            "an unknown field",
            vec![with(answer("thing"), "secret", json!("x"))],
            Some("`secret` is an unknown field"),
        ),
        (
            "no id",
            vec![with(answer("thing"), "dependencyId", Value::Null)],
            Some("an answer to \"\" was sent"),
        ),
    ];
    for (name, artifacts, expected) in cases {
        let workflow = needing(json!({"userDependencies": [dependency("needs_user_artifact")]}));
        let mut run = Harness::start(workflow, json!({}), None);
        let root = run.root.clone();
        let next = run.advance(&root, Call { artifacts, ..Call::nothing() });
        match expected {
            None => assert_eq!(run.pending(&next).as_deref(), Some("end"), "{name}"),
            Some(expected) => {
                let message = &blockers(&run, &next)[0].message;
                assert!(message.contains(expected), "{name}: {message}");
            }
        }
    }
}

#[test]
fn a_confirmation_blocks_and_the_modes_differ_if_the_coordinator_may_give_it() {
    use Autonomy::{FullAutoNeverStop, FullAutoStopOnUserDeps, Guided};
    use GapSeverity::{Critical, Warning};
    use Outcome::{Blocks, Continues, Discloses};
    let human = json!({"requireConfirmation": true});
    let coordinator = json!({"requireConfirmation": {"kind": "coordinator_eval"}});
    let cases = [
        (&human, Guided, None, Blocks),
        (&human, Guided, Some("coordinator"), Blocks),
        (&human, Guided, Some("user"), Continues),
        (&human, FullAutoStopOnUserDeps, None, Blocks),
        (&human, FullAutoStopOnUserDeps, Some("user"), Continues),
        (&human, FullAutoNeverStop, None, Discloses(Critical)),
        (&coordinator, Guided, None, Blocks),
        (&coordinator, Guided, Some("coordinator"), Continues),
        (&coordinator, Guided, Some("user"), Continues),
        (&coordinator, FullAutoStopOnUserDeps, None, Discloses(Warning)),
        (&coordinator, FullAutoStopOnUserDeps, Some("coordinator"), Continues),
        (&coordinator, FullAutoNeverStop, None, Discloses(Warning)),
    ];
    let approval = GapReason::UserOnlyDependency(UserOnlyDependency::NeedsUserApproval);
    for (members, autonomy, by, expected) in cases {
        let mut run = Harness::start(needing(members.clone()), json!({}), preferences(autonomy));
        let root = run.root.clone();
        let artifacts = by.map(|by| with(answer("confirmation"), "answeredBy", json!(by)));
        let next = run.advance(&root, Call { artifacts: artifacts.into_iter().collect(), ..Call::nothing() });
        let found = match (run.snapshot(&next), gaps(&run).as_slice()) {
            (EngineState::Blocked(_), []) => Blocks,
            (EngineState::Running(_), []) => Continues,
            (EngineState::Running(_), [(severity, reason, _)]) if *reason == approval => Discloses(*severity),
            other => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{members} in {autonomy:?}, answered by {by:?}");
    }
}

/// The result of an advance.
#[derive(Debug, PartialEq)]
enum Outcome {
    Blocks,
    Continues,
    Discloses(GapSeverity),
}

#[test]
fn conditions_use_the_context_of_the_attempt_and_fail_closed() {
    let members = json!({
        "requireConfirmation": {"var": "risk", "equals": "high"},
        "userDependencies": [{"id": "thing", "reason": "needs_user_artifact", "what": "A file.",
            "condition": {"var": "risk", "equals": "low"}}],
    });
    for (risk, expected) in [("high", Some("`confirmation`")), ("low", Some("`thing`")), ("none", None)] {
        let mut run = Harness::start(needing(members.clone()), json!({"risk": "none"}), None);
        let root = run.root.clone();
        let next = run.advance(&root, Call::context(json!({"risk": risk})));
        match expected {
            Some(expected) => assert!(blockers(&run, &next)[0].message.contains(expected), "{risk}"),
            None => assert_eq!(run.pending(&next).as_deref(), Some("end")),
        }
    }
    let mut unusable = needing(members);
    unusable.steps[0].user_dependencies[0].condition =
        Some(Condition(json!({"var": "risk", "resembles": 1})));
    let mut run = Harness::start(unusable, json!({"risk": "none"}), None);
    let root = run.root.clone();
    let next = run.advance(&root, Call::nothing());
    assert!(blockers(&run, &next)[0].message.contains("`thing`"));
}

#[test]
fn all_answers_are_recorded_with_who_gave_them() {
    let mut run = Harness::start(needing(json!({"requireConfirmation": true})), json!({}), None);
    let refused = with(answer("confirmation"), "outcome", json!("refused"));
    let root = run.root.clone();
    let block = run.advance(&root, Call::artifact(refused.clone()));
    run.advance(&block, Call::artifact(answer("confirmation")));
    let kept: Vec<&Value> = run
        .events
        .iter()
        .filter_map(|event| match &event.data {
            EventData::NodeOutputAppended { payload: OutputPayload::ArtifactRef(artifact), .. } => {
                artifact.content.as_ref()
            }
            _ => None,
        })
        .collect();
    let claimed = |answer| with(answer, "provenance", json!("claimed"));
    assert_eq!(kept, [&claimed(refused), &claimed(answer("confirmation"))], "as sent, and marked as claimed");
}

#[test]
fn a_report_has_room_for_every_need_of_a_step() {
    let long = "🦀".repeat(256);
    let dependencies: Vec<Value> = (0..8)
        .map(|number| {
            json!({"id": format!("{}-{number}", "x".repeat(62)), "reason": "needs_user_secret_or_token", "what": long})
        })
        .collect();
    let members =
        json!({"userDependencies": dependencies, "requireConfirmation": true, "notesOptional": false});
    let mut run = Harness::start(needing(members), json!({}), None);
    let root = run.root.clone();
    let next = run.advance(&root, Call::artifact(answer(&"y".repeat(5000))));
    let found = blockers(&run, &next);
    assert_eq!(found.len(), 10, "nine needs and the notes");
    assert!(found.iter().any(|blocker| blocker.message.contains("`confirmation`")));
    for blocker in found.iter().filter(|blocker| blocker.code == BlockerCode::UserOnlyDependency) {
        let fix = blocker.suggested_fix.as_deref().unwrap();
        assert!(fix.contains("and ask again."), "the fix is complete: {fix}");
    }
}

#[test]
fn the_prompt_says_what_the_step_needs_and_how_to_send_it() {
    let prompt = |members: Value, context: Value| {
        let run = Harness::start(needing(members), context, None);
        let root = run.root.clone();
        let context = run.state.context(&run.state.runs()[0].id).clone();
        let facts = PromptInput {
            blockers: &[],
            workflow: &run.workflow,
            state: run.snapshot(&root),
            context: &context,
            visit: &guide::visit::Visit::default(),
            occasion: Occasion::Advance,
        };
        render::pending(facts).unwrap().prompt
    };
    let members = json!({"requireConfirmation": {"var": "risk", "equals": "high"}, "userDependencies": [
        {"id": "token", "reason": "needs_user_secret_or_token", "what": "A token for {{registry}}."},
        {"id": "drop", "reason": "needs_user_choice", "choiceKind": "irreversible_action", "what": "Drop it?"}]});
    let shown = prompt(members.clone(), json!({"registry": "registry.example"}));
    let lines = [
        "**USER NEEDED (System):**",
        "- `token` (a secret or token; only the user can give it): A token for registry.example. Never send the secret itself",
        "- `drop` (a choice about an irreversible action; only the user can give it): Drop it?",
        r#"- Example: `{"answer":"<what was said, in a sentence>","answeredBy":"user","dependencyId":"token""#,
    ];
    for line in lines {
        assert!(shown.contains(line), "{line}\nis not in\n{shown}");
    }
    assert!(!shown.contains("`confirmation`"), "its condition does not hold");
    assert!(prompt(members, json!({"risk": "high"})).contains("- `confirmation` (approval;"));
    assert!(!prompt(json!({}), json!({})).contains("USER NEEDED"));
}
