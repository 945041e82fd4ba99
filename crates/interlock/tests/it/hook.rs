//! `interlock hook` as clients call it: one event in, one response out.

use ports::wait;
use serde_json::{Value, json};

use crate::home::{TestHome, verdict};
use crate::program::run_command;

/// The hook's response; `None` if the client may continue.
fn hook(test_home: &TestHome, client: &str, event: &Value) -> Option<Value> {
    let output = run_command(&mut test_home.command(&["hook", client]), event.to_string().as_bytes());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    (!text.trim().is_empty()).then(|| serde_json::from_str(&text).unwrap())
}

#[test]
fn an_agent_may_not_stop_while_a_step_is_pending() {
    let test_home = TestHome::new();
    let cwd = test_home.workspace();
    let stop = json!({"hook_event_name": "Stop", "cwd": cwd, "stop_hook_active": false});
    assert_eq!(hook(&test_home, "claude-code", &stop), None, "the data directory does not exist");
    assert!(!test_home.data_dir().exists(), "the hook does not create it");

    let (_, started) = test_home.start("fix the gate");
    let sent_back = hook(&test_home, "claude-code", &stop).unwrap();
    assert_eq!(sent_back["decision"], "block");
    let reason = sent_back["reason"].as_str().unwrap();
    assert!(reason.contains("Look around") && reason.contains("step 1 of 2"), "{reason}");
    let handed_over =
        hook(&test_home, "codex", &json!({"hook_event_name": "SessionStart", "cwd": cwd})).unwrap();
    let context = handed_over["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(context.contains("\"intent\":\"rehydrate\""), "{context}");
    let elsewhere = json!({"hook_event_name": "Stop", "cwd": test_home.path("home")});
    assert_eq!(
        hook(&test_home, "claude-code", &elsewhere),
        None,
        "another folder does not belong to this run"
    );

    wait(test_home.guided().checkpoint(started.checkpoint_token.as_deref().unwrap(), None)).unwrap();
    assert_eq!(hook(&test_home, "claude-code", &stop), None, "after a checkpoint the agent may stop");
    let second = test_home.advance(&started, "Looked at it.", Vec::new());
    let cursor = json!({"hook_event_name": "stop", "workspace_roots": [cwd], "loop_count": 0});
    let again = hook(&test_home, "cursor", &cursor).unwrap();
    assert!(again["followup_message"].as_str().unwrap().contains("step 2 of 2"), "{again}");
    test_home.advance(&second, "Judged.", vec![verdict()]);
    assert_eq!(hook(&test_home, "claude-code", &stop), None, "the run is complete");
}

#[test]
fn edits_are_denied_while_the_pending_step_is_read_only() {
    let test_home = TestHome::new();
    let workflow = json!({
        "id": "project.tiny", "name": "Tiny", "description": "Two steps.", "version": "1.0.0",
        "steps": [
            {"id": "look", "title": "Look around", "prompt": "Look.", "readOnly": true},
            {"id": "change", "title": "Change it", "prompt": "Change."},
        ],
    });
    std::fs::write(test_home.workspace().join("workflows/tiny.json"), workflow.to_string()).unwrap();
    let (_, started) = test_home.start("fix the gate");
    assert!(started.pending.as_ref().unwrap().prompt.contains("READ-ONLY"), "{started:?}");
    let edit = json!({"hook_event_name": "PreToolUse", "cwd": test_home.workspace(), "tool_name": "Edit"});
    let refused = hook(&test_home, "claude-code", &edit).unwrap();
    assert_eq!(refused["hookSpecificOutput"]["permissionDecision"], "deny", "{refused}");
    let shell = |command: &str| {
        let event = json!({"hook_event_name": "PreToolUse", "cwd": test_home.workspace(), "tool_name": "Bash",
            "tool_input": {"command": command}});
        hook(&test_home, "codex", &event)
    };
    let refused = shell("echo hi > notes.txt").unwrap();
    let reason = refused["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap();
    assert!(reason.contains("This command does: `> notes.txt`"), "{reason}");
    assert_eq!(shell("cargo test 2>&1 | tail"), None, "a command that only looks");
    test_home.advance(&started, "Looked at it.", Vec::new());
    assert_eq!(hook(&test_home, "claude-code", &edit), None, "the next step may change files");
}

/// A client repeats a refusal to its model at once: an agent that cannot go on must not be asked forever.
#[test]
fn an_agent_that_makes_no_progress_is_let_go_after_three_refusals() {
    let test_home = TestHome::new();
    let (_, started) = test_home.start("fix the gate");
    for (client, event) in [
        ("claude-code", json!({"hook_event_name": "Stop", "session_id": "a"})),
        ("codex", json!({"hook_event_name": "Stop", "session_id": "b"})),
        ("cursor", json!({"hook_event_name": "stop", "conversation_id": "c"})),
    ] {
        let refusals = |turns: std::ops::Range<u32>| {
            let mut event = event.clone();
            event["cwd"] = json!(test_home.workspace());
            let is_refused = |turn: &u32| {
                event["stop_hook_active"] = json!(*turn > 0);
                event["loop_count"] = json!(*turn);
                hook(&test_home, client, &event).is_some()
            };
            turns.take_while(is_refused).count()
        };
        assert_eq!(refusals(0..9), 3, "{client}");
        assert_eq!(refusals(0..2), 2, "{client}: the next turn of the user counts from the beginning");
    }
    let after = json!({"hook_event_name": "Stop", "session_id": "a", "cwd": test_home.workspace(), "stop_hook_active": true});
    test_home.advance(&started, "Looked at it.", Vec::new());
    assert!(
        hook(&test_home, "claude-code", &after).is_some(),
        "a run that moved on counts from the beginning"
    );
}

/// A failing hook would stop every conversation, so it prints nothing for any invalid input.
#[test]
fn invalid_events_get_no_response() {
    let test_home = TestHome::new();
    test_home.start("fix the gate");
    for event in [json!({}), json!([]), json!("Stop"), json!({"hook_event_name": "Later"})] {
        assert_eq!(hook(&test_home, "claude-code", &event), None, "{event}");
    }
    let output = run_command(&mut test_home.command(&["hook", "cursor"]), b"\xff not JSON");
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(0), true));
}
