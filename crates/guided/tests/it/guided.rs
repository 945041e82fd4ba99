//! The guided service on real files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use catalogue::{Catalogue, CatalogueOptions};
use guide::record::{Autonomy, Preferences, RiskPolicy};
use guided::api::{
    ContinueRequest, Handle, Intent, NextIntent, PreferenceDelta, Reply, ReplyKind, ResumeRequest,
    StartRequest,
};
use serde_json::{Value, json};
use storage::disk::RealDisk;
use storage::files::SessionFiles;
use system::{ManualClock, SeededEntropy};

use crate::sync::Guided;

/// A data directory with a few workflows, and the service over it.
pub(crate) struct Desk {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) guided: Guided,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self::with_seed(1)
    }

    fn with_seed(seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let flows = directory.path().join("flows");
        std::fs::create_dir(&flows).unwrap();
        let step = |id: &str| json!({"id": id, "title": id, "prompt": format!("Do {id} for {{{{goal}}}}.")});
        let release = json!({"id": "project.release", "name": "Release notes", "description": "Write them.",
            "version": "1.0.0", "steps": [step("collect"), step("draft"), step("publish")]});
        let triage = json!({"id": "project.triage", "name": "Triage", "description": "Classify a report.",
            "version": "1.0.0", "steps": [step("read"), step("decide")]});
        for (name, workflow) in [("release.json", release), ("triage.json", triage)] {
            std::fs::write(flows.join(name), workflow.to_string()).unwrap();
        }
        let guided = open(directory.path(), seed);
        Self { directory, guided }
    }

    pub(crate) fn data(&self) -> std::path::PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn start(&self, workflow_id: &str, goal: &str) -> Reply {
        let request = StartRequest {
            workflow_id: workflow_id.to_owned(),
            goal: goal.to_owned(),
            ..StartRequest::default()
        };
        self.guided.start(request).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    pub(crate) fn advance(&self, token: &str, notes: &str) -> Reply {
        advance(&self.guided, token, Some(notes)).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    pub(crate) fn rehydrate(&self, token: &str) -> Reply {
        let request = call(Handle::Single(token.to_owned()), Intent::Rehydrate, None);
        self.guided.proceed(request).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    /// Every file below the data directory, with its content.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        fn walk(folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, found);
                } else {
                    found.insert(path.display().to_string(), std::fs::read(&path).unwrap());
                }
            }
        }
        let mut found = BTreeMap::new();
        walk(&self.data(), &mut found);
        found
    }
}

fn open(directory: &Path, seed: u64) -> Guided {
    let files = SessionFiles::open(Arc::new(RealDisk::open(&directory.join("data")).unwrap())).unwrap();
    let catalogue = Catalogue::new(CatalogueOptions {
        configured_dirs: vec![directory.join("flows")],
        ..CatalogueOptions::default()
    });
    Guided::new(files, catalogue, Arc::new(ManualClock::at(1)), Arc::new(SeededEntropy::new(seed)))
}

fn call(handle: Handle, intent: Intent, notes: Option<&str>) -> ContinueRequest {
    ContinueRequest {
        handle,
        intent,
        notes_markdown: notes.map(str::to_owned),
        artifacts: Vec::new(),
        context: None,
        preferences: None,
    }
}

pub(crate) fn advance(guided: &Guided, token: &str, notes: Option<&str>) -> Result<Reply, guided::Refusal> {
    guided.proceed(call(Handle::Single(token.to_owned()), Intent::Advance, notes))
}

pub(crate) fn token(reply: &Reply) -> &str {
    reply.continue_token.as_deref().expect("something is pending")
}

fn bytes(reply: &Reply) -> String {
    serde_json::to_string(reply).unwrap()
}

