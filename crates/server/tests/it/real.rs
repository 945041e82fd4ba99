//! The real service behind the MCP interface.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use catalogue::{Catalogue, CatalogueOptions};
use guided::{Guided, GuidedOptions, Verifier};
use serde_json::{Value, json};
use storage::disk::RealDisk;
use storage::files::{FileSessions, SessionFiles};
use system::{ManualClock, SeededEntropy};

use crate::client::{Connection, connect};

/// Two steps that require notes.
fn workflow() -> Value {
    json!({
        "id": "team.two_steps", "name": "Two steps", "description": "A workflow of two steps.", "version": "1.0.0",
        "steps": [
            {"id": "one", "title": "The first", "prompt": "Do the first thing."},
            {"id": "two", "title": "The second", "prompt": "Do the second thing."},
        ],
    })
}

/// One step that the user must approve.
fn agreed() -> Value {
    json!({
        "id": "team.with_consent", "name": "Agreed", "description": "A step to agree with.", "version": "1.0.0",
        "steps": [{"id": "ship", "title": "Ship", "prompt": "Ship it.", "requireConfirmation": true}],
    })
}

/// Two steps whose title and prompt quote what the caller said.
fn citing() -> Value {
    json!({
        "id": "team.what_was_said", "name": "Citing", "description": "Cites the goal.", "version": "1.0.0",
        "steps": [
            {"id": "one", "title": "Reach {{goal}}", "prompt": "Reach it:\n{{goal}}"},
            {"id": "two", "title": "The second", "prompt": "Do the second thing."},
        ],
    })
}

pub(crate) async fn serve(directory: &Path) -> Connection {
    let flows = directory.join("flows");
    fs::create_dir_all(&flows).unwrap();
    fs::write(flows.join("two_steps.json"), workflow().to_string()).unwrap();
    fs::write(flows.join("agreed.json"), agreed().to_string()).unwrap();
    fs::write(flows.join("what_was_said.json"), citing().to_string()).unwrap();
    let files = SessionFiles::open(Arc::new(RealDisk::open(&directory.join("data")).unwrap())).unwrap();
    let catalogue =
        Catalogue::new(CatalogueOptions { configured_dirs: vec![flows], ..CatalogueOptions::default() });
    let guided = Guided::new(GuidedOptions {
        store: Arc::new(FileSessions::new(files)),
        catalogue,
        clock: Arc::new(ManualClock::at(1)),
        entropy: Arc::new(SeededEntropy::new(7)),
        verifier: Verifier::none(),
        advanced: Arc::default(),
    });
    connect(Arc::new(guided)).await
}

/// The arguments of the next call in a reply, with notes.
pub(crate) fn next(reply: &Value, notes: Option<&str>) -> Value {
    let mut arguments = reply["nextCall"]["params"].clone();
    if let Some(notes) = notes {
        arguments["output"] = json!({"notesMarkdown": notes});
    }
    arguments
}

#[tokio::test]
async fn a_run_from_beginning_to_end() {
    let directory = tempfile::tempdir().unwrap();
    let connection = serve(directory.path()).await;
    let listed = connection.call("list_workflows", json!({})).await.facts;
    assert_eq!(listed["workflows"][0]["workflowId"], "team.two_steps");
    let inspected = connection.call("inspect_workflow", json!({"workflowId": "team.two_steps"})).await.facts;
    assert_eq!(inspected["workflowHash"], listed["workflows"][0]["workflowHash"]);

    let start = json!({"workflowId": "team.two_steps", "goal": "try it"});
    let started = connection.call("start_workflow", start).await;
    assert!(
        started.text.starts_with("Run: Two steps (goal: try it), step 1 of 2\n\n# The first\n"),
        "{}",
        started.text
    );

    let blocked = connection.call("continue_workflow", next(&started.facts, None)).await;
    assert!(!blocked.failed, "a block is an answer");
    assert_eq!(blocked.facts["kind"], "blocked");
    assert!(blocked.text.contains("MISSING_REQUIRED_NOTES"), "{}", blocked.text);

    let second = connection.call("continue_workflow", next(&blocked.facts, Some("The first is done."))).await;
    assert_eq!(second.facts["pending"]["stepId"], "two", "{}", second.text);
    let again = connection.call("continue_workflow", next(&blocked.facts, Some("The first is done."))).await;
    assert_eq!(again.facts, second.facts, "a retry gets the same answer");
    assert_eq!(again.text, second.text);

    let token = json!({"checkpointToken": second.facts["checkpointToken"]});
    let bookmark = connection.call("checkpoint_workflow", token).await;
    assert!(!bookmark.failed, "{}", bookmark.text);

    let found = connection.call("resume_session", json!({"query": "try it"})).await.facts;
    let back = connection.call("continue_workflow", next(&found["candidates"][0], None)).await;
    assert_eq!(back.facts["nextIntent"], "rehydrate_only", "{}", back.text);

    let done = connection.call("continue_workflow", next(&back.facts, Some("The second is done."))).await;
    assert_eq!(done.facts["isComplete"], true, "{}", done.text);
    assert!(done.text.contains("COMPLETE"));
}

/// The first JSON object in a text that has `kind`.
fn pasteable(text: &str) -> Value {
    let from = text.find("{\"").expect("an example");
    serde_json::Deserializer::from_str(&text[from..]).into_iter().next().unwrap().unwrap()
}

