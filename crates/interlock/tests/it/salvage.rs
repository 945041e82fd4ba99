//! Operations on a damaged session: only its valid part can be read.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::home::TestHome;
use crate::mcp::Client;
use crate::program::text;

fn connect(test_home: &TestHome) -> Client {
    Client::connect(&test_home.data_dir(), &test_home.workspace().join("workflows"))
}

fn call(client: &mut Client, tool: &str, arguments: Value) -> (Value, bool) {
    client.call(tool, arguments).expect("the program answers")
}

/// The segments of a session, oldest first.
fn segments(test_home: &TestHome, session: &str) -> Vec<PathBuf> {
    let folder = test_home.data_dir().join("sessions").join(session).join("events");
    let mut segments: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    segments
}

#[test]
fn a_damaged_session_is_shown_partially_and_not_continued() {
    let test_home = TestHome::new();
    let mut client = connect(&test_home);
    let (started, _) =
        call(&mut client, "start_workflow", json!({"workflowId": "project.tiny", "goal": "will be hurt"}));
    let arguments =
        json!({"continueToken": started["continueToken"], "output": {"notesMarkdown": "Looked."}});
    let (second, is_error) = call(&mut client, "continue_workflow", arguments);
    assert!(!is_error, "{second}");
    assert_eq!(client.hang_up(), Some(0));
    let session = started["run"]["sessionId"].as_str().unwrap().to_owned();
    let whole = test_home.json(&["session", "show", &session], 0);

    let last = segments(&test_home, &session).pop().unwrap();
    let sound = std::fs::read(&last).unwrap();
    let mut bytes = sound.clone();
    bytes[sound.len() / 2] ^= 1;
    std::fs::write(&last, bytes).unwrap();

    let list = test_home.json(&["session", "list"], 0);
    assert_eq!(list["sessions"][0]["health"], "corrupt_tail", "{list}");
    assert!(list["sessions"][0]["damage"].as_str().is_some_and(|damage| !damage.is_empty()), "{list}");
    assert_eq!(list["sessions"][0]["runs"][0]["status"], "in_progress", "the valid part is listed: {list}");
    let show = test_home.json(&["session", "show", &session], 0);
    assert_eq!(show["health"], "corrupt_tail", "{show}");
    assert_eq!(show["runs"][0]["turns"].as_array().unwrap().len(), 1, "only the start: {show}");
    assert!(show["events"].as_u64() < whole["events"].as_u64(), "{show}");
    let words = test_home.expect(&["session", "show", &session], 0);
    assert!(
        words.contains("Only the valid part is shown") && words.contains("cannot be continued"),
        "{words}"
    );

    let mut client = connect(&test_home);
    let damaged = std::fs::read(&last).unwrap();
    for (name, arguments) in [
        ("the tip", json!({"continueToken": second["continueToken"], "output": {"notesMarkdown": "On."}})),
        (
            "a replay",
            json!({"continueToken": started["continueToken"], "output": {"notesMarkdown": "Looked."}}),
        ),
        ("a look", json!({"stateToken": second["stateToken"], "intent": "rehydrate"})),
    ] {
        let (refused, is_error) = call(&mut client, "continue_workflow", arguments);
        assert!(is_error, "{name}: {refused}");
        assert_eq!(refused["code"], "SESSION_NOT_HEALTHY", "{name}: {refused}");
    }
    let (found, _) = call(&mut client, "resume_session", json!({"query": "hurt"}));
    assert_eq!(found["candidates"], json!([]), "damaged sessions are not offered");
    let (other, is_error) =
        call(&mut client, "start_workflow", json!({"workflowId": "project.tiny", "goal": "stays well"}));
    assert!(!is_error, "other sessions are not affected: {other}");
    assert_eq!(std::fs::read(&last).unwrap(), damaged, "the file was not changed");

    // After restoring the file from a copy, the same token works.
    std::fs::write(&last, sound).unwrap();
    let arguments = json!({"continueToken": second["continueToken"], "intent": "rehydrate"});
    let (back, is_error) = call(&mut client, "continue_workflow", arguments);
    assert!(!is_error, "{back}");
    assert_eq!(back["pending"]["stepId"], "judge");
    assert_eq!(client.hang_up(), Some(0));
    assert_eq!(test_home.json(&["session", "show", &session], 0), whole);
}

#[test]
fn the_valid_part_is_exported_on_request_and_marked_as_partial() {
    let (test_home, elsewhere) = (TestHome::new(), TestHome::new());
    let (id, reply) = test_home.start("will be hurt");
    test_home.advance(&reply, "Looked.", Vec::new());
    let file = test_home.path("part.json");
    let path = file.to_str().unwrap();
    let export = ["session", "export", id.as_str(), "-o", path, "--force", "--salvage"];
    let whole = test_home.json(&export, 0);
    assert_eq!(whole["salvaged"], Value::Null, "a valid session is exported completely: {whole}");
    assert!(test_home.expect(&export, 0).contains("the complete session"));

    let last = segments(&test_home, id.as_str()).pop().unwrap();
    std::fs::write(&last, "{}\n").unwrap();
    let damaged = test_home.json(&["session", "show", id.as_str()], 0);
    assert_eq!(test_home.json(&export[..6], 1)["code"], "SESSION_NOT_HEALTHY", "not without --salvage");
    let part = test_home.json(&export, 0);
    assert_eq!(
        (&part["salvaged"]["reason"], &part["events"]),
        (&json!("digest_mismatch"), &damaged["events"])
    );
    let output = test_home.run(&export);
    assert_eq!(output.status.code(), Some(0));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains(&format!("the first {} events", part["events"])), "{out}");
    assert!(err.contains("partial data") && err.contains("digest_mismatch"), "{err}");
    assert_eq!(test_home.json(&["session", "show", id.as_str()], 0), damaged, "the session is unchanged");

    let output = elsewhere.run(&["session", "import", path]);
    let (new, err) = (text(&output.stdout).trim().to_owned(), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(err.contains("partial data") && err.contains(id.as_str()), "{err}");
    assert_ne!(new, id.as_str(), "a partial session gets a new id");
    elsewhere.expect(&["session", "verify"], 0);
    let show = elsewhere.json(&["session", "show", &new], 0);
    assert_eq!((&show["health"], &show["events"]), (&json!("healthy"), &part["events"]));
    assert_eq!(show["salvaged"], part["salvaged"]);
    let words = elsewhere.expect(&["session", "show", &new], 0);
    assert!(words.contains("partial data") && words.contains("Look around"), "{words}");
    let again = elsewhere.json(&["session", "import", path], 0);
    assert_eq!((&again["salvaged"], &again["asNew"]), (&part["salvaged"], &json!(true)));
}

#[test]
fn a_session_with_a_damaged_start_is_listed_without_runs() {
    let test_home = TestHome::new();
    let (id, _) = test_home.start("no beginning");
    let first = segments(&test_home, id.as_str()).remove(0);
    std::fs::write(&first, "{}\n").unwrap();
    let list = test_home.json(&["session", "list"], 0);
    assert_eq!(list["sessions"][0]["health"], "corrupt_head", "{list}");
    assert_eq!(list["sessions"][0]["runs"], json!([]), "{list}");
    let show = test_home.json(&["session", "show", id.as_str()], 0);
    assert_eq!((&show["health"], &show["events"]), (&json!("corrupt_head"), &json!(0)), "{show}");
}
