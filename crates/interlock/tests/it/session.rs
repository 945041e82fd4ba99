//! `interlock session`.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::json;

use crate::house::{House, guided, verdict};
use crate::program::{run_command, text};

#[test]
fn nothing_is_made_by_looking() {
    let house = House::new();
    for arguments in [
        &["session", "list"][..],
        &["session", "verify"],
        &["session", "gc", "--dry-run"],
        &["key", "list"],
        &["doctor"],
    ] {
        house.expect(arguments, 0);
        assert!(!house.data_dir().exists(), "{arguments:?}");
    }
}

#[test]
fn a_list_says_where_every_run_stands() {
    let house = House::new();
    let done = house.complete_session("mend the gate");
    let (open, _) = house.start("paint \u{1b}]0;evil\u{7} the fence");
    let words = house.expect(&["session", "list"], 0);
    for expected in [
        done.as_str(),
        open.as_str(),
        "project.tiny",
        "mend the gate",
        "complete",
        "in_progress",
        "paint  ]0;evil  the fence",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    assert!(!words.contains('\u{1b}'), "nothing of a session steers a terminal");
    let document = house.json(&["session", "list"], 0);
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
fn a_session_is_replayed_turn_by_turn() {
    let house = House::new();
    let id = house.complete_session("mend the gate");
    let words = house.expect(&["session", "show", id.as_str()], 0);
    for expected in [
        "Tiny",
        "mend the gate",
        "complete",
        "1. Look around",
        "Looked at it.",
        "2. Judge it",
        "step 2 of 2",
        "checkpoint at",
        "blocked at",
        "MISSING_REQUIRED_OUTPUT",
        "artifact wr.gate_verdict",
        "goes on here",
        "handed in for Look around",
        "handed in for Judge it",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    assert!(!words.contains('\u{1b}'), "{words}");
    let replay = house.json(&["session", "show", id.as_str()], 0);
    let turns = replay["runs"][0]["turns"].as_array().unwrap();
    let kinds: Vec<_> = turns.iter().map(|turn| turn["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["step", "step", "checkpoint", "blocked_attempt", "step"]);
    let limited = house.json(&["session", "show", id.as_str(), "--limit", "2"], 0);
    assert_eq!(limited["runs"][0]["omittedTurns"], 3);
}

#[test]
fn a_fork_is_told_and_drawn() {
    let house = House::new();
    let (id, first) = house.start("two ways");
    house.advance(&first, "One way.", Vec::new());
    // Looking at the first step again gives a fresh token for another way.
    let again = house
        .guided()
        .proceed(host::guided::api::ContinueRequest {
            handle: host::guided::api::Handle::Pair {
                state_token: first.state_token.clone(),
                ack_token: None,
            },
            intent: host::guided::api::Intent::Rehydrate,
            notes_markdown: None,
            artifacts: Vec::new(),
            context: None,
            preferences: None,
        })
        .unwrap();
    house.advance(&again, "Another way.", Vec::new());
    let words = house.expect(&["session", "show", id.as_str()], 0);
    assert!(words.contains("fork of") && words.contains("Another way."), "{words}");
    let turns = &house.json(&["session", "show", id.as_str()], 0)["runs"][0]["turns"];
    let forks: Vec<_> =
        turns.as_array().unwrap().iter().map(|turn| turn["isFork"].as_bool().unwrap()).collect();
    assert_eq!(forks, [false, false, true]);
}

#[test]
fn help_teaches_every_command() {
    let house = House::new();
    for command in ["list", "show", "tail", "verify", "export", "import", "gc", "keep", "graph"] {
        let help = house.expect(&["session", command, "--help"], 0);
        for expected in ["Examples:", "--data-dir", "--config", "--json"] {
            assert!(help.contains(expected), "{command}: {expected}");
        }
    }
}

#[test]
fn sessions_are_found_by_the_beginning_of_their_id() {
    let house = House::new();
    let (first, _) = house.start("one");
    let (second, _) = house.start("two");
    let body = first.as_str().strip_prefix("sess_").unwrap();
    for text in [first.as_str(), body, &body[..8], &first.as_str()[..13]] {
        assert_eq!(house.json(&["session", "show", text], 0)["sessionId"], first.as_str(), "{text}");
    }
    let slip = format!("{}zz", &second.as_str()[..second.as_str().len() - 1]);
    let refused = house.json(&["session", "show", &slip], 1);
    assert_eq!(refused["code"], "SESSION_UNKNOWN");
    assert_eq!(refused["details"]["nearest"], json!([second.as_str()]));
    let words = house.refused(&["session", "show", &slip], 1);
    assert!(words.contains("error[SESSION_UNKNOWN]") && words.contains(second.as_str()), "{words}");
    for command in ["verify", "keep", "graph", "tail"] {
        assert_eq!(house.json(&["session", command, "nobody"], 1)["code"], "SESSION_UNKNOWN", "{command}");
    }
    // No id holds a `1`, so no run can happen to begin like that.
    assert_eq!(house.json(&["session", "graph", first.as_str(), "--run", "1"], 1)["code"], "RUN_UNKNOWN");
}

#[test]
fn damage_is_found_named_and_survived() {
    let house = House::new();
    let damaged = house.complete_session("will be hurt");
    let sound = house.complete_session("stays well");
    house.expect(&["session", "verify"], 0);
    let events = house.data_dir().join("sessions").join(damaged.as_str()).join("events");
    let mut segments: Vec<_> =
        std::fs::read_dir(&events).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    let last = segments.last().unwrap();
    let mut bytes = std::fs::read(last).unwrap();
    bytes[10] ^= 1;
    std::fs::write(last, bytes).unwrap();

    let verified = house.json(&["session", "verify"], 1);
    assert_eq!(verified["sound"], false);
    let entry = verified["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["sessionId"] == damaged.as_str())
        .unwrap();
    assert_eq!((&entry["health"], &entry["reason"]), (&json!("corrupt_tail"), &json!("digest_mismatch")));
    assert!(house.expect(&["session", "verify", "--all"], 1).contains("digest_mismatch"));
    house.expect(&["session", "verify", sound.as_str()], 0);
    house.expect(&["session", "verify", sound.as_str(), damaged.as_str()], 1);

    let list = house.expect(&["session", "list"], 0);
    assert!(list.contains("corrupt_tail") && list.contains("will be hurt"), "{list}");
    let show = house.expect(&["session", "show", damaged.as_str()], 0);
    assert!(show.contains("could be validated") && show.contains("Look around"), "{show}");
    house.expect(&["session", "graph", damaged.as_str()], 0);

    let bundle = house.path("bundle.json");
    let refused = house.json(&["session", "export", damaged.as_str(), "-o", bundle.to_str().unwrap()], 1);
    assert_eq!(refused["code"], "SESSION_NOT_HEALTHY");
    assert!(!bundle.exists());
    assert_eq!(
        house.json(&["session", "tail", damaged.as_str(), "--until-complete"], 1)["code"],
        "SESSION_NOT_HEALTHY"
    );

    let hollow = house.complete_session("will be hollow");
    let manifest = house.data_dir().join("sessions").join(hollow.as_str()).join("manifest.jsonl");
    let content = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, "").unwrap();
    assert!(house.expect(&["session", "verify"], 1).contains("no_log"));
    assert!(house.expect(&["session", "list"], 0).contains("no_log"));
    std::fs::write(&manifest, content).unwrap();

    let gc = house.json(&["session", "gc", "--older-than", "0s"], 1);
    assert_eq!(gc["outcome"], "safe_mode");
    assert_eq!(house.json(&["session", "list"], 0)["total"], 3, "nothing was deleted");
    assert!(house.expect(&["doctor"], 1).contains("corrupt_tail"));
}

#[test]
fn a_session_moves_to_another_machine_and_goes_on_there() {
    let (here, there) = (House::new(), House::new());
    let (id, reply) = here.start("cross the river");
    here.advance(&reply, "Half way.", Vec::new());
    let file = here.path("bundle.json");
    let path = file.to_str().unwrap();
    here.expect(&["session", "export", id.as_str(), "-o", path], 0);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let bundle = std::fs::read(&file).unwrap();
    assert_eq!(here.json(&["session", "export", id.as_str(), "-o", path], 1)["code"], "OUTPUT_EXISTS");
    assert_eq!(std::fs::read(&file).unwrap(), bundle, "what is there stays");
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

    // Whoever imported it goes on from a fresh token.
    for session in [id.as_str(), &copy] {
        let service = guided(&there.data_dir());
        let request =
            host::guided::api::ResumeRequest { session_id: Some(session.to_owned()), ..Default::default() };
        let found = service.resume(&request).unwrap();
        let candidate = found.candidates.iter().find(|candidate| candidate["sessionId"] == session).unwrap();
        let token = candidate["nextCall"]["params"]["continueToken"].as_str().unwrap().to_owned();
        let looked = service
            .proceed(host::guided::api::ContinueRequest {
                handle: host::guided::api::Handle::Single(token),
                intent: host::guided::api::Intent::Rehydrate,
                notes_markdown: None,
                artifacts: Vec::new(),
                context: None,
                preferences: None,
            })
            .unwrap();
        let done = there.advance(&looked, "Arrived.", vec![verdict()]);
        assert!(done.is_complete, "{session}");
    }
    there.expect(&["session", "verify"], 0);
}

#[test]
fn bundles_that_are_refused_leave_nothing_behind() {
    let house = House::new();
    let id = house.complete_session("to be bent");
    let good = text(&house.run(&["session", "export", id.as_str(), "-o", "-"]).stdout);
    let elsewhere = House::new();
    let cases = [
        ("nothing", String::new(), "BUNDLE_INVALID_FORMAT"),
        ("no JSON", "bundle".to_owned(), "BUNDLE_INVALID_FORMAT"),
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
fn old_sessions_go_unless_they_are_kept() {
    let house = House::new();
    let kept = house.complete_session("keep me");
    let also = house.complete_session("me too");
    let gone = house.complete_session("let me go");
    house.expect(&["session", "keep", kept.as_str()], 0);
    house.expect(&["session", "keep", kept.as_str()], 0);
    assert_eq!(house.json(&["session", "gc"], 0)["deletedSessions"], json!([]), "nothing is 60 days old");
    let dry = house.json(&["session", "gc", "--older-than", "0s", "--dry-run", "--keep", also.as_str()], 0);
    assert_eq!((&dry["outcome"], &dry["deletedSessions"]), (&json!("dry_run"), &json!([gone.as_str()])));
    assert_eq!(house.json(&["session", "list"], 0)["total"], 3);
    let report = house.json(&["session", "gc", "--older-than", "0s", "--keep", also.as_str()], 0);
    assert_eq!(report["deletedSessions"], json!([gone.as_str()]));
    assert_eq!(report["sparedSessions"].as_array().unwrap().len(), 2);
    house.expect(&["session", "verify"], 0);
    house.expect(&["session", "keep", kept.as_str(), "--off"], 0);
    let report = house.json(&["session", "gc", "--older-than", "0s"], 0);
    assert_eq!(report["deletedSessions"], json!([kept.as_str()]));
    let usage = house.run(&["session", "gc", "--older-than", "soon"]);
    assert_eq!(usage.status.code(), Some(2));
    assert!(text(&usage.stderr).contains("60d"), "{}", text(&usage.stderr));
}

#[test]
fn a_run_is_drawn() {
    let house = House::new();
    let id = house.complete_session("draw me");
    let svg = house.expect(&["session", "graph", id.as_str()], 0);
    assert!(svg.starts_with("<svg") && svg.contains("Look around"), "{svg}");
    let mermaid = house.expect(&["session", "graph", id.as_str(), "--format", "mermaid"], 0);
    assert!(mermaid.contains("flowchart") || mermaid.contains("graph"), "{mermaid}");
    let file = house.path("run.mmd");
    house.expect(&["session", "graph", id.as_str(), "-o", file.to_str().unwrap()], 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), mermaid.trim(), "the name says the format");
    house.refused(&["session", "graph", id.as_str(), "-o", file.to_str().unwrap()], 1);
}

#[test]
fn a_tail_follows_until_the_run_is_complete() {
    let house = House::new();
    let (id, reply) = house.start("watch me");
    let mut child = house
        .command(&["session", "tail", id.as_str(), "--until-complete", "--json", "-n", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["sessionId"], id.as_str(), "the last event that was there");
    let reply = house.advance(&reply, "A step.", Vec::new());
    let done = house.advance(&reply, "Done.", vec![verdict()]);
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
    let words = house.expect(&["session", "tail", id.as_str(), "--until-complete"], 0);
    assert!(words.lines().count() <= 10 && words.contains("run_completed"), "{words}");
}

#[test]
fn a_directory_that_cannot_be_used_is_no_answer() {
    let house = House::new();
    let (id, _) = house.start("one");
    std::fs::write(house.data_dir().join("format.json"), "{\"version\":99}").unwrap();
    for arguments in [&["session", "list"][..], &["session", "show", id.as_str()], &["key", "rotate"]] {
        assert_eq!(house.json(arguments, 1)["code"], "STORE_NEWER_VERSION", "{arguments:?}");
    }
    let file = house.path("a file");
    std::fs::write(&file, "").unwrap();
    let refused = house.json(&["session", "list", "--data-dir", file.to_str().unwrap()], 2);
    assert_eq!(refused["code"], "STORE_IO");
}