/// An agent that has seen only the replies can learn how to answer, and how to close a gap. It only has to write the answer itself:
/// a pasted placeholder is not accepted as an answer (finding B5).
#[tokio::test]
async fn the_suggested_artifacts_unblock_a_step_and_close_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let connection = serve(directory.path()).await;
    let start = json!({"workflowId": "team.with_consent", "goal": "ship it"});
    let started = connection.call("start_workflow", start.clone()).await;
    assert_eq!(started.facts["nextIntent"], "await_user_confirmation");
    assert!(started.text.contains("USER NEEDED") && started.text.contains("WAIT"), "{}", started.text);
    let blocked = connection.call("continue_workflow", next(&started.facts, Some("Shipped."))).await;
    let blocker = &blocked.facts["blockers"]["blockers"][0];
    assert_eq!(blocker["code"], "USER_ONLY_DEPENDENCY", "{}", blocked.text);
    for (place, text) in [
        ("the prompt", started.facts["pending"]["prompt"].as_str().unwrap()),
        ("the blocker", blocker["suggestedFix"].as_str().unwrap()),
    ] {
        let mut arguments = next(&blocked.facts, Some("Shipped."));
        let mut answer = pasteable(text);
        answer["answer"] = json!("Yes, ship it.");
        arguments["output"]["artifacts"] = json!([answer]);
        let done = connection.call("continue_workflow", arguments).await;
        assert_eq!(done.facts["isComplete"], true, "what {place} says works: {}", done.text);
    }

    let fresh = connection.call("start_workflow", start.clone()).await;
    let mut arguments = next(&fresh.facts, Some("Shipped."));
    arguments["output"]["artifacts"] = json!([pasteable(fresh.facts["pending"]["prompt"].as_str().unwrap())]);
    let pasted = connection.call("continue_workflow", arguments).await;
    assert_eq!(pasted.facts["kind"], "blocked", "no person has answered: {}", pasted.text);

    let mut unattended = start;
    unattended["preferences"] = json!({"autonomy": "full_auto_never_stop"});
    let started = connection.call("start_workflow", unattended).await;
    let ended = connection.call("continue_workflow", next(&started.facts, Some("Shipped."))).await;
    assert_eq!(ended.facts["openGaps"]["count"], 1, "{}", ended.text);
    let back = json!({"continueToken": started.facts["continueToken"], "intent": "rehydrate"});
    let back = connection.call("continue_workflow", back).await;
    let (_, gaps) = back.text.split_once("GAPS: the run continues with these open").expect(
        "the gaps are \
                                          listed",
    );
    let mut arguments = next(&back.facts, Some("Shipped."));
    let mut resolution = pasteable(gaps);
    resolution["summary"] = json!("The user says yes.");
    arguments["output"]["artifacts"] = json!([resolution.clone()]);
    let refused = connection.call("continue_workflow", arguments.clone()).await;
    assert!(refused.text.contains("only the user can close"), "{}", refused.text);
    resolution["answeredBy"] = json!("user");
    let mut answer = pasteable(started.facts["pending"]["prompt"].as_str().unwrap());
    answer["answer"] = json!("Yes, ship it.");
    arguments["output"]["artifacts"] = json!([resolution, answer]);
    let done = connection.call("continue_workflow", arguments).await;
    assert_eq!(done.facts["isComplete"], true, "{}", done.text);
    assert!(done.facts["openGaps"].is_null(), "{}", done.text);
}

#[tokio::test]
async fn tokens_of_two_runs_are_refused_with_the_call_for_each() {
    let directory = tempfile::tempdir().unwrap();
    let connection = serve(directory.path()).await;
    let first = connection
        .call("start_workflow", json!({"workflowId": "team.two_steps", "goal": "apples"}))
        .await
        .facts;
    let second =
        connection.call("start_workflow", json!({"workflowId": "team.two_steps", "goal": "pears"})).await;
    assert!(second.facts["warnings"][0].as_str().unwrap().contains("goal: apples"), "{}", second.text);
    let mixed = json!({"stateToken": first["stateToken"], "ackToken": second.facts["ackToken"]});
    let refused = connection.call("continue_workflow", mixed).await;
    assert!(refused.failed);
    assert_eq!(refused.facts["code"], "TOKEN_SCOPE_MISMATCH");
    assert!(refused.text.contains("apples") && refused.text.contains("pears"), "{}", refused.text);
}

#[tokio::test]
async fn service_errors_arrive_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let connection = serve(directory.path()).await;
    for (tool, arguments, code) in [
        ("start_workflow", json!({"workflowId": "team.two_step", "goal": "g"}), "NOT_FOUND"),
        ("inspect_workflow", json!({"workflowId": "nothing"}), "NOT_FOUND"),
        ("continue_workflow", json!({"continueToken": "junk", "intent": "advance"}), "TOKEN_INVALID_FORMAT"),
        ("checkpoint_workflow", json!({"checkpointToken": "junk"}), "TOKEN_INVALID_FORMAT"),
        ("manage_workflow_source", json!({"action": "attach", "path": "/nowhere/at/all"}), "INTERNAL_ERROR"),
    ] {
        let refused = connection.call(tool, arguments.clone()).await;
        assert!(refused.failed, "{tool} {arguments}");
        assert_eq!(refused.facts["code"], code, "{tool} {arguments}: {}", refused.text);
        assert!(refused.facts["details"]["suggestion"].is_string(), "{tool} {arguments}: {}", refused.text);
    }
}