#[test]
fn a_run_goes_from_start_to_end() {
    let desk = Desk::new();
    let first = desk.start("project.release", "2.4");
    assert_eq!(first.pending.as_ref().unwrap().step_id, "collect");
    assert!(first.pending.as_ref().unwrap().prompt.contains("Do collect for 2.4."));
    assert_eq!(first.run.description, "Release notes (goal: 2.4), step 1 of 3");
    assert_eq!(first.next_intent, NextIntent::PerformPendingThenContinue);
    let blocked = advance(&desk.guided, token(&first), None).unwrap();
    assert_eq!(blocked.kind, ReplyKind::Blocked);
    let wire: Value = serde_json::to_value(&blocked).unwrap();
    assert_eq!(wire["blockers"]["blockers"][0]["code"], "MISSING_REQUIRED_NOTES");
    assert_eq!(wire["retryContinueToken"], wire["continueToken"]);
    let second = desk.advance(token(&blocked), "collected 14 changes");
    assert_eq!(second.pending.as_ref().unwrap().step_id, "draft");
    assert_eq!(second.run.step, 2);
    let third = desk.advance(token(&second), "drafted");
    let done = desk.advance(token(&third), "published");
    assert!(done.is_complete && done.pending.is_none() && done.continue_token.is_none());
    assert_eq!(done.next_intent, NextIntent::Complete);
}

#[test]
fn a_replay_gives_the_same_bytes_and_changes_no_file() {
    let desk = Desk::new();
    let first = desk.start("project.release", "2.4");
    let second = desk.advance(token(&first), "collected");
    let third = desk.advance(token(&second), "drafted");
    let before = desk.files();
    for attempt in 0..100 {
        // The recorded input counts, whatever is sent with the replay.
        let replay =
            advance(&desk.guided, token(&first), (attempt % 2 == 0).then_some("something else")).unwrap();
        assert_eq!(bytes(&replay), bytes(&second), "replay {attempt}");
    }
    let elsewhere = open(desk.directory.path(), 99);
    assert_eq!(
        bytes(&advance(&elsewhere, token(&second), None).unwrap()),
        bytes(&third),
        "in another process too"
    );
    assert_eq!(desk.files(), before);
}

#[test]
fn ten_rehydrates_change_no_file() {
    let desk = Desk::new();
    let first = desk.start("project.release", "2.4");
    let second = desk.advance(token(&first), "collected 14 changes");
    let before = desk.files();
    for _ in 0..10 {
        let here = desk.rehydrate(token(&second));
        assert_eq!(here.next_intent, NextIntent::RehydrateOnly);
        let prompt = &here.pending.as_ref().unwrap().prompt;
        assert!(
            prompt.contains("## Recovery Context") && prompt.contains("collected 14 changes"),
            "{prompt}"
        );
        assert_eq!(
            here.continue_token, second.continue_token,
            "nothing was attempted, so the token is the same"
        );
    }
    assert_eq!(desk.files(), before);
}

#[test]
fn a_fork_from_each_ancestor_is_a_branch_of_its_own() {
    let desk = Desk::new();
    let first = desk.start("project.release", "2.4");
    let second = desk.advance(token(&first), "collected");
    let third = desk.advance(token(&second), "drafted");
    desk.advance(token(&third), "published");
    for ancestor in [&first, &second, &third] {
        let back = desk.rehydrate(token(ancestor));
        assert_ne!(back.continue_token, ancestor.continue_token, "an advance was recorded: a fresh identity");
        assert!(back.pending.as_ref().unwrap().prompt.contains("### Branches"));
        let branch = desk.advance(token(&back), "another way");
        assert_ne!(branch.state_token, ancestor.state_token);
        let again = desk.advance(token(&back), "another way");
        assert_eq!(bytes(&again), bytes(&branch));
    }
}

#[test]
fn tokens_of_two_runs_are_sorted_out_by_name() {
    let desk = Desk::new();
    let release = desk.start("project.release", "2.4");
    let triage = desk.start("project.triage", "crash on start");
    let mixed =
        Handle::Pair { state_token: release.state_token.clone(), ack_token: triage.ack_token.clone() };
    let refusal = desk.guided.proceed(call(mixed, Intent::Advance, Some("?"))).unwrap_err();
    assert_eq!(refusal.envelope().code(), "TOKEN_SCOPE_MISMATCH");
    let text = serde_json::to_string(refusal.envelope()).unwrap();
    for expected in ["Release notes", "2.4", "Triage", "crash on start", token(&release), token(&triage)] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let pair =
        Handle::Pair { state_token: release.state_token.clone(), ack_token: release.ack_token.clone() };
    let by_pair = desk.guided.proceed(call(pair, Intent::Advance, Some("collected"))).unwrap();
    assert_eq!(
        bytes(&by_pair),
        bytes(&desk.advance(token(&release), "collected")),
        "both handles are one place"
    );
}

