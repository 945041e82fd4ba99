//! The response to a client's event.

use std::path::PathBuf;

use guided::OpenRun;
use serde_json::{Value, json};

use super::shell::changing_part;
use crate::arguments::HookClient;

/// A run that was inactive for this long is ignored: another conversation in the same folder need
/// not be about it.
const FORGOTTEN_MS: u64 = 2 * 60 * 60 * 1000;
/// An agent that was sent back and recorded nothing for this long may stop; otherwise it would be
/// sent back forever.
const STALLED_MS: u64 = 5 * 60 * 1000;

/// How much of a shell command a refusal shows.
const SHOWN_COMMAND_BYTES: usize = 200;

/// Tools that change files, by the names that clients use.
const EDITS: [&str; 12] = [
    "Edit",
    "MultiEdit",
    "NotebookEdit",
    "Write",
    "Delete",
    "StrReplace",
    "ApplyPatch",
    "apply_patch",
    "edit_file",
    "create_file",
    "delete_file",
    "write_file",
];

/// Tools that run a shell command.
const SHELLS: [&str; 6] = ["Bash", "Shell", "exec_command", "local_shell", "run_terminal_cmd", "shell"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: EventKind,
    pub(super) workspace: Option<PathBuf>,
    /// The client's id of the conversation; empty if it sends none.
    pub(super) conversation: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    /// The agent stops; `true` if it was sent back before.
    Stop { sent_back: bool },
    /// The agent is about to use a tool; with the command line, if the tool is a shell.
    BeforeTool { name: String, command: Option<String> },
    /// A conversation starts.
    Start,
}

impl Event {
    /// Parses an event; `None` for events without a response.
    pub(super) fn read(sent: &Value) -> Option<Self> {
        let kind = match sent.get("hook_event_name")?.as_str()? {
            "Stop" | "stop" => EventKind::Stop {
                sent_back: sent["stop_hook_active"] == true || sent["loop_count"].as_u64() > Some(0),
            },
            "PreToolUse" | "preToolUse" => {
                let name = sent.get("tool_name")?.as_str()?.to_owned();
                let input = &sent["tool_input"];
                let command = [&input["command"], &input["cmd"]].into_iter().find_map(command_line);
                EventKind::BeforeTool { command: command.filter(|_| SHELLS.contains(&name.as_str())), name }
            }
            "SessionStart" | "sessionStart" => EventKind::Start,
            _ => return None,
        };
        let folder = sent["cwd"].as_str().filter(|folder| !folder.is_empty());
        let workspace = folder.or_else(|| sent["workspace_roots"][0].as_str()).map(PathBuf::from);
        let conversation = sent["session_id"].as_str().or_else(|| sent["conversation_id"].as_str());
        Some(Self { kind, workspace, conversation: conversation.unwrap_or_default().to_owned() })
    }
}

/// A command line: a string, or a list of words whose last one is the script of `bash -c`.
fn command_line(value: &Value) -> Option<String> {
    match value {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => match words.as_slice() {
            [.., flag, script]
                if flag.as_str().is_some_and(|flag| flag.starts_with('-') && flag.ends_with('c')) =>
            {
                script.as_str().map(str::to_owned)
            }
            words => words.iter().map(Value::as_str).collect::<Option<Vec<_>>>().map(|words| words.join(" ")),
        },
        _ => None,
    }
}

/// The response; `None` if the client should just continue.
pub(super) fn respond(client: HookClient, event: &Event, run: &OpenRun, now_ms: u64) -> Option<Value> {
    let idle_ms = now_ms.saturating_sub(run.last_modified_ms);
    let is_forgotten = idle_ms >= FORGOTTEN_MS;
    match &event.kind {
        EventKind::Stop { sent_back } => {
            let may_stop = run.waits_for_person
                || run.is_bookmarked
                || is_forgotten
                || (*sent_back && idle_ms >= STALLED_MS);
            (!may_stop).then(|| go_on(client, &pending(run)))
        }
        EventKind::BeforeTool { name, command } => {
            if !run.read_only || is_forgotten {
                return None;
            }
            let part = command.as_ref().and_then(|line| changing_part(line, event.workspace.as_deref()));
            let refused = EDITS.contains(&name.as_str()) || part.is_some();
            refused.then(|| deny(client, &read_only(run, part.as_deref())))
        }
        EventKind::Start => Some(hand_over(client, &open(run))),
    }
}

