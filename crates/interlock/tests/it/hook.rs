//! `interlock hook`, as clients of agents call it: one event in, one answer out.

use serde_json::{Value, json};

use crate::house::{House, verdict};
use crate::program::run_command;

/// What a client is answered; nothing where it may go on.
fn hook(house: &House, client: &str, event: &Value) -> Option<Value> {
    let output = run_command(&mut house.command(&["hook", client]), event.to_string().as_bytes());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    (!text.trim().is_empty()).then(|| serde_json::from_str(&text).unwrap())
}

#[test]
fn an_agent_is_sent_back_while_a_step_is_pending_and_let_go_otherwise() {
    let house = House::new();
    let cwd = house.workspace();
    let stop = json!({"hook_event_name": "Stop", "cwd": cwd, "stop_hook_active": false});
    assert_eq!(hook(&house, "claude-code", &stop), None, "there is no data directory");
    assert!(!house.data_dir().exists(), "and looking made none");

    let (_, started) = house.start("mend the gate");
    let sent_back = hook(&house, "claude-code", &stop).unwrap();
    assert_eq!(sent_back["decision"], "block");
    let reason = sent_back["reason"].as_str().unwrap();
    assert!(reason.contains("Look around") && reason.contains("step 1 of 2"), "{reason}");
    let handed_over = hook(&house, "codex", &json!({"hook_event_name": "SessionStart", "cwd": cwd})).unwrap();
    let context = handed_over["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(context.contains("\"intent\":\"rehydrate\""), "{context}");
    let elsewhere = json!({"hook_event_name": "Stop", "cwd": house.path("home")});
    assert_eq!(hook(&house, "claude-code", &elsewhere), None, "another folder is not about this run");

    house.guided().checkpoint(started.checkpoint_token.as_deref().unwrap(), None).unwrap();
    assert_eq!(hook(&house, "claude-code", &stop), None, "a bookmarked place may be left");
    let second = house.advance(&started, "Looked at it.", Vec::new());
    let cursor = json!({"hook_event_name": "stop", "workspace_roots": [cwd], "loop_count": 0});
    let again = hook(&house, "cursor", &cursor).unwrap();
    assert!(again["followup_message"].as_str().unwrap().contains("step 2 of 2"), "{again}");
    house.advance(&second, "Judged.", vec![verdict()]);
    assert_eq!(hook(&house, "claude-code", &stop), None, "the run is complete");
}

#[test]
fn edits_are_refused_while_the_pending_step_is_read_only() {
    let house = House::new();
    let workflow = json!({
        "id": "project.tiny", "name": "Tiny", "description": "Two steps.", "version": "1.0.0",
        "steps": [
            {"id": "look", "title": "Look around", "prompt": "Look.", "readOnly": true},
            {"id": "change", "title": "Change it", "prompt": "Change."},
        ],
    });
    std::fs::write(house.workspace().join("workflows/tiny.json"), workflow.to_string()).unwrap();
    let (_, started) = house.start("mend the gate");
    assert!(started.pending.as_ref().unwrap().prompt.contains("READ-ONLY"), "{started:?}");
    let edit = json!({"hook_event_name": "PreToolUse", "cwd": house.workspace(), "tool_name": "Edit"});
    let refused = hook(&house, "claude-code", &edit).unwrap();
    assert_eq!(refused["hookSpecificOutput"]["permissionDecision"], "deny", "{refused}");
    house.advance(&started, "Looked at it.", Vec::new());
    assert_eq!(hook(&house, "claude-code", &edit), None, "the next step may change files");
}

/// A hook that fails would stop every conversation: whatever it gets, it is silent.
#[test]
fn what_is_not_understood_is_answered_with_silence() {
    let house = House::new();
    house.start("mend the gate");
    for event in [json!({}), json!([]), json!("Stop"), json!({"hook_event_name": "Later"})] {
        assert_eq!(hook(&house, "claude-code", &event), None, "{event}");
    }
    let output = run_command(&mut house.command(&["hook", "cursor"]), b"\xff not JSON");
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(0), true));
}