#[test]
fn tokens_that_are_not_good_are_refused_with_closed_codes() {
    let desk = Desk::new();
    let first = desk.start("project.release", "2.4");
    let other = Desk::with_seed(2);
    let mut flipped = token(&first).to_owned();
    let last = if flipped.pop() == Some('A') { 'B' } else { 'A' };
    flipped.push(last);
    let cases = [
        ("junk", "hello".to_owned(), "TOKEN_INVALID_FORMAT"),
        ("cut off", token(&first)[..20].to_owned(), "TOKEN_INVALID_FORMAT"),
        ("a changed character", flipped, "TOKEN_BAD_SIGNATURE"),
        ("a checkpoint token", first.checkpoint_token.clone().unwrap(), "TOKEN_INVALID_FORMAT"),
        ("a state token alone", first.state_token.clone(), "TOKEN_SCOPE_MISMATCH"),
    ];
    for (name, token, code) in cases {
        let refusal = advance(&desk.guided, &token, Some("x")).unwrap_err();
        assert_eq!(refusal.envelope().code(), code, "{name}");
    }
    let foreign = advance(&other.guided, token(&first), Some("x")).unwrap_err();
    assert_eq!(foreign.envelope().code(), "TOKEN_BAD_SIGNATURE", "of another installation");
}

#[test]
fn a_checkpoint_is_made_once() {
    let desk = Desk::new();
    let first = desk.start("project.release", "2.4");
    let bookmark = first.checkpoint_token.as_deref().unwrap();
    let made = desk.guided.checkpoint(bookmark, Some("before the storm")).unwrap();
    let before = desk.files();
    assert_eq!(desk.guided.checkpoint(bookmark, None).unwrap(), made);
    assert_eq!(desk.files(), before);
    let back = Handle::Pair { state_token: made.resume_token.clone(), ack_token: None };
    let here = desk.guided.proceed(call(back, Intent::Rehydrate, None)).unwrap();
    assert_eq!(here.pending.unwrap().step_id, "collect", "the step is still pending");
    let next = desk.advance(token(&first), "collected");
    assert_eq!(next.pending.unwrap().step_id, "draft", "a bookmark does not retire the token");
}

#[test]
fn one_of_two_writers_wins_and_the_other_must_wait() {
    let desk = Desk::new();
    let first = desk.start("project.release", "2.4");
    let session_id = guide::record::SessionId::parse(&first.run.session_id).unwrap();
    let elsewhere = open(desk.directory.path(), 5);
    let held = elsewhere.files().lock(&session_id, None).unwrap();
    let refusal = advance(&desk.guided, token(&first), Some("collected")).unwrap_err();
    assert_eq!(refusal.envelope().code(), "TOKEN_SESSION_LOCKED");
    assert!(refusal.envelope().retry_hint().after_ms().is_some());
    drop(held);
    let second = desk.advance(token(&first), "collected");
    let there = advance(&elsewhere, token(&second), Some("drafted")).unwrap();
    assert_eq!(there.pending.unwrap().step_id, "publish", "and the other process sees it at once");
}

#[test]
fn a_run_is_found_again_by_its_words() {
    let desk = Desk::new();
    let release = desk.start("project.release", "notes for the spring release");
    desk.advance(token(&release), "collected the parser rewrite");
    desk.start("project.triage", "crash on start");
    let ask = |query: &str| {
        let request = ResumeRequest { query: Some(query.to_owned()), ..ResumeRequest::default() };
        desk.guided.resume(&request).unwrap()
    };
    let found = ask("parser rewrite");
    assert_eq!(found.total_eligible, 2);
    assert_eq!(found.candidates[0]["sessionId"], release.run.session_id.as_str());
    assert_eq!(found.candidates[0]["pendingStepId"], "draft");
    assert_eq!(ask("crash").candidates[0]["workflowId"], "project.triage");
    std::fs::remove_dir_all(desk.data().join("cache")).unwrap();
    let rebuilt = open(desk.directory.path(), 3);
    let request = ResumeRequest { query: Some("parser rewrite".to_owned()), ..ResumeRequest::default() };
    assert_eq!(rebuilt.resume(&request).unwrap(), found, "the index is derived");
    let resume_token = found.candidates[0]["resumeToken"].as_str().unwrap().to_owned();
    let handle = Handle::Pair { state_token: resume_token, ack_token: None };
    let here = desk.guided.proceed(call(handle, Intent::Rehydrate, None)).unwrap();
    assert_eq!(here.pending.unwrap().step_id, "draft");
}

