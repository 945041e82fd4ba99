//! What can still be done with a session that is damaged: look at the part that is sound, and nothing else.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::house::House;
use crate::mcp::Client;
use crate::program::text;

fn connect(house: &House) -> Client {
    Client::connect(&house.data_dir(), &house.workspace().join("workflows"))
}

/// The answer of a tool.
fn call(client: &mut Client, tool: &str, arguments: Value) -> (Value, bool) {
    client.call(tool, arguments).expect("the program answers")
}

/// The segments of a session, oldest first.
fn segments(house: &House, session: &str) -> Vec<PathBuf> {
    let folder = house.data_dir().join("sessions").join(session).join("events");
    let mut segments: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    segments
}

#[test]
fn a_damaged_session_is_shown_as_a_part_and_mcp_does_not_go_on_with_it() {
    let house = House::new();
    let mut client = connect(&house);
    let (started, _) =
        call(&mut client, "start_workflow", json!({"workflowId": "project.tiny", "goal": "will be hurt"}));
    let arguments =
        json!({"continueToken": started["continueToken"], "output": {"notesMarkdown": "Looked."}});
    let (second, is_error) = call(&mut client, "continue_workflow", arguments);
    assert!(!is_error, "{second}");
    assert_eq!(client.hang_up(), Some(0));
    let session = started["run"]["sessionId"].as_str().unwrap().to_owned();
    let whole = house.json(&["session", "show", &session], 0);

    let last = segments(&house, &session).pop().unwrap();
    let sound = std::fs::read(&last).unwrap();
    let mut bytes = sound.clone();
    bytes[sound.len() / 2] ^= 1;
    std::fs::write(&last, bytes).unwrap();

    let list = house.json(&["session", "list"], 0);
    assert_eq!(list["sessions"][0]["health"], "corrupt_tail", "{list}");
    assert!(list["sessions"][0]["damage"].as_str().is_some_and(|damage| !damage.is_empty()), "{list}");
    assert_eq!(list["sessions"][0]["runs"][0]["status"], "in_progress", "what is sound is told: {list}");
    let show = house.json(&["session", "show", &session], 0);
    assert_eq!(show["health"], "corrupt_tail", "{show}");
    assert_eq!(show["runs"][0]["turns"].as_array().unwrap().len(), 1, "the start, and no more: {show}");
    assert!(show["events"].as_u64() < whole["events"].as_u64(), "{show}");
    let words = house.expect(&["session", "show", &session], 0);
    assert!(
        words.contains("the part that could be validated") && words.contains("not gone on with"),
        "{words}"
    );

    let mut client = connect(&house);
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
    assert_eq!(found["candidates"], json!([]), "what cannot be gone on with is not offered");
    let (other, is_error) =
        call(&mut client, "start_workflow", json!({"workflowId": "project.tiny", "goal": "stays well"}));
    assert!(!is_error, "one session's damage is no other's: {other}");
    assert_eq!(std::fs::read(&last).unwrap(), damaged, "nothing was mended behind anybody's back");

    // Whoever has a good copy of the file puts it back, and the same token goes on.
    std::fs::write(&last, sound).unwrap();
    let arguments = json!({"continueToken": second["continueToken"], "intent": "rehydrate"});
    let (back, is_error) = call(&mut client, "continue_workflow", arguments);
    assert!(!is_error, "{back}");
    assert_eq!(back["pending"]["stepId"], "judge");
    assert_eq!(client.hang_up(), Some(0));
    assert_eq!(house.json(&["session", "show", &session], 0), whole);
}

#[test]
fn the_sound_part_is_exported_on_request_and_everybody_is_told_that_it_is_a_part() {
    let (house, elsewhere) = (House::new(), House::new());
    let (id, reply) = house.start("will be hurt");
    house.advance(&reply, "Looked.", Vec::new());
    let file = house.path("part.json");
    let path = file.to_str().unwrap();
    let export = ["session", "export", id.as_str(), "-o", path, "--force", "--salvage"];
    let whole = house.json(&export, 0);
    assert_eq!(whole["salvaged"], Value::Null, "a sound session is exported whole: {whole}");
    assert!(house.expect(&export, 0).contains("It holds the whole session"));

    let last = segments(&house, id.as_str()).pop().unwrap();
    std::fs::write(&last, "{}\n").unwrap();
    let damaged = house.json(&["session", "show", id.as_str()], 0);
    assert_eq!(house.json(&export[..6], 1)["code"], "SESSION_NOT_HEALTHY", "never by accident");
    let part = house.json(&export, 0);
    assert_eq!(
        (&part["salvaged"]["reason"], &part["events"]),
        (&json!("digest_mismatch"), &damaged["events"])
    );
    let output = house.run(&export);
    assert_eq!(output.status.code(), Some(0));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains(&format!("It holds the first {} events", part["events"])), "{out}");
    assert!(err.contains("partial data") && err.contains("digest_mismatch"), "{err}");
    assert_eq!(house.json(&["session", "show", id.as_str()], 0), damaged, "the session stays as it was");

    let output = elsewhere.run(&["session", "import", path]);
    let (new, err) = (text(&output.stdout).trim().to_owned(), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(err.contains("partial data") && err.contains(id.as_str()), "{err}");
    assert_ne!(new, id.as_str(), "a part does not take the place of the whole");
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
fn a_session_whose_beginning_is_damaged_is_listed_with_nothing_in_it() {
    let house = House::new();
    let (id, _) = house.start("no beginning");
    let first = segments(&house, id.as_str()).remove(0);
    std::fs::write(&first, "{}\n").unwrap();
    let list = house.json(&["session", "list"], 0);
    assert_eq!(list["sessions"][0]["health"], "corrupt_head", "{list}");
    assert_eq!(list["sessions"][0]["runs"], json!([]), "{list}");
    let show = house.json(&["session", "show", id.as_str()], 0);
    assert_eq!((&show["health"], &show["events"]), (&json!("corrupt_head"), &json!(0)), "{show}");
}
