//! What only the user can provide, and what a run continues without: as shown in replies.

use std::path::Path;
use std::sync::Arc;

use catalogue::{Catalogue, CatalogueOptions};
use guide::record::Autonomy;
use guided::api::{
    ContinueRequest, Handle, Intent, NextIntent, PreferenceDelta, Reply, ReplyKind, StartRequest,
};
use serde_json::{Value, json};
use storage::disk::RealDisk;
use storage::files::SessionFiles;
use system::{ManualClock, SeededEntropy};

use crate::sync::Guided;

/// Three steps: one that the user must approve, one that the coordinator must approve, one that requires notes.
fn open(directory: &Path) -> Guided {
    let flows = directory.join("flows");
    std::fs::create_dir_all(&flows).unwrap();
    let step = |id: &str| json!({"id": id, "title": id, "prompt": "Do it.", "notesOptional": true});
    let mut steps = ["agree", "review", "end"].map(step);
    steps[0]["requireConfirmation"] = json!(true);
    steps[1]["requireConfirmation"] = json!({"kind": "coordinator_eval"});
    steps[2]["notesOptional"] = json!(false);
    let workflow = json!({"id": "project.users", "name": "Users", "description": "Ask.", "version": "1.0.0",
        "steps": steps});
    std::fs::write(flows.join("users.json"), workflow.to_string()).unwrap();
    let files = SessionFiles::open(Arc::new(RealDisk::open(&directory.join("data")).unwrap())).unwrap();
    let options = CatalogueOptions { configured_dirs: vec![flows], ..CatalogueOptions::default() };
    let (clock, entropy) = (Arc::new(ManualClock::at(1)), Arc::new(SeededEntropy::new(1)));
    Guided::new(files, Catalogue::new(options), clock, entropy)
}