/// Finding 15: the best other run must not look like the one that was named.
#[test]
fn an_unknown_id_is_reported_beside_other_runs() {
    let desk = Desk::new();
    let release = desk.start("project.release", "notes for the spring release");
    let known = release.run.session_id.to_string();
    let ask = |session: &str| {
        let request = ResumeRequest { session_id: Some(session.to_owned()), ..ResumeRequest::default() };
        desk.guided.resume(&request).unwrap()
    };
    assert_eq!(ask(&known).warnings, Vec::<String>::new());
    for unknown in ["sess_aaaaaaaaaaaaaaaaaaaaaaaaaa", "the spring one"] {
        let found = ask(unknown);
        assert_eq!(found.candidates.len(), 1, "other runs are still offered");
        let [warning] = &found.warnings[..] else { panic!("{:?}", found.warnings) };
        assert!(warning.contains(&format!("No readable session has the id `{unknown}`")), "{warning}");
    }
}

#[test]
fn unknown_workflows_and_bad_contexts_are_refused_and_nothing_is_made() {
    let desk = Desk::new();
    let request = StartRequest { workflow_id: "project.relaese".to_owned(), ..StartRequest::default() };
    let refusal = desk.guided.start(request).unwrap_err();
    assert_eq!(refusal.envelope().code(), "NOT_FOUND");
    assert!(refusal.to_string().contains("project.release"), "{refusal}");
    let large = json!({"blob": "x".repeat(300_000)}).as_object().cloned().unwrap();
    let request =
        StartRequest { workflow_id: "project.release".to_owned(), context: large, ..StartRequest::default() };
    let refusal = desk.guided.start(request).unwrap_err();
    assert_eq!(refusal.envelope().code(), "VALIDATION_ERROR");
    assert_eq!(refusal.envelope().details()["maximumBytes"], 262_144);
    assert!(desk.guided.files().sessions().unwrap().is_empty());
}

#[test]
fn a_replayed_block_tells_of_its_own_attempt() {
    let desk = Desk::new();
    let flows = desk.directory.path().join("flows");
    let strict = json!({"id": "project.strict", "name": "Strict", "description": "Checks notes.", "version": "1.0.0",
        "steps": [{"id": "one", "title": "One", "prompt": "Do.", "validationCriteria": [
            {"type": "contains", "value": "alpha", "message": "Say alpha"},
            {"type": "contains", "value": "beta", "message": "Say beta"}]}]});
    std::fs::write(flows.join("strict.json"), strict.to_string()).unwrap();
    let first = desk.start("project.strict", "check");
    let without_beta = advance(&desk.guided, token(&first), Some("alpha")).unwrap();
    let again = desk.rehydrate(token(&first));
    let without_alpha = advance(&desk.guided, token(&again), Some("beta")).unwrap();
    assert_ne!(bytes(&without_beta), bytes(&without_alpha));
    assert_eq!(bytes(&advance(&desk.guided, token(&first), None).unwrap()), bytes(&without_beta));
    assert_eq!(bytes(&advance(&desk.guided, token(&again), None).unwrap()), bytes(&without_alpha));
}

#[test]
fn a_run_is_found_again_by_the_name_of_its_workflow() {
    let desk = Desk::new();
    let flows = desk.directory.path().join("flows");
    let named = json!({"id": "project.zz9", "name": "Quarterly audit", "description": "Audit.", "version": "1.0.0",
        "steps": [{"id": "one", "title": "One", "prompt": "Do."}, {"id": "two", "title": "Two", "prompt": "Do."}]});
    std::fs::write(flows.join("named.json"), named.to_string()).unwrap();
    let audit = desk.start("project.zz9", "look at the books");
    desk.start("project.triage", "crash on start");
    let best = |guided: &Guided| {
        let request = ResumeRequest { query: Some("quarterly".to_owned()), ..ResumeRequest::default() };
        guided.resume(&request).unwrap().candidates[0]["sessionId"].clone()
    };
    assert_eq!(best(&desk.guided), audit.run.session_id.as_str(), "after the start");
    desk.advance(token(&audit), "looked");
    desk.start("project.triage", "crash at the end");
    assert_eq!(best(&desk.guided), audit.run.session_id.as_str(), "after an advance");
    std::fs::remove_dir_all(desk.data().join("cache")).unwrap();
    assert_eq!(
        best(&open(desk.directory.path(), 3)),
        audit.run.session_id.as_str(),
        "when the index is made anew"
    );
}

