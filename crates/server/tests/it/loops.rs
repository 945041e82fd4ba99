//! Replies inside of loops: each says which pass it is, in every loop around the step.

use std::fs;

use serde_json::{Value, json};

use crate::client::{Connection, Reply};
use crate::real::serve;

fn step(id: &str, title: &str) -> Value {
    json!({"id": id, "title": title, "prompt": "Do it."})
}

fn workflow(id: &str, steps: &Value) -> Value {
    json!({"id": id, "name": "Loops", "description": "Loops.", "version": "1.0.0", "steps": steps})
}

async fn connect(directory: &std::path::Path, workflow: &Value) -> Connection {
    fs::create_dir_all(directory.join("flows")).unwrap();
    fs::write(directory.join("flows/loops.json"), workflow.to_string()).unwrap();
    serve(directory).await
}

async fn start(connection: &Connection, workflow: &str) -> Reply {
    connection.call("start_workflow", json!({"workflowId": workflow, "goal": "try it"})).await
}

async fn advance(connection: &Connection, reply: &Reply, context: Value) -> Reply {
    let arguments = json!({"continueToken": reply.facts["continueToken"], "intent": "advance",
        "output": {"notesMarkdown": "Done."}, "context": context});
    connection.call("continue_workflow", arguments).await
}

#[tokio::test]
async fn a_step_in_nested_loops_names_the_pass_of_each() {
    let directory = tempfile::tempdir().unwrap();
    let inner = json!({"type": "loop", "id": "inner", "title": "Files", "loop":
        {"type": "for", "count": 2, "maxIterations": 2}, "body": [step("work", "Work {{currentIteration}}")]});
    let outer = json!({"type": "loop", "id": "outer", "title": "Rounds", "loop":
        {"type": "for", "count": 2, "maxIterations": 3}, "body": [inner]});
    let steps = json!([step("first", "First"), outer, step("last-step", "Last")]);
    let connection = connect(directory.path(), &workflow("team.nested", &steps)).await;
    let mut reply = start(&connection, "team.nested").await;
    for (round, file) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        reply = advance(&connection, &reply, json!({})).await;
        let banner = format!("> Rounds: pass {round} of 2.\n> Files: pass {file} of 2.\n");
        assert!(reply.text.contains(&banner), "{banner}: {}", reply.text);
        assert!(reply.text.contains(&format!("# Work {file}\n")), "{}", reply.text);
    }
    // The notes of earlier passes have the titles of their own pass.
    reply = advance(&connection, &reply, json!({})).await;
    let back = json!({"continueToken": reply.facts["continueToken"], "intent": "rehydrate"});
    let back = connection.call("continue_workflow", back).await;
    assert!(!back.text.contains("[unset"), "{}", back.text);
    assert_eq!(back.text.matches("pass 2 of 2, Work 2").count(), 2, "{}", back.text);
}

#[tokio::test]
async fn a_missing_list_of_a_parallel_loop_is_part_of_the_next_call() {
    let directory = tempfile::tempdir().unwrap();
    let review = json!({"id": "review", "type": "parallel", "title": "Review", "parallelDelegations": [
        {"workflowId": "team.two_steps", "goal": "Review {{file}}"}]});
    let each = json!({"type": "loop", "id": "each-file", "title": "Each file", "loop":
        {"type": "forEach", "items": "files", "itemVar": "file", "maxIterations": 2, "parallel": true}, "body": [review]});
    let workflow = workflow("team.each", &json!([step("list", "List"), each, step("end-step", "End")]));
    let connection = connect(directory.path(), &workflow).await;
    let started = start(&connection, "team.each").await;
    let pending = advance(&connection, &started, json!({})).await;
    for (name, files) in
        [("no list", Value::Null), ("a placeholder", json!("<a list>")), ("too long", json!([1, 2, 3]))]
    {
        let blocked = advance(&connection, &pending, json!({"files": files})).await;
        assert_eq!(blocked.facts["blockers"]["blockers"][0]["code"], "MISSING_CONTEXT_KEY", "{name}");
        assert_eq!(blocked.facts["nextCall"]["params"]["context"], json!({"files": "<a list>"}), "{name}");
    }
}

/// A reply that is blocked by what the host verified says so once, and about the attempt.
#[tokio::test]
async fn a_failed_check_is_said_once() {
    let directory = tempfile::tempdir().unwrap();
    let review = json!({"id": "review", "type": "parallel", "title": "Review", "parallelDelegations": [
        {"workflowId": "team.two_steps", "goal": "Review"}]});
    let workflow = workflow("team.delegating", &json!([review, step("end-step", "End")]));
    let connection = connect(directory.path(), &workflow).await;
    let started = start(&connection, "team.delegating").await;
    let blocked = advance(&connection, &started, json!({})).await;
    assert_eq!(blocked.facts["kind"], "blocked", "{}", blocked.text);
    assert_eq!(blocked.text.matches(": not started").count(), 1, "{}", blocked.text);
    assert!(!blocked.text.contains("for the previous step"), "{}", blocked.text);
    assert!(!blocked.text.contains("angle brackets"), "no placeholder was offered: {}", blocked.text);
}