fn go_on(client: HookClient, words: &str) -> Value {
    match client {
        HookClient::ClaudeCode | HookClient::Codex => json!({"decision": "block", "reason": words}),
        HookClient::Cursor => json!({"followup_message": words}),
    }
}

fn deny(client: HookClient, words: &str) -> Value {
    match client {
        HookClient::ClaudeCode | HookClient::Codex => json!({"hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": words,
        }}),
        HookClient::Cursor => json!({"permission": "deny", "user_message": words, "agent_message": words}),
    }
}

fn hand_over(client: HookClient, words: &str) -> Value {
    match client {
        HookClient::ClaudeCode | HookClient::Codex => json!({"hookSpecificOutput": {
            "hookEventName": "SessionStart", "additionalContext": words,
        }}),
        HookClient::Cursor => json!({"additional_context": words}),
    }
}

fn pending(run: &OpenRun) -> String {
    format!(
        "The Interlock run \"{}\" is not finished: the step \"{}\" is pending. Do the step, then advance the run with \
         continue_workflow. To see the step again, call continue_workflow with {}. To stop in the middle, call \
         checkpoint_workflow first, with the checkpointToken of that reply.",
        run.run.description, run.step_title, run.resume_call.params
    )
}

/// `part` is the part of a shell command that changes files.
fn read_only(run: &OpenRun, part: Option<&str>) -> String {
    let shell = part.map_or_else(String::new, |part| {
        format!(
            " This command does: `{}`. Write temporary files below a temporary directory, with an absolute path.",
            canon::budget::truncate(part, SHOWN_COMMAND_BYTES)
        )
    });
    format!(
        "The pending step \"{}\" of the Interlock run \"{}\" is read-only: do not change files.{shell} Finish the step and \
         advance the run with continue_workflow; a later step makes changes.",
        run.step_title, run.run.description
    )
}

fn open(run: &OpenRun) -> String {
    format!(
        "This workspace has an open Interlock run: {}. Its step \"{}\" is pending. If the user wants to continue it, call \
         continue_workflow with {}. If that is not clear, ask.",
        run.run.description, run.step_title, run.resume_call.params
    )
}

#[cfg(test)]
mod tests {
    use guided::api::{NextCall, RunWords};

    use super::*;

    const NOW: u64 = 1_000_000_000;

    fn run() -> OpenRun {
        OpenRun {
            run: RunWords {
                session_id: "sess_1".to_owned(),
                run_id: "run_1".to_owned(),
                workflow_id: "team.fix".to_owned(),
                workflow_name: "Fix".to_owned(),
                goal: "the hang".to_owned(),
                step: 1,
                steps: 2,
                description: "Fix (goal: the hang), step 1 of 2".to_owned(),
            },
            step_title: "Look".to_owned(),
            read_only: true,
            waits_for_person: false,
            is_bookmarked: false,
            last_modified_ms: NOW - 1000,
            resume_call: NextCall {
                tool: "continue_workflow",
                params: json!({"continueToken": "ct_1", "intent": "rehydrate"}),
            },
        }
    }

    fn message(client: HookClient, sent: &Value, run: &OpenRun) -> Option<Value> {
        respond(client, &Event::read(sent)?, run, NOW)
    }

    #[test]
    fn an_agent_may_stop_only_if_the_run_allows_it() {
        let stop = json!({"hook_event_name": "Stop", "cwd": "/work"});
        let again = json!({"hook_event_name": "Stop", "cwd": "/work", "stop_hook_active": true});
        let idle = |ms: u64| OpenRun { last_modified_ms: NOW - ms, ..run() };
        for (name, sent, run, stays) in [
            ("a pending step", &stop, run(), true),
            ("sent back and active", &again, run(), true),
            ("sent back and stalled", &again, idle(STALLED_MS), false),
            ("stalled and not sent back yet", &stop, idle(STALLED_MS), true),
            ("forgotten", &stop, idle(FORGOTTEN_MS), false),
            ("the user is needed", &stop, OpenRun { waits_for_person: true, ..run() }, false),
            ("bookmarked", &stop, OpenRun { is_bookmarked: true, ..run() }, false),
        ] {
            let message = message(HookClient::ClaudeCode, sent, &run);
            assert_eq!(message.is_some(), stays, "{name}: {message:?}");
        }
    }