#[test]
fn preferences_change_one_by_one_and_exceeding_the_recommendation_is_reported_once_and_again_on_replay() {
    let desk = Desk::new();
    let flows = desk.directory.path().join("flows");
    let step = |id: &str| json!({"id": id, "title": id, "prompt": "Do.", "notesOptional": true});
    let careful = json!({"id": "project.careful", "name": "Careful", "description": "Careful.", "version": "1.0.0",
        "recommendedPreferences": {"recommendedAutonomy": "guided"},
        "steps": [step("one"), step("two"), step("three")]});
    std::fs::write(flows.join("careful.json"), careful.to_string()).unwrap();
    let change = |handle: &str, delta: PreferenceDelta| {
        let call = call(Handle::Single(handle.to_owned()), Intent::Advance, None);
        desk.guided.proceed(ContinueRequest { preferences: Some(delta), ..call }).unwrap()
    };
    let bold = PreferenceDelta { autonomy: Some(Autonomy::FullAutoNeverStop), risk_policy: None };
    let risky = PreferenceDelta { autonomy: None, risk_policy: Some(RiskPolicy::Balanced) };
    let reported = ["The autonomy is beyond what the workflow recommends."];

    let first = desk.start("project.careful", "go");
    assert!(first.warnings.is_empty());
    let second = change(token(&first), risky);
    assert_eq!(
        second.preferences,
        Preferences { autonomy: Autonomy::Guided, risk_policy: RiskPolicy::Balanced }
    );
    assert!(second.warnings.is_empty());
    let again = desk.rehydrate(token(&first));
    let third = change(token(&second), bold);
    let both = Preferences { autonomy: Autonomy::FullAutoNeverStop, risk_policy: RiskPolicy::Balanced };
    assert_eq!(third.preferences, both, "what was not sent stays");
    assert_eq!(third.warnings, reported);
    let branch = change(token(&again), bold);
    assert_eq!(branch.warnings, reported);
    let fresh = open(desk.directory.path(), 9);
    for (handle, reply) in [(token(&first), &second), (token(&second), &third), (token(&again), &branch)] {
        let replayed = advance(&fresh, handle, None).unwrap();
        assert_eq!(bytes(&replayed), bytes(reply), "a replay shows the same warnings");
    }
    assert!(desk.advance(token(&third), "").warnings.is_empty(), "only the call that changes them is warned");

    let request = StartRequest {
        workflow_id: "project.careful".to_owned(),
        goal: "go".to_owned(),
        preferences: Some(bold),
        ..StartRequest::default()
    };
    let started = desk.guided.start(request).unwrap();
    assert_eq!(started.warnings, reported);
    assert_eq!(started.preferences.risk_policy, RiskPolicy::Conservative);
}

#[test]
fn the_functions_that_the_first_step_cites_are_defined_at_the_start() {
    let desk = Desk::new();
    let flows = desk.directory.path().join("flows");
    let source = json!({"id": "project.calls", "name": "Calls", "description": "Calls.", "version": "1.0.0",
        "functionDefinitions": [
            {"name": "score", "definition": "Rate it from 1 to 5."}, {"name": "unused", "definition": "Unused."}],
        "steps": [{"id": "one", "title": "One", "prompt": "Use score().", "functionReferences": ["score()"]}]});
    std::fs::write(flows.join("calls.json"), source.to_string()).unwrap();
    let prompt = desk.start("project.calls", "go").pending.unwrap().prompt;
    assert!(prompt.contains("score() = Rate it from 1 to 5."), "{prompt}");
    assert!(!prompt.contains("Unused."), "{prompt}");
}
