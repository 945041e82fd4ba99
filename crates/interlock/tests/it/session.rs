//! `interlock session`.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use guide::engine::{AnswerOutcome, PersonAnswer};
use ports::wait;
use serde_json::json;

use crate::home::{TestHome, guided, verdict};
use crate::program::{run_command, text};

#[test]
fn read_commands_create_nothing() {
    let test_home = TestHome::new();
    for arguments in [
        &["session", "list"][..],
        &["session", "verify"],
        &["session", "gc", "--dry-run"],
        &["key", "list"],
        &["doctor"],
    ] {
        test_home.expect(arguments, 0);
        assert!(!test_home.data_dir().exists(), "{arguments:?}");
    }
}

#[test]
fn the_list_shows_the_state_of_every_run() {
    let test_home = TestHome::new();
    let done = test_home.complete_session("fix the gate");
    let (open, _) = test_home.start("paint \u{1b}]0;evil\u{7} the fence");
    let words = test_home.expect(&["session", "list"], 0);
    for expected in [
        done.as_str(),
        open.as_str(),
        "project.tiny",
        "fix the gate",
        "complete",
        "in_progress",
        "paint  ]0;evil  the fence",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    assert!(!words.contains('\u{1b}'), "session content cannot control the terminal");
    let document = test_home.json(&["session", "list"], 0);
    assert_eq!(document["total"], 2);
    assert_eq!(document["omitted"], 0);
    let entry = document["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["sessionId"] == done.as_str())
        .unwrap();
    assert_eq!((&entry["health"], &entry["kept"]), (&json!("healthy"), &json!(false)));
    assert_eq!(entry["runs"][0]["status"], "complete");
}

#[test]
fn a_session_is_shown_turn_by_turn() {
    let test_home = TestHome::new();
    let id = test_home.complete_session("fix the gate");
    let words = test_home.expect(&["session", "show", id.as_str()], 0);
    for expected in [
        "Tiny",
        "fix the gate",
        "complete",
        "1. Look around",
        "Looked at it.",
        "2. Judge it",
        "step 2 of 2",
        "checkpoint at",
        "blocked at",
        "MISSING_REQUIRED_OUTPUT",
        "artifact wr.gate_verdict",
        "<- current",
        "submitted for Look around",
        "submitted for Judge it",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    assert!(!words.contains('\u{1b}'), "{words}");
    let replay = test_home.json(&["session", "show", id.as_str()], 0);
    let turns = replay["runs"][0]["turns"].as_array().unwrap();
    let kinds: Vec<_> = turns.iter().map(|turn| turn["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["step", "step", "checkpoint", "blocked_attempt", "step"]);
    let limited = test_home.json(&["session", "show", id.as_str(), "--limit", "2"], 0);
    assert_eq!(limited["runs"][0]["omittedTurns"], 3);
}

#[test]
fn a_fork_is_shown_and_drawn() {
    let test_home = TestHome::new();
    let (id, first) = test_home.start("two ways");
    test_home.advance(&first, "One way.", Vec::new());
    // Rehydrating the first step gives a new token, which forks.
    let again = wait(test_home.guided().proceed(guided::api::ContinueRequest {
        handle: guided::api::Handle::Pair { state_token: first.state_token.clone(), ack_token: None },
        intent: guided::api::Intent::Rehydrate,
        notes_markdown: None,
        artifacts: Vec::new(),
        context: None,
        preferences: None,
    }))
    .unwrap();
    test_home.advance(&again, "Another way.", Vec::new());
    let words = test_home.expect(&["session", "show", id.as_str()], 0);
    assert!(words.contains("fork of") && words.contains("Another way."), "{words}");
    let turns = &test_home.json(&["session", "show", id.as_str()], 0)["runs"][0]["turns"];
    let forks: Vec<_> =
        turns.as_array().unwrap().iter().map(|turn| turn["isFork"].as_bool().unwrap()).collect();
    assert_eq!(forks, [false, false, true]);
}

#[test]
fn every_session_command_has_help() {
    let test_home = TestHome::new();
    for command in ["list", "show", "tail", "verify", "export", "import", "gc", "keep", "graph"] {
        let help = test_home.expect(&["session", command, "--help"], 0);
        for expected in ["Examples:", "--data-dir", "--config", "--json"] {
            assert!(help.contains(expected), "{command}: {expected}");
        }
    }
}

#[test]
fn sessions_are_found_by_a_unique_prefix() {
    let test_home = TestHome::new();
    let (first, _) = test_home.start("one");
    let (second, _) = test_home.start("two");
    let body = first.as_str().strip_prefix("sess_").unwrap();
    for text in [first.as_str(), body, &body[..8], &first.as_str()[..13]] {
        assert_eq!(test_home.json(&["session", "show", text], 0)["sessionId"], first.as_str(), "{text}");
    }
    let slip = format!("{}zz", &second.as_str()[..second.as_str().len() - 1]);
    let refused = test_home.json(&["session", "show", &slip], 1);
    assert_eq!(refused["code"], "SESSION_UNKNOWN");
    assert_eq!(refused["details"]["nearest"], json!([second.as_str()]));
    let words = test_home.refused(&["session", "show", &slip], 1);
    assert!(words.contains("error[SESSION_UNKNOWN]") && words.contains(second.as_str()), "{words}");
    for command in ["verify", "keep", "graph", "tail"] {
        assert_eq!(
            test_home.json(&["session", command, "unknown"], 1)["code"],
            "SESSION_UNKNOWN",
            "{command}"
        );
    }
    // Ids never contain `1`, so no run can have this prefix.
    assert_eq!(test_home.json(&["session", "graph", first.as_str(), "--run", "1"], 1)["code"], "RUN_UNKNOWN");
}

#[test]
fn damage_is_detected_and_reported() {
    let test_home = TestHome::new();
    let damaged = test_home.complete_session("will be hurt");
    let sound = test_home.complete_session("stays well");
    test_home.expect(&["session", "verify"], 0);
    let events = test_home.data_dir().join("sessions").join(damaged.as_str()).join("events");
    let mut segments: Vec<_> =
        std::fs::read_dir(&events).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let last = segments.last().unwrap();
    let mut bytes = std::fs::read(last).unwrap();
    bytes[10] ^= 1;
    std::fs::write(last, bytes).unwrap();

    let verified = test_home.json(&["session", "verify"], 1);
    assert_eq!(verified["sound"], false);
    let entry = verified["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["sessionId"] == damaged.as_str())
        .unwrap();
    assert_eq!((&entry["health"], &entry["reason"]), (&json!("corrupt_tail"), &json!("digest_mismatch")));
    assert!(test_home.expect(&["session", "verify", "--all"], 1).contains("digest_mismatch"));
    test_home.expect(&["session", "verify", sound.as_str()], 0);
    test_home.expect(&["session", "verify", sound.as_str(), damaged.as_str()], 1);

    let list = test_home.expect(&["session", "list"], 0);
    assert!(list.contains("corrupt_tail") && list.contains("will be hurt"), "{list}");
    let show = test_home.expect(&["session", "show", damaged.as_str()], 0);
    assert!(show.contains("Only the valid part is shown") && show.contains("Look around"), "{show}");
    test_home.expect(&["session", "graph", damaged.as_str()], 0);

    let bundle = test_home.path("bundle.json");
    let refused = test_home.json(&["session", "export", damaged.as_str(), "-o", bundle.to_str().unwrap()], 1);
    assert_eq!(refused["code"], "SESSION_NOT_HEALTHY");
    assert!(!bundle.exists());
    assert_eq!(
        test_home.json(&["session", "tail", damaged.as_str(), "--until-complete"], 1)["code"],
        "SESSION_NOT_HEALTHY"
    );

    let hollow = test_home.complete_session("will be hollow");
    let manifest = test_home.data_dir().join("sessions").join(hollow.as_str()).join("manifest.jsonl");
    let content = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, "").unwrap();
    assert!(test_home.expect(&["session", "verify"], 1).contains("no_log"));
    assert!(test_home.expect(&["session", "list"], 0).contains("no_log"));
    std::fs::write(&manifest, content).unwrap();

    let gc = test_home.json(&["session", "gc", "--older-than", "0s"], 1);
    assert_eq!(gc["outcome"], "safe_mode");
    assert_eq!(test_home.json(&["session", "list"], 0)["total"], 3, "nothing was deleted");
    assert!(test_home.expect(&["doctor"], 1).contains("corrupt_tail"));
}

#[test]
fn an_exported_session_continues_on_another_machine() {
    let (here, there) = (TestHome::new(), TestHome::new());
    let (id, reply) = here.start("cross the river");
    here.advance(&reply, "Half way.", Vec::new());
    let file = here.path("bundle.json");
    let path = file.to_str().unwrap();
    here.expect(&["session", "export", id.as_str(), "-o", path], 0);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let bundle = std::fs::read(&file).unwrap();
    assert_eq!(here.json(&["session", "export", id.as_str(), "-o", path], 1)["code"], "OUTPUT_EXISTS");
    assert_eq!(std::fs::read(&file).unwrap(), bundle, "the existing file is unchanged");
    here.expect(&["session", "export", id.as_str(), "-o", path, "--force"], 0);

    assert_eq!(there.expect(&["session", "import", path], 0).trim(), id.as_str());
    let keys = ["events", "createdMs", "lastModifiedMs"];
    let (before, after) =
        (here.json(&["session", "show", id.as_str()], 0), there.json(&["session", "show", id.as_str()], 0));
    assert_eq!(before, after, "equal projections");
    assert!(keys.iter().all(|key| !before[key].is_null()));
    there.expect(&["session", "verify"], 0);

    let again = there.json(&["session", "import", path], 0);
    assert_eq!((&again["asNew"], &again["exportedSessionId"]), (&json!(true), &json!(id.as_str())));
    let copy = again["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(copy, id.as_str());
    assert_eq!(there.json(&["session", "import", path, "--as-new"], 0)["asNew"], true);
    there.expect(&["session", "verify"], 0);
    assert_eq!(there.json(&["session", "list"], 0)["total"], 3);

    // The importing side continues with a new token.
    for session in [id.as_str(), &copy] {
        let service = guided(&there.data_dir());
        let request =
            guided::api::ResumeRequest { session_id: Some(session.to_owned()), ..Default::default() };
        let found = wait(service.resume(&request)).unwrap();
        let candidate = found.candidates.iter().find(|candidate| candidate["sessionId"] == session).unwrap();
        let token = candidate["nextCall"]["params"]["continueToken"].as_str().unwrap().to_owned();
        let looked = wait(service.proceed(guided::api::ContinueRequest {
            handle: guided::api::Handle::Single(token),
            intent: guided::api::Intent::Rehydrate,
            notes_markdown: None,
            artifacts: Vec::new(),
            context: None,
            preferences: None,
        }))
        .unwrap();
        let done = there.advance(&looked, "Arrived.", vec![verdict()]);
        assert!(done.is_complete, "{session}");
    }
    there.expect(&["session", "verify"], 0);
}

#[test]
fn rejected_bundles_leave_nothing_behind() {
    let test_home = TestHome::new();
    let id = test_home.complete_session("to be bent");
    let good = text(&test_home.run(&["session", "export", id.as_str(), "-o", "-"]).stdout);
    let elsewhere = TestHome::new();
    let cases = [
        ("nothing", String::new(), "BUNDLE_INVALID_FORMAT"),
        ("not JSON", "bundle".to_owned(), "BUNDLE_INVALID_FORMAT"),
        (
            "of the future",
            good.replace("\"bundleSchemaVersion\":1", "\"bundleSchemaVersion\":2"),
            "BUNDLE_UNSUPPORTED_VERSION",
        ),
        ("another word", good.replace("A verdict.", "A verdikt."), "BUNDLE_INTEGRITY_FAILED"),
        ("cut off", good[..good.len() / 2].to_owned(), "BUNDLE_INVALID_FORMAT"),
    ];
    for (name, bundle, code) in cases {
        let output =
            run_command(&mut elsewhere.command(&["session", "import", "-", "--json"]), bundle.as_bytes());
        assert_eq!(output.status.code(), Some(1), "{name}");
        let envelope: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(envelope["code"], code, "{name}");
        assert_eq!(elsewhere.json(&["session", "list"], 0)["total"], 0, "{name}");
    }
    let missing = elsewhere.json(&["session", "import", "/no/such/file"], 2);
    assert_eq!(missing["code"], "INPUT_UNREADABLE");
    let output = run_command(&mut elsewhere.command(&["session", "import", "-"]), good.as_bytes());
    assert_eq!(text(&output.stdout).trim(), id.as_str());
}

#[test]
fn inactive_sessions_are_deleted_unless_marked() {
    let test_home = TestHome::new();
    let kept = test_home.complete_session("keep me");
    let also = test_home.complete_session("me too");
    let gone = test_home.complete_session("let me go");
    test_home.expect(&["session", "keep", kept.as_str()], 0);
    test_home.expect(&["session", "keep", kept.as_str()], 0);
    assert_eq!(test_home.json(&["session", "gc"], 0)["deletedSessions"], json!([]), "nothing is 60 days old");
    let dry =
        test_home.json(&["session", "gc", "--older-than", "0s", "--dry-run", "--keep", also.as_str()], 0);
    assert_eq!((&dry["outcome"], &dry["deletedSessions"]), (&json!("dry_run"), &json!([gone.as_str()])));
    assert_eq!(test_home.json(&["session", "list"], 0)["total"], 3);
    let report = test_home.json(&["session", "gc", "--older-than", "0s", "--keep", also.as_str()], 0);
    assert_eq!(report["deletedSessions"], json!([gone.as_str()]));
    assert_eq!(report["sparedSessions"].as_array().unwrap().len(), 2);
    test_home.expect(&["session", "verify"], 0);
    test_home.expect(&["session", "keep", kept.as_str(), "--off"], 0);
    let report = test_home.json(&["session", "gc", "--older-than", "0s"], 0);
    assert_eq!(report["deletedSessions"], json!([kept.as_str()]));
    let usage = test_home.run(&["session", "gc", "--older-than", "soon"]);
    assert_eq!(usage.status.code(), Some(2));
    assert!(text(&usage.stderr).contains("60d"), "{}", text(&usage.stderr));
}

#[test]
fn a_run_is_drawn() {
    let test_home = TestHome::new();
    let id = test_home.complete_session("draw me");
    let svg = test_home.expect(&["session", "graph", id.as_str()], 0);
    assert!(svg.starts_with("<svg") && svg.contains("Look around"), "{svg}");
    let mermaid = test_home.expect(&["session", "graph", id.as_str(), "--format", "mermaid"], 0);
    assert!(mermaid.contains("flowchart") || mermaid.contains("graph"), "{mermaid}");
    let file = test_home.path("run.mmd");
    test_home.expect(&["session", "graph", id.as_str(), "-o", file.to_str().unwrap()], 0);
    assert_eq!(
        std::fs::read_to_string(&file).unwrap().trim(),
        mermaid.trim(),
        "the file name determines the format"
    );
    test_home.refused(&["session", "graph", id.as_str(), "-o", file.to_str().unwrap()], 1);
}

#[test]
fn a_tail_follows_until_the_run_is_complete() {
    let test_home = TestHome::new();
    let (id, reply) = test_home.start("watch me");
    let mut child = test_home
        .command(&["session", "tail", id.as_str(), "--until-complete", "--json", "-n", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["sessionId"], id.as_str(), "the last existing event");
    let reply = test_home.advance(&reply, "A step.", Vec::new());
    let done = test_home.advance(&reply, "Done.", vec![verdict()]);
    assert!(done.is_complete);
    let kinds: Vec<String> = lines
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap()["kind"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(kinds.iter().filter(|kind| *kind == "advance_recorded").count(), 2, "{kinds:?}");
    assert!(kinds.iter().any(|kind| kind == "run_completed"), "{kinds:?}");
    let words = test_home.expect(&["session", "tail", id.as_str(), "--until-complete"], 0);
    assert!(words.lines().count() <= 10 && words.contains("run_completed"), "{words}");
}

#[test]
fn an_unusable_directory_is_an_error() {
    let test_home = TestHome::new();
    let (id, _) = test_home.start("one");
    std::fs::write(test_home.data_dir().join("format.json"), "{\"version\":99}").unwrap();
    for arguments in [&["session", "list"][..], &["session", "show", id.as_str()], &["key", "rotate"]] {
        assert_eq!(test_home.json(arguments, 1)["code"], "STORE_NEWER_VERSION", "{arguments:?}");
    }
    let file = test_home.path("a file");
    std::fs::write(&file, "").unwrap();
    let refused = test_home.json(&["session", "list", "--data-dir", file.to_str().unwrap()], 2);
    assert_eq!(refused["code"], "STORE_IO");
}

/// What a person answered directly is not shown as a claim of the agent.
#[test]
fn an_answer_of_a_person_is_shown_apart_from_claims() {
    let test_home = TestHome::new();
    let workflow = json!({
        "id": "project.tiny", "name": "Tiny", "description": "Two steps.", "version": "1.0.0",
        "steps": [
            {"id": "ship", "title": "Ship", "prompt": "Ship.", "requireConfirmation": true},
            {"id": "end-step", "title": "End", "prompt": "End."},
        ],
    });
    std::fs::write(test_home.workspace().join("workflows/tiny.json"), workflow.to_string()).unwrap();
    let (id, started) = test_home.start("ship it");
    let claim = json!({"kind": "wr.user_answer", "dependencyId": "confirmation", "answeredBy": "user",
        "outcome": "refused", "answer": "No."});
    let blocked = test_home.advance(&started, "Shipped.", vec![claim]);
    let guided = test_home.guided();
    let waiting = wait(guided.waiting_for_people(&id)).unwrap();
    let answer = PersonAnswer {
        dependency_id: "confirmation".to_owned(),
        outcome: AnswerOutcome::Given,
        words: None,
        person: Some("Ann".to_owned()),
    };
    wait(guided.answer_in_console(&id, &waiting[0].node_id, &answer)).unwrap();
    test_home.advance(&blocked, "Shipped.", Vec::new());
    let shown = test_home.expect(&["session", "show", id.as_str()], 0);
    assert!(shown.contains("    answered confirmation: given (console by Ann)\n"), "{shown}");
    assert!(shown.contains("artifact wr.user_answer confirmation: refused (claimed)"), "{shown}");
}