fn start(guided: &Guided, autonomy: Autonomy) -> Reply {
    let request = StartRequest {
        workflow_id: "project.users".to_owned(),
        goal: "ask".to_owned(),
        preferences: Some(PreferenceDelta { autonomy: Some(autonomy), risk_policy: None }),
        ..StartRequest::default()
    };
    guided.start(request).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn proceed(guided: &Guided, reply: &Reply, intent: Intent, artifacts: Vec<Value>) -> Reply {
    let request = ContinueRequest {
        handle: Handle::Single(reply.continue_token.clone().expect("something is pending")),
        intent,
        notes_markdown: None,
        artifacts,
        context: None,
        preferences: None,
    };
    guided.proceed(request).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn advance(guided: &Guided, reply: &Reply, artifacts: Vec<Value>) -> Reply {
    proceed(guided, reply, Intent::Advance, artifacts)
}

fn answer(by: &str) -> Value {
    json!({"kind": "wr.user_answer", "dependencyId": "confirmation", "answeredBy": by, "outcome": "given",
        "answer": "yes"})
}

#[test]
fn a_reply_says_whether_the_user_is_awaited_as_the_mode_has_it() {
    use NextIntent::{AwaitUserConfirmation as Await, PerformPendingThenContinue as Perform};
    for (autonomy, first, second) in [
        (Autonomy::Guided, Await, Await),
        (Autonomy::FullAutoStopOnUserDeps, Await, Perform),
        (Autonomy::FullAutoNeverStop, Perform, Perform),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let guided = open(directory.path());
        let started = start(&guided, autonomy);
        assert_eq!(started.next_intent, first, "{autonomy:?}");
        assert!(started.pending.as_ref().unwrap().prompt.contains("USER NEEDED"), "{autonomy:?}");
        let next = advance(&guided, &started, vec![answer("user")]);
        assert_eq!(next.next_intent, second, "{autonomy:?}");
        let end = advance(&guided, &next, Vec::new());
        assert_eq!(end.kind == ReplyKind::Blocked, autonomy == Autonomy::Guided, "{autonomy:?}");
    }
}

#[test]
fn a_block_for_want_of_an_answer_is_replayed_to_the_byte_and_lifted_by_the_answer() {
    let directory = tempfile::tempdir().unwrap();
    let guided = open(directory.path());
    let started = start(&guided, Autonomy::Guided);
    let blocked = advance(&guided, &started, Vec::new());
    let wire = serde_json::to_value(&blocked).unwrap();
    assert_eq!((&wire["kind"], &wire["retryable"]), (&json!("blocked"), &json!(true)));
    assert_eq!(wire["nextIntent"], "await_user_confirmation");
    assert_eq!(wire["blockers"]["blockers"][0]["code"], "USER_ONLY_DEPENDENCY");
    let next = advance(&guided, &blocked, vec![answer("user")]);
    assert_eq!(next.pending.as_ref().unwrap().step_id, "review");
    let again = advance(&guided, &started, vec![answer("user")]);
    assert_eq!(again, blocked, "the first token is always the first attempt");
    assert_eq!(advance(&guided, &blocked, Vec::new()), next);
}

#[test]
fn gaps_are_reported_when_they_open_on_return_and_at_the_end_and_a_replay_reports_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let guided = open(directory.path());
    let started = start(&guided, Autonomy::FullAutoNeverStop);
    assert_eq!(started.open_gaps, None);
    let second = advance(&guided, &started, Vec::new());
    let opened = second.open_gaps.clone().expect("a gap was opened");
    assert_eq!(opened.count, 1);
    let third = advance(&guided, &second, Vec::new());
    let reported = serde_json::to_value(&third.open_gaps).unwrap();
    assert_eq!((&reported["count"], &reported["gaps"][0]["severity"]), (&json!(1), &json!("warning")));
    let back = proceed(&guided, &third, Intent::Rehydrate, Vec::new());
    assert_eq!(back.open_gaps.as_ref().map(|open| open.count), Some(2), "a rehydrate shows all");
    let done = advance(&guided, &third, Vec::new());
    assert!(done.is_complete);
    assert_eq!(done.open_gaps.as_ref().map(|open| open.count), Some(3), "the notes are missing too");

    let closes = |gap: &guided::api::GapWords| json!({"kind": "wr.gap_resolution", "gapId": gap.gap_id, "summary": "said later", "answeredBy": "user"});
    let artifacts: Vec<Value> = done.open_gaps.iter().flat_map(|open| &open.gaps).map(closes).collect();
    let back = proceed(&guided, &third, Intent::Rehydrate, Vec::new());
    let again = advance(&guided, &back, artifacts);
    assert!(again.is_complete);
    assert_eq!(again.open_gaps.as_ref().map(|open| open.count), Some(1), "only what this very call lacks");
    assert_eq!(advance(&guided, &third, Vec::new()), done, "a replay tells what was open then");
    assert_eq!(advance(&guided, &started, Vec::new()), second);
    let now = proceed(&guided, &started, Intent::Rehydrate, Vec::new());
    assert_eq!(now.open_gaps.map(|open| open.count), Some(1));
}

#[test]
fn a_gap_that_is_not_there_is_refused_with_those_that_are() {
    let directory = tempfile::tempdir().unwrap();
    let guided = open(directory.path());
    let started = start(&guided, Autonomy::FullAutoNeverStop);
    let second = advance(&guided, &started, Vec::new());
    let gap_id = second.open_gaps.as_ref().unwrap().gaps[0].gap_id.clone();
    let request = ContinueRequest {
        handle: Handle::Single(second.continue_token.clone().unwrap()),
        intent: Intent::Advance,
        notes_markdown: None,
        artifacts: vec![json!({"kind": "wr.gap_resolution", "gapId": "gap_none", "summary": "x"})],
        context: None,
        preferences: None,
    };
    let refused = guided.proceed(request).map(|_| ()).unwrap_err().into_envelope();
    assert_eq!(refused.code(), "VALIDATION_ERROR");
    assert!(refused.suggestion().contains(&gap_id), "{refused}");
    assert_eq!(advance(&guided, &second, Vec::new()).kind, ReplyKind::Ok, "the token is not spent");
}