    #[test]
    fn edits_are_denied_while_the_step_is_read_only() {
        let before = |tool: &str| json!({"hook_event_name": "PreToolUse", "cwd": "/work", "tool_name": tool});
        let writable = OpenRun { read_only: false, ..run() };
        for (name, tool, run, refused) in [
            ("an edit", "Edit", &run(), true),
            ("a patch", "apply_patch", &run(), true),
            ("reading", "Read", &run(), false),
            ("a shell without a command", "Bash", &run(), false),
            ("a step that may change files", "Edit", &writable, false),
        ] {
            assert_eq!(message(HookClient::ClaudeCode, &before(tool), run).is_some(), refused, "{name}");
        }
    }

    /// The events as Claude Code, Codex and Cursor send them.
    #[test]
    fn shell_commands_that_change_files_are_denied_while_the_step_is_read_only() {
        let before = |name: &str, tool: &str, input: Value| json!({"hook_event_name": name, "cwd": "/work", "tool_name": tool, "tool_input": input});
        for (name, client, event, refused) in [
            (
                "Claude Code",
                HookClient::ClaudeCode,
                before("PreToolUse", "Bash", json!({"command": "rm a"})),
                true,
            ),
            ("Codex", HookClient::Codex, before("PreToolUse", "Bash", json!({"command": "echo > a"})), true),
            (
                "words",
                HookClient::Codex,
                before("PreToolUse", "shell", json!({"command": ["bash", "-lc", "rm a"]})),
                true,
            ),
            (
                "plain words",
                HookClient::Codex,
                before("PreToolUse", "shell", json!({"command": ["rm", "a"]})),
                true,
            ),
            (
                "Cursor",
                HookClient::Cursor,
                before("preToolUse", "Shell", json!({"command": "touch a"})),
                true,
            ),
            (
                "looking",
                HookClient::ClaudeCode,
                before("PreToolUse", "Bash", json!({"command": "cat a"})),
                false,
            ),
            (
                "no command",
                HookClient::ClaudeCode,
                before("PreToolUse", "Bash", json!({"command": 3})),
                false,
            ),
            (
                "another tool",
                HookClient::ClaudeCode,
                before("PreToolUse", "Grep", json!({"command": "rm a"})),
                false,
            ),
        ] {
            let denied = message(client, &event, &run());
            assert_eq!(denied.is_some(), refused, "{name}: {denied:?}");
            let writable = OpenRun { read_only: false, ..run() };
            assert_eq!(message(client, &event, &writable), None, "{name}");
        }
    }

    #[test]
    fn each_client_gets_its_response_format() {
        let event = |claude: &str, cursor: &str, client: HookClient| match client {
            HookClient::ClaudeCode | HookClient::Codex => {
                json!({"hook_event_name": claude, "cwd": "/work", "tool_name": "Write"})
            }
            HookClient::Cursor => {
                json!({"hook_event_name": cursor, "workspace_roots": ["/work"], "tool_name": "Write", "loop_count": 0})
            }
        };
        for client in [HookClient::ClaudeCode, HookClient::Codex, HookClient::Cursor] {
            let is_cursor = client == HookClient::Cursor;
            let stop = message(client, &event("Stop", "stop", client), &run()).unwrap();
            let words = if is_cursor { &stop["followup_message"] } else { &stop["reason"] };
            assert!(
                words.as_str().unwrap().contains(r#"{"continueToken":"ct_1","intent":"rehydrate"}"#),
                "{stop}"
            );
            let deny = message(client, &event("PreToolUse", "preToolUse", client), &run()).unwrap();
            let decided = if is_cursor {
                &deny["permission"]
            } else {
                &deny["hookSpecificOutput"]["permissionDecision"]
            };
            assert_eq!(decided, "deny", "{deny}");
            let start = message(client, &event("SessionStart", "sessionStart", client), &run()).unwrap();
            let context = if is_cursor {
                &start["additional_context"]
            } else {
                &start["hookSpecificOutput"]["additionalContext"]
            };
            assert!(context.as_str().unwrap().contains("step 1 of 2"), "{start}");
        }
        assert_eq!(Event::read(&json!({"hook_event_name": "PreCompact"})), None);
        assert_eq!(Event::read(&json!({})), None);
        let cursor = Event::read(&event("Stop", "stop", HookClient::Cursor)).unwrap();
        assert_eq!(cursor.workspace, Some(PathBuf::from("/work")));
    }
}
